//! Encryption keys. If an end has keys, secure channels encrypt all packets between its sessions and sockets.

use crate::error::Error;
use crate::keys::read_secret;
use crate::perf::args::Common;
use dccp_net::{Clock, Core};
use dccp_secure::{Channels, OVERHEAD, PresharedKey, PrivateKey, PublicKey, Settings};
use mpdccp_proto::PeerFilter;
use mpdccp_units::Duration;

/// The keys of one end.
pub(crate) struct Keys {
    own: PrivateKey,
    /// Client: the key of the server. Server: the keys of the admitted clients; if empty, every client with a
    /// key is admitted.
    peers: Vec<PublicKey>,
}

impl Keys {
    /// Reads the keys given on the command line.
    pub(super) fn read(common: &Common, is_client: bool) -> Result<Option<Keys>, Error> {
        let Some(file) = &common.private_key_file else { return Ok(None) };
        let wrong = |why: &str| Err(Error::usage(why));
        let flag = "--private-key-file";
        let text = read_secret(flag, file)?;
        let own: PrivateKey =
            text.parse().map_err(|e| Error::usage(format!("{flag} {}: {e}", file.display())))?;
        let mut peers = common.public_key.clone();
        peers.sort();
        peers.dedup();
        if peers.iter().any(|key| own.is_written_as(key)) {
            return wrong(
                "--public-key: this is the secret private key of this end; give the public key of the other end",
            );
        }
        if peers.contains(&own.public()) {
            return wrong(
                "--public-key: this is the public key of this end; give the public key of the other end",
            );
        }
        match peers.len() {
            0 if is_client => wrong(
                "--private-key-file: a client also needs the server's public key; add --public-key KEY with the key that the server prints when it starts",
            ),
            2.. if is_client => wrong("--public-key: a client has one server; give only one key"),
            _ if common.coverage > 0 => wrong(
                "--coverage: encryption authenticates the whole packet; remove --coverage or --private-key-file",
            ),
            _ => Ok(Some(Keys { own, peers })),
        }
    }

    /// Returns this end's public key.
    pub(crate) fn public(&self) -> PublicKey {
        self.own.public()
    }

    /// Returns whether the server admits every client that has a key.
    pub(crate) fn admit_all(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns a hint for a client that receives no answer.
    pub(crate) fn hint(&self) -> String {
        let server = self.peers.first().map(PublicKey::to_string).unwrap_or_default();
        let own = self.public();
        format!(
            " The server's public key must be {server}. A server with --public-key must have this client's public key {own}."
        )
    }

    /// Returns the filters that admit a server's clients. Each client is identified by the number of its key.
    pub(super) fn filters(&self) -> Vec<PeerFilter> {
        (0u32..).zip(&self.peers).map(|(id, _)| PeerFilter { id, remotes: Vec::new() }).collect()
    }

    /// Encrypts all packets from now on. A server without a list of clients admits unknown clients, and
    /// `strangers` limits their number in total and per source. A client admits no unknown peers.
    pub(super) fn secure(&self, core: &mut Core, strangers: Option<(usize, usize)>) -> Result<(), Error> {
        let since_1970 = Clock.wall_nanos().saturating_sub(core.clock.now().as_nanos());
        let (unix, seed) = (Duration::from_nanos(since_1970), dccp_net::random_seed()?);
        let mut channels = Channels::new(Settings::new(self.own.clone(), strangers.is_some(), unix, seed));
        if let Some((most, each)) = strangers.filter(|_| self.admit_all()) {
            channels.admit_strangers(most, each);
        }
        for (number, key) in (0u32..).zip(&self.peers) {
            channels.add_peer(number, *key, PresharedKey::default());
        }
        core.net.secure(channels);
        Ok(())
    }
}

/// Returns the number of bytes that encryption adds to each packet.
pub(super) fn overhead(keys: Option<&Keys>) -> u16 {
    if keys.is_some() { OVERHEAD as u16 } else { 0 }
}
