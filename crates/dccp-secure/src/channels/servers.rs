//! Moving to another server of a peer.

use super::{ANYWHERE, Channels};
use crate::channel::Channel;
use crate::header::{NO_SLOT, Receiver};

impl Channels {
    /// Returns whether this server may handle a message: the message must name this server or no server, or
    /// this server must have no number.
    pub(super) fn is_here(&self, to: Receiver) -> bool {
        [0, self.settings.server].contains(&to.server) || self.settings.server == 0
    }

    /// Call this if the peer may now be a different machine, or may have lost its keys in a restart. On each
    /// channel that this end opened, the next packet then waits for a new handshake, which any server and any
    /// shard may answer. Records under the old keys can still be opened.
    pub fn start_over(&mut self, peer: u32) {
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        peer.home = ANYWHERE;
        for at in peer.channels.values() {
            let channel = self.channels.get_mut(*at).filter(|channel| channel.stays.is_none());
            let gone = channel.and_then(Channel::start_over);
            gone.into_iter().for_each(|index| {
                self.indices.remove(index & NO_SLOT);
            });
        }
    }

    /// Leaves the peer's current server. New channels may be answered by any server; existing channels stay
    /// with the old one.
    pub fn leave_server(&mut self, peer: u32) {
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        let home = std::mem::replace(&mut peer.home, ANYWHERE);
        for at in peer.channels.values() {
            if let Some(channel) = self.channels.get_mut(*at).filter(|channel| channel.initiates) {
                channel.stays.get_or_insert(home);
            }
        }
    }
}
