use alloc::collections::VecDeque;

use crate::{Item, QueueLen};

/// A first-in, first-out queue that keeps count of its bytes. All disciplines are built on it.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    items: VecDeque<Item<P>>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Fifo<P> {
        Fifo { items: VecDeque::new(), bytes: 0 }
    }
}

impl<P> Fifo<P> {
    /// Returns the fill level of the queue.
    #[allow(clippy::len_without_is_empty)] // a measure of two quantities, not a count
    pub fn len(&self) -> QueueLen {
        QueueLen { packets: self.items.len() as u64, bytes: self.bytes }
    }

    /// Returns when the packet at the head arrived.
    pub fn oldest(&self) -> Option<mpdccp_units::Time> {
        self.items.front().map(|item| item.arrived)
    }

    /// Adds a packet at the tail.
    pub fn push(&mut self, item: Item<P>) {
        self.bytes += u64::from(item.meta.bytes);
        self.items.push_back(item);
    }

    /// Removes the packet at the head.
    pub fn pop(&mut self) -> Option<Item<P>> {
        let item = self.items.pop_front()?;
        self.bytes -= u64::from(item.meta.bytes);
        Some(item)
    }
}
