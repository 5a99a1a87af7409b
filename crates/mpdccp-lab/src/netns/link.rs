//! Runs a path as a thread that emulates a link between two TUN devices and records every packet.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use dccp_net::{Clock, Tun};
use mpdccp_linkem::Verdict;
use mpdccp_units::Time;

use super::tag::Tag;
use crate::LabError;
use crate::links::change;
use crate::record::{Fate, LinkPacket, LinkRecord, PathRecord};
use crate::scenario::{LinkKeys, PathSpec};
use linkem_net::{Cable, Delivered, Recorder, Strand};
use linkem_net::{Urgency, hurry};

/// Largest packet of a path.
pub(super) const MTU: u16 = 1500;

/// A flow, as a link sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortFlow {
    /// Additional delay.
    pub(super) owd: Duration,
    /// Number of the flow in the records of its TCP segments with data. `None` if they have none.
    pub(super) number: Option<u16>,
    /// Number of these segments so far.
    pub(super) segments: u64,
}

/// State shared with a link thread.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// t = 0 in nanoseconds, or 0 until it is known.
    start: AtomicU64,
    stop: AtomicBool,
    /// Outer bytes offered so far from client to server.
    pub(super) forward_bytes: AtomicU64,
}

/// A running path.
pub(super) struct RunningLink {
    pub(super) shared: Arc<Shared>,
    /// Indices of the paths that the link carries.
    pub(super) places: Vec<usize>,
    /// The thread, or `None` once joined.
    thread: Option<JoinHandle<Result<Vec<PathRecord>, LabError>>>,
}

impl RunningLink {
    /// Starts a link between `client` and `server`. The link carries all of `paths`, and has the properties
    /// of the first path. `flows` are all flows, by server port.
    pub(super) fn start(
        paths: &[(usize, &PathSpec)],
        flows: &HashMap<u16, PortFlow>,
        (seeds, end_s): ([u64; 2], f64),
        client: Tun,
        server: Tun,
    ) -> Result<RunningLink, LabError> {
        let shared = Arc::new(Shared::default());
        let Some((_, spec)) = paths.first() else {
            return Err(LabError::Failed("a link has no path".to_owned()));
        };
        let places: Vec<usize> = paths.iter().map(|(place, _)| *place).collect();
        let strand = |device, config, way: usize| {
            let records = places.iter().map(|place| (*place, LinkRecord::default())).collect();
            let recorder = Watch { reverse: way == 1, records, flows: flows.clone(), latest: 0 };
            Strand { device, config, seed: seeds[way], recorder }
        };
        let begin = spec.ways_before_start();
        let [forward, reverse] = begin.each_ref().map(LinkKeys::config);
        let ends = [strand(client, forward, 0), strand(server, reverse, 1)];
        let cable = Cable::new(ends).map_err(|e| LabError::failed("cannot create a link", e))?;
        let path = Path {
            names: paths.iter().map(|(_, path)| path.name.as_ref().clone()).collect(),
            cable,
            events: spec.course_with_models(end_s),
            begin,
            shared: shared.clone(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("link {}", spec.name.as_ref()))
            .spawn(move || path.run())
            .map_err(|e| LabError::failed("cannot start a link", e))?;
        Ok(RunningLink { shared, places, thread: Some(thread) })
    }

    /// Sets the time of t = 0. This time must be so far in the future that the thread learns of it before the
    /// first event.
    pub(super) fn set_start(&self, start: Time) {
        self.shared.start.store(start.as_nanos(), Ordering::Relaxed);
    }

    /// Stops the link, and returns the record of each of its paths.
    pub(super) fn finish(mut self) -> Result<Vec<PathRecord>, LabError> {
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
    /// Index of the packet in `packets`.
    type Mark = usize;

    fn on_packet(&mut self, now: Time, packet: &[u8]) -> usize {
        self.packets.push(LinkPacket {
            entered: now,
            // A packet counts as dropped by the queue until it is lost or arrives at the other end.
            fate: Fate::QueueDrop,
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

    fn on_lost(&mut self, mark: usize) {
        let fate = &mut self.packets[mark].fate;
        // Another copy of the packet may have arrived.
        if *fate == Fate::QueueDrop {
            *fate = Fate::Lost;
        }
    }

    fn on_refused(&mut self, mark: usize) {
        self.on_lost(mark);
        self.device_drops += 1;
    }

    fn on_verdict(&mut self, _: Verdict, queued: u64) {
        if let Some(packet) = self.packets.last_mut() {
            packet.queue_bytes = u32::try_from(queued).unwrap_or(u32::MAX);
        }
    }

    fn on_delivered(&mut self, delivered: Delivered<usize>) {
        let Delivered { mark, due, now, ce } = delivered;
        let packet = &mut self.packets[mark];
        // Only the first copy of a duplicated packet counts.
        if !matches!(packet.fate, Fate::Delivered(_)) {
            (packet.fate, packet.ce) = (Fate::Delivered(now), ce);
        }
        self.lateness_ns.push(u32::try_from(now.since(due).as_nanos()).unwrap_or(u32::MAX));
    }
}

/// Returns the length of a packet's IPv4 header.
fn ip_header(packet: &[u8]) -> usize {
    packet.first().map_or(0, |byte| usize::from(byte & 15) * 4)
}

/// Watches one direction of a link, and keeps separate records for the link's paths.
struct Watch {
    /// Whether the direction is from server to client.
    reverse: bool,
    /// The records, each with its path's index.
    records: Vec<(usize, LinkRecord)>,
    /// The flows, by server port.
    flows: HashMap<u16, PortFlow>,
    /// Index in `records` of the path that the newest packet belongs to.
    latest: usize,
}

impl Watch {
    fn latest(&mut self) -> &mut LinkRecord {
        &mut self.records[self.latest].1
    }

    /// Returns a packet's server port, if the packet belongs to one of the flows.
    fn port(&self, packet: &[u8]) -> Option<u16> {
        let port = packet.get(ip_header(packet) + if self.reverse { 0 } else { 2 }..)?.first_chunk()?;
        Some(u16::from_be_bytes(*port)).filter(|port| self.flows.contains_key(port))
    }

    /// Returns the flow and number of a TCP segment with data. As in the simulator, the number counts
    /// transmissions.
    fn segment(&mut self, packet: &[u8]) -> Option<(u16, u64)> {
        let tcp = ip_header(packet);
        let headers = tcp + usize::from(*packet.get(tcp + 12)? >> 4) * 4;
        if packet[9] != 6 || packet.len() <= headers {
            return None;
        }
        let port = self.port(packet)?;
        let flow = self.flows.get_mut(&port)?;
        flow.segments += 1;
        Some((flow.number?, flow.segments - 1))
    }
}

impl Recorder for Watch {
    /// Index of the path's record, and index of the packet in this record.
    type Mark = (usize, usize);

    fn on_packet(&mut self, now: Time, packet: &[u8]) -> (usize, usize) {
        // The third byte of an address is the path's index.
        let place = packet.get(18).map(|byte| usize::from(*byte));
        self.latest = self.records.iter().position(|(own, _)| Some(*own) == place).unwrap_or(0);
        let mark = self.latest().on_packet(now, packet);
        let segment = self.segment(packet);
        let data = &mut self.latest().packets[mark].data;
        *data = data.or(segment);
        (self.latest, mark)
    }

    fn detour(&self, packet: &[u8]) -> Duration {
        self.port(packet).map_or(Duration::ZERO, |port| self.flows[&port].owd)
    }

    fn on_taken_late(&mut self, waited: Duration) {
        self.latest().on_taken_late(waited);
    }

    fn on_lost(&mut self, (path, packet): (usize, usize)) {
        self.records[path].1.on_lost(packet);
    }

    fn on_refused(&mut self, (path, packet): (usize, usize)) {
        self.records[path].1.on_refused(packet);
    }

    fn on_verdict(&mut self, verdict: Verdict, queued: u64) {
        self.latest().on_verdict(verdict, queued);
    }

    fn on_delivered(&mut self, delivered: Delivered<(usize, usize)>) {
        let Delivered { mark: (path, mark), due, now, ce } = delivered;
        self.records[path].1.on_delivered(Delivered { mark, due, now, ce });
    }
}

struct Path {
    /// Names of the link's paths.
    names: Vec<String>,
    /// The two directions of the link: client to server, then server to client.
    cable: Cable<Watch>,
    /// State of the link after each event, with the event's time in seconds after t = 0.
    events: Vec<(f64, [LinkKeys; 2])>,
    /// State of the link before t = 0.
    begin: [LinkKeys; 2],
    shared: Arc<Shared>,
}

impl Path {
    fn run(mut self) -> Result<Vec<PathRecord>, LabError> {
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
            self.cable.turn(event_at).map_err(|e| LabError::failed("cannot carry packets over a link", e))?;
            let offered = self.cable.links()[0].stats().offered.bytes;
            self.shared.forward_bytes.store(offered, Ordering::Relaxed);
        }
        let [forward, reverse] = self.cable.into_recorders().map(|watch| watch.records.into_iter());
        let records = self.names.into_iter().zip(forward.zip(reverse));
        Ok(records
            .map(|(name, ((_, forward), (_, reverse)))| PathRecord { name, forward, reverse })
            .collect())
    }

    /// Returns the time of event `index`, or `None` if t = 0 is not yet known or there is no such event.
    fn event_at(&self, index: usize) -> Option<Time> {
        let start = Some(self.shared.start.load(Ordering::Relaxed)).filter(|start| *start > 0)?;
        let (at_s, _) = self.events.get(index)?;
        Some(Time::from_nanos(start) + Duration::from_secs_f64(*at_s))
    }

    fn change(&mut self, now: Time, ways: &[LinkKeys; 2]) -> Result<(), LabError> {
        self.cable.links().into_iter().zip(ways).try_for_each(|(link, keys)| change(link, now, keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simulator also records the arrival of the first copy.
    #[test]
    fn a_packet_that_arrives_twice_has_arrived_with_its_first_copy() {
        let ms = Time::from_millis;
        let mut record = LinkRecord::default();
        let mark = record.on_packet(ms(0), &[0; 40]);
        for (at, ce) in [(10, true), (30, false)] {
            record.on_delivered(Delivered { mark, due: ms(at), now: ms(at), ce });
        }
        record.on_refused(mark);
        let packet = record.packets[0];
        assert_eq!((packet.fate, packet.ce), (Fate::Delivered(ms(10)), true));
        assert_eq!((record.lateness_ns.len(), record.device_drops), (2, 1));
    }

    /// The simulator also knows the flow of every segment, so that judging a flow does not count the others'.
    #[test]
    fn tcp_segments_with_data_belong_to_the_flow_of_their_port() {
        let packet = |port: u16, protocol: u8, data: usize| {
            let mut packet = vec![0; 40 + data];
            (packet[0], packet[9], packet[32]) = (0x45, protocol, 0x50);
            packet[22..24].copy_from_slice(&port.to_be_bytes());
            packet
        };
        let flow = |number| PortFlow { number, ..PortFlow::default() };
        let flows = HashMap::from([(5001, flow(Some(0))), (5002, flow(Some(u16::MAX))), (5003, flow(None))]);
        let records = vec![(0, LinkRecord::default())];
        let mut watch = Watch { reverse: false, records, flows, latest: 0 };
        let packets = [
            packet(5001, 6, 0),
            packet(5001, 6, 100),
            packet(5002, 6, 100),
            packet(5001, 6, 1),
            packet(5003, 6, 100),
            packet(6511, 6, 100),
            packet(5001, 17, 100),
            vec![0x45; 4],
        ];
        packets.iter().for_each(|packet| _ = watch.on_packet(Time::ZERO, packet));
        let data: Vec<_> = watch.records[0].1.packets.iter().map(|packet| packet.data).collect();
        let own = |number: u64| Some((0u16, number));
        assert_eq!(data, [None, own(0), Some((u16::MAX, 0)), own(1), None, None, None, None]);
    }
}
