//! Data shared by all tests of the doctor.

use crate::error::Error;
use dccp_net::Clock;
use dccp_secure::{Aead, Channels, Settings};
use mpdccp_tunnel::Keys;
use mpdccp_tunnel::config::Config;
use mpdccp_units::Duration;
use std::time::SystemTime;

/// The parameters of the tests.
pub(crate) struct Plan<'a> {
    pub(crate) cfg: &'a Config,
    pub(crate) keys: Keys,
    /// Whether the tunnel is running.
    pub(crate) running: bool,
    pub(crate) silence: u64,
    /// Whether there are several lines.
    pub(crate) several: bool,
    /// Time of the tunnel's newest handshake, seconds since 1970.
    pub(crate) saved: u64,
}

impl Plan<'_> {
    /// Returns the timestamp for a handshake, as time since 1970. It is never earlier than the tunnel's
    /// newest handshake.
    pub(crate) fn unix(&self) -> Duration {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        wall.max(Duration::from_secs(self.saved))
    }

    /// Returns channels to one peer; `None` without encryption.
    pub(crate) fn channels(&self, peer: usize) -> Result<Option<Channels>, Error> {
        let (Some(private_key), Some(Some((key, psk)))) = (self.keys.own.clone(), self.keys.peers.get(peer))
        else {
            return Ok(None);
        };
        let aeads = self.cfg.ciphers.as_ref().map(|list| list.iter().map(|cipher| cipher.0).collect());
        let unix = self.unix().saturating_sub(Duration::from_nanos(Clock.now().as_nanos()));
        let mut channels = Channels::new(Settings {
            aeads: aeads.unwrap_or_else(Aead::preferred),
            ..Settings::new(private_key, false, unix, dccp_net::random_seed()?)
        });
        channels.add_peer(0, *key, psk.clone());
        Ok(Some(channels))
    }
}
