//! Shards: several tunnels of one server, each with its own peers. All know the same peers by the same
//! numbers; the first shard does the common work.

use crate::message::Message;
use crate::status::ShardStatus;
use std::net::IpAddr;

/// A message between shards.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardMessage(pub(crate) Told);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// To the first shard: this shard is alive.
    Alive(u8),
    /// To the first shard: a peer requests addresses.
    Asks(usize),
    /// To the others: a peer has another address.
    Leased(usize, IpAddr),
    /// To the shard of a peer: send it this message.
    Send(usize, Message),
    /// To the first shard: a peer's packet size changed.
    Carries { before: Option<u16>, now: Option<u16> },
    /// To the others: the interface's MTU.
    Mtu(u16),
}

/// Which shard this is.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) number: u8,
    pub(crate) of: u8,
    /// On the first shard: the shards that reported since all had.
    heard: Vec<bool>,
}

impl Shard {
    pub(crate) fn new(number: u8, of: u8) -> Shard {
        Shard { number, of, heard: vec![false; of.into()] }
    }

    /// Records that a shard is alive; true if all have reported since this was last true.
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

    /// The shard of a peer's session.
    pub(crate) fn home(&self, peer: usize) -> u8 {
        dccp_secure::home(peer as u32, self.of)
    }

    pub(crate) fn is_home(&self, peer: usize) -> bool {
        self.home(peer) == self.number
    }

    /// Status, if there are several shards. The host fills in its own counters for sockets and interface.
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
        assert!(!first.all_live(2), "from the beginning");
        assert!(!first.all_live(9), "no such shard");
        assert!(Shard::new(0, 1).all_live(0));
    }
}
