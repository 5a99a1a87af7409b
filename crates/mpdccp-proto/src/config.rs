use crate::PathName;
use crate::policy::Policy;
use crate::queue::QueueConfig;
use crate::reorder::ReorderConfig;
use crate::sched::SchedulerKind;
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::{Config, Ports, Route};
use dccp_wire::KeyType;
use mpdccp_units::Duration;

/// What to do with a peer that does not speak Multipath DCCP (RFC 9897 section 3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Fallback {
    /// Close the connection.
    #[default]
    Refuse,
    /// Go on as a plain DCCP connection.
    Plain,
}

/// From which local addresses a session joins an address that the peer advertises (MP_ADDADDR). Only those of the same family count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinFrom {
    /// From none; the session's status lists the address.
    #[default]
    Nowhere,
    /// From the local address of the subflow that advertised it.
    One,
    /// From the local address of every path of ours: full mesh.
    All,
}

/// Settings of a session, the same for all its paths.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Template of each path's connection; MTU and overhead come from the path.
    pub connection: Config,
    /// Offer and accept RFC 9897; off makes a plain DCCP connection of one path.
    pub multipath: bool,
    /// Application data for the Request of a client, or the Response of a server, of a plain connection: a few hundred bytes at most (RFC
    /// 4340 sections 8.1.1 and 8.1.3). The peer takes it if its [`Config::early_data`] is set, and delivers it first.
    pub early_data: Vec<u8>,
    /// When the peer does not.
    pub fallback: Fallback,
    /// Key types that a client offers and a server accepts, the one it likes best first (RFC 9897 section 3.2.4). Type 0 is what all
    /// others understand; who wants another only leaves it out, lest a peer in between takes the others away.
    pub key_types: Vec<KeyType>,
    /// Connections between the same two hosts, of this and of other sessions with the same endpoint, socket and CCID that have this set,
    /// share one congestion state as soon as they are open: together they take the part of one. CCIDs 3 and 4 do not.
    pub share_congestion: bool,
    /// Paths of the session that share a bottleneck, as far as round-trip times show it, together take the part of one flow there. Not with
    /// [`share_congestion`](Self::share_congestion), nor for CCIDs 3, 4 and 250.
    pub coupling: bool,
    /// Which path a packet takes.
    pub scheduler: SchedulerKind,
    /// Which packets go otherwise.
    pub policy: Policy,
    /// How arriving packets are put in order.
    pub reorder: ReorderConfig,
    /// Send again, on whichever path is best, what a path lost, where the peer is of our kind and waits for it.
    pub repair: bool,
    /// The peer keeps back what is behind a loss until the repair came. If not, repairs come late: flows that take no loss for congestion (BBR)
    /// have shorter round trips then, those that do (CUBIC) lose what repairs gave them.
    pub wait_for_repairs: bool,
    /// Say on each packet how far back the one before of its inner flow is, where the peer does too, so that one flow's losses do not
    /// hold up another. Four bytes on each.
    pub flow_order: bool,
    /// Carry reliable byte streams beside datagrams (docs/streams.md), where the peer does too.
    pub streams: bool,
    /// Longest wait for a repair.
    pub repair_max: Duration,
    /// The send queue.
    pub queue: QueueConfig,
    /// Client: whether the server may join too (RFC 9897 section 3.2.2: either host may begin subflows). The endpoint has to listen.
    pub joinable: bool,
    /// Whether to join addresses that the peer advertises, for ends without a path manager of their own.
    pub join_advertised: JoinFrom,
    /// Hand the application what comes in MP_EXP and is none of our own ([`crate::SessionEvent::Private`]); else it is ignored.
    pub private_options: bool,
    /// Most paths at a time; joins beyond are refused with Reset code 9.
    pub max_paths: usize,
    /// A path that hears nothing for this long is probed: keeps NAT bindings alive and finds dead paths. The server
    /// waits twice as long.
    pub keepalive: Duration,
    /// Client with several paths: how long the first subflow may take on one before the next is tried; twice as long each time round, up to
    /// three seconds, so that a slow path is not given up for ever.
    pub first_attempt: Duration,
    /// How long the session lives on without any path that is up.
    pub survive: Duration,
    /// How long a connection that ended is in TIMEWAIT, two maximum segment lifetimes (RFC 4340 section 8.3): a client does not use its ports
    /// again meanwhile, and what still comes for it is answered with a Reset.
    pub time_wait: Duration,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            connection: Config::default(),
            multipath: true,
            early_data: Vec::new(),
            fallback: Fallback::Refuse,
            key_types: alloc::vec![KeyType::Plain],
            share_congestion: false,
            coupling: true,
            scheduler: SchedulerKind::default(),
            policy: Policy::default(),
            reorder: ReorderConfig::passive(),
            repair: true,
            wait_for_repairs: true,
            flow_order: false,
            streams: false,
            repair_max: Duration::from_millis(500),
            queue: QueueConfig::default(),
            joinable: false,
            join_advertised: JoinFrom::Nowhere,
            private_options: false,
            max_paths: 8,
            keepalive: Duration::from_secs(12),
            first_attempt: Duration::from_secs(3),
            survive: Duration::from_secs(60),
            time_wait: Duration::from_secs(240),
        }
    }
}

/// One path of a client session.
#[derive(Clone, Copy, Debug)]
pub struct PathConfig {
    /// Socket and peer address.
    pub route: Route,
    /// DCCP ports.
    pub ports: Ports,
    /// What policy rules call it; the peer is told.
    pub name: PathName,
    /// Priority 0 to 15 (RFC 9897 section 3.2.10), 3 by default.
    pub prio: u8,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// IP and UDP header bytes the encapsulation adds.
    pub overhead: u16,
}

/// Who may open a session.
#[derive(Clone, Debug)]
pub struct PeerFilter {
    /// Given back in [`crate::SessionEvent::Accepted`].
    pub id: u32,
    /// Addresses the first subflow may come from; empty allows any.
    pub remotes: Vec<IpAddr>,
}

/// A listening DCCP port.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// DCCP port.
    pub port: u16,
    /// Sessions made here.
    pub session: SessionConfig,
    /// Who may connect; the first match counts; nobody if empty.
    pub peers: Vec<PeerFilter>,
    /// Whether those that the encapsulation vouches for may connect, too, whatever their numbers. They are counted by source, as those are that nobody
    /// vouches for: whoever wants another key makes one.
    pub strangers: bool,
    /// MTU and overhead of paths that come in through any socket of this endpoint.
    pub mtu: u16,
    /// IP and UDP header bytes for IPv4; IPv6 adds 20.
    pub overhead: u16,
    /// Most sessions at a time; more are refused with Reset code 9, Too Busy.
    pub max_sessions: usize,
    /// Most sessions at a time of one source, an IPv4 address or the first 64 bits of an IPv6 one; more are refused with Reset code 9. While
    /// others have sessions too, it gets that share of what is left. Those that are still half open do not count, since their source may be
    /// forged. Not for `peers` that the encapsulation vouches for.
    pub max_sessions_per_source: usize,
}
