//! Records events on the links, for the run's record and for the live view.

use std::collections::HashMap;

use mpdccp_linkem::Verdict;
use mpdccp_units::{Rate, Time};

use super::side::Side;
use super::world::LinkEvent;
use crate::{Fate, LinkPacket, LinkRecord, RunRecord, Sample};

/// Records every packet on every link.
#[derive(Default)]
pub(super) struct Links {
    /// Records by path and direction.
    pub(super) records: Vec<[LinkRecord; 2]>,
    /// Record index of each packet in flight, by the packet's identifier.
    under_way: HashMap<u64, usize>,
}

impl Links {
    pub(super) fn new(paths: usize) -> Links {
        let records = (0..paths).map(|_| Default::default()).collect();
        Links { records, under_way: HashMap::new() }
    }

    pub(super) fn on_event(&mut self, at: Time, path: usize, from: Side, event: LinkEvent) {
        let record = &mut self.records[path][from as usize];
        match event {
            LinkEvent::Entered { id, data, bytes, verdict, queue_bytes } => {
                if verdict == Verdict::Queued {
                    self.under_way.insert(id, record.packets.len());
                }
                // A packet counts as dropped by the queue until it is lost or arrives at the other end.
                let fate = Fate::QueueDrop;
                let queue_bytes = u32::try_from(queue_bytes).unwrap_or(u32::MAX);
                record.packets.push(LinkPacket { entered: at, fate, bytes, data, queue_bytes, ce: false });
            }
            LinkEvent::Left { id, marked } => {
                if let Some(place) = self.under_way.remove(&id) {
                    record.packets[place].fate = Fate::Delivered(at);
                    record.packets[place].ce = marked;
                }
            }
            LinkEvent::Lost { id } => {
                if let Some(place) = self.under_way.remove(&id) {
                    record.packets[place].fate = Fate::Lost;
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
