//! Reorderers: put arriving packets back in MP_SEQ order, or not.

use crate::PathId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use dccp_wire::Seq;
use units::{Duration, Time};

mod active_fixed;
mod passive;

pub use active_fixed::ActiveFixed;
pub use passive::Passive;

/// A data packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its number in the session.
    pub mp_seq: Seq,
    /// The path it came on.
    pub path: PathId,
    /// Its DCCP sequence number there.
    pub path_seq: Seq,
    /// Non-data packets directly before it on that path, if the peer tells (NDP Count).
    pub ndp: Option<u64>,
    /// Hash of the inner flow.
    pub flow: u32,
}

/// How arriving packets are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReorderConfig {
    /// Deliver as they come.
    Passive,
    /// Hold packets behind a hole, each hole for at most this long.
    ActiveFixed {
        /// Per hole, from when it was first seen.
        timeout: Duration,
    },
}

/// Counters of a reorderer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderStats {
    /// Delivered in order, held or not.
    pub in_order: u64,
    /// Were held for a while.
    pub held: u64,
    /// Came after their hole had been given up; delivered all the same.
    pub late: u64,
    /// Had been delivered or were held already; dropped.
    pub duplicates: u64,
    /// Holes given up on their timer.
    pub timeouts: u64,
    /// Holes given up because the buffer was full.
    pub overflows: u64,
    /// Packets held now.
    pub occupancy: u64,
    /// Bytes held now.
    pub occupancy_bytes: u64,
    /// Most packets ever held.
    pub occupancy_max: u64,
}

/// Puts packets in order. The memory it may hold is bounded.
pub trait Reorderer: Send + core::fmt::Debug {
    /// A packet arrived.
    fn push(&mut self, now: Time, arrival: Arrival, data: Vec<u8>);
    /// The next packet to deliver.
    fn pop(&mut self) -> Option<Vec<u8>>;
    /// Round-trip time of a path changed (MP_RTT from the peer or our own measurement).
    fn on_path(&mut self, path: PathId, rtt: Option<Duration>, up: bool) {
        let _ = (path, rtt, up);
    }
    /// When to call [`on_timeout`](Self::on_timeout).
    fn next_timeout(&self) -> Option<Time>;
    /// A hole's timer came.
    fn on_timeout(&mut self, now: Time);
    /// Counters.
    fn stats(&self) -> ReorderStats;
}

impl ReorderConfig {
    /// A fresh reorderer.
    pub fn reorderer(&self) -> Box<dyn Reorderer> {
        match *self {
            ReorderConfig::Passive => Box::new(Passive::default()),
            ReorderConfig::ActiveFixed { timeout } => Box::new(ActiveFixed::new(timeout)),
        }
    }
}
