//! Runs both walks of ARCHITECTURE.md, the routes of a sent and of a received packet through the code, in
//! virtual time and without system calls. Tools use it to count instructions, allocations and bytes.
//!
//! `walks CCID PACKETS` sends packets of 1,400 bytes over one encrypted path. Each packet passes through the
//! functions `down`, `up` and `back`; `back` handles the acknowledgements at both ends. callgrind counts
//! these functions by name (tools/bench/counts). This program prints the allocations in each. `walks idle
//! SESSIONS` opens sessions with two paths between two endpoints, and prints the cost per session.

use dccp_proto::{Ecn, Ports, Route, Sink};
use dccp_secure::{
    Address, Aead, ChannelId, Channels, HEADER, Input, OVERHEAD, PresharedKey, PrivateKey, Settings,
};
use mpdccp_proto::{
    Endpoint, ListenConfig, PathConfig, PktInfo, QueueConfig, SessionConfig, SessionEvent, SessionId,
};
use mpdccp_units::{Duration, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PORT: u16 = 6511;
/// One-way delay, and the interval between bursts.
const DELAY: Duration = Duration::from_millis(5);
const TICK: Duration = Duration::from_millis(1);
/// Number of packets per tick, which is 224 Mbit/s in total, and their size.
const BURST: u64 = 20;
const SIZE: usize = 1400;

/// Maximum size of a [`Run`], bytes.
const RUN: usize = 65_000;

/// Packets of equal size for one destination, which one system call would send. Only the last may be shorter.
struct Run {
    route: Route,
    segment: usize,
    bytes: Range<usize>,
}

/// Packets of an endpoint. As in `dccp_net::Batch`, each has free bytes around it for the header and tag of a
/// record.
#[derive(Default)]
struct Outgoing {
    runs: Vec<Run>,
    bytes: Vec<u8>,
    used: usize,
}

impl Sink for Outgoing {
    fn reserve(&mut self, route: &Route, _: Ecn, len: usize) -> &mut [u8] {
        let start = self.used;
        self.used += len + OVERHEAD;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used, 0);
        }
        match self.runs.last_mut() {
            Some(run)
                if run.route == *route
                    && run.bytes.len().is_multiple_of(run.segment)
                    && len + OVERHEAD <= run.segment
                    && run.bytes.len() < RUN - run.segment =>
            {
                run.bytes.end = self.used;
            }
            _ => {
                self.runs.push(Run { route: *route, segment: len + OVERHEAD, bytes: start..self.used });
            }
        }
        &mut self.bytes[start + HEADER..start + HEADER + len]
    }
}

/// Received records, and the size of each. Only the last may be shorter.
type Records = (Vec<u8>, usize);

fn remote(end: u8) -> SocketAddr {
    ([192, 0, 2, end], PORT).into()
}

fn route(socket: u32, end: u8) -> Route {
    Route { socket, local: None, remote: remote(end) }
}

fn config(ccid: u8) -> SessionConfig {
    let queue = QueueConfig::of_ip_packets();
    let mut cfg = SessionConfig { queue, ..SessionConfig::default() };
    (cfg.connection.tx_ccids, cfg.connection.rx_ccids) = (vec![ccid], vec![ccid]);
    cfg
}

fn path(socket: u32) -> PathConfig {
    let ports = Ports { local: 40_000, remote: PORT };
    PathConfig::new(route(socket, 2), ports, 1500, 28 + OVERHEAD as u16)
}

fn listening(ccid: u8, sessions: usize) -> Endpoint {
    let mut server = Endpoint::new([2; 32]);
    server.listen(ListenConfig::for_anyone(PORT, config(ccid), 28 + OVERHEAD as u16, sessions));
    server
}

/// One end of the channel.
struct End {
    endpoint: Endpoint,
    channels: Channels,
    channel: Option<ChannelId>,
    number: u8,
    out: Outgoing,
}

impl End {
    fn new(number: u8, endpoint: Endpoint) -> End {
        let key = |n: u8| PrivateKey::from_random([n; 32]);
        let mut channels = Channels::new(Settings {
            aeads: vec![Aead::Aes128Gcm],
            ..Settings::new(key(number), number == 2, Duration::from_secs(1), [number; 32])
        });
        channels.add_peer(0, key(3 - number).public(), PresharedKey::default());
        End { endpoint, channels, channel: None, number, out: Outgoing::default() }
    }

    /// Encrypts the packets that the endpoint sends now.
    fn transmit(&mut self, now: Time) {
        self.endpoint.poll_transmit(now, &mut self.out);
        let Some(channel) = self.channel else { return self.out.runs.clear() };
        let Outgoing { runs, bytes, .. } = &mut self.out;
        runs.retain(|run| {
            self.channels.seal(now, channel, &mut bytes[run.bytes.clone()], run.segment).is_ok()
        });
    }

    /// Moves the encrypted packets to the simulated network. A real program would make system calls here.
    fn send(&mut self, wire: &mut VecDeque<Records>) {
        for run in self.out.runs.drain(..) {
            wire.push_back((self.out.bytes[run.bytes].to_vec(), run.segment));
        }
        self.out.used = 0;
        while let Some((_, message)) = self.channels.poll_transmit() {
            let len = message.len();
            wire.push_back((message, len));
        }
    }

    /// Handles received records.
    fn receive(&mut self, now: Time, records: &mut VecDeque<Records>) {
        for record in records.iter_mut().flat_map(|(bytes, segment)| bytes.chunks_mut(*segment)) {
            let peer = 3 - self.number;
            let from = Address { socket: 0, local: None, remote: remote(peer) };
            if let Input::Packet { channel, peer: by, len } = self.channels.handle(now, &from, record) {
                self.channel = Some(channel);
                let size = record.len() as u32 + 28;
                let packet = &record[HEADER..HEADER + len];
                self.endpoint.handle_peer(now, &route(0, peer), by, Ecn::Ect0, size, packet);
            }
        }
    }
}

/// Records in flight, with their arrival times.
type Wire = VecDeque<(Time, VecDeque<Records>)>;

#[inline(never)]
fn down(client: &mut End, now: Time, session: SessionId, packet: &[u8]) {
    for _ in 0..BURST {
        let info = PktInfo::of_ip(packet, client.endpoint.flow_key());
        // Take a block of memory from the endpoint, as a program that reads a TUN device does.
        let mut block = client.endpoint.take_block();
        block.clear();
        block.extend_from_slice(packet);
        client.endpoint.send(now, session, block, info);
    }
    client.transmit(now);
}

#[inline(never)]
fn up(server: &mut End, now: Time, records: &mut VecDeque<Records>) -> u64 {
    server.receive(now, records);
    let mut packets = 0;
    while let Some((_, packet)) = server.endpoint.poll_deliver() {
        server.endpoint.put_block(packet);
        packets += 1;
    }
    packets
}

#[inline(never)]
fn back(server: &mut End, client: &mut End, now: Time, records: &mut VecDeque<Records>) {
    server.endpoint.handle_timeout(now);
    server.transmit(now);
    client.receive(now, records);
    client.endpoint.handle_timeout(now);
}

fn data(ccid: u8, packets: u64) {
    let (mut client, mut server) = (End::new(1, Endpoint::new([1; 32])), End::new(2, listening(ccid, 1)));
    let mut now = Time::from_millis(1_000);
    let to = Address { socket: 0, local: None, remote: remote(2) };
    client.channel = client.channels.open(now, 0, to);
    let session = client.endpoint.connect(now, config(ccid), path(0));
    // The packet starts with the IPv4 header of a UDP packet.
    let mut packet = vec![7; SIZE];
    packet[..12].copy_from_slice(&[0x45, 0, (SIZE >> 8) as u8, SIZE as u8, 0, 0, 0, 0, 64, 17, 0, 0]);
    let (mut forth, mut aback) = (Wire::new(), Wire::new());
    let due = |wire: &mut Wire, now: Time| {
        wire.pop_front_if(|(at, _)| *at <= now).map(|(_, records)| records).unwrap_or_default()
    };
    // In the first second, the session opens and learns the rate.
    let (mut arrived, mut spent) = (0, [0; 3]);
    let mut count = |which: usize, region: Region<'_, System>| spent[which] += region.change().allocations;
    for tick in 0..1_000 + packets / BURST {
        now += TICK;
        let (mut there, mut here) = (VecDeque::new(), VecDeque::new());
        let (mut records, mut answers) = (due(&mut forth, now), due(&mut aback, now));
        if tick < 1_000 {
            server.receive(now, &mut records);
            while server.endpoint.poll_deliver().is_some() {}
            client.receive(now, &mut answers);
            for end in [&mut client, &mut server] {
                end.endpoint.handle_timeout(now);
            }
            server.transmit(now);
            for _ in 0..BURST {
                let info = PktInfo::of_ip(&packet, client.endpoint.flow_key());
                client.endpoint.send(now, session, packet.clone(), info);
            }
            client.transmit(now);
        } else {
            let region = Region::new(ALLOCATIONS);
            arrived += up(&mut server, now, &mut records);
            count(1, region);
            let region = Region::new(ALLOCATIONS);
            back(&mut server, &mut client, now, &mut answers);
            count(2, region);
            let region = Region::new(ALLOCATIONS);
            down(&mut client, now, session, &packet);
            count(0, region);
        }
        server.send(&mut here);
        client.send(&mut there);
        forth.push_back((now + DELAY, there));
        aback.push_back((now + DELAY, here));
        for end in [&mut client, &mut server] {
            while end.endpoint.poll_event().is_some() {}
            while end.channels.poll_event().is_some() {}
        }
    }
    let per = |n: usize| n as f64 / arrived as f64;
    println!("arrived {arrived} down {:.3} up {:.3} back {:.3}", per(spent[0]), per(spent[1]), per(spent[2]));
}

fn idle(sessions: u32) {
    let mut client = Endpoint::new([1; 32]);
    let mut server = listening(5, sessions as usize);
    let before = Region::new(ALLOCATIONS);
    let since = Instant::now();
    let mut now = Time::from_millis(1_000);
    let (mut out, mut up, mut opened, mut packets) = (Outgoing::default(), 0, 0, 0u64);
    // Open a few sessions at a time: without cookies, a listener accepts only a few incomplete sessions.
    for tick in 0u32.. {
        now += TICK;
        while opened < sessions && opened < (tick + 1) * 40 {
            let session = client.connect(now, config(5), path(opened * 2));
            client.add_path(now, session, path(opened * 2 + 1));
            opened += 1;
        }
        for (from, to, end) in [(0, 1, 1u8), (1, 0, 2)] {
            let ends = [&mut client, &mut server];
            ends[from].handle_timeout(now);
            ends[from].poll_transmit(now, &mut out);
            for run in out.runs.drain(..) {
                for record in out.bytes[run.bytes].chunks(run.segment) {
                    let (from, len) = (route(run.route.socket, end), record.len());
                    let packet = &record[HEADER..len - (OVERHEAD - HEADER)];
                    packets += 1;
                    ends[to].handle_peer(now, &from, 0, Ecn::Ect0, len as u32 + 28, packet);
                }
            }
            out.used = 0;
            while let Some((_, event)) = ends[from].poll_event() {
                up += usize::from(from == 1 && matches!(event, SessionEvent::PathUp(_)));
            }
            while ends[from].poll_deliver().is_some() {}
        }
        if up == 2 * sessions as usize || tick > 60_000 {
            break;
        }
    }
    let took = since.elapsed().as_secs_f64();
    let held = before.change();
    let bytes = held.bytes_allocated as f64 - held.bytes_deallocated as f64;
    let blocks = held.allocations - held.deallocations;
    let ends = f64::from(sessions) * 2.0;
    println!(
        "{sessions} sessions, {up} paths of the server up after {took:.2} s: {:.2} us per packet; each session holds {:.1} KiB in {:.0} blocks at each end",
        took / packets as f64 * 1e6,
        bytes / ends / 1024.0,
        blocks as f64 / ends
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [what, n] if what == "idle" => idle(n.parse()?),
        [ccid, n] => data(ccid.parse()?, n.parse()?),
        _ => return Err("usage: walks CCID PACKETS | walks idle SESSIONS".into()),
    }
    Ok(())
}
