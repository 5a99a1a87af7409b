//! The shards of a server. Each has its own driver, and hands over packets that belong to another shard.

use crate::secure::Handover;
use dccp_proto::{Ecn, Route};
use std::any::Any;

/// An item that one shard hands over to another shard.
pub(crate) enum Mail {
    /// A datagram whose header has the number of the receiving shard.
    Datagram { from: Route, ecn: Ecn, ip_len: u32, bytes: Vec<u8> },
    /// A handshake with a peer that belongs to the receiving shard.
    Handshake(Box<Handover>),
    /// A connection of this socket. Its packets belong to the receiving shard.
    Connection { socket: u32, connection: Box<dyn Any + Send> },
}

/// Passes mail to a shard. Returns false if that shard is overloaded.
pub(crate) type Post = Box<dyn Fn(Vec<Mail>) -> bool + Send>;

/// The mailboxes of all shards by number, and the mail that is waiting to be sent.
#[derive(Default)]
pub(crate) struct Neighbours {
    posts: Vec<Post>,
    waiting: Vec<Vec<Mail>>,
    /// Number of datagrams, handshakes and connections that were handed over.
    pub(crate) handed_over: u64,
    /// Number of datagrams, handshakes and connections that were dropped because the other shard was
    /// overloaded.
    pub(crate) dropped: u64,
}

impl Neighbours {
    /// Creates the mailboxes. `posts` is in the order of the shard numbers.
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
