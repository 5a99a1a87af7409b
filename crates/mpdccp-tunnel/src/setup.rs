//! Parameters of a new tunnel.

use crate::action::{Actions, StateFile};
use crate::command::Keys;
use crate::config::{Config, Security};
use mpdccp_units::Duration;
use std::collections::BTreeMap;

/// Parameters of a new tunnel.
#[derive(Debug)]
pub struct Setup {
    /// The configuration.
    pub cfg: Config,
    /// The keys of the configuration.
    pub keys: Keys,
    /// Files that the last run wrote.
    pub saved: Saved,
    /// Wall-clock time since 1970.
    pub wall: Duration,
    /// Number of this shard of the server, counted from 0.
    pub shard: u8,
    /// Random bytes.
    pub seed: [u8; 32],
    /// Longest interval between [`Action::Alive`](crate::Action::Alive) actions.
    pub alive: Option<Duration>,
}

/// Files written by the last run, by kind.
pub type Saved = BTreeMap<StateFile, String>;

/// Logs that the tunnel is up, with its addresses.
pub(crate) fn announce(cfg: &Config, mtu: u16, out: &mut Actions) {
    let names: Vec<String> = cfg.addresses.iter().map(|a| a.to_string()).collect();
    let names =
        if names.is_empty() { "waiting for addresses from the server".into() } else { names.join(", ") };
    out.info(format!("{} is up: {names}, MTU {mtu}", cfg.interface));
    match cfg.security {
        Security::Noise => out.info("traffic is encrypted; only peers with configured keys can connect"),
        Security::None => {
            out.warn("security = \"none\": anyone on the network can read, change and inject traffic")
        }
    }
    if !cfg.is_client() {
        let peers = cfg.peers.len();
        out.info(format!("waiting for sessions from {peers} {}", if peers == 1 { "peer" } else { "peers" }));
    }
}
