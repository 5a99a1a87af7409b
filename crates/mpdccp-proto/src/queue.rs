//! The one short send queue of a session: bounded by sojourn time and size, drops at its head, counts every drop.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use units::{Duration, Time};

/// Bounds of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    ///
    /// Fragments of a datagram hash by addresses and protocol alone, as only the first carries ports.
    pub fn of_ip(packet: &[u8]) -> PktInfo {
        let mut info = PktInfo { len: packet.len(), ..PktInfo::default() };
        let (addresses, protocol, ports) = match packet.first().map(|b| b >> 4) {
            Some(4) if packet.len() >= 20 => {
                info.dscp = packet[1] >> 2;
                let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
                let header = usize::from(packet[0] & 15) * 4;
                (&packet[12..20], packet[9], if fragment { None } else { packet.get(header..header + 4) })
            }
            Some(6) if packet.len() >= 40 => {
                info.dscp = (u16::from_be_bytes([packet[0], packet[1]]) >> 6) as u8 & 0x3f;
                (&packet[8..40], packet[6], packet.get(40..44))
            }
            _ => return info,
        };
        // Ports are where they are in TCP, UDP, DCCP and SCTP alike; elsewhere the bytes are no port.
        let ports = ports.filter(|_| matches!(protocol, 6 | 17 | 33 | 132)).unwrap_or(&[]);
        let hash = addresses.iter().chain(&[protocol]).chain(ports).fold(0x811c_9dc5u32, |h, b| {
            (h ^ u32::from(*b)).wrapping_mul(0x0100_0193) // FNV-1a
        });
        info.flow = hash.max(1);
        info
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
pub struct SendQueue {
    cfg: QueueConfig,
    packets: VecDeque<Queued>,
    bytes: usize,
    stats: QueueStats,
}

impl SendQueue {
    /// Empty.
    pub fn new(cfg: QueueConfig) -> SendQueue {
        SendQueue { cfg, packets: VecDeque::new(), bytes: 0, stats: QueueStats::default() }
    }

    /// Takes a packet in, dropping at the head as needed: the oldest is worth least to whoever waits for it, and its
    /// loss is seen soonest.
    pub fn push(&mut self, now: Time, data: Vec<u8>, info: PktInfo) {
        while !self.packets.is_empty()
            && (self.bytes + data.len() > self.cfg.max_bytes || self.packets.len() >= self.cfg.max_packets)
        {
            self.pop();
            self.stats.dropped_full += 1;
        }
        self.bytes += data.len();
        self.stats.accepted += 1;
        self.packets.push_back(Queued { info, at: now, data });
    }

    /// Drops what is too old, then shows the head.
    pub fn head(&mut self, now: Time) -> Option<&Queued> {
        while self.packets.front().is_some_and(|p| now.since(p.at) > self.cfg.max_sojourn) {
            self.pop();
            self.stats.dropped_old += 1;
        }
        self.packets.front()
    }

    /// Takes the head.
    pub fn pop(&mut self) -> Option<Queued> {
        let p = self.packets.pop_front()?;
        self.bytes -= p.data.len();
        Some(p)
    }

    /// Drops the head: no path can carry a packet of its size.
    pub fn drop_too_big(&mut self) {
        if self.pop().is_some() {
            self.stats.dropped_too_big += 1;
        }
    }

    /// When the head becomes too old, so that it is dropped (and counted) even if no path ever opens.
    pub fn next_expiry(&self) -> Option<Time> {
        self.packets.front().map(|p| p.at + self.cfg.max_sojourn + Duration::from_nanos(1))
    }

    /// The backlog.
    pub fn view(&self, now: Time) -> QueueView {
        QueueView {
            packets: u32::try_from(self.packets.len()).unwrap_or(u32::MAX),
            bytes: self.bytes as u64,
            oldest: self.packets.front().map_or(Duration::ZERO, |p| now.since(p.at)),
        }
    }

    /// Counters.
    pub fn stats(&self) -> QueueStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn queue() -> SendQueue {
        SendQueue::new(QueueConfig { max_bytes: 100, max_packets: 3, max_sojourn: Duration::from_millis(10) })
    }

    fn put(q: &mut SendQueue, ms: u64, len: usize, tag: u8) {
        q.push(Time::from_millis(ms), vec![tag; len], PktInfo { len, ..PktInfo::default() });
    }

    #[test]
    fn drops_at_the_head_when_full() {
        let mut q = queue();
        for tag in 0..4 {
            put(&mut q, 0, 10, tag);
        }
        assert_eq!(q.stats().dropped_full, 1, "a fourth packet");
        put(&mut q, 0, 90, 4);
        assert_eq!(q.stats().dropped_full, 3, "bytes");
        assert_eq!(q.view(Time::ZERO), QueueView { packets: 2, bytes: 100, oldest: Duration::ZERO });
        assert_eq!(q.pop().unwrap().data[0], 3);
        put(&mut q, 0, 500, 5);
        assert_eq!(q.view(Time::ZERO).packets, 1, "one packet is always taken");
    }

    #[test]
    fn drops_what_is_too_old() {
        let mut q = queue();
        put(&mut q, 0, 10, 0);
        put(&mut q, 5, 10, 1);
        assert_eq!(q.head(Time::from_millis(10)).unwrap().data[0], 0, "exactly the limit is not too old");
        assert!(q.next_expiry().unwrap() > Time::from_millis(10));
        assert_eq!(q.head(q.next_expiry().unwrap()).unwrap().data[0], 1);
        assert_eq!(q.stats().dropped_old, 1);
        assert!(q.head(Time::from_millis(100)).is_none());
        assert_eq!(q.stats(), QueueStats { accepted: 2, dropped_old: 2, ..QueueStats::default() });
        q.drop_too_big();
        assert_eq!(q.stats().dropped_too_big, 0, "nothing there to drop");
    }

    #[test]
    fn flows_are_told_apart_by_addresses_protocol_and_ports() {
        let mut v4 = vec![0u8; 40];
        v4[..2].copy_from_slice(&[0x45, 46 << 2]);
        v4[9] = 17;
        v4[20..24].copy_from_slice(&[1, 2, 3, 4]);
        let a = PktInfo::of_ip(&v4);
        assert_eq!((a.len, a.dscp), (40, 46));
        v4[23] = 5;
        assert_ne!(PktInfo::of_ip(&v4).flow, a.flow, "another port");
        v4[6] = 0x20;
        let fragment = PktInfo::of_ip(&v4).flow;
        v4[23] = 6;
        assert_eq!(PktInfo::of_ip(&v4).flow, fragment, "fragments have no ports");
        let mut v6 = vec![0u8; 44];
        v6[..2].copy_from_slice(&[0x6b, 0x80]);
        v6[6] = 6;
        let b = PktInfo::of_ip(&v6);
        assert_eq!(b.dscp, 46);
        v6[43] = 1;
        assert_ne!(PktInfo::of_ip(&v6).flow, b.flow);
    }

    #[test]
    fn short_or_strange_packets_are_flow_zero() {
        for bytes in [&[][..], &[0x45; 19], &[0x60; 39], &[0x10; 60]] {
            assert_eq!(PktInfo::of_ip(bytes).flow, 0);
        }
        assert_ne!(
            PktInfo::of_ip(&[0x4f; 20]).flow,
            0,
            "header length beyond the packet: no ports, no panic"
        );
    }
}
