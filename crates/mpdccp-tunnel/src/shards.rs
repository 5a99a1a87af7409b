//! Several tunnels of one server: a shard each, with the peers that are at home there. All have the same peers under the same numbers;
//! the first one does what is done once.

use crate::message::Message;
use crate::status::ShardStatus;
use std::net::IpAddr;

/// What one shard tells another.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardMessage(pub(crate) Told);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// To the first: this shard lives.
    Alive(u8),
    /// To the first: a peer asks for its addresses.
    Asks(usize),
    /// To the others: a peer has an address more.
    Leased(usize, IpAddr),
    /// To a peer's home: send it this.
    Send(usize, Message),
    /// To the first: a peer's packets may be so large now, instead of so large.
    Carries { before: Option<u16>, now: Option<u16> },
    /// To the others: the interface's MTU.
    Mtu(u16),
}

/// Which of the shards this one is.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) number: u8,
    pub(crate) of: u8,
    /// The first one's: which of them it heard of since all were heard of.
    heard: Vec<bool>,
}

impl Shard {
    pub(crate) fn new(number: u8, of: u8) -> Shard {
        Shard { number, of, heard: vec![false; of.into()] }
    }

    /// A shard lives; whether all of them do, since that was last so.
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

    /// The shard that has, or is to have, the session of a peer.
    pub(crate) fn home(&self, peer: usize) -> u8 {
        dccp_secure::home(peer as u32, self.of)
    }

    pub(crate) fn is_home(&self, peer: usize) -> bool {
        self.home(peer) == self.number
    }

    /// What it does, if it is one of several. The host knows what its sockets and its interface handed over.
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
