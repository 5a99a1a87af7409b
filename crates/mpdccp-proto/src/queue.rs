//! The one short send queue of a session: bounded by sojourn time and bytes, drops at its head, counts every drop.

use alloc::vec::Vec;
use units::{Duration, Time};

/// Bounds of the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueConfig {
    /// Most bytes.
    pub max_bytes: usize,
    /// Most packets.
    pub max_packets: usize,
    /// Longest stay.
    pub max_sojourn: Duration,
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        QueueConfig { max_bytes: 1 << 20, max_packets: 4096, max_sojourn: Duration::from_millis(100) }
    }
}

/// What is known of a packet without its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PktInfo {
    /// Payload bytes.
    pub len: usize,
    /// Hash of the inner flow, 0 if unknown.
    pub flow: u32,
    /// DSCP of the inner packet.
    pub dscp: u8,
}

impl PktInfo {
    /// Reads addresses, protocol, ports and DSCP of an IPv4 or IPv6 packet; anything else is flow 0.
    pub fn of_ip(packet: &[u8]) -> PktInfo {
        let _ = packet;
        todo!()
    }
}

/// The backlog as a scheduler sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct QueueView {
    pub packets: u32,
    pub bytes: u64,
    pub oldest: Duration,
}

/// Counters of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets taken in.
    pub accepted: u64,
    /// Dropped at the head to make room.
    pub dropped_full: u64,
    /// Dropped at the head for age.
    pub dropped_old: u64,
    /// Larger than any path can carry.
    pub dropped_too_big: u64,
}

/// A packet waiting.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Queued {
    pub info: PktInfo,
    pub at: Time,
    pub data: Vec<u8>,
}

/// The queue.
#[derive(Debug)]
pub struct SendQueue {}

impl SendQueue {
    /// Empty.
    pub fn new(cfg: QueueConfig) -> SendQueue {
        let _ = cfg;
        todo!()
    }
    /// Takes a packet in, dropping at the head as needed.
    pub fn push(&mut self, now: Time, data: Vec<u8>, info: PktInfo) {
        let _ = (now, data, info);
        todo!()
    }
    /// Drops what is too old, then shows the head.
    pub fn head(&mut self, now: Time) -> Option<&Queued> {
        let _ = now;
        todo!()
    }
    /// Takes the head.
    pub fn pop(&mut self) -> Option<Queued> {
        todo!()
    }
    /// Drops the head: no path can carry a packet of its size.
    pub fn drop_too_big(&mut self) {
        todo!()
    }
    /// The backlog.
    pub fn view(&self, now: Time) -> QueueView {
        let _ = now;
        todo!()
    }
    /// Counters.
    pub fn stats(&self) -> QueueStats {
        todo!()
    }
}
