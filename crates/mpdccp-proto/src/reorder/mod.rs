//! Reorderers: put arriving packets back in MP_SEQ order, or not.
//!
//! Packets behind a hole in the MP_SEQ numbers are held until the hole fills, is *proven lost*, or has lasted too long.
//!
//! # When a hole is proven lost
//!
//! A sender gives out MP_SEQ numbers in the order in which it sends (late binding), and so each path carries rising MP_SEQ under
//! rising path numbers (DCCP sequence numbers). A path that delivers in order and delivered MP_SEQ m will not deliver a missing
//! number below m any more, unless the path lost it or reorders. Losses show as gaps of path numbers. A gap may be
//! * packets without data: those that arrive are told to the reorderer too, and the NDP Count of the next data packet names the others;
//! * reordering: wait until some later packets came on that path or some time passed (the gap is *settled* then);
//! * data, whose MP_SEQ lies between those of the data before and behind the gap.
//!
//! So a path's *floor* is the MP_SEQ of the data before its first gap that is not settled, or of its newest data: nothing below the
//! floor can come on that path. A hole is proven lost when
//! 1. it lies below the floors of all paths that are up, or
//! 2. a settled gap of one path held data for sure (the packet that the next NDP Count calls data), and between the MP_SEQ on
//!    either side of the gap that hole is all that is missing, a single number: then it was in the gap. This needs nothing from the
//!    other paths, idle ones above all. It does not hold for copies sent on several paths: while duplicates come it is not used.
//!
//! An idle path has an old floor and withholds the first proof, rightly: the hole may be the first packet of many on it. Then there
//! is the timer. A path that went down does not count.
//!
//! # Flows
//!
//! Where the peer says which number the packet before of the same inner flow has ([`Back`]), a packet is delivered as soon as that one
//! was, whatever else is missing: one flow's losses hold up no other.
//!
//! # How long a hole that is not proven may last
//!
//! Either a fixed time, or as long as the paths that may still fill it needed of late: a packet that fills a hole tells how far
//! its path lags behind the one that showed the hole, its one-way delay and not just half its RTT. The largest such time of the last
//! seconds counts, and a bit more; before there is one, half the difference to the fastest RTT. Lags beyond the maximum do not
//! count: no packet is held for one that would come too late anyway.

use crate::PathId;
use alloc::vec::Vec;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

mod active;
mod active_fixed;
mod adaptive;
mod back;
mod buffer;
mod config;
mod equalised;
mod passive;
mod recent;
mod small;
mod track;

pub use back::Back;
pub(crate) use back::LastOfFlow;
pub use config::{ReorderConfig, ReorderKind};

/// Length of [`ReorderStats::held_for`].
pub(crate) const HELD_BUCKETS: usize = 12;

/// A data packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its number in the session.
    pub mp_seq: Seq,
    /// The path it came on.
    pub path: PathId,
    /// Its DCCP sequence number there; none if it was made from others.
    pub path_seq: Option<Seq>,
    /// Non-data packets directly before it on that path, if the peer tells (NDP Count).
    pub ndp: Option<u64>,
    /// Hash of the inner flow.
    pub flow: u32,
    /// What the peer says of the packet before it in its flow.
    pub back: Option<Back>,
}

/// Counters of a reorderer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderStats {
    /// Delivered in order, held or not.
    pub in_order: u64,
    /// Were held for a while.
    pub held: u64,
    /// Delivered before what other flows lack: of small flows, or where the peer says what comes after what.
    pub jumped: u64,
    /// Came after their hole had been given up; delivered all the same.
    pub late: u64,
    /// Had been delivered or were held already, or ran ahead by more than 2^32; dropped.
    pub duplicates: u64,
    /// Holes given up on their timer.
    pub timeouts: u64,
    /// Holes given up as they were proven lost.
    pub proven: u64,
    /// Holes given up because the buffer was full.
    pub overflows: u64,
    /// Packets held now.
    pub occupancy: u64,
    /// Bytes held now.
    pub occupancy_bytes: u64,
    /// Most packets ever held.
    pub occupancy_max: u64,
    /// The longest a hole may last now.
    pub wait: Duration,
    /// Packets by how long they were held: entry i counts those below 2^i ms, the last one all longer ones.
    pub held_for: [u64; HELD_BUCKETS],
}

impl ReorderStats {
    /// An upper bound, of steps of two, of how long 95 % of the held packets were held; `None` if it is beyond the last step.
    pub fn held_p95(&self) -> Option<Duration> {
        let total: u64 = self.held_for.iter().sum();
        let mut sum = 0;
        let within = |n: &u64| {
            sum += n;
            sum * 100 >= total * 95
        };
        match self.held_for.iter().position(within) {
            _ if total == 0 => Some(Duration::ZERO),
            Some(i) if i + 1 < HELD_BUCKETS => Some(Duration::from_millis(1 << i)),
            _ => None,
        }
    }
}

/// Puts packets in order. The memory it may hold is bounded.
pub trait Reorderer: Send + core::fmt::Debug {
    /// A packet arrived.
    fn push(&mut self, now: Time, arrival: Arrival, data: Vec<u8>);
    /// A packet without data arrived: tells what a gap of path numbers does not hold.
    fn on_other(&mut self, now: Time, path: PathId, path_seq: Seq, ndp: Option<u64>) {
        let _ = (now, path, path_seq, ndp);
    }
    /// It holds packets back for repairs once it is told how long these take, and never delivers duplicates.
    fn waits_for_repairs(&self) -> bool {
        false
    }
    /// What a path lost comes again within this time after it was missed.
    fn on_repair(&mut self, _wait: Duration) {}
    /// The peer's MP_SEQ go on from elsewhere: releases what is held and takes the next number as it comes.
    fn restart(&mut self, now: Time);
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
    /// Bytes held now.
    fn occupancy_bytes(&self) -> u64 {
        self.stats().occupancy_bytes
    }
    /// Counters.
    fn stats(&self) -> ReorderStats;
}
