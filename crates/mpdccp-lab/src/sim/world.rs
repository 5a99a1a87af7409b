//! Two endpoints joined by emulated links, in virtual time.

use dccp_proto::{Ecn, Ports, Route, Sink};
use linkem::{ConfigError, Link, LinkConfig, Meta, Verdict};
use mpdccp_proto::{
    Endpoint, ListenConfig, PathConfig, PeerFilter, PktInfo, SessionConfig, SessionEvent, SessionId,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use units::Time;

/// IPv4 and UDP headers that the carrier adds.
pub const OVERHEAD: u16 = 28;
const MTU: u16 = 1500;
const SERVER_PORT: u16 = 5001;

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    fn index(self) -> usize {
        self as usize
    }

    fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// A packet entering or leaving a link, for whoever keeps records.
#[derive(Clone, Copy, Debug)]
pub enum LinkEvent<'a> {
    /// It was offered; `queue_bytes` is the backlog behind it.
    Entered {
        /// Identifies it in later events of the same link.
        id: u64,
        /// DCCP packet.
        packet: &'a [u8],
        /// Outer IP bytes.
        bytes: u32,
        /// Whether the link took it.
        verdict: Verdict,
        /// Backlog behind it.
        queue_bytes: u64,
    },
    /// It arrived at the other end.
    Left {
        /// As in `Entered`.
        id: u64,
        /// The link set a congestion mark.
        marked: bool,
    },
}

/// Told of every packet on every link: time, path, the side it left, what happened.
pub type Watch<'a> = dyn FnMut(Time, usize, Side, LinkEvent<'_>) + 'a;

/// A packet on a link.
#[derive(Debug)]
pub struct Wire {
    id: u64,
    ecn: Ecn,
    bytes: Vec<u8>,
}

struct Host {
    endpoint: Endpoint,
    session: Option<SessionId>,
}

/// Two endpoints with one session between them, over one or more paths.
pub struct World {
    now: Time,
    hosts: [Host; 2],
    /// By path, then by the side the packets leave.
    links: Vec<[Link<Wire>; 2]>,
    next_id: u64,
    outbox: Outbox,
    delivered: Vec<(Side, Vec<u8>)>,
    events: Vec<(Time, Side, SessionEvent)>,
}

/// Both directions of a path: client to server, server to client.
#[derive(Clone, Debug)]
pub struct WorldPath {
    /// Client to server.
    pub forward: LinkConfig,
    /// Server to client.
    pub backward: LinkConfig,
    /// MP_PRIO of the path.
    pub prio: u8,
}

#[derive(Default)]
struct Outbox(Vec<(Route, Ecn, Vec<u8>)>);

impl Sink for Outbox {
    fn reserve(&mut self, route: &Route, ecn: Ecn, len: usize) -> &mut [u8] {
        self.0.push((*route, ecn, vec![0; len]));
        match self.0.last_mut() {
            Some((_, _, bytes)) => bytes,
            None => &mut [],
        }
    }
}

fn address(path: usize, side: Side) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, path as u8, 1 + side.index() as u8))
}

fn route(path: usize, from: Side) -> Route {
    Route {
        socket: path as u32,
        local: Some(address(path, from)),
        remote: SocketAddr::new(address(path, from.other()), dccp_wire::DCCP_UDP_PORT),
    }
}

impl World {
    /// The client's first Requests leave at once. Every random choice derives from `seed`.
    ///
    /// # Errors
    /// If a link makes no sense.
    pub fn new(
        seed: u64,
        paths: &[WorldPath],
        client: SessionConfig,
        server: SessionConfig,
    ) -> Result<World, ConfigError> {
        let mut links = Vec::new();
        for (i, path) in paths.iter().enumerate() {
            let link_seed = |side: u64| seed.wrapping_mul(31).wrapping_add(i as u64 * 2 + side);
            links.push([
                Link::new(path.forward.clone(), link_seed(0), Time::ZERO)?,
                Link::new(path.backward.clone(), link_seed(1), Time::ZERO)?,
            ]);
        }
        let host = |side: u8| {
            let mut bytes = [side; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            Host { endpoint: Endpoint::new(bytes), session: None }
        };
        let mut hosts = [host(0), host(1)];
        hosts[1].endpoint.listen(ListenConfig {
            port: SERVER_PORT,
            session: server,
            peers: vec![PeerFilter { id: 0, remotes: Vec::new() }],
            mtu: MTU,
            overhead: OVERHEAD,
            max_sessions: 1,
        });
        let config = |i: usize| PathConfig {
            route: route(i, Side::Client),
            ports: Ports { local: 40_000 + i as u16, remote: SERVER_PORT },
            prio: paths[i].prio,
            mtu: MTU,
            overhead: OVERHEAD,
        };
        let id = hosts[0].endpoint.connect(Time::ZERO, client, config(0));
        hosts[0].session = Some(id);
        for i in 1..paths.len() {
            hosts[0].endpoint.add_path(Time::ZERO, id, config(i));
        }
        Ok(World {
            now: Time::ZERO,
            hosts,
            links,
            next_id: 0,
            outbox: Outbox::default(),
            delivered: Vec::new(),
            events: Vec::new(),
        })
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When something will happen by itself; never before [`now`](Self::now).
    pub fn next_event(&self) -> Option<Time> {
        let timers = self.hosts.iter().filter_map(|h| h.endpoint.poll_timeout().map(|(t, _)| t));
        let links = self.links.iter().flatten().filter_map(Link::next_event);
        timers.chain(links).min().map(|t| t.max(self.now))
    }

    /// Brings the world to `t`, which lies no later than [`next_event`](Self::next_event), and lets happen what is due.
    pub fn advance(&mut self, t: Time, watch: &mut Watch<'_>) {
        self.now = self.now.max(t);
        let now = self.now;
        for side in [Side::Client, Side::Server] {
            let host = &mut self.hosts[side.index()];
            if host.endpoint.poll_timeout().is_some_and(|(t, _)| t <= now) {
                host.endpoint.handle_timeout(now);
            }
        }
        for (path, pair) in self.links.iter_mut().enumerate() {
            for from in [Side::Client, Side::Server] {
                while let Some(packet) = pair[from.index()].pop(now) {
                    let marked = packet.meta.ecn != packet.packet.ecn;
                    watch(packet.at, path, from, LinkEvent::Left { id: packet.packet.id, marked });
                    let to = from.other();
                    self.hosts[to.index()].endpoint.handle_datagram(
                        now,
                        &route(path, to),
                        packet.meta.ecn,
                        packet.meta.bytes,
                        &packet.packet.bytes,
                    );
                }
            }
        }
        self.drain(watch);
    }

    /// A datagram for the other side's application.
    pub fn send(&mut self, from: Side, data: Vec<u8>, watch: &mut Watch<'_>) {
        if let Some(id) = self.hosts[from.index()].session {
            let info = PktInfo::of_ip(&data);
            self.hosts[from.index()].endpoint.send(self.now, id, data, info);
            self.drain(watch);
        }
    }

    /// What applications were handed since the last call, in order.
    pub fn take_delivered(&mut self) -> Vec<(Side, Vec<u8>)> {
        std::mem::take(&mut self.delivered)
    }

    /// What happened to the sessions since the last call.
    pub fn take_events(&mut self) -> Vec<(Time, Side, SessionEvent)> {
        std::mem::take(&mut self.events)
    }

    /// One side's endpoint and its session, once there is one.
    pub fn endpoint(&self, side: Side) -> (&Endpoint, Option<SessionId>) {
        let host = &self.hosts[side.index()];
        (&host.endpoint, host.session)
    }

    /// The same, to give commands; follow with [`advance`](Self::advance) to the present.
    pub fn endpoint_mut(&mut self, side: Side) -> (&mut Endpoint, Option<SessionId>) {
        let host = &mut self.hosts[side.index()];
        (&mut host.endpoint, host.session)
    }

    /// Both directions of a path, to change them while running.
    pub fn links_mut(&mut self, path: usize) -> &mut [Link<Wire>; 2] {
        &mut self.links[path]
    }

    fn drain(&mut self, watch: &mut Watch<'_>) {
        let now = self.now;
        for side in [Side::Client, Side::Server] {
            let host = &mut self.hosts[side.index()];
            host.endpoint.poll_transmit(now, &mut self.outbox);
            for (route, ecn, bytes) in self.outbox.0.drain(..) {
                let path = route.socket as usize;
                let wire = Wire { id: self.next_id, ecn, bytes };
                self.next_id += 1;
                let len = wire.bytes.len() as u32 + u32::from(OVERHEAD);
                let meta = Meta { bytes: len, ecn, flow: 0 };
                let (id, copy) = (wire.id, wire.bytes.clone());
                let link = &mut self.links[path][side.index()];
                let verdict = link.push(now, meta, wire);
                let queue_bytes = link.queue_len().bytes;
                watch(
                    now,
                    path,
                    side,
                    LinkEvent::Entered { id, packet: &copy, bytes: len, verdict, queue_bytes },
                );
            }
            while let Some((_, data)) = host.endpoint.poll_deliver() {
                self.delivered.push((side, data));
            }
            while let Some((id, event)) = host.endpoint.poll_event() {
                if matches!(event, SessionEvent::Accepted { .. }) {
                    host.session = Some(id);
                }
                self.events.push((now, side, event));
            }
        }
    }
}
