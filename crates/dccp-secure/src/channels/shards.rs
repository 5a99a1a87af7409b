//! A server of several shards: what is for another is told from its header or the peer's number, and a handshake goes on there.

use super::{Channels, Input};
use crate::address::Address;
use crate::header::Receiver;
use crate::noise::Offered;
use mpdccp_units::Time;

/// The first message of a handshake with a peer that is at home on another shard, for [`Channels::take_over`] there. It was checked and read
/// where it came in, so that a server under load asks for one cookie and not for two.
#[derive(Debug)]
pub struct Handover {
    /// Which shard.
    pub shard: u8,
    pub(super) from: Address,
    pub(super) offered: Offered,
    pub(super) to: Receiver,
}

impl Channels {
    /// The server has so many shards, numbered from 0, that share its peers by their numbers: each has the same peers under the same numbers,
    /// and the channels of those that are at home there.
    pub fn share(&mut self, shards: u8) {
        self.shards = shards;
    }

    /// The shard that has the channels of a peer.
    pub(super) fn home(&self, peer: u32) -> u8 {
        match self.shards {
            0 => self.settings.shard,
            shards => home(peer, shards),
        }
    }

    /// Which other shard a message is for, if it says so.
    pub(super) fn elsewhere(&self, to: Receiver) -> Option<u8> {
        let [shard, ..] = to.index.to_be_bytes();
        (shard < self.shards && shard != self.settings.shard).then_some(shard)
    }

    /// Goes on with a handshake that came in at another shard.
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

/// Which of a server's shards has the session of a peer, by the peer's number.
pub fn home(peer: u32, shards: u8) -> u8 {
    // Less than a number of eight bits.
    (peer % u32::from(shards.max(1))) as u8
}
