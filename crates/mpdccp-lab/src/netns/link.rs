//! One path: a thread that runs a cable between two TUN devices and records every packet.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use dccp_net::{Clock, Tun};
use linkem::Verdict;
use units::Time;

use super::tag::Tag;
use crate::LabError;
use crate::links::change;
use crate::record::{Fate, LinkPacket, LinkRecord, PathRecord};
use crate::scenario::{LinkKeys, PathSpec};
use linkem_net::{Cable, Delivered, Recorder, Strand};
use linkem_net::{Urgency, hurry};

/// Largest packet of a path.
pub(super) const MTU: u16 = 1500;

/// What a link thread and the others share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Nanoseconds of t = 0; 0 while it is not known.
    start: AtomicU64,
    stop: AtomicBool,
    /// Outer bytes offered from client to server so far.
    pub(super) forward_bytes: AtomicU64,
}

/// A running path.
pub(super) struct RunningLink {
    pub(super) shared: Arc<Shared>,
    /// None once it was joined.
    thread: Option<JoinHandle<Result<PathRecord, LabError>>>,
}

impl RunningLink {
    /// Starts carrying packets between `client` and `server`.
    pub(super) fn start(
        spec: &PathSpec,
        (seed, end_s): (u64, f64),
        client: Tun,
        server: Tun,
    ) -> Result<RunningLink, LabError> {
        let shared = Arc::new(Shared::default());
        let strand = |device, config, seed| Strand { device, config, seed, recorder: LinkRecord::default() };
        let [there, back] = spec.ways.each_ref().map(LinkKeys::config);
        let ends = [strand(client, there, seed), strand(server, back, seed ^ 1)];
        let cable = Cable::new(ends).map_err(|e| LabError::failed("making a link", e))?;
        let path = Path {
            name: spec.name.as_ref().clone(),
            cable,
            events: spec.course_with_models(end_s),
            begin: spec.ways.clone(),
            shared: shared.clone(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("link {}", path.name))
            .spawn(move || path.run())
            .map_err(|e| LabError::failed("starting a link", e))?;
        Ok(RunningLink { shared, thread: Some(thread) })
    }

    /// Says when t = 0 is; must lie far enough ahead for the thread to notice.
    pub(super) fn set_start(&self, start: Time) {
        self.shared.start.store(start.as_nanos(), Ordering::Relaxed);
    }

    /// Stops it and takes what it recorded.
    pub(super) fn finish(mut self) -> Result<PathRecord, LabError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(record)) => record,
            _ => Err(LabError::Failed("a link thread panicked".to_owned())),
        }
    }
}

impl Drop for RunningLink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Recorder for LinkRecord {
    /// Index in `packets`.
    type Mark = usize;

    fn on_packet(&mut self, now: Time, packet: &[u8]) -> usize {
        self.packets.push(LinkPacket {
            entered: now,
            // Until it comes out at the other end. What the kernel does not take there stays lost.
            fate: Fate::Lost,
            bytes: packet.len() as u32,
            data: Tag::read(packet).map(|tag| (tag.flow, tag.seq)),
            queue_bytes: 0,
            ce: false,
        });
        self.packets.len() - 1
    }

    fn on_taken_late(&mut self, waited: Duration) {
        self.read_late_ns.push(u32::try_from(waited.as_nanos()).unwrap_or(u32::MAX));
    }

    fn on_refused(&mut self, _: usize) {
        self.device_drops += 1;
    }

    fn on_verdict(&mut self, verdict: Verdict, queued: u64) {
        if let Some(packet) = self.packets.last_mut() {
            packet.queue_bytes = u32::try_from(queued).unwrap_or(u32::MAX);
            if verdict != Verdict::Queued {
                packet.fate = Fate::QueueDrop;
            }
        }
    }

    fn on_delivered(&mut self, delivered: Delivered<usize>) {
        let Delivered { mark, due, now, ce } = delivered;
        let packet = &mut self.packets[mark];
        (packet.fate, packet.ce) = (Fate::Delivered(now), ce);
        self.lateness_ns.push(u32::try_from(now.since(due).as_nanos()).unwrap_or(u32::MAX));
    }
}

struct Path {
    name: String,
    /// Client to server, server to client.
    cable: Cable<LinkRecord>,
    /// What it is from each moment on, seconds after t = 0.
    events: Vec<(f64, [LinkKeys; 2])>,
    /// What it is before.
    begin: [LinkKeys; 2],
    shared: Arc<Shared>,
}

impl Path {
    fn run(mut self) -> Result<PathRecord, LabError> {
        hurry(Urgency::Link);
        self.change(Clock.now(), &self.begin.clone())?;
        let mut next_event = 0;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let event_at = self.event_at(next_event);
            if let Some(at) = event_at.filter(|at| *at <= Clock.now()) {
                self.change(at, &self.events[next_event].1.clone())?;
                next_event += 1;
                continue;
            }
            self.cable.turn(event_at).map_err(|e| LabError::failed("carrying packets over a link", e))?;
            let offered = self.cable.links()[0].stats().offered.bytes;
            self.shared.forward_bytes.store(offered, Ordering::Relaxed);
        }
        let [forward, backward] = self.cable.into_recorders();
        Ok(PathRecord { name: self.name, forward, backward })
    }

    /// When event `index` happens, if it is known.
    fn event_at(&self, index: usize) -> Option<Time> {
        let start = Some(self.shared.start.load(Ordering::Relaxed)).filter(|start| *start > 0)?;
        let (at_s, _) = self.events.get(index)?;
        Some(Time::from_nanos(start) + Duration::from_secs_f64(*at_s))
    }

    fn change(&mut self, now: Time, ways: &[LinkKeys; 2]) -> Result<(), LabError> {
        self.cable.links().into_iter().zip(ways).try_for_each(|(link, keys)| change(link, now, keys))
    }
}
