//! State of one end of a simulated tunnel: its file, keys and channels.

use std::path::Path;

use core::time::Duration;
use dccp_net::ChannelRoutes;
use dccp_secure::{Aead, Channels, PresharedKey, PrivateKey};
use mpdccp_proto::Endpoint;
use mpdccp_tunnel::config::{Config, Security};
use mpdccp_tunnel::{Keys, Saved, Setup, Tunnel};
use mpdccp_units::Time;

use super::side::Side;
use crate::LabError;

/// A configuration file after parsing, and its keys.
pub(super) type Program = (Config, Keys);

/// Wall-clock time at both ends when the simulated time is [`Time::ZERO`] (2026-01-15).
pub(super) const WALL: Duration = Duration::from_secs(1_768_435_200);
/// Creates the tunnel and the channels of a starting program.
pub(super) fn make(
    now: Time,
    side: Side,
    (cfg, keys): &Program,
    saved: &Saved,
    seed: [u8; 32],
    endpoint: &mut Endpoint,
) -> (Tunnel, Option<ChannelRoutes>) {
    let (cfg, saved) = (cfg.clone(), saved.clone());
    let since_zero = now.since(Time::ZERO);
    let wall = WALL + since_zero;
    let setup = Setup { cfg, keys: keys.clone(), saved, wall, shard: 0, seed, alive: None };
    let mut tunnel = Tunnel::new(endpoint, now, setup);
    let unix = tunnel.handshake_time(wall).saturating_sub(since_zero);
    let secure = |own: &PrivateKey| ChannelRoutes::new(channels(own.clone(), keys, side, unix, seed));
    (tunnel, keys.own.as_ref().map(secure))
}

/// Parses a configuration file and its keys.
pub(super) fn read(text: &str) -> Result<Program, LabError> {
    let cfg = Config::parse(Path::new("the tunnel's file"), text, 1);
    let cfg = cfg.map_err(|e| LabError::Failed(e.to_string()))?;
    if cfg.security == Security::None {
        let peers = vec![None; cfg.peers.len()];
        return Ok((cfg, Keys { own: None, peers }));
    }
    let own = cfg.private_key.as_ref().and_then(|key| key.0.parse::<PrivateKey>().ok());
    let peer = |key: PublicKeyOf<'_>| Some((key.get_ref().public_key?.0, PresharedKey::default()));
    let peers = cfg.peers.iter().map(peer).collect();
    Ok((cfg, Keys { own, peers }))
}

type PublicKeyOf<'a> = &'a toml::Spanned<mpdccp_tunnel::config::Peer>;

fn channels(private_key: PrivateKey, keys: &Keys, side: Side, unix: Duration, seed: [u8; 32]) -> Channels {
    let settings = dccp_secure::Settings {
        private_key,
        accepts: side == Side::Server,
        server: 0,
        shard: 0,
        aeads: Aead::preferred(),
        unix,
        seed,
    };
    let mut channels = Channels::new(settings);
    for (number, key) in (0u32..).zip(&keys.peers) {
        if let Some((key, preshared)) = key {
            channels.add_peer(number, *key, preshared.clone());
        }
    }
    channels
}
