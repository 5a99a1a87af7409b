//! Manages peers with keys, which can be added and removed while connections are running.

use super::Streams;
use crate::{ConnectError, sockets};
use dccp_net::Core;
use dccp_net::secure::{PresharedKey, PublicKey};
use mpdccp_proto::SessionId;

const NO_KEY: ConnectError = ConnectError::Options("this end has no private key; give it one in the options");

impl Streams {
    /// Returns the number of a session's peer.
    pub(crate) fn peer(&self, id: SessionId) -> Option<u32> {
        self.entries.get(&id)?.peer
    }

    /// Accepts a peer by its key. Returns the peer's number, which does not change if the peer is already
    /// known.
    ///
    /// # Errors
    /// If this end has no key, or if `key` is this end's own key.
    pub(crate) fn add_peer(
        &mut self,
        core: &mut Core,
        key: PublicKey,
        preshared: PresharedKey,
    ) -> Result<u32, ConnectError> {
        match &self.options.key {
            None => return Err(NO_KEY),
            Some(own) if own.public() == key => {
                return Err(ConnectError::Options(
                    "the peer's public key is this end's own public key; give the key of the other end",
                ));
            }
            Some(_) => {}
        }
        let known = self.peers.iter().find(|(_, known)| **known == key).map(|(number, _)| *number);
        if let Some(number) = known.filter(|number| {
            core.net.channels().is_some_and(|channels| channels.has_peer(*number, &key, &preshared))
        }) {
            return Ok(number);
        }
        let next = self.peers.last_key_value().map_or(Some(0), |(last, _)| last.checked_add(1));
        let number = known.or(next).ok_or(ConnectError::Options("too many peers"))?;
        if let Some(channels) = core.net.channels_mut() {
            channels.add_peer(number, key, preshared);
        }
        self.peers.insert(number, key);
        self.listen_again(core);
        Ok(number)
    }

    /// Stops accepting a peer by its key, and ends that peer's connections.
    pub(crate) fn remove_peer(&mut self, core: &mut Core, key: &PublicKey) -> Result<(), ConnectError> {
        if self.options.key.is_none() {
            return Err(NO_KEY);
        }
        // If the peer was accepted without being configured, only the channels know its number.
        let Some(number) = core.net.channels().and_then(|channels| channels.number(key)) else {
            return Ok(());
        };
        self.peers.remove(&number);
        let now = core.clock.now();
        let theirs = self.entries.iter().filter(|(_, entry)| entry.peer == Some(number));
        for id in theirs.map(|(id, _)| *id).collect::<Vec<_>>() {
            core.endpoint.abort(now, id);
        }
        // The packets that tell the peer of the end of its connections need the channels.
        core.transmit(now);
        if let Some(channels) = core.net.channels_mut() {
            channels.remove_peer(number);
        }
        self.listen_again(core);
        Ok(())
    }

    /// Forgets a peer that a connector knows only from `connect_peer`, unless it has another connection.
    pub(crate) fn forget_peer(&mut self, core: &mut Core, number: u32) {
        let configured = self.backlog.is_some() || (number as usize) < self.options.peers.len();
        if configured || self.entries.values().any(|entry| entry.peer == Some(number)) {
            return;
        }
        self.peers.remove(&number);
        if let Some(channels) = core.net.channels_mut() {
            channels.remove_peer(number);
        }
    }

    fn listen_again(&self, core: &mut Core) {
        let Some(at) = self.listens else { return };
        let peers: Vec<u32> = self.peers.keys().copied().collect();
        core.endpoint.listen(sockets::listen_config(core, &self.options, at, &peers));
    }
}
