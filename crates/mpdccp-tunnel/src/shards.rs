//! Shards are tunnels that together form one server. Each shard holds the sessions of some of the peers. All
//! shards know all peers, by the same numbers. The first shard does the work that must be done only once.

use crate::message::Message;
use crate::status::ShardStatus;
use std::net::IpAddr;

/// A message from one shard to another.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardMessage(pub(crate) Told);

impl ShardMessage {
    /// Returns whether an overloaded shard may drop the message, because the peer repeats its request.
    pub fn may_be_dropped(&self) -> bool {
        matches!(self.0, Told::Asks(_))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// To the first shard: the shard with this number is alive.
    Alive(u8),
    /// To the first shard: this peer requests addresses.
    Asks(usize),
    /// To the other shards: this peer now leases this address.
    Leased(usize, IpAddr),
    /// To the shard of this peer: send the peer this message.
    Send(usize, Message),
    /// To the first shard: the packet size of one of this shard's peers has changed.
    Carries { before: Option<u16>, now: Option<u16> },
    /// To the other shards: the MTU of the interface.
    Mtu(u16),
}

/// Number of this shard, and total number of shards.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) number: u8,
    pub(crate) of: u8,
    /// On the first shard: for each shard, whether it has reported in this round.
    heard: Vec<bool>,
}

impl Shard {
    pub(crate) fn new(number: u8, of: u8) -> Shard {
        Shard { number, of, heard: vec![false; of.into()] }
    }

    /// Stores that a shard is alive. Once all shards have reported, returns true and starts a new round.
    pub(crate) fn all_live(&mut self, number: u8) -> bool {
        if let Some(heard) = self.heard.get_mut(usize::from(number)) {
            *heard = true;
        }
        let all = self.heard.iter().all(|heard| *heard);
        if all {
            self.heard.fill(false);
        }
        all
    }

    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Returns the shard that has the session of a peer.
    pub(crate) fn home(&self, peer: usize) -> u8 {
        dccp_secure::home(peer as u32, self.of)
    }

    pub(crate) fn is_home(&self, peer: usize) -> bool {
        self.home(peer) == self.number
    }

    /// Returns the status of this shard; `None` if it is the only one. The host fills in the counters of the
    /// shard's sockets and interface queue.
    pub(crate) fn status(&self, sessions: usize, read: u64) -> Option<ShardStatus> {
        let status = ShardStatus {
            shard: self.number,
            sessions: sessions as u64,
            tun_read: read,
            ..ShardStatus::default()
        };
        (self.of > 1).then_some(status)
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = u8> {
        let own = self.number;
        (0..self.of).filter(move |number| *number != own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_live_once_each_was_heard() {
        let mut first = Shard::new(0, 3);
        assert_eq!([0, 1, 1, 0].map(|n| first.all_live(n)), [false; 4]);
        assert!(first.all_live(2));
        assert!(!first.all_live(2), "a new round has started");
        assert!(!first.all_live(9), "no such shard");
        assert!(Shard::new(0, 1).all_live(0));
    }
}
