//! Records events on the links, for the run's record and for the live view.

use mpdccp_units::{Rate, Time};

use super::side::Side;
use super::world::LinkEvent;
use crate::{Fate, LinkPacket, LinkRecord, RunRecord, Sample};

/// Records every packet on every link.
#[derive(Default)]
pub(super) struct Links {
    /// Records by path and direction. A packet's number is its index in its record.
    pub(super) records: Vec<[LinkRecord; 2]>,
}

impl Links {
    pub(super) fn new(paths: usize) -> Links {
        Links { records: (0..paths).map(|_| Default::default()).collect() }
    }

    pub(super) fn on_event(&mut self, at: Time, path: usize, from: Side, event: LinkEvent) {
        let record = &mut self.records[path][from as usize];
        // Of the copies of a packet, only the first counts.
        let under_way = |p: &&mut LinkPacket| p.fate == Fate::QueueDrop;
        match event {
            LinkEvent::Entered { data, bytes, queue_bytes } => {
                // A packet counts as dropped by the queue until it is lost or arrives at the other end.
                let fate = Fate::QueueDrop;
                let queue_bytes = u32::try_from(queue_bytes).unwrap_or(u32::MAX);
                record.packets.push(LinkPacket { entered: at, fate, bytes, data, queue_bytes, ce: false });
            }
            LinkEvent::Left { number, marked } => {
                if let Some(packet) = record.packets.get_mut(number).filter(under_way) {
                    (packet.fate, packet.ce) = (Fate::Delivered(at), marked);
                }
            }
            LinkEvent::Lost { number } => {
                if let Some(packet) = record.packets.get_mut(number).filter(under_way) {
                    packet.fate = Fate::Lost;
                }
            }
        }
    }
}

/// Length of each record when the last sample was taken.
#[derive(Default)]
pub(super) struct Progress {
    at: Option<Time>,
    received: Vec<usize>,
    entered: Vec<usize>,
}

impl Progress {
    pub(super) fn sample(&mut self, now: Time, record: &RunRecord, links: &Links) -> Sample {
        let span = now.since(self.at.replace(now).unwrap_or(record.start));
        let mbps = |bytes: u64| Rate::from_bytes_per(bytes, span).mbps();
        self.received.resize(record.flows.len(), 0);
        self.entered.resize(links.records.len(), 0);
        let (mut bytes, mut latency_ms) = (0, None);
        for (flow, seen) in record.flows.iter().zip(&mut self.received) {
            bytes += flow.received[*seen..].iter().map(|p| u64::from(p.bytes)).sum::<u64>();
            *seen = flow.received.len();
            let last = flow.received.last().and_then(|last| Some((last, flow.sent.get(last.seq as usize)?)));
            if let Some((last, sent)) = last {
                latency_ms = Some(last.at.since(sent.at).as_secs_f64() * 1e3);
            }
        }
        let path_mbps = links.records.iter().zip(&mut self.entered).map(|([forward, _], seen)| {
            let new = &forward.packets[*seen..];
            *seen = forward.packets.len();
            mbps(new.iter().map(|p| u64::from(p.bytes)).sum())
        });
        Sample {
            t: now.since(record.start),
            rx_mbps: mbps(bytes),
            latency_ms,
            path_mbps: path_mbps.collect(),
        }
    }
}
