//! Two ends and the paths between them, in virtual time.
#![allow(dead_code, unreachable_pub)]

use dccp_streams::{Config, Event, Role, StreamId, Streams};
use mpdccp_linkem::InFlight;
use mpdccp_units::{Duration, Time};

/// A path. Each direction carries packets at its rate and has no queue. It may drop, delay and duplicate
/// packets.
#[derive(Clone, Debug)]
pub struct Link {
    pub delay: Duration,
    /// Largest random extra delay of a packet.
    pub jitter: Duration,
    /// Number of packets lost and number duplicated, per thousand.
    pub loss: u64,
    pub twice: u64,
    /// Transmission time of a packet.
    pub serial: Duration,
    /// Whether the owners offer the path to the streams.
    pub offered: bool,
    /// Whether the path carries packets.
    pub alive: bool,
    pub free: [Time; 2],
}

impl Link {
    /// Creates a path without losses, with this delay and rate.
    pub fn new(delay: Duration, mbps: u64) -> Link {
        Link {
            delay,
            jitter: Duration::ZERO,
            loss: 0,
            twice: 0,
            serial: Duration::from_nanos(MTU as u64 * 8_000 / mbps),
            offered: true,
            alive: true,
            free: [Time::ZERO; 2],
        }
    }
}

pub const MTU: usize = 1_400;

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub struct Net {
    pub now: Time,
    pub ends: [Streams; 2],
    pub links: Vec<Link>,
    /// Packets in flight, each with the end that receives it.
    flying: InFlight<(usize, Vec<u8>)>,
    dice: u64,
    /// Packets sent by each end.
    pub packets: [u64; 2],
}

impl Net {
    pub fn new(links: Vec<Link>, config: [Config; 2]) -> Net {
        let [client, server] = config;
        Net {
            now: Time::from_millis(1),
            ends: [Streams::new(Role::Client, client), Streams::new(Role::Server, server)],
            links,
            flying: InFlight::default(),
            dice: 0x9e37_79b9_7f4a_7c15,
            packets: [0; 2],
        }
    }

    pub fn plain(links: Vec<Link>) -> Net {
        Net::new(links, [Config::default(); 2])
    }

    pub fn dice(&mut self) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice
    }

    /// Sends the packets that can be sent now.
    pub fn send(&mut self) {
        let mut buf = [0; MTU];
        for end in 0..2 {
            for link in 0..self.links.len() {
                let l = &self.links[link];
                if !l.offered || l.free[end] > self.now {
                    continue;
                }
                let Some(len) = self.ends[end].poll_transmit(self.now, 0, link as u32, None, 0, &mut buf)
                else {
                    continue;
                };
                self.packets[end] += 1;
                let (lost, twice, late) = (self.dice() % 1_000, self.dice() % 1_000, self.dice());
                let l = &mut self.links[link];
                l.free[end] = self.now + l.serial;
                if !l.alive || lost < l.loss {
                    continue;
                }
                let jitter = Duration::from_nanos(late % (l.jitter.as_nanos() as u64 + 1));
                let copies = 1 + usize::from(twice < l.twice);
                let at = self.now + l.delay + jitter;
                for copy in 0..copies {
                    let at = at + Duration::from_micros(700) * copy as u32;
                    self.flying.push(at, (1 - end, buf[..len].to_vec()));
                }
            }
        }
    }

    /// Returns the time of the next event, not counting actions of the applications.
    fn next(&self) -> Option<Time> {
        let timers = self.ends.iter().filter_map(Streams::poll_timeout);
        let free = (0..2).filter(|end| self.ends[*end].has_packet(self.now, 0)).flat_map(|end| {
            self.links.iter().filter(|l| l.offered).map(move |l| l.free[end]).filter(|at| *at > self.now)
        });
        // A packet that cannot be sent yet is waiting for a path, so advance at least a little.
        let step = self.now + Duration::from_micros(1);
        self.flying.next_arrival().into_iter().chain(timers).chain(free).min().map(|at| at.max(step))
    }

    /// Advances to the next event, at most to `until`. Returns false if there is no event before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        self.send();
        let Some(next) = self.next().filter(|at| *at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(next);
        for end in &mut self.ends {
            if end.poll_timeout().is_some_and(|at| at <= self.now) {
                end.handle_timeout(self.now);
            }
        }
        while let Some((_, (end, bytes))) = self.flying.pop(self.now) {
            self.ends[end].handle_packet(self.now, &bytes);
        }
        true
    }

    /// Lets `time` pass while the applications do nothing.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
    }

    pub fn events(&mut self, end: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.ends[end].poll_event()).collect()
    }

    /// Reads available data.
    pub fn read(&mut self, end: usize, id: StreamId) -> Vec<u8> {
        let mut all = Vec::new();
        while let Ok(bytes @ [_, ..]) = self.ends[end].peek(id) {
            let len = bytes.len();
            all.extend(bytes);
            self.ends[end].consume(id, len).expect("the bytes were readable");
        }
        all
    }

    /// Opens a stream from the client and accepts it at the server.
    pub fn stream(&mut self, priority: u8) -> StreamId {
        let id = self.ends[0].open(b"hi", priority).expect("the server allows another stream");
        self.run(Duration::from_millis(500));
        self.ends[1].accept(id, b"ho").expect("accepted");
        self.run(Duration::from_millis(500));
        self.events(0);
        self.events(1);
        id
    }

    /// For `time`, the client writes as much as fits on the streams, and the server reads everything. Returns
    /// the number of bytes read per stream.
    pub fn bulk(&mut self, ids: &[StreamId], time: Duration) -> Vec<u64> {
        let (until, block) = (self.now + time, vec![7; 64 << 10]);
        let mut read = vec![0; ids.len()];
        loop {
            for (id, read) in ids.iter().zip(&mut read) {
                let _ = self.ends[0].write(*id, &block);
                *read += self.read(1, *id).len() as u64;
            }
            if self.now >= until {
                return read;
            }
            self.step(until);
        }
    }
}
