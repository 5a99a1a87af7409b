//! Passes packets and messages from one shard of a server to the others.

use mpdccp_tunnel::ShardMessage;

/// Channel to another shard.
pub(crate) struct Link {
    /// Offers packets to the shard; returns false if the shard is overloaded.
    pub(crate) packets: Box<dyn Fn(Vec<Vec<u8>>) -> bool + Send>,
    pub(crate) message: Box<dyn Fn(ShardMessage) + Send>,
}

/// A shard's channels to all shards.
pub(crate) struct Links {
    number: u8,
    pub(crate) all: Vec<Link>,
    /// Packets from the interface, for each shard.
    waiting: Vec<Vec<Vec<u8>>>,
    /// Number of packets that other shards accepted.
    pub(crate) handed_over: u64,
}

impl Links {
    pub(crate) fn new(number: u8, of: u8) -> Links {
        Links { number, all: Vec::new(), waiting: vec![Vec::new(); of.into()], handed_over: 0 }
    }

    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Adds a packet for another shard.
    pub(crate) fn put(&mut self, shard: u8, packet: Vec<u8>) {
        self.waiting[usize::from(shard)].push(packet);
    }

    /// Hands over the added packets. Returns how many were dropped because their shard is overloaded.
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
