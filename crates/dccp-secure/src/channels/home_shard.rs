//! A server with several shards. A message's shard follows from its header or from the peer's number. A
//! handshake continues on that shard.

use super::{Channels, Input};
use crate::address::Address;
use crate::header::Receiver;
use crate::noise::Offered;
use mpdccp_units::Time;

/// The first message of a handshake with a peer that belongs to another shard. The caller passes it to
/// [`Channels::take_over`] of that shard. The shard that received the message has already verified and
/// decrypted it, so the other shard requests no second cookie, even under load.
#[derive(Debug)]
pub struct Handover {
    /// The shard that must handle the message.
    pub shard: u8,
    pub(super) from: Address,
    pub(super) offered: Offered,
    pub(super) to: Receiver,
}

impl Handover {
    /// Returns the address from which the message came.
    pub fn from(&self) -> &Address {
        &self.from
    }
}

impl Channels {
    /// Sets the number of shards of this server, which are numbered from 0. All shards have the same peers
    /// with the same numbers, but each shard has only the channels of the peers that belong to it.
    pub fn share(&mut self, shards: u8) {
        self.shards = shards;
    }

    /// Returns the shard that a peer belongs to.
    pub(super) fn home(&self, peer: u32) -> u8 {
        match self.shards {
            0 => self.settings.shard,
            shards => home(peer, shards),
        }
    }

    /// Returns the shard that a message names, if it is not this one.
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

    /// Returns the next handshake for another shard.
    pub fn poll_handover(&mut self) -> Option<Handover> {
        self.handovers.pop_front()
    }
}

/// Returns the shard that holds a peer's session, which follows from the peer's number.
pub fn home(peer: u32, shards: u8) -> u8 {
    // The result fits into eight bits.
    (peer % u32::from(shards.max(1))) as u8
}
