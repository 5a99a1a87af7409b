//! The mpdccp tunnel as a sans-IO state machine. It has no socket, interface, file, thread or clock of its
//! own.
//!
//! The owner reports events to [`Tunnel`] ([`Tunnel::handle_packet`], [`Tunnel::handle_event`],
//! [`Tunnel::handle_host`], [`Tunnel::handle_command`], [`Tunnel::handle_timeout`]) and executes the tunnel's
//! actions ([`Tunnel::poll_action`]). With each call, the owner lends the tunnel an
//! [`mpdccp_proto::Endpoint`]. The program `mpdccp` executes the actions on Linux; the tests here and the
//! simulator execute them in virtual time.
#![forbid(unsafe_code)]

mod action;
mod capacities;
mod client;
mod command;
pub mod config;
mod drops;
mod hooks;
mod host;
mod limits;
mod log_limit;
mod message;
mod outages;
mod packet;
mod path;
mod path_history;
mod peer;
mod peers;
mod reload;
mod routes;
mod server;
mod sessions;
mod setup;
mod shards;
pub mod status;
mod tcp;
pub mod tls;
mod tunnel;
mod watch;

pub use action::{Action, Hook, HookEvent, Level, OpenPath, StateFile, TlsPath, line_start, put_line};
pub use command::{Answer, Command, Keys, PeerKeys};
pub use drops::DropReason;
pub use host::{HostEvent, Interface, Looked, Sizes};
pub use packet::dscp_ecn::{Mark, Marker};
pub use packet::forward::{Outcome, Packet};
pub use packet::mtu::{
    first as first_mtu, guess as guessed_mtu, inner as inner_mtu, of_interface as interface_mtu,
};
pub use setup::{Saved, Setup};
pub use shards::ShardMessage;
pub use tcp::Divert;
pub use tunnel::Tunnel;

use action::Actions;
use config::Config;
use mpdccp_proto::Endpoint;
use mpdccp_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// Context that the tunnel passes to each of its features.
pub(crate) struct Cx<'a> {
    pub(crate) now: Time,
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) cfg: &'a Config,
    pub(crate) out: &'a mut Actions,
    pub(crate) ports: &'a mut Ports,
    /// Whether the tunnel is about to stop.
    pub(crate) closing: bool,
}

impl Cx<'_> {
    /// Answers a command.
    pub(crate) fn reply(&mut self, id: u64, done: Result<(), String>) {
        let answer = done.map_or_else(Answer::Error, |()| Answer::Done);
        self.out.push(Action::Reply(id, answer));
    }

    /// Runs the hook program, if the configuration has one.
    pub(crate) fn hook(&mut self, event: HookEvent, peer: &str, path: Option<&str>, why: &str) {
        if self.cfg.hook.is_some() {
            let hook = Hook { event, peer: peer.into(), path: path.map(Into::into), why: why.into() };
            self.out.push(Action::RunHook(hook));
        }
    }

    /// Sends a message to another shard.
    pub(crate) fn tell_shard(&mut self, shard: u8, told: shards::Told) {
        self.out.push(Action::ToShard(shard, ShardMessage(told)));
    }
}

/// Generates random ports from the dynamic range (RFC 6335 section 6).
#[derive(Debug)]
pub(crate) struct Ports(ChaCha8Rng);

impl Ports {
    pub(crate) fn new(seed: [u8; 32]) -> Ports {
        Ports(ChaCha8Rng::from_seed(seed))
    }

    pub(crate) fn next(&mut self) -> u16 {
        49_152 | self.0.next_u32() as u16
    }
}
