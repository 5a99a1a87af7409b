//! What one data thread of a server hands over to the others.

use mpdccp_tunnel::ShardMessage;

/// The way to a shard.
pub(crate) struct Link {
    /// Offers packets; false if it has too much to do.
    pub(crate) packets: Box<dyn Fn(Vec<Vec<u8>>) -> bool + Send>,
    pub(crate) message: Box<dyn Fn(ShardMessage) + Send>,
}

/// A shard's ways to all of them.
pub(crate) struct Links {
    number: u8,
    pub(crate) all: Vec<Link>,
    /// Packets of the interface for each of them.
    waiting: Vec<Vec<Vec<u8>>>,
    /// Of them, those that went there.
    pub(crate) handed_over: u64,
}

impl Links {
    pub(crate) fn new(number: u8, of: u8) -> Links {
        Links { number, all: Vec::new(), waiting: vec![Vec::new(); of.into()], handed_over: 0 }
    }

    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// A packet for another shard.
    pub(crate) fn put(&mut self, shard: u8, packet: Vec<u8>) {
        self.waiting[usize::from(shard)].push(packet);
    }

    /// Hands over what was put; how many packets were dropped since a shard has too much to do.
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

    /// A message for another shard.
    pub(crate) fn tell(&self, shard: u8, message: ShardMessage) {
        if let Some(shard) = self.all.get(usize::from(shard)) {
            (shard.message)(message);
        }
    }
}
