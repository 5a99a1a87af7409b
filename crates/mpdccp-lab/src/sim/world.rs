//! Two hosts joined by emulated links, in virtual time: an endpoint each, with any number of sessions between them, and packets of others
//! beside them on the same links.

use core::time::Duration;
use dccp_proto::{Ecn, Ports, Route, Sink};
use dccp_wire::Packet;
use mpdccp_linkem::{ConfigError, Link, LinkConfig, Meta, Verdict};
use mpdccp_proto::{
    Endpoint, FlowKey, ListenConfig, PathConfig, PathName, PeerFilter, PktInfo, QueueView, SessionConfig,
    SessionEvent, SessionId, SessionStatus,
};
use mpdccp_units::Time;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::life::WakeUp;
use super::probe;
use super::side::Side;
use crate::{Plan, Random};

/// IPv4 and UDP headers that the encapsulation adds.
pub(crate) const OVERHEAD: u16 = 28;
/// Largest packet of every path.
pub(crate) const MTU: u16 = 1500;
/// Session `i` is accepted on this port plus `i`, and comes from a range of ports that nobody else has.
const SERVER_PORT: u16 = 5001;
const CLIENT_PORT: u16 = 40_000;

/// A packet entering or leaving a link, for whoever keeps records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkEvent {
    /// It was offered.
    Entered {
        /// Identifies it in later events.
        id: u64,
        /// Flow and number of the application packet inside.
        data: Option<(u16, u64)>,
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
pub(crate) type Watch<'a> = dyn FnMut(Time, usize, Side, LinkEvent) + 'a;

/// A packet on a link.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    id: u64,
    path: usize,
    ecn: Ecn,
    /// A DCCP packet of a session, or a whole IP packet of somebody else.
    dccp: bool,
    bytes: Vec<u8>,
}

struct Host {
    endpoint: Endpoint,
    /// What arrived and is not handled yet.
    woken: WakeUp<(Wire, Ecn, u32)>,
    /// By the order of the configurations; none while it is not open.
    sessions: Vec<Option<SessionId>>,
}

/// What came out of the network.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// Out of a session, for the application at that side.
    Session(Side, Vec<u8>),
    /// An IP packet that went beside the sessions.
    Beside(Side, Vec<u8>),
}

/// Both directions of a path.
#[derive(Clone, Debug)]
pub(crate) struct WorldPath {
    /// Client to server, server to client.
    pub(crate) links: [LinkConfig; 2],
    /// Path whose link this one uses; itself, or one before it.
    pub(crate) owner: usize,
    /// What policy rules call it.
    pub(crate) name: PathName,
    /// MP_PRIO of the path.
    pub(crate) prio: u8,
    /// Sessions do not use it.
    pub(crate) outside: bool,
}

/// Two hosts and the links between them.
pub(crate) struct World {
    now: Time,
    hosts: [Host; 2],
    /// By path, then by the side the packets leave.
    links: Vec<[Link<Wire>; 2]>,
    owners: Vec<usize>,
    /// How much farther than its links the other end of each session is.
    detours: Vec<Duration>,
    /// What the encapsulation adds to each packet of a session.
    overhead: u16,
    next_id: u64,
    outbox: Outbox,
    arrived: Vec<Arrived>,
    events: Vec<(Time, Side, SessionEvent)>,
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
    /// Hosts and links of `plan`. Each session runs over all paths, the first one only if it has no multipath, and its packets travel a
    /// detour beside. Encapsulation adds `overhead` bytes to each. First Requests leave at once.
    ///
    /// # Errors
    /// If a link makes no sense.
    pub(crate) fn new(
        plan: &Plan<'_>,
        paths: &[WorldPath],
        sessions: &[(SessionConfig, Duration)],
        overhead: u16,
    ) -> Result<World, ConfigError> {
        let mut links = Vec::new();
        for (i, path) in paths.iter().enumerate() {
            let link = |way: usize| {
                Link::new(path.links[way].clone(), plan.seed_of(Random::Link(i, way)), Time::ZERO)
            };
            links.push([link(0)?, link(1)?]);
        }
        let host = |side: usize| {
            let mut bytes = [side as u8; 32];
            bytes[..8].copy_from_slice(&plan.seed_of(Random::Host(side)).to_le_bytes());
            Host {
                endpoint: Endpoint::new(bytes),
                woken: WakeUp::new(plan.scenario.host.wake_up, plan.seed_of(Random::WakeUp(side))),
                sessions: vec![None; sessions.len()],
            }
        };
        let mut hosts = [host(0), host(1)];
        for (s, (session, _)) in sessions.iter().enumerate() {
            let port = SERVER_PORT + s as u16;
            // What the client sends by, the server receives by.
            let mut server = session.clone();
            core::mem::swap(&mut server.connection.tx_ccids, &mut server.connection.rx_ccids);
            hosts[1].endpoint.listen(ListenConfig {
                port,
                session: server,
                peers: vec![PeerFilter { id: s as u32, remotes: Vec::new() }],
                mtu: MTU,
                overhead,
                max_sessions: 1,
                max_sessions_per_source: 1,
            });
            let all = (0..paths.len()).filter(|i| !paths[*i].outside);
            let mut used = all.take(if session.multipath { usize::MAX } else { 1 });
            let Some(first) = used.next() else { continue };
            let config = |i: usize| PathConfig {
                route: route(i, Side::Client),
                ports: Ports { local: CLIENT_PORT + (s * paths.len() + i) as u16, remote: port },
                name: paths[i].name,
                prio: paths[i].prio,
                mtu: MTU,
                overhead,
            };
            let id = hosts[0].endpoint.connect(Time::ZERO, session.clone(), config(first));
            hosts[0].sessions[s] = Some(id);
            for i in used {
                hosts[0].endpoint.add_path(Time::ZERO, id, config(i));
            }
        }
        Ok(World {
            now: Time::ZERO,
            hosts,
            links,
            owners: paths.iter().map(|p| p.owner).collect(),
            detours: sessions.iter().map(|(_, detour)| *detour).collect(),
            overhead,
            next_id: 0,
            outbox: Outbox::default(),
            arrived: Vec::new(),
            events: Vec::new(),
        })
    }

    /// When something will happen by itself; never in the past.
    pub(crate) fn next_event(&self) -> Option<Time> {
        let timers = self.hosts.iter().filter_map(|h| h.endpoint.poll_timeout().map(|(t, _)| t));
        let links = self.links.iter().flatten().filter_map(Link::next_event);
        let woken = self.hosts.iter().filter_map(|h| h.woken.next());
        timers.chain(links).chain(woken).min().map(|t| t.max(self.now))
    }

    /// Brings the world to `t`, which lies no later than [`next_event`](Self::next_event), and lets happen what is due.
    pub(crate) fn advance(&mut self, t: Time, watch: &mut Watch<'_>) {
        self.now = self.now.max(t);
        let now = self.now;
        for host in &mut self.hosts {
            if host.endpoint.poll_timeout().is_some_and(|(t, _)| t <= now) {
                host.endpoint.handle_timeout(now);
            }
        }
        for pair in &mut self.links {
            for from in [Side::Client, Side::Server] {
                while let Some(out) = pair[from.index()].pop(now) {
                    let (wire, to) = (out.packet, from.other());
                    let marked = out.meta.ecn != wire.ecn;
                    watch(out.at, wire.path, from, LinkEvent::Left { id: wire.id, marked });
                    self.hosts[to.index()].woken.push(now, (wire, out.meta.ecn, out.meta.bytes));
                }
            }
        }
        for to in [Side::Client, Side::Server] {
            while let Some((wire, ecn, bytes)) = self.hosts[to.index()].woken.pop(now) {
                if wire.dccp {
                    let route = route(wire.path, to);
                    self.hosts[to.index()].endpoint.handle_datagram(now, &route, ecn, bytes, &wire.bytes);
                } else {
                    let mut packet = wire.bytes;
                    if let Some(tos) = packet.get_mut(1).filter(|_| ecn != wire.ecn) {
                        *tos |= Ecn::Ce.bits();
                    }
                    self.arrived.push(Arrived::Beside(to, packet));
                }
            }
        }
        self.drain(watch);
    }

    /// A datagram for the other side's application, through a session.
    pub(crate) fn send(&mut self, session: usize, from: Side, data: Vec<u8>, watch: &mut Watch<'_>) {
        let host = &mut self.hosts[from.index()];
        if let Some(id) = host.sessions[session] {
            let info = PktInfo::of_ip(&data, host.endpoint.flow_key());
            host.endpoint.send(self.now, id, data, info);
            self.drain(watch);
        }
    }

    /// An IP packet beside the sessions, which travels so much longer than the path is.
    pub(crate) fn send_beside(
        &mut self,
        (path, detour): (usize, Duration),
        from: Side,
        packet: Vec<u8>,
        watch: &mut Watch<'_>,
    ) {
        let data = probe::read_ip(&packet);
        let ecn = packet.get(1).map_or(Ecn::NotEct, |tos| Ecn::from_bits(*tos));
        let meta =
            Meta { bytes: packet.len() as u32, ecn, flow: PktInfo::of_ip(&packet, FlowKey::default()).flow };
        self.enter((path, detour), from, meta, data, false, packet, watch);
    }

    /// What came out since the last call, in order.
    pub(crate) fn take_arrived(&mut self) -> Vec<Arrived> {
        std::mem::take(&mut self.arrived)
    }

    /// What happened to the sessions since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<(Time, Side, SessionEvent)> {
        std::mem::take(&mut self.events)
    }

    /// The client's end of a session.
    pub(crate) fn status(&self, session: usize) -> Option<SessionStatus> {
        let host = &self.hosts[0];
        host.endpoint.status(self.now, (*host.sessions.get(session)?)?)
    }

    /// What waits in the send queue at the client's end of a session.
    pub(crate) fn backlog(&self, session: usize) -> QueueView {
        let host = &self.hosts[0];
        let id = host.sessions.get(session).copied().flatten();
        id.map_or_else(QueueView::default, |id| host.endpoint.backlog(self.now, id))
    }

    /// What that queue has dropped so far, for whatever reason.
    pub(crate) fn dropped(&self, session: usize) -> u64 {
        let stats = self.status(session).map(|s| s.queue_stats);
        stats.map_or(0, |q| q.dropped_full + q.dropped_old + q.dropped_early + q.dropped_too_big)
    }

    /// Both directions of a path, to change them while running.
    pub(crate) fn links_mut(&mut self, path: usize) -> &mut [Link<Wire>; 2] {
        &mut self.links[path]
    }

    #[allow(clippy::too_many_arguments)]
    fn enter(
        &mut self,
        (path, detour): (usize, Duration),
        from: Side,
        meta: Meta,
        data: Option<(u16, u64)>,
        dccp: bool,
        bytes: Vec<u8>,
        watch: &mut Watch<'_>,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        let link = &mut self.links[self.owners[path]][from.index()];
        let verdict =
            link.push_farther(self.now, meta, detour, Wire { id, path, ecn: meta.ecn, dccp, bytes });
        let queue_bytes = link.queue_len().bytes;
        watch(self.now, path, from, LinkEvent::Entered { id, data, bytes: meta.bytes, verdict, queue_bytes });
    }

    fn drain(&mut self, watch: &mut Watch<'_>) {
        let now = self.now;
        for side in [Side::Client, Side::Server] {
            let host = &mut self.hosts[side.index()];
            host.endpoint.poll_transmit(now, &mut self.outbox);
            while let Some((_, data)) = host.endpoint.poll_deliver() {
                self.arrived.push(Arrived::Session(side, data));
            }
            while let Some((id, event)) = host.endpoint.poll_event() {
                if let SessionEvent::Accepted { peer } = event {
                    host.sessions[peer as usize] = Some(id);
                }
                self.events.push((now, side, event));
            }
            let mut outbox = std::mem::take(&mut self.outbox.0);
            for (route, ecn, bytes) in outbox.drain(..) {
                let parsed = Packet::parse(&bytes).ok();
                let data = parsed.as_ref().and_then(|p| probe::read(p.payload));
                // Ports tell sessions apart; each would have a socket of its own.
                let flow = bytes.first_chunk().map_or(0, |ports| u32::from_be_bytes(*ports));
                let meta = Meta { bytes: bytes.len() as u32 + u32::from(self.overhead), ecn, flow };
                let [client, server] = [(flow >> 16) as u16, flow as u16];
                let port = if side == Side::Client { server } else { client };
                let session = usize::from(port.wrapping_sub(SERVER_PORT));
                let detour = self.detours.get(session).copied().unwrap_or_default();
                self.enter((route.socket as usize, detour), side, meta, data, true, bytes, watch);
            }
            self.outbox.0 = outbox;
        }
    }
}
