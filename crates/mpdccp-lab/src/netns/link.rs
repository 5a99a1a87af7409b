//! One path: a thread that carries packets between two TUN devices through the emulator.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use dccp_net::{Clock, Tun};
use linkem::{Link, Meta, Verdict};
use mpdccp_proto::PktInfo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use units::{Ecn, Time};

use super::priority::{Urgency, hurry};
use super::tag::Tag;
use crate::LabError;
use crate::record::{Fate, LinkPacket, LinkRecord, PathRecord};
use crate::scenario::link::loss_model;
use crate::scenario::{PathEvent, PathSpec};

/// Packets read from a device before the other one gets its turn.
const BURST: usize = 64;
/// The thread looks at its orders at least this often.
const NAP: Duration = Duration::from_millis(50);
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
        seed: u64,
        client: Tun,
        server: Tun,
    ) -> Result<RunningLink, LabError> {
        let shared = Arc::new(Shared::default());
        let make = |device, seed| Direction::new(spec, seed, device, Clock.now());
        let directions = [make(client, seed)?, make(server, seed ^ 1)?];
        let path = Path {
            name: spec.name.as_ref().clone(),
            directions,
            events: spec.events.clone(),
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

/// One direction: from `device` through the emulator to the other direction's device.
struct Direction {
    device: Tun,
    link: Link<(usize, Vec<u8>)>,
    record: LinkRecord,
}

impl Direction {
    fn new(spec: &PathSpec, seed: u64, device: Tun, now: Time) -> Result<Direction, LabError> {
        let link = Link::new(spec.link(), seed, now).map_err(|e| LabError::failed("making a link", e))?;
        Ok(Direction { device, link, record: LinkRecord::default() })
    }

    /// Takes what the device has, up to [`BURST`] packets.
    fn read(&mut self, buf: &mut [u8]) -> Result<u64, LabError> {
        let mut bytes = 0;
        for _ in 0..BURST {
            let Some(n) =
                self.device.read(buf).map_err(|e| LabError::failed("reading a link's device", e))?
            else {
                break;
            };
            let packet = &buf[..n];
            let now = Clock.now();
            bytes += n as u64;
            let meta = Meta { bytes: n as u32, ecn: ecn(packet), flow: PktInfo::of_ip(packet).flow };
            let index = self.record.packets.len();
            let verdict = self.link.push(now, meta, (index, packet.to_vec()));
            self.record.packets.push(LinkPacket {
                entered: now,
                // Until it comes out at the other end.
                fate: if verdict == Verdict::Queued { Fate::Lost } else { Fate::QueueDrop },
                bytes: n as u32,
                data: Tag::read(packet).map(|tag| (tag.flow, tag.seq)),
                queue_bytes: u32::try_from(self.link.queue_len().bytes).unwrap_or(u32::MAX),
                ce: false,
            });
        }
        Ok(bytes)
    }

    /// Hands what is due to `to`.
    fn write(&mut self, to: &Tun) -> Result<(), LabError> {
        while let Some(out) = self.link.pop(Clock.now()) {
            let (index, packet) = out.packet;
            // A full socket or a device going away is the kernel's own loss, recorded as such.
            if to.write(&packet).is_ok() {
                let now = Clock.now();
                self.record.packets[index].fate = Fate::Delivered(now);
                self.record.lateness_ns.push(u32::try_from(now.since(out.at).as_nanos()).unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }

    fn apply(&mut self, now: Time, event: &PathEvent) -> Result<(), LabError> {
        if let Some(rate) = event.rate {
            self.link.set_rate(now, rate);
        }
        if let Some(owd) = event.owd {
            self.link.set_delay(now, owd);
        }
        if let Some(loss) = event.loss {
            self.link
                .set_loss(now, loss_model(loss))
                .map_err(|e| LabError::failed("an event of a link", e))?;
        }
        match event.up {
            Some(true) => self.link.set_up(now),
            Some(false) => self.link.set_down(now),
            None => {}
        }
        Ok(())
    }
}

struct Path {
    name: String,
    /// Client to server, server to client.
    directions: [Direction; 2],
    events: Vec<PathEvent>,
    shared: Arc<Shared>,
}

impl Path {
    fn run(mut self) -> Result<PathRecord, LabError> {
        hurry(Urgency::Link);
        let mut buf = vec![0; usize::from(MTU) + 64];
        let mut next_event = 0;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let event_at = self.event_at(next_event);
            if let Some(at) = event_at.filter(|at| *at <= Clock.now()) {
                for direction in &mut self.directions {
                    direction.apply(at, &self.events[next_event])?;
                }
                next_event += 1;
                continue;
            }
            self.wait(event_at)?;
            let bytes = self.directions[0].read(&mut buf)?;
            self.shared.forward_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.directions[1].read(&mut buf)?;
            let [forward, backward] = &mut self.directions;
            forward.write(&backward.device)?;
            backward.write(&forward.device)?;
        }
        let [forward, backward] = self.directions.map(|d| d.record);
        Ok(PathRecord { name: self.name, forward, backward })
    }

    /// When event `index` happens, if it is known.
    fn event_at(&self, index: usize) -> Option<Time> {
        let start = Some(self.shared.start.load(Ordering::Relaxed)).filter(|start| *start > 0)?;
        let event = self.events.get(index)?;
        Some(Time::from_nanos(start) + Duration::from_secs_f64(*event.at_s.as_ref()))
    }

    /// Sleeps until a packet comes or something is due.
    fn wait(&self, event_at: Option<Time>) -> Result<(), LabError> {
        let due = self.directions.iter().filter_map(|d| d.link.next_event()).chain(event_at).min();
        let now = Clock.now();
        let nap = due.map_or(NAP, |due| due.since(now).min(NAP));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) };
        let mut fds = self.directions.each_ref().map(|d| PollFd::new(&d.device, PollFlags::IN));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(LabError::failed("waiting on a link", e)),
        }
    }
}

/// The ECN field of an IP packet.
fn ecn(packet: &[u8]) -> Ecn {
    match packet {
        [first, tos, ..] if first >> 4 == 4 => Ecn::from_bits(*tos),
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(first << 4 | second >> 4),
        _ => Ecn::NotEct,
    }
}
