//! Passes packets and messages between the shards of a server. A shard is a data thread that serves a part of
//! the sessions.

use mpdccp_tunnel::ShardMessage;

/// The way to another shard.
pub(crate) struct Link {
    /// Passes packets to the shard. Returns false if the shard is overloaded.
    pub(crate) packets: Box<dyn Fn(Vec<Vec<u8>>) -> bool + Send>,
    pub(crate) message: Box<dyn Fn(ShardMessage) + Send>,
}

/// The links from one shard to all shards.
pub(crate) struct Links {
    number: u8,
    pub(crate) all: Vec<Link>,
    /// Packets from the interface waiting to be handed over, by shard.
    waiting: Vec<Vec<Vec<u8>>>,
    /// Number of packets accepted by the other shards.
    pub(crate) handed_over: u64,
}

impl Links {
    pub(crate) fn new(number: u8, of: u8) -> Links {
        Links { number, all: Vec::new(), waiting: vec![Vec::new(); of.into()], handed_over: 0 }
    }

    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Adds a packet for another shard, to be passed on by [`hand_over`](Self::hand_over).
    pub(crate) fn put(&mut self, shard: u8, packet: Vec<u8>) {
        self.waiting[usize::from(shard)].push(packet);
    }

    /// Passes the added packets to their shards. Returns how many were dropped because a shard is overloaded.
    pub(crate) fn hand_over(&mut self) -> u64 {
        let mut dropped = 0;
        for (shard, waiting) in self.all.iter().zip(&mut self.waiting).filter(|(_, w)| !w.is_empty()) {
            let n = waiting.len() as u64;
            match (shard.packets)(std::mem::take(waiting)) {
                true => self.handed_over += n,
                false => dropped += n,
            }
        }
        dropped
    }

    /// Sends a message to another shard.
    pub(crate) fn tell(&self, shard: u8, message: ShardMessage) {
        if let Some(shard) = self.all.get(usize::from(shard)) {
            (shard.message)(message);
        }
    }
}
