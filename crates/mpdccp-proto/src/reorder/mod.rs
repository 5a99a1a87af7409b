//! Reorderers deliver arriving packets in MP_SEQ order, or in order of arrival.
//!
//! Packets behind a hole in the MP_SEQ numbers are held until the hole is filled, is *proven lost*, or has
//! lasted too long.
//!
//! # When a hole is proven lost
//!
//! The sender assigns MP_SEQ numbers in the order in which it sends (late binding), so on each path both
//! MP_SEQ and path numbers (DCCP sequence numbers) rise. A path that has delivered MP_SEQ m, and that
//! preserves packet order, delivers no lower MP_SEQ afterwards: a lower number that was sent on it is lost.
//! Losses show as gaps in path numbers. A gap may contain
//! * packets without data: those that arrive are reported to the reorderer too, and the NDP Count of the
//!   next data packet accounts for the others;
//! * reordered packets: the gap is *settled* once some later packets have arrived on that path or some time
//!   has passed;
//! * data, with an MP_SEQ between those of the data before and after the gap.
//!
//! A path's *floor* is the MP_SEQ of the last data before its first unsettled gap, or that of the path's
//! newest data if there is no such gap. No MP_SEQ below the floor can arrive on that path any more. A hole is
//! proven lost when
//! 1. it lies below the floors of all paths that are up, or
//! 2. a settled gap on one path certainly held data (according to the next NDP Count), and only one number is
//!    missing between the MP_SEQ numbers before and after the gap. That number must then have been in the
//!    gap. This proof does not depend on other paths, so it works even if they are idle. It fails for copies
//!    sent on several paths, and if the gap held data without MP_SEQ (FEC and stream packets). It is
//!    therefore not used while duplicates or data without MP_SEQ arrive.
//!
//! An idle path has an old floor, which prevents the first proof. This is correct: the missing packet may be
//! the first of many on that path, so the timer decides. A path that is down does not count.
//!
//! # Flows
//!
//! The peer may send the distance to the previous packet of the same inner flow ([`Back`]). A packet is then
//! delivered as soon as the previous packet of its flow has been, even if packets of other flows are missing.
//! Losses in one flow therefore do not delay other flows.
//!
//! # How long an unproven hole may last
//!
//! A hole may last either for a fixed time, or for the recent lag of the paths that may still fill it. A
//! packet that fills a hole shows how far its path lags behind the path that revealed the hole.
//! Retransmissions do not count; their path has already delivered later packets. The measured lag is
//! the true difference between the one-way delays; half the difference between the RTTs is only an estimate.
//! The wait is the largest lag of the last few seconds, plus a margin. Until a lag has been measured, half
//! the difference to the smallest RTT takes its place. Lags above the maximum wait are ignored, because the
//! receiver never waits that long.

use crate::PathId;
use alloc::vec::Vec;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

mod active_fixed;
mod adaptive;
mod back;
mod buffer;
mod config;
mod equalised;
mod give_up;
mod newest;
mod passive;
mod recent;
mod track;

pub use back::Back;
pub(crate) use back::LastOfFlow;
pub use config::{ReorderConfig, ReorderKind};

/// Length of [`ReorderStats::held_for`].
pub(crate) const HELD_BUCKETS: usize = 12;

/// An arriving data packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// MP_SEQ of the packet.
    pub mp_seq: Seq,
    /// The path on which the packet arrived.
    pub path: PathId,
    /// DCCP sequence number of the packet on that path, or `None` if FEC restored the packet.
    pub path_seq: Option<Seq>,
    /// Number of packets without data directly before this packet on that path, if the peer sends NDP Counts.
    pub ndp: Option<u64>,
    /// Hash of the inner flow, 0 if unknown.
    pub flow: u32,
    /// Distance to the previous packet of the flow, if the peer sends it.
    pub back: Option<Back>,
}

#[cfg(test)]
impl Arrival {
    /// Returns packet `n` of the session, which is also packet `n` of its path.
    fn nth(path: u32, n: u64) -> Arrival {
        let (mp_seq, path) = (Seq::new(n), PathId(path));
        Arrival { mp_seq, path, path_seq: Some(mp_seq), ndp: None, flow: 0, back: None }
    }
}

/// Counters of a reorderer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderStats {
    /// Packets delivered in order, whether held before or not.
    pub in_order: u64,
    /// Packets that were held.
    pub held: u64,
    /// Packets delivered although earlier packets of other flows were missing. This requires that the peer
    /// sends the distance to the flow's previous packet.
    pub jumped: u64,
    /// Packets that arrived after their hole had been given up. They were delivered anyway.
    pub late: u64,
    /// Packets dropped because they had already been delivered or were already held, or because their MP_SEQ
    /// was more than 2^32 ahead.
    pub duplicates: u64,
    /// Holes given up by timeout.
    pub timeouts: u64,
    /// Holes given up because they were proven lost.
    pub proven: u64,
    /// Holes given up because the buffer was full.
    pub overflows: u64,
    /// Packets held now.
    pub occupancy: u64,
    /// Bytes held now.
    pub occupancy_bytes: u64,
    /// Maximum number of packets held at any time.
    pub occupancy_max: u64,
    /// Longest time that a hole may last now.
    pub wait: Duration,
    /// Packets by hold time. Entry i counts times below 2^i ms, and the last entry all longer times.
    pub held_for: [u64; HELD_BUCKETS],
}

impl ReorderStats {
    /// Returns an upper bound, a power of two, of the 95th percentile of hold times. Returns `None` if it is
    /// in the last bucket, which has no upper bound.
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

/// Restores the order of packets, in bounded memory.
pub trait Reorderer: Send + core::fmt::Debug {
    /// Adds an arriving packet.
    fn push(&mut self, now: Time, arrival: Arrival, data: Vec<u8>);
    /// A packet without MP_SEQ arrived. Its number and its NDP Count show which path numbers held no data.
    /// `data` says whether it carried data all the same, such as an FEC or stream packet.
    fn on_other(&mut self, now: Time, path: PathId, path_seq: Seq, ndp: Option<u64>, data: bool) {
        let _ = (now, path, path_seq, ndp, data);
    }
    /// Returns whether this reorderer supports repairs. If so, it drops duplicates, and after
    /// [`on_repair`](Self::on_repair) it waits for packets that a repair may still deliver.
    fn waits_for_repairs(&self) -> bool {
        false
    }
    /// The peer reports that a repair arrives within `wait` after its loss is seen.
    fn on_repair(&mut self, _wait: Duration) {}
    /// Releases all held packets because the peer's MP_SEQ jumped. The next packet may have any number.
    fn restart(&mut self, now: Time);
    /// Returns the next packet to deliver.
    fn pop(&mut self) -> Option<Vec<u8>>;
    /// The state or the round-trip time of a path changed. The round-trip time was reported in MP_RTT or
    /// measured here.
    fn on_path(&mut self, path: PathId, rtt: Option<Duration>, up: bool) {
        let _ = (path, rtt, up);
    }
    /// Returns when [`on_timeout`](Self::on_timeout) is due.
    fn next_timeout(&self) -> Option<Time>;
    /// Handles an expired timer.
    fn on_timeout(&mut self, now: Time);
    /// Returns the number of bytes held now.
    fn occupancy_bytes(&self) -> u64 {
        self.stats().occupancy_bytes
    }
    /// Counters.
    fn stats(&self) -> ReorderStats;
}
