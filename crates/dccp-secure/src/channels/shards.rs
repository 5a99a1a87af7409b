//! A server of several shards: the header or the peer's number identifies the shard, and handshakes continue
//! there.

use super::{Channels, Input};
use crate::address::Address;
use crate::header::Receiver;
use crate::noise::Offered;
use mpdccp_units::Time;

/// The first message of a handshake with a peer of another shard, for [`Channels::take_over`] there. It was
/// verified and decrypted where it arrived, so that a server under load asks for one cookie instead of two.
#[derive(Debug)]
pub struct Handover {
    /// The destination shard.
    pub shard: u8,
    pub(super) from: Address,
    pub(super) offered: Offered,
    pub(super) to: Receiver,
}

impl Handover {
    /// Where the message came from.
    pub fn from(&self) -> &Address {
        &self.from
    }
}

impl Channels {
    /// Sets the number of the server's shards, numbered from 0. All have the same peers under the same
    /// numbers, and each has the channels of the peers that belong to it.
    pub fn share(&mut self, shards: u8) {
        self.shards = shards;
    }

    /// The shard that a peer belongs to.
    pub(super) fn home(&self, peer: u32) -> u8 {
        match self.shards {
            0 => self.settings.shard,
            shards => home(peer, shards),
        }
    }

    /// The other shard that a message names, if any.
    pub(super) fn elsewhere(&self, to: Receiver) -> Option<u8> {
        let [shard, ..] = to.index.to_be_bytes();
        (shard < self.shards && shard != self.settings.shard).then_some(shard)
    }

    /// Continues a handshake that arrived at another shard.
    pub fn take_over(&mut self, now: Time, handover: Handover) -> Input {
        let Handover { from, offered, to, .. } = handover;
        let result = self.answer(now, &from, offered, to);
        self.settle(result)
    }

    /// The next handshake for another shard.
    pub fn poll_handover(&mut self) -> Option<Handover> {
        self.handovers.pop_front()
    }
}

/// The shard of a peer's session, by the peer's number.
pub fn home(peer: u32, shards: u8) -> u8 {
    // The result fits into eight bits.
    (peer % u32::from(shards.max(1))) as u8
}
