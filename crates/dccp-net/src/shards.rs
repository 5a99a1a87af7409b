//! The shards of a server, each with its own driver. A shard hands over packets that belong to another shard.

use crate::secure::Handover;
use dccp_proto::{Ecn, Route};
use std::any::Any;

/// A packet for another shard.
pub(crate) enum Mail {
    /// A datagram whose header contains the number of the receiving shard.
    Datagram { from: Route, ecn: Ecn, ip_len: u32, bytes: Vec<u8> },
    /// A handshake with a peer that belongs to the receiving shard.
    Handshake(Box<Handover>),
    /// A connection of this socket whose packets are for the receiving shard.
    Connection { socket: u32, connection: Box<dyn Any + Send> },
}

/// Passes mail to a shard. Returns false if that shard is overloaded.
pub(crate) type Post = Box<dyn Fn(Vec<Mail>) -> bool + Send>;

/// Mailboxes of all shards by number, with the mail to send.
#[derive(Default)]
pub(crate) struct Neighbours {
    posts: Vec<Post>,
    waiting: Vec<Vec<Mail>>,
    /// Number of datagrams and handshakes handed over.
    pub(crate) handed_over: u64,
    /// Number of datagrams and handshakes dropped because the other shard was overloaded.
    pub(crate) dropped: u64,
}

impl Neighbours {
    /// `posts` must be in the order of the shard numbers.
    pub(crate) fn new(posts: Vec<Post>) -> Neighbours {
        let waiting = posts.iter().map(|_| Vec::new()).collect();
        Neighbours { posts, waiting, ..Neighbours::default() }
    }

    pub(crate) fn put(&mut self, shard: u8, mail: Mail) {
        if let Some(waiting) = self.waiting.get_mut(usize::from(shard)) {
            waiting.push(mail);
        }
    }

    /// Sends the waiting mail.
    pub(crate) fn send(&mut self) {
        for (post, waiting) in self.posts.iter().zip(&mut self.waiting).filter(|(_, mail)| !mail.is_empty()) {
            let n = waiting.len() as u64;
            match post(std::mem::take(waiting)) {
                true => self.handed_over += n,
                false => self.dropped += n,
            }
        }
    }
}
