//! Simulates the clients. All sessions share one endpoint and one socket, but each client has its own
//! channels.

use dccp_net::{Bind, Burst, Clock, Encapsulation as _, UdpEncapsulation};
use dccp_proto::{Ecn, Ports, Route, Sink};
use dccp_secure::{
    Address, ChannelId, Channels, HEADER, Input, OVERHEAD, PresharedKey, PrivateKey, Settings, TAG,
};
use mpdccp_proto::{Endpoint, PathConfig, PktInfo, SessionConfig, SessionEvent, SessionId};
use mpdccp_units::Time;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// DCCP Service Code and DCCP port that a tunnel uses.
const SERVICE_CODE: u32 = u32::from_be_bytes(*b"MPTU");
const PORT: u16 = 6511;
/// Delay before a closed session is opened again, the same as in the tunnel's client.
const AGAIN: Duration = Duration::from_millis(250);
/// The server's inner address.
const HUB: [u8; 4] = [10, 0, 0, 1];

/// Returns the two address bytes that identify a client.
pub(crate) fn octets(client: u32) -> [u8; 2] {
    (client as u16).to_be_bytes()
}

/// Derives the key of a client. The key is not secret, because the server's configuration is generated with
/// the same function.
pub(crate) fn key_of(client: u32) -> PrivateKey {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&client.to_be_bytes());
    PrivateKey::from_random(bytes)
}

struct Client {
    channels: Channels,
    paths: [ChannelId; 2],
    session: Option<SessionId>,
    armed: Option<Time>,
}

/// Packets of the endpoint that are waiting to be encrypted.
#[derive(Default)]
struct Outgoing {
    packets: Vec<(Route, Ecn, usize)>,
    bytes: Vec<u8>,
}

impl Sink for Outgoing {
    fn reserve(&mut self, route: &Route, ecn: Ecn, len: usize) -> &mut [u8] {
        let start = self.bytes.len();
        self.packets.push((*route, ecn, len + OVERHEAD));
        self.bytes.resize(start + len + OVERHEAD, 0);
        &mut self.bytes[start + HEADER..start + HEADER + len]
    }
}

pub(crate) struct Clients {
    endpoint: Endpoint,
    clients: Vec<Client>,
    of_session: BTreeMap<SessionId, u32>,
    timers: BTreeSet<(Time, u32)>,
    socket: UdpEncapsulation,
    outgoing: Outgoing,
    /// Number of open sessions, and of paths that are up.
    pub(crate) open: usize,
    pub(crate) up: usize,
    /// Number of sessions closed so far.
    pub(crate) closed: usize,
    /// Sessions to reopen, each with the time to do so.
    again: VecDeque<(Instant, u32)>,
    /// Number of records received, and of answers to pings.
    pub(crate) received: u64,
    pub(crate) answers: u64,
}

fn server(path: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1 + path as u8], PORT))
}

/// Returns the source address of a client's path.
fn source(client: u32, path: usize) -> IpAddr {
    let [a, b] = octets(client);
    Ipv4Addr::new(127, 1 + path as u8, a, b).into()
}

impl Clients {
    pub(crate) fn new(n: u32) -> io::Result<Clients> {
        let now = Clock.now();
        let hub = key_of(u32::MAX).public();
        let unix = mpdccp_units::Duration::from_nanos(Clock.wall_nanos() - now.as_nanos());
        let client = |i: u32| {
            let mut channels = Channels::new(Settings::new(key_of(i), false, unix, dccp_net::random_seed()?));
            channels.add_peer(0, hub, PresharedKey::default());
            let mut open = |path| {
                let to = Address { socket: path as u32, local: Some(source(i, path)), remote: server(path) };
                channels.open(now, 0, to).ok_or_else(|| io::Error::other("no channel"))
            };
            let paths = [open(0)?, open(1)?];
            Ok(Client { channels, paths, session: None, armed: None })
        };
        let bind = Bind { addr: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 4500), interface: None };
        Ok(Clients {
            endpoint: Endpoint::new(dccp_net::random_seed()?),
            clients: (0..n).map(client).collect::<io::Result<_>>()?,
            of_session: BTreeMap::new(),
            timers: BTreeSet::new(),
            socket: UdpEncapsulation::new(bind)?,
            outgoing: Outgoing::default(),
            open: 0,
            up: 0,
            closed: 0,
            again: VecDeque::new(),
            received: 0,
            answers: 0,
        })
    }

    pub(crate) fn connect(&mut self, client: u32) {
        let mut cfg =
            SessionConfig { queue: mpdccp_proto::QueueConfig::of_ip_packets(), ..SessionConfig::default() };
        cfg.connection.service_code = SERVICE_CODE;
        cfg.connection.tx_ccids = vec![5];
        let path = |path: usize| {
            let route = Route { socket: client * 2 + path as u32, local: None, remote: server(path) };
            PathConfig::new(route, Ports { local: 40_000, remote: PORT }, 1500, 28 + OVERHEAD as u16)
        };
        let now = Clock.now();
        let session = self.endpoint.connect(now, cfg, path(0));
        self.endpoint.add_path(now, session, path(1));
        self.clients[client as usize].session = Some(session);
        self.of_session.insert(session, client);
    }

    /// Sends an ICMP echo request to the server's inner address.
    pub(crate) fn ping(&mut self, client: u32) {
        let Some(session) = self.clients[client as usize].session else { return };
        let [a, b] = octets(client);
        let mut packet = vec![0u8; 100];
        packet[..12].copy_from_slice(&[0x45, 0, 0, 100, 0, 0, 0x40, 0, 64, 1, 0, 0]);
        packet[12..16].copy_from_slice(&[10, 64, a, b]);
        packet[16..20].copy_from_slice(&HUB);
        packet[20] = 8;
        for range in [0..20, 20..100] {
            let words = packet[range.clone()].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
            let sum: u32 = words.sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            let at = if range.start == 0 { 10 } else { 22 };
            packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let info = PktInfo::of_ip(&packet, self.endpoint.flow_key());
        self.endpoint.send(Clock.now(), session, packet, info);
    }

    pub(crate) fn run_for(&mut self, time: Duration) -> io::Result<()> {
        let since = Instant::now();
        while since.elapsed() < time {
            self.turn(Duration::from_millis(5))?;
        }
        Ok(())
    }

    /// Does everything that is due. If nothing is due, waits for records, for at most `patience`.
    pub(crate) fn turn(&mut self, patience: Duration) -> io::Result<()> {
        let now = Clock.now();
        let deadline =
            self.endpoint.poll_timeout().map_or(now + mpdccp_units::Duration::from_secs(1), |(at, _)| at);
        let wait = deadline.since(now).min(mpdccp_units::Duration::from_nanos(patience.as_nanos() as u64));
        if !wait.is_zero() {
            let nanos = wait.as_nanos() as i64;
            let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: nanos.min(999_999_999) };
            poll(&mut [PollFd::new(&self.socket.as_fd(), PollFlags::IN)], Some(&timeout))?;
        }
        self.receive()?;
        let now = Clock.now();
        self.endpoint.handle_timeout(now);
        while let Some((at, client)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, client));
            self.clients[client as usize].armed = None;
            self.clients[client as usize].channels.handle_timeout(now);
            self.messages(client);
        }
        while let Some((_, data)) = self.endpoint.poll_deliver() {
            self.answers += u64::from(data.get(20) == Some(&0));
        }
        while let Some((session, event)) = self.endpoint.poll_event() {
            match event {
                SessionEvent::Opened { .. } => self.open += 1,
                SessionEvent::PathUp(_) => self.up += 1,
                SessionEvent::PathDown(..) => self.up = self.up.saturating_sub(1),
                SessionEvent::Closed(_) => {
                    self.open = self.open.saturating_sub(1);
                    self.closed += 1;
                    let client = self.of_session.remove(&session);
                    self.again.extend(client.map(|client| (Instant::now() + AGAIN, client)));
                }
                _ => {}
            }
        }
        while let Some((_, client)) = self.again.pop_front_if(|(at, _)| *at <= Instant::now()) {
            self.connect(client);
        }
        self.transmit(now);
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let Clients { endpoint, clients, socket, received, .. } = self;
        let mut touched = BTreeSet::new();
        for _ in 0..64 {
            let n = socket.receive(&mut |packet| {
                let Some(IpAddr::V4(to)) = packet.local else { return };
                let [_, path, a, b] = to.octets();
                let (number, path) = (u32::from(u16::from_be_bytes([a, b])), usize::from(path - 1));
                let Some(client) = clients.get_mut(number as usize) else { return };
                *received += 1;
                touched.insert(number);
                let from = Address { socket: path as u32, local: packet.local, remote: packet.remote };
                if let Input::Packet { len, .. } = client.channels.handle(packet.at, &from, packet.bytes) {
                    let route = Route { socket: number * 2 + path as u32, local: None, remote: server(path) };
                    let bytes = &packet.bytes[HEADER..HEADER + len];
                    endpoint.handle_datagram(packet.at, &route, packet.ecn, packet.ip_len, bytes);
                }
            })?;
            if n == 0 {
                break;
            }
        }
        touched.into_iter().for_each(|client| self.messages(client));
        Ok(())
    }

    fn transmit(&mut self, now: Time) {
        self.endpoint.poll_transmit(now, &mut self.outgoing);
        let Outgoing { packets, mut bytes } = std::mem::take(&mut self.outgoing);
        let mut rest = &mut bytes[..];
        for (route, ecn, len) in packets {
            let (record, later) = rest.split_at_mut(len);
            rest = later;
            let (number, path) = (route.socket / 2, (route.socket % 2) as usize);
            let client = &mut self.clients[number as usize];
            if client.channels.seal(now, client.paths[path], record, len + TAG).is_ok() {
                self.send(source(number, path), route.remote, ecn, record);
            }
            self.messages(number);
        }
    }

    /// Sends the messages of a client's channels and sets its timer.
    fn messages(&mut self, number: u32) {
        while let Some((to, message)) = self.clients[number as usize].channels.poll_transmit() {
            if let Some(local) = to.local {
                self.send(local, to.remote, Ecn::NotEct, &message);
            }
        }
        let client = &mut self.clients[number as usize];
        while client.channels.poll_event().is_some() {}
        let next = client.channels.poll_timeout();
        if client.armed != next {
            if let Some(at) = client.armed {
                self.timers.remove(&(at, number));
            }
            self.timers.extend(next.map(|at| (at, number)));
            client.armed = next;
        }
    }

    /// Sends a datagram. Ignores errors: a datagram that cannot be sent is lost, as on any network.
    fn send(&mut self, local: IpAddr, remote: SocketAddr, ecn: Ecn, bytes: &[u8]) {
        let burst = Burst { local: Some(local), remote, dscp: 0, ecn, segment: bytes.len(), bytes };
        let _ = self.socket.send(&burst);
    }
}
