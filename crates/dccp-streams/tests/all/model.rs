//! Tests many streams over paths that lose, duplicate and reorder packets, fail and recover. Compares the
//! bytes read with the bytes written.

use crate::common::{Link, Net};
use dccp_streams::{Config, Event, Reason, StreamError, StreamId};
use mpdccp_units::Duration;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// An action by an application or the network.
#[derive(Clone, Debug)]
enum Step {
    Open(usize, u8),
    Write(usize, usize, usize),
    Finish(usize, usize),
    Reset(usize, usize),
    Stop(usize, usize),
    Read(usize, usize),
    Run(u64),
    Die(usize),
    Vanish(usize),
    Live(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (end, stream, link) = (0usize..2, 0usize..12, 0usize..3);
    let step = prop_oneof![
        2 => (end.clone(), 0u8..8).prop_map(|(e, p)| Step::Open(e, p)),
        8 => (end.clone(), stream.clone(), 0usize..60_000).prop_map(|(e, s, n)| Step::Write(e, s, n)),
        2 => (end.clone(), stream.clone()).prop_map(|(e, s)| Step::Finish(e, s)),
        1 => (end.clone(), stream.clone()).prop_map(|(e, s)| Step::Reset(e, s)),
        1 => (end.clone(), stream.clone()).prop_map(|(e, s)| Step::Stop(e, s)),
        4 => (end, stream).prop_map(|(e, s)| Step::Read(e, s)),
        8 => (1u64..80).prop_map(Step::Run),
        1 => link.clone().prop_map(Step::Die),
        1 => link.clone().prop_map(Step::Vanish),
        2 => link.prop_map(Step::Live),
    ];
    prop::collection::vec(step, 1..120)
}

/// One direction of a stream: the bytes written, and the bytes read at the other end.
#[derive(Default, Debug)]
struct Direction {
    written: Vec<u8>,
    finished: bool,
    given_up: bool,
    read: Vec<u8>,
    ended: bool,
    reset: bool,
    delivered: bool,
}

struct Model {
    net: Net,
    ids: Vec<StreamId>,
    accepted: BTreeSet<StreamId>,
    /// Directions by stream and by the end that writes.
    directions: BTreeMap<(StreamId, usize), Direction>,
}

/// Returns the end that did not open the stream.
fn other(id: StreamId) -> usize {
    usize::from(id.0.is_multiple_of(2))
}

impl Model {
    fn direction(&mut self, id: StreamId, writer: usize) -> &mut Direction {
        self.directions.entry((id, writer)).or_default()
    }

    fn id(&self, n: usize) -> Option<StreamId> {
        self.ids.get(n % self.ids.len().max(1)).copied()
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Open(end, priority) => {
                if let Ok(id) = self.net.ends[end].open(b"to whom", priority) {
                    self.ids.push(id);
                    self.direction(id, 0);
                    self.direction(id, 1);
                }
            }
            Step::Write(end, n, len) => {
                let Some(id) = self.id(n) else { return };
                let from = self.direction(id, end).written.len();
                let bytes: Vec<u8> = (from..from + len).map(|i| (i * 31 + (i >> 8) + end) as u8).collect();
                if let Ok(taken) = self.net.ends[end].write(id, &bytes) {
                    self.direction(id, end).written.extend(&bytes[..taken]);
                }
            }
            Step::Finish(end, n) => {
                let Some(id) = self.id(n) else { return };
                if self.net.ends[end].finish(id).is_ok() {
                    self.direction(id, end).finished = true;
                }
            }
            Step::Reset(end, n) => {
                let Some(id) = self.id(n) else { return };
                if self.net.ends[end].reset(id, Reason::Application(7)).is_ok() {
                    self.direction(id, end).given_up = true;
                    self.direction(id, 1 - end).given_up = true;
                }
            }
            Step::Stop(end, n) => {
                let Some(id) = self.id(n) else { return };
                if self.net.ends[end].stop(id, Reason::Application(8)).is_ok() {
                    self.direction(id, 1 - end).given_up = true;
                    // An end refuses a stream by resetting it before accepting it.
                    let refused = end == other(id) && !self.accepted.contains(&id);
                    self.direction(id, end).given_up |= refused;
                }
            }
            Step::Read(end, n) => {
                let Some(id) = self.id(n) else { return };
                self.read(end, id);
            }
            Step::Run(ms) => {
                let until = self.net.now + Duration::from_millis(ms);
                while self.net.step(until) {
                    self.events(false);
                }
            }
            Step::Die(link) => self.net.links[link].alive = false,
            Step::Vanish(link) => {
                self.net.links[link].offered = false;
                self.net.ends.iter_mut().for_each(|end| end.on_path_down(link as u32));
            }
            Step::Live(link) => (self.net.links[link].alive, self.net.links[link].offered) = (true, true),
        }
        self.events(false);
    }

    fn read(&mut self, end: usize, id: StreamId) {
        let mut buf = [0; 5_000];
        loop {
            let got = self.net.ends[end].read(id, &mut buf);
            let direction = self.direction(id, 1 - end);
            match got {
                Ok(0) => {
                    assert!(direction.finished, "read an end of a stream that was not finished");
                    return direction.ended = true;
                }
                Ok(len) => direction.read.extend(&buf[..len]),
                Err(StreamError::Blocked | StreamError::Unknown | StreamError::Reset) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Handles events by accepting opened streams. If `read`, also reads available data.
    fn events(&mut self, read: bool) {
        for end in 0..2 {
            while let Some(event) = self.net.ends[end].poll_event() {
                match event {
                    Event::Opened(id) => {
                        assert_eq!(self.net.ends[end].header(id), Some(&b"to whom"[..]));
                        if self.net.ends[end].accept(id, b"by me").is_ok() {
                            self.accepted.insert(id);
                        }
                    }
                    Event::Accepted(id) => {
                        assert_eq!(self.net.ends[end].header(id), Some(&b"by me"[..]));
                    }
                    Event::Delivered(id) => self.direction(id, end).delivered = true,
                    Event::Reset(id, reason) => {
                        assert!(matches!(reason, Reason::Application(7 | 8)), "{reason:?}");
                        let direction = self.direction(id, 1 - end);
                        assert!(direction.given_up, "received a reset that the peer did not send");
                        direction.reset = true;
                    }
                    Event::Stopped(id, _) => assert!(self.direction(id, end).given_up),
                    Event::Readable(_) | Event::Writable(_) => {}
                }
            }
        }
        if read {
            for id in self.ids.clone() {
                (0..2).for_each(|end| self.read(end, id));
            }
        }
    }

    /// Makes all paths work again, and has the applications finish writing and read everything.
    fn settle(&mut self) {
        for link in &mut self.net.links {
            (link.alive, link.offered, link.loss) = (true, true, 0);
        }
        self.events(true);
        let until = self.net.now + Duration::from_secs(600);
        for id in self.ids.clone() {
            for end in 0..2 {
                if self.net.ends[end].finish(id).is_ok() {
                    self.direction(id, end).finished = true;
                }
            }
        }
        while self.net.step(until) {
            self.events(true);
            // Include the streams that have just been accepted.
            for id in self.ids.clone() {
                for end in 0..2 {
                    if self.net.ends[end].finish(id).is_ok() {
                        self.direction(id, end).finished = true;
                    }
                }
            }
        }
        self.events(true);
        self.net.send();
    }

    fn check(&self) {
        for ((id, writer), d) in &self.directions {
            let whole = d.read == d.written;
            assert!(
                d.written.starts_with(&d.read),
                "{id:?} of {writer}: the bytes read differ from those written"
            );
            if d.given_up {
                assert!(!d.ended || whole, "{id:?} of {writer}: the end was read before all bytes");
            } else {
                assert!(
                    whole && d.ended && d.delivered && !d.reset,
                    "{id:?} of {writer}: {} of {} read, {} {} {}",
                    d.read.len(),
                    d.written.len(),
                    d.ended,
                    d.delivered,
                    d.reset
                );
            }
        }
        for (end, streams) in self.net.ends.iter().enumerate() {
            assert!(streams.is_empty(), "{} streams are left at end {end}", streams.len());
            assert_eq!(streams.poll_timeout(), None, "a timer still runs at end {end}");
            assert!(!streams.has_packet(self.net.now, 0), "end {end} still has a packet to send");
            assert_eq!((streams.stats().malformed, streams.stats().violations), (0, 0));
        }
    }
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let link = (1u64..120, 0u64..30, 0u64..300, 0u64..100, 1u64..60).prop_map(
        |(delay, jitter, loss, twice, mbps)| Link {
            jitter: Duration::from_millis(jitter),
            loss,
            twice,
            ..Link::new(Duration::from_millis(delay), mbps)
        },
    );
    prop::collection::vec(link, 3)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_bytes_read_equal_the_bytes_written(links in links(), steps in steps()) {
        let config = Config { send_memory: 300_000, ..Config::default() };
        let mut model = Model {
            net: Net::new(links, [config; 2]),
            ids: Vec::new(),
            accepted: BTreeSet::new(),
            directions: BTreeMap::new(),
        };
        steps.iter().for_each(|step| model.apply(step));
        model.settle();
        model.check();
    }
}
