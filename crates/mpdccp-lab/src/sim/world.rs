//! Simulates, in virtual time, two hosts connected by emulated links. The hosts have either the two ends of a
//! tunnel, or two endpoints with any number of plain connections. Other packets may use the same links.

mod drain;

use core::time::Duration;
use dccp_proto::{Ecn, Outbox, Ports, Route};
use mpdccp_linkem::{ConfigError, Link, LinkConfig, Meta};
use mpdccp_proto::{
    Endpoint, FlowKey, ListenConfig, PathConfig, PathName, PeerFilter, PktInfo, QueueView, SessionConfig,
    SessionEvent, SessionId, SessionStatus,
};
use mpdccp_proxy::{Command, Event};
use mpdccp_units::Time;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::end::{self, End, HEADERS, MTU};
use super::life::WakeUp;
use super::outer::Outer;
use super::probe;
use super::side::Side;
use crate::scenario::TunnelEvent;
use crate::tunnel_files::TunnelFiles;
use crate::{LabError, Plan, Random};

/// Port on which the server accepts session 0. Session `i` uses this port plus `i`.
const SERVER_PORT: u16 = 5001;
const CLIENT_PORT: u16 = 40_000;

/// Something that happens to a packet on a link, for records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkEvent {
    /// The packet was offered to the link.
    Entered {
        /// Flow and sequence number of the application packet that it contains.
        data: Option<(u16, u64)>,
        /// Outer IP bytes.
        bytes: u32,
        /// Bytes in the queue after this event.
        queue_bytes: u64,
    },
    /// The packet arrived at the other end.
    Left {
        /// The number of packets that had entered the path in this direction before.
        number: usize,
        /// Whether the link set a congestion mark.
        marked: bool,
    },
    /// The packet was lost on the wire, or the link held it when it went down or at the end of the run.
    Lost {
        /// As in `Left`.
        number: usize,
    },
}

/// Receives every event on every link, with its time, path and sending side.
pub(crate) type Watch<'a> = dyn FnMut(Time, usize, Side, LinkEvent) + 'a;

/// A packet on a link.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    number: usize,
    path: usize,
    ecn: Ecn,
    what: What,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// An IP packet that is outside both the tunnel and the connections.
    Outside,
    /// A DCCP packet of a plain connection.
    Plain,
    /// A datagram of the tunnel.
    Tunnel(Outer),
}

struct Host {
    endpoint: Endpoint,
    /// This endpoint's end of the tunnel, if there is a tunnel.
    end: Option<Box<End>>,
    /// Packets that have arrived and are waiting for the program to wake up.
    woken: WakeUp<(Wire, Ecn, u32)>,
    /// Plain connections in the order of their configurations; `None` while the connection is not open.
    sessions: Vec<Option<SessionId>>,
}

/// Output of the network.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// A session delivered a datagram for the application at this side.
    Session(Side, Vec<u8>),
    /// An IP packet outside the sessions has arrived at this side.
    Outside(Side, Vec<u8>),
    /// A host has sent a packet to the private namespace of its tunnel.
    Proxied(Side, Vec<u8>),
    /// The tunnel at this side sent a command for the sockets in its private namespace.
    Tcp(Side, Command),
}

/// Both directions of a path.
#[derive(Clone, Debug)]
pub(crate) struct WorldPath {
    /// Configurations of the link: client to server, then server to client.
    pub(crate) links: [LinkConfig; 2],
    /// Index of the path whose link this path uses: its own index, or that of an earlier path.
    pub(crate) owner: usize,
    /// The path's name in policy rules.
    pub(crate) name: PathName,
    /// Priority of the path (MP_PRIO).
    pub(crate) prio: u8,
}

/// Two hosts and the links between them.
pub(crate) struct World {
    now: Time,
    hosts: [Host; 2],
    /// Links by path and sending side.
    links: Vec<[Link<Wire>; 2]>,
    owners: Vec<usize>,
    /// Additional delay of each session beyond that of its links.
    detours: Vec<Duration>,
    /// Number of packets that have entered each path, by sending side.
    entered: Vec<[usize; 2]>,
    outbox: Outbox,
    arrived: Vec<Arrived>,
    events: Vec<(Time, Side, SessionEvent)>,
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
    /// Creates the hosts and links of `plan`, with plain connections over the first path. A connection's
    /// additional delay applies to all its packets. The first Requests leave immediately.
    ///
    /// # Errors
    /// Fails if a link has an invalid configuration.
    pub(crate) fn new(
        plan: &Plan<'_>,
        paths: &[WorldPath],
        sessions: &[(SessionConfig, Duration)],
    ) -> Result<World, ConfigError> {
        let mut links = Vec::new();
        for (i, path) in paths.iter().enumerate() {
            let link = |way: usize| {
                Link::new(path.links[way].clone(), plan.seed_of(Random::Link(i, way)), Time::ZERO)
            };
            links.push([link(0)?, link(1)?]);
        }
        let host = |side: usize| Host {
            endpoint: Endpoint::new(plan.host_seed(side)),
            end: None,
            woken: WakeUp::new(plan.scenario.host.wake_up, plan.seed_of(Random::WakeUp(side))),
            sessions: vec![None; sessions.len()],
        };
        let mut hosts = [host(0), host(1)];
        for (s, (session, _)) in sessions.iter().enumerate() {
            let port = SERVER_PORT + s as u16;
            // Swap the CCIDs, because the client's sending CCID is the server's receiving CCID.
            let mut server = session.clone();
            core::mem::swap(&mut server.connection.tx_ccids, &mut server.connection.rx_ccids);
            hosts[1].endpoint.listen(ListenConfig {
                port,
                session: server,
                peers: vec![PeerFilter { id: s as u32, remotes: Vec::new() }],
                strangers: false,
                mtu: MTU,
                overhead: HEADERS,
                max_sessions: 1,
                max_sessions_per_source: 1,
            });
            let path = PathConfig {
                route: route(0, Side::Client),
                ports: Ports { local: CLIENT_PORT + (s * paths.len()) as u16, remote: port },
                name: paths[0].name,
                prio: paths[0].prio,
                mtu: MTU,
                overhead: HEADERS,
            };
            hosts[0].sessions[s] = Some(hosts[0].endpoint.connect(Time::ZERO, session.clone(), path));
        }
        Ok(World {
            now: Time::ZERO,
            hosts,
            links,
            owners: paths.iter().map(|p| p.owner).collect(),
            detours: sessions.iter().map(|(_, detour)| *detour).collect(),
            entered: vec![[0; 2]; paths.len()],
            outbox: Outbox::new(),
            arrived: Vec::new(),
            events: Vec::new(),
        })
    }

    /// Starts the tunnel at both ends, and returns its configuration files.
    ///
    /// # Errors
    /// Fails if the configuration files are invalid.
    pub(crate) fn start_tunnel<'a>(&mut self, plan: &Plan<'a>) -> Result<TunnelFiles<'a>, LabError> {
        let mut key = 0;
        let random = || {
            let mut seed = plan.host_seed(key);
            // The program's random bytes must differ from those of the endpoint.
            seed[31] ^= 0x80;
            key += 1;
            Ok(seed)
        };
        let files = TunnelFiles::new(plan, PathBuf::new(), random)?;
        for side in [Side::Server, Side::Client] {
            let seed = plan.host_seed(side.index());
            let host = &mut self.hosts[side.index()];
            let (end, endpoint) = End::start(self.now, side, &files.text(side), seed)?;
            (host.end, host.endpoint) = (Some(Box::new(end)), endpoint);
        }
        Ok(files)
    }

    /// Executes an event of the tunnel immediately.
    ///
    /// # Errors
    /// Fails if the tunnel refuses the event.
    pub(crate) fn on_scenario(
        &mut self,
        now: Time,
        event: &TunnelEvent,
        files: &mut TunnelFiles<'_>,
    ) -> Result<(), LabError> {
        self.now = self.now.max(now);
        event.reload.iter().for_each(|reload| files.follow(reload));
        for host in &mut self.hosts {
            if let Some(end) = &mut host.end {
                end.on_scenario(self.now, &mut host.endpoint, event, files)?;
            }
        }
        Ok(())
    }

    /// Returns when the next event is due if there is no input before then; never a time in the past.
    pub(crate) fn next_event(&self) -> Option<Time> {
        let timers = self.hosts.iter().filter_map(|h| h.endpoint.poll_timeout().map(|(t, _)| t));
        let links = self.links.iter().flatten().filter_map(Link::next_event);
        let timers = timers.chain(self.hosts.iter().filter_map(|h| h.end.as_ref()?.next_timeout()));
        let woken = self.hosts.iter().filter_map(|h| h.woken.next());
        let arrived = (!self.arrived.is_empty()).then_some(self.now);
        timers.chain(links).chain(woken).chain(arrived).min().map(|t| t.max(self.now))
    }

    /// Advances the time to `t`, which must not be after [`next_event`](Self::next_event), and executes all
    /// events due by then.
    pub(crate) fn advance(&mut self, t: Time, watch: &mut Watch<'_>) {
        self.now = self.now.max(t);
        let now = self.now;
        for host in &mut self.hosts {
            if host.endpoint.poll_timeout().is_some_and(|(t, _)| t <= now) {
                host.endpoint.handle_timeout(now);
            }
            if let Some(end) = host.end.as_mut().filter(|end| end.next_timeout().is_some_and(|t| t <= now)) {
                end.on_timeout(now, &mut host.endpoint);
            }
        }
        for pair in &mut self.links {
            for from in [Side::Client, Side::Server] {
                while let Some(out) = pair[from.index()].pop(now) {
                    let (wire, to) = (out.packet, from.other());
                    let marked = out.meta.ecn != wire.ecn;
                    watch(out.at, wire.path, from, LinkEvent::Left { number: wire.number, marked });
                    self.hosts[to.index()].woken.push(now, (wire, out.meta.ecn, out.meta.bytes));
                }
                while let Some(wire) = pair[from.index()].pop_lost() {
                    watch(now, wire.path, from, LinkEvent::Lost { number: wire.number });
                }
            }
        }
        for to in [Side::Client, Side::Server] {
            while let Some((wire, ecn, bytes)) = self.hosts[to.index()].woken.pop(now) {
                let host = &mut self.hosts[to.index()];
                match (wire.what, &mut host.end) {
                    (What::Plain, _) => {
                        let route = route(wire.path, to);
                        host.endpoint.handle_datagram(now, &route, ecn, bytes, &wire.bytes);
                    }
                    (What::Tunnel(outer), Some(end)) => {
                        end.arrive(now, &mut host.endpoint, &outer, (ecn, bytes), wire.bytes);
                    }
                    // The program is not running, so the packet is dropped.
                    (What::Tunnel(_), None) => {}
                    (What::Outside, _) => {
                        let mut packet = wire.bytes;
                        if let Some(tos) = packet.get_mut(1).filter(|_| ecn != wire.ecn) {
                            *tos |= Ecn::Ce.bits();
                        }
                        self.arrived.push(Arrived::Outside(to, packet));
                    }
                }
            }
        }
        self.drain(watch);
    }

    /// Ends all links.
    pub(crate) fn end_links(&mut self, watch: &mut Watch<'_>) {
        for pair in std::mem::take(&mut self.links) {
            for (link, from) in pair.into_iter().zip([Side::Client, Side::Server]) {
                let lost =
                    |wire: Wire| watch(self.now, wire.path, from, LinkEvent::Lost { number: wire.number });
                link.end().into_iter().for_each(lost);
            }
        }
    }

    /// Sends a datagram to the application at the other side, through a plain connection or through the
    /// tunnel's interface.
    pub(crate) fn send(&mut self, session: usize, from: Side, data: Vec<u8>, watch: &mut Watch<'_>) {
        let host = &mut self.hosts[from.index()];
        if let Some(end) = &mut host.end {
            let back = end.send(self.now, &mut host.endpoint, data);
            self.arrived.extend(back.map(|packet| packet.arrived(from)));
        } else if let Some(id) = host.session(session) {
            let info = PktInfo::of_ip(&data, host.endpoint.flow_key());
            host.endpoint.send(self.now, id, data, info);
        }
        self.drain(watch);
    }

    /// Passes an event of a connection's sockets to the tunnel at `side`.
    pub(crate) fn on_sockets(&mut self, side: Side, event: Event, watch: &mut Watch<'_>) {
        let host = &mut self.hosts[side.index()];
        if let Some(end) = &mut host.end {
            end.on_sockets(self.now, &mut host.endpoint, event);
        }
        self.drain(watch);
    }

    /// Sends an IP packet outside the sessions over a path, with an additional delay.
    pub(crate) fn send_outside(
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
        self.enter((path, detour), from, meta, data, What::Outside, packet, watch);
    }

    /// Takes the output since the last call, in order.
    pub(crate) fn take_arrived(&mut self) -> Vec<Arrived> {
        std::mem::take(&mut self.arrived)
    }

    /// Takes the events that plain connections have raised since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<(Time, Side, SessionEvent)> {
        std::mem::take(&mut self.events)
    }

    /// Returns the status of the client's end of a plain connection or of the tunnel's session.
    pub(crate) fn status(&self, session: usize) -> Option<SessionStatus> {
        let host = &self.hosts[0];
        host.endpoint.status(self.now, host.session(session)?)
    }

    /// Returns the backlog of the client's send queue, or `None` if there is no session.
    pub(crate) fn backlog(&self, session: usize) -> Option<QueueView> {
        let host = &self.hosts[0];
        Some(host.endpoint.backlog(self.now, host.session(session)?))
    }

    /// Returns the number of packets that the client's send queue has dropped so far, for any reason.
    pub(crate) fn dropped(&self, session: usize) -> u64 {
        let host = &self.hosts[0];
        match &host.end {
            Some(end) => end.dropped(self.now, &host.endpoint),
            None => host.session(session).map_or(0, |id| end::dropped(self.now, &host.endpoint, id)),
        }
    }

    /// Returns the MTU of the tunnel interface at the client, or `None` if there is no tunnel.
    pub(crate) fn tunnel_mtu(&self) -> Option<u16> {
        self.hosts[0].end.as_ref().map(|end| end.mtu)
    }

    /// Returns both directions of a path's link, to be changed at run time.
    pub(crate) fn links_mut(&mut self, path: usize) -> &mut [Link<Wire>; 2] {
        &mut self.links[path]
    }
}

impl Host {
    /// Returns the session of a plain connection, or the tunnel's session.
    fn session(&self, number: usize) -> Option<SessionId> {
        match &self.end {
            Some(end) => end.session(),
            None => *self.sessions.get(number)?,
        }
    }
}
