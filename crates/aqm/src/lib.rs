//! Queues that signal congestion early: CoDel (RFC 8289) and FQ-CoDel (RFC 8290). They are used by the link
//! emulator's bottlenecks and by the send queue of a multipath session.
//!
//! A queue holds packets of any type. Its owner supplies the time, the limit and the counters.
//!
//! ```
//! use aqm::{FqCoDel, FqCoDelConfig, Item, Ledger, Limit, Meta, Reason};
//! use mpdccp_units::{Ecn, Time};
//!
//! #[derive(Default)]
//! struct Dropped(u64);
//!
//! impl Ledger for Dropped {
//!     fn dropped(&mut self, _: Reason, _: u32) {
//!         self.0 += 1;
//!     }
//!     fn marked(&mut self) {}
//! }
//!
//! let (mut queue, mut dropped) = (FqCoDel::new(FqCoDelConfig::default()), Dropped::default());
//! let now = Time::from_millis(1);
//! for (flow, packet) in [(1, "bulk"), (1, "bulk"), (1, "bulk"), (2, "call")] {
//!     let meta = Meta { bytes: 1000, ecn: Ecn::NotEct, flow };
//!     queue.enqueue(Item { arrived: now, meta, packet }, None, Limit::Packets(3), &mut dropped);
//! }
//! // Half of the 3,000 bytes of flow 1 was dropped, rounded up to whole packets.
//! assert_eq!(dropped.0, 2);
//! let left = core::iter::from_fn(|| queue.dequeue(now, &mut dropped));
//! assert!(left.map(|item| item.packet).eq(["bulk", "call"]));
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod codel;
mod fifo;
mod fq_codel;

use mpdccp_units::{Ecn, Time};

pub use codel::{CoDel, CoDelConfig};
pub use fifo::Fifo;
pub use fq_codel::{FqCoDel, FqCoDelConfig};

/// The properties of a packet that matter to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Meta {
    /// Size that the queue counts. On a link, this is the size of the outer IP packet with its header.
    pub bytes: u32,
    /// The packet's ECN field.
    pub ecn: Ecn,
    /// Hash of the packet's flow. Only FQ-CoDel uses it.
    pub flow: u32,
}

/// A queued packet.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Item<P> {
    pub arrived: Time,
    pub meta: Meta,
    pub packet: P,
}

/// Limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Maximum number of bytes, as [`Meta::bytes`] counts them.
    Bytes(u64),
    /// Maximum number of packets.
    Packets(u64),
}

/// Fill level of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct QueueLen {
    pub packets: u64,
    pub bytes: u64,
}

/// Reason for a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue was full.
    Overflow,
    /// The packet was dropped to signal congestion.
    Early,
}

/// Counts drops and marks.
pub trait Ledger {
    /// A packet of this size was dropped.
    fn dropped(&mut self, reason: Reason, bytes: u32);
    /// A packet was marked.
    fn marked(&mut self);
}

impl Limit {
    /// Returns whether `len` is within the limit.
    pub fn holds(self, len: QueueLen) -> bool {
        match self {
            Limit::Bytes(n) => len.bytes <= n,
            Limit::Packets(n) => len.packets <= n,
        }
    }
}

impl QueueLen {
    /// Returns the fill level with one more packet of `bytes`.
    #[must_use]
    pub fn plus(self, bytes: u32) -> QueueLen {
        QueueLen { packets: self.packets + 1, bytes: self.bytes + u64::from(bytes) }
    }

    /// Returns the sum of two fill levels.
    #[must_use]
    pub fn and(self, other: QueueLen) -> QueueLen {
        QueueLen { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }

    fn minus(self, bytes: u32) -> QueueLen {
        QueueLen { packets: self.packets - 1, bytes: self.bytes - u64::from(bytes) }
    }
}

/// Marks a packet if it is ECN-capable. Returns whether it was marked.
pub fn mark(meta: &mut Meta, ledger: &mut impl Ledger) -> bool {
    if !meta.ecn.is_capable() {
        return false;
    }
    if meta.ecn != Ecn::Ce {
        meta.ecn = Ecn::Ce;
        ledger.marked();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters shared by the tests of all queues.
    #[derive(Debug, Default)]
    pub(super) struct Counts {
        pub(super) overflow: u64,
        pub(super) early: u64,
        pub(super) marked: u64,
    }

    impl Ledger for Counts {
        fn dropped(&mut self, reason: Reason, _bytes: u32) {
            match reason {
                Reason::Overflow => self.overflow += 1,
                Reason::Early => self.early += 1,
            }
        }
        fn marked(&mut self) {
            self.marked += 1;
        }
    }
}
