//! Several drivers of one server, a shard each: what comes in at one and is for another is handed over.

use dccp_proto::{Ecn, Route};
use dccp_secure::Handover;

/// Something for another shard.
pub(crate) enum Mail {
    /// A datagram whose header names that shard.
    Datagram { from: Route, ecn: Ecn, ip_len: u32, bytes: Vec<u8> },
    /// A handshake of a peer that is at home there.
    Handshake(Box<Handover>),
}

/// Hands over to a shard; false if that has too much to do.
pub(crate) type Post = Box<dyn Fn(Vec<Mail>) -> bool + Send>;

/// The ways to all shards by their numbers, and what waits to go there.
#[derive(Default)]
pub(crate) struct Neighbours {
    posts: Vec<Post>,
    waiting: Vec<Vec<Mail>>,
    /// Datagrams and handshakes handed over.
    pub(crate) handed_over: u64,
    /// Those dropped since the other shard had too much to do.
    pub(crate) dropped: u64,
}

impl Neighbours {
    /// `posts` by the numbers of the shards.
    pub(crate) fn new(posts: Vec<Post>) -> Neighbours {
        let waiting = posts.iter().map(|_| Vec::new()).collect();
        Neighbours { posts, waiting, ..Neighbours::default() }
    }

    pub(crate) fn put(&mut self, shard: u8, mail: Mail) {
        if let Some(waiting) = self.waiting.get_mut(usize::from(shard)) {
            waiting.push(mail);
        }
    }

    /// Sends what waits.
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
