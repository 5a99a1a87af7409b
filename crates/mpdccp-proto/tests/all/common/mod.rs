//! Two endpoints and the network between them, in memory and virtual time.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod stranger;

use dccp_proto::{Config, Ecn, Ports, Route};
use dccp_wire::{Header, MpOption, Opt, OptionBuf, Packet, PacketType};
use mpdccp_linkem::InFlight;
use mpdccp_proto::*;
use mpdccp_units::{Duration, Rate, Time};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub const PORT: u16 = 5001;

/// Returns a scheduler by name.
pub fn scheduler(name: &str) -> sched::SchedulerKind {
    Named::named(name).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Client,
    Server,
}
use End::{Client, Server};

/// One path of the network.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    pub delay: Duration,
    /// Rate in each direction, with a queue of 100 ms. `None` means infinitely fast.
    pub rate: Option<Rate>,
    /// For each direction, when the last bit in the queue will have been sent.
    busy: [Time; 2],
    pub up: bool,
    /// Number of packets lost per 1000.
    pub loss: u64,
    /// Number of packets duplicated per 1000.
    pub twice: u64,
    /// Upper limit of a random extra delay, which makes packets overtake each other.
    pub jitter: Duration,
    /// The end whose packets are lost.
    pub mute: Option<End>,
    /// The client's socket.
    pub socket: u32,
    /// Whether the wire carries IPv6 instead of IPv4. [`path_v6`] returns the client's configuration for it.
    pub v6: bool,
    /// The client's UDP port, as the server sees it.
    pub nat_port: u16,
    /// Packets lost because the path was down.
    pub lost_down: u64,
}

/// A packet that was sent, as recorded in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub at: Time,
    pub from: End,
    pub path: usize,
    pub bytes: Vec<u8>,
}

impl Logged {
    pub fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes).unwrap()
    }
    pub fn mp(&self) -> Vec<MpOption<'_>> {
        self.packet()
            .options()
            .filter_map(|o| if let Ok(Opt::Mp(mp)) = o { Some(mp) } else { None })
            .collect()
    }
    pub fn confirms(&self) -> bool {
        self.mp().iter().any(|option| matches!(option, MpOption::Confirm(_)))
    }
    /// Returns the repair time that the packet reports to the peer, in milliseconds.
    pub fn repair_time(&self) -> Option<u16> {
        self.mp().iter().find_map(|option| match option {
            MpOption::Exp([b'm', b'p', b'd', b'1', 1, high, low]) => Some(u16::from_be_bytes([*high, *low])),
            _ => None,
        })
    }
    pub fn is(&self, from: End, ptype: PacketType) -> bool {
        self.from == from && self.packet().header.ptype == ptype
    }
}

type Flying = (End, usize, Ecn, Vec<u8>);
type Meddler = Box<dyn FnMut(End, usize, &mut Vec<u8>) -> bool>;

pub struct Net {
    pub now: Time,
    pub client: Endpoint,
    pub server: Endpoint,
    pub wires: Vec<Wire>,
    flying: InFlight<Flying>,
    rng: ChaCha8Rng,
    pub log: Vec<Logged>,
    /// A function that may change each packet in transit. If it returns false, the packet is dropped.
    pub meddler: Option<Meddler>,
    /// Delays for the next packets. Each entry applies to one packet, and gives the delay of each of its
    /// copies. Packets without an entry have the delay of their wire.
    pub fates: VecDeque<&'static [Duration]>,
    /// For each path, the peer that the server's encapsulation authenticates.
    pub vouched: Vec<u32>,
    pub events: Vec<(End, SessionId, SessionEvent)>,
    pub got: BTreeMap<End, Vec<Vec<u8>>>,
}

fn v4(a: u8, path: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, a, path as u8, 1))
}

fn v6(a: u16, path: usize) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, a, path as u16, 0, 0, 0, 0, 1))
}

/// Returns the client's route to the server over path `k`.
pub fn client_route(k: usize) -> Route {
    Route { socket: k as u32, local: None, remote: SocketAddr::new(v4(9, k), 6511) }
}

/// Returns the server's route to the client over path `k`, until the NAT binds another port.
pub fn server_route(k: usize) -> Route {
    Route { socket: 0, local: None, remote: SocketAddr::new(client_addr(k), 40_000) }
}

pub fn client_addr(k: usize) -> IpAddr {
    v4(0, k)
}

pub fn path(k: usize) -> PathConfig {
    PathConfig::new(client_route(k), Ports { local: 50_000 + k as u16, remote: PORT }, 1500, 28)
}

/// Like [`path`], but over IPv6.
pub fn path_v6(k: usize) -> PathConfig {
    let route = Route { remote: SocketAddr::new(v6(9, k), 6511), ..client_route(k) };
    PathConfig { route, overhead: 48, ..path(k) }
}

pub fn config() -> SessionConfig {
    SessionConfig {
        connection: Config { service_code: 7, ..Config::default() },
        scheduler: scheduler("rr"),
        ..SessionConfig::default()
    }
}

pub fn listen(session: SessionConfig) -> ListenConfig {
    let peers = vec![PeerFilter { id: 42, remotes: Vec::new() }];
    ListenConfig { peers, ..ListenConfig::for_anyone(PORT, session, 28, 4) }
}

impl Net {
    /// Creates a network of `paths` paths with a delay of 10 ms in each direction, on which the server
    /// listens.
    pub fn new(seed: u8, paths: usize, server: SessionConfig) -> Net {
        let mut net = Net {
            now: Time::from_millis(1),
            client: Endpoint::new([seed; 32]),
            server: Endpoint::new([seed.wrapping_add(100); 32]),
            wires: (0..paths)
                .map(|k| Wire {
                    socket: k as u32,
                    delay: Duration::from_millis(10),
                    up: true,
                    nat_port: 40_000,
                    ..Wire::default()
                })
                .collect(),
            flying: InFlight::default(),
            rng: ChaCha8Rng::seed_from_u64(seed.into()),
            log: Vec::new(),
            meddler: None,
            fates: VecDeque::new(),
            vouched: Vec::new(),
            events: Vec::new(),
            got: BTreeMap::new(),
        };
        net.server.listen(listen(server));
        net
    }

    /// Creates both ends with the same settings, and lets the client connect over all paths.
    pub fn connected(seed: u8, paths: usize, cfg: SessionConfig) -> (Net, SessionId) {
        let mut net = Net::new(seed, paths, cfg.clone());
        let id = net.connect(cfg);
        net.run(Duration::from_millis(500));
        (net, id)
    }

    /// Connects like [`connected`](Self::connected). Returns the session at both ends.
    pub fn both(seed: u8, paths: usize, cfg: SessionConfig) -> (Net, SessionId, SessionId) {
        let (net, id) = Net::connected(seed, paths, cfg);
        let sid = net.server_id();
        (net, id, sid)
    }

    /// Creates a session with one path, in which the server may join paths to the client and a second wire is
    /// free. Returns the session at both ends.
    pub fn joinable() -> (Net, SessionId, SessionId) {
        let mut net = Net::new(1, 1, config());
        net.add_wire();
        net.client.listen(listen(config()));
        let id = net.client.connect(net.now, SessionConfig { joinable: true, ..config() }, path(0));
        net.run(Duration::from_secs(1));
        let sid = net.server_id();
        (net, id, sid)
    }

    /// Creates a session over two paths, called `a` and `b`. The client and the server have these settings.
    pub fn named(client: SessionConfig, server: SessionConfig) -> (Net, SessionId) {
        let mut net = Net::new(7, 2, server);
        let named = |k| PathConfig { name: PathName::of(["a", "b"][k]), ..path(k) };
        let id = net.client.connect(net.now, client, named(0));
        net.client.add_path(net.now, id, named(1));
        net.run(Duration::from_millis(500));
        (net, id)
    }

    /// Adds another path like the first.
    pub fn add_wire(&mut self) {
        let socket = self.wires.len() as u32;
        self.wires.push(Wire { socket, ..self.wires[0].clone() });
    }

    pub fn connect(&mut self, cfg: SessionConfig) -> SessionId {
        let id = self.client.connect(self.now, cfg, path(0));
        for k in 1..self.wires.len() {
            self.client.add_path(self.now, id, path(k)).unwrap();
        }
        self.drain();
        id
    }

    pub fn end(&mut self, end: End) -> &mut Endpoint {
        match end {
            Client => &mut self.client,
            Server => &mut self.server,
        }
    }

    /// Fetches everything that both ends have to send, deliver and report.
    pub fn drain(&mut self) {
        for from in [Client, Server] {
            let mut out = Vec::new();
            let now = self.now;
            self.end(from).poll_transmit(now, &mut out);
            while let Some((_, data)) = self.end(from).poll_deliver() {
                self.got.entry(from).or_default().push(data);
            }
            while let Some((id, event)) = self.end(from).poll_event() {
                self.events.push((from, id, event));
            }
            for (route, ecn, bytes) in out {
                self.launch(from, route, ecn, bytes);
            }
        }
    }

    /// Takes the packets that an end sends now, without passing them to the network.
    pub fn intercept(&mut self, from: End) -> Vec<Vec<u8>> {
        let (mut out, now) = (Vec::new(), self.now);
        self.end(from).poll_transmit(now, &mut out);
        out.into_iter().map(|(_, _, bytes)| bytes).collect()
    }

    /// Delivers a datagram from an unknown host to the server, and returns the immediate answers.
    pub fn strike(&mut self, from: Route, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.inject(Server, from, Ecn::NotEct, bytes);
        let (mut out, now) = (Vec::new(), self.now);
        self.server.poll_transmit(now, &mut out);
        let (back, others): (Vec<_>, Vec<_>) = out.into_iter().partition(|(to, ..)| to.remote == from.remote);
        for (route, ecn, bytes) in others {
            self.launch(Server, route, ecn, bytes);
        }
        back.into_iter().map(|(.., bytes)| bytes).collect()
    }

    fn launch(&mut self, from: End, route: Route, ecn: Ecn, mut bytes: Vec<u8>) {
        let path = match route.remote.ip() {
            IpAddr::V4(ip) => usize::from(ip.octets()[2]),
            IpAddr::V6(ip) => usize::from(ip.segments()[2]),
        };
        // An answer to a forged address goes nowhere.
        let Some(wire) = self.wires.get(path) else { return };
        assert_eq!(route.remote.is_ipv6(), wire.v6, "{route:?}");
        self.log.push(Logged { at: self.now, from, path, bytes: bytes.clone() });
        // Once a NAT has assigned a new port, it has forgotten the old one.
        let stale_binding = from == Server && route.remote.port() != self.wires[path].nat_port;
        if let Some(meddler) = &mut self.meddler
            && !meddler(from, path, &mut bytes)
        {
            return;
        }
        if let Some(copies) = self.fates.pop_front().filter(|_| self.wires[path].up) {
            for delay in copies {
                self.flying.push(self.now + *delay, (from, path, ecn, bytes.clone()));
            }
            return;
        }
        let dice = self.rng.next_u64() % 1000;
        let wire = &mut self.wires[path];
        if !wire.up || stale_binding || wire.mute == Some(from) {
            wire.lost_down += 1;
            return;
        }
        if dice < wire.loss {
            return;
        }
        let mut leaves = self.now;
        if let Some(rate) = wire.rate {
            let busy = &mut wire.busy[usize::from(from == Server)];
            if busy.since(self.now) > Duration::from_millis(100) {
                return;
            }
            leaves = self.now.max(*busy) + rate.time_for(bytes.len() as u64 + 28);
            *busy = leaves;
        }
        let copies = if 999 - dice < wire.twice { 2 } else { 1 };
        for _ in 0..copies {
            let late = match wire.jitter.as_micros() as u64 {
                0 => 0,
                most => self.rng.next_u64() % most,
            };
            let at = leaves + wire.delay + Duration::from_micros(late);
            self.flying.push(at, (from, path, ecn, bytes.clone()));
        }
    }

    fn arrive(&mut self, from: End, path: usize, ecn: Ecn, bytes: &[u8]) {
        if !self.wires[path].up {
            self.wires[path].lost_down += 1;
            return;
        }
        let wire = &self.wires[path];
        let source = if wire.v6 { v6(0, path) } else { client_addr(path) };
        let remote = SocketAddr::new(source, wire.nat_port);
        if let (Client, Some(&peer)) = (from, self.vouched.get(path)) {
            let route = Route { socket: 0, local: None, remote };
            let len = bytes.len() as u32 + 28;
            return self.server.handle_peer(self.now, &route, peer, ecn, len, bytes);
        }
        let route = match from {
            Client => Route { socket: 0, local: None, remote },
            // The driver may report the local address even if the route does not contain one.
            Server => Route {
                local: Some(source),
                socket: wire.socket,
                ..if wire.v6 { path_v6(path).route } else { client_route(path) }
            },
        };
        self.inject(if from == Client { Server } else { Client }, route, ecn, bytes);
    }

    pub fn inject(&mut self, to: End, route: Route, ecn: Ecn, bytes: &[u8]) {
        let now = self.now;
        self.end(to).handle_datagram(now, &route, ecn, bytes.len() as u32 + 28, bytes);
    }

    /// Advances to the next event, but not past `end`. Returns false once `end` has been reached.
    pub fn step(&mut self, end: Time) -> bool {
        let timers = [self.client.poll_timeout(), self.server.poll_timeout()];
        let timers = timers.into_iter().flatten().map(|(t, _)| t);
        let Some(next) = timers.chain(self.flying.next_arrival()).min().filter(|at| *at <= end) else {
            self.now = end;
            return false;
        };
        self.now = next.max(self.now);
        while let Some((_, (from, path, ecn, bytes))) = self.flying.pop(self.now) {
            self.arrive(from, path, ecn, &bytes);
        }
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.drain();
        true
    }

    /// Drains both ends, and then runs for this long.
    pub fn run(&mut self, time: Duration) {
        self.drain();
        let end = self.now + time;
        let mut steps = 0u64;
        while self.step(end) {
            steps += 1;
            assert!(steps < 2_000_000, "endless loop at {:?}", self.now);
        }
    }

    /// Sends `count` numbered datagrams of 1000 bytes, one every `gap`.
    pub fn stream(&mut self, from: End, id: SessionId, first: u32, count: u32, gap: Duration) {
        for n in first..first + count {
            let now = self.now;
            self.end(from).send(now, id, datagram(n), PktInfo::default());
            self.run(gap);
        }
    }

    /// From now on, makes path 0 lose three of the client's next large packets and all its large probes, so
    /// that the path's MTU is in doubt.
    pub fn make_size_doubtful(&mut self) {
        let mut large_packets = 0;
        self.meddler = Some(Box::new(move |from, path, bytes| {
            let large = from == Client && path == 0 && bytes.len() > 1_300;
            large_packets += u8::from(large && large_packets < 12);
            !(large && (large_packets % 4 == 1 || is_type(bytes, PacketType::Sync)))
        }));
    }

    /// Returns the packets with data that the client sent on path 0 while the path's MTU was in doubt, that
    /// is, between its last two large probes.
    pub fn sent_in_doubt(&self) -> Vec<&Logged> {
        let of_path = || self.log.iter().filter(|l| l.from == Client && l.path == 0);
        let probe = |l: &&Logged| is_type(&l.bytes, PacketType::Sync) && l.bytes.len() > 1_440;
        let probes: Vec<_> = of_path().filter(probe).map(|l| l.at).collect();
        let [.., from, to] = probes[..] else { panic!("{probes:?}") };
        let data = of_path().filter(|l| from < l.at && l.at < to && !l.packet().payload.is_empty());
        data.filter(|l| !is_type(&l.bytes, PacketType::Sync)).collect()
    }

    pub fn numbers(&self, end: End) -> Vec<u32> {
        let got = self.got.get(&end).map_or(&[][..], |v| v);
        got.iter().map(|d| u32::from_be_bytes(d[..4].try_into().unwrap())).collect()
    }

    pub fn server_id(&self) -> SessionId {
        *self.server.sessions().first().unwrap()
    }

    pub fn status(&self, end: End, id: SessionId) -> SessionStatus {
        match end {
            Client => self.client.status(self.now, id),
            Server => self.server.status(self.now, id),
        }
        .unwrap()
    }

    pub fn state(&self, end: End, id: SessionId) -> Vec<PathState> {
        self.status(end, id).paths.iter().map(|p| p.state).collect()
    }

    pub fn events_of(&self, end: End) -> Vec<SessionEvent> {
        self.events.iter().filter(|(e, ..)| *e == end).map(|(.., e)| e.clone()).collect()
    }

    pub fn closed_reason(&self, end: End) -> Option<String> {
        self.events_of(end).into_iter().find_map(|e| match e {
            SessionEvent::Closed(reason) => Some(reason.name().to_string()),
            _ => None,
        })
    }

    pub fn logged(&self, from: End, ptype: PacketType) -> Vec<&Logged> {
        self.log.iter().filter(|l| l.is(from, ptype)).collect()
    }
}

pub fn datagram(n: u32) -> Vec<u8> {
    let mut data = vec![0; 1000];
    data[..4].copy_from_slice(&n.to_be_bytes());
    data
}

pub fn emit(header: &Header, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header.packet_len(options.len(), payload.len())];
    header.emit(options, &mut bytes).copy_from_slice(payload);
    bytes
}

pub fn encode(options: &[MpOption<'_>]) -> Vec<u8> {
    let mut buf = OptionBuf::new();
    options.iter().for_each(|option| assert!(buf.push(&Opt::Mp(*option))));
    buf.as_bytes().to_vec()
}

/// Returns the packet with its options replaced.
pub fn with_options(bytes: &[u8], options: &[u8]) -> Vec<u8> {
    let packet = Packet::parse(bytes).unwrap();
    emit(&packet.header, options, packet.payload)
}

/// Changes one byte of the first multipath option `subtype`. `at` counts from the type byte. Returns false if
/// there is no such option.
pub fn spoil(bytes: &mut [u8], subtype: u8, at: usize) -> bool {
    let packet = Packet::parse(bytes).unwrap();
    let start = bytes.len() - packet.payload.len() - packet.option_bytes.len();
    let options = packet.option_bytes;
    let mut i = 0;
    while i + 2 < options.len() {
        match options[i] {
            0..32 => i += 1,
            46 if options[i + 2] == subtype => {
                bytes[start + i + at] ^= 0x55;
                return true;
            }
            _ => i += usize::from(options[i + 1]).max(2),
        }
    }
    false
}

/// Returns a meddler that changes an end's packets of this type.
pub fn changing(end: End, ptype: PacketType, mut change: impl FnMut(&mut Vec<u8>) + 'static) -> Meddler {
    Box::new(move |from, _, bytes| {
        if from == end && is_type(bytes, ptype) {
            change(bytes);
        }
        true
    })
}

/// Adds options behind those that the packet has.
pub fn append(bytes: &mut Vec<u8>, options: &[u8]) {
    *bytes = with_options(bytes, &[Packet::parse(bytes).unwrap().option_bytes, options].concat());
}

pub fn is_type(bytes: &[u8], ptype: PacketType) -> bool {
    Packet::parse(bytes).is_ok_and(|p| p.header.ptype == ptype)
}

pub fn counter(status: &SessionStatus, name: &str) -> u64 {
    counted(&status.counters, name)
}

pub fn counted(counters: &Counters, name: &str) -> u64 {
    counters.iter().find(|(counter, _)| counter.name() == name).map_or(0, |(_, n)| *n)
}
