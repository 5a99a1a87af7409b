use crate::PathId;
use crate::SessionId;
use alloc::collections::{BTreeMap, VecDeque};
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use dccp_proto::{Ports, Route};
use dccp_wire::Header;
use mpdccp_units::{Duration, Time};
use rand_core::RngCore;

/// Ports that clients use, taken from the private-use range (RFC 6335 section 6).
const EPHEMERAL: core::ops::Range<u16> = 49_152..65_535;

/// Two maximum segment lifetimes (RFC 4340 section 8.3). In TIMEWAIT, a client does not reuse a connection's
/// ports, and late packets are answered with a Reset.
const TIME_WAIT: Duration = Duration::from_secs(240);
/// Maximum number of connections in TIMEWAIT. Beyond it, the oldest leave TIMEWAIT early.
const MAX_TIME_WAIT: usize = 16_384;

/// Finds the connection that a packet belongs to, by socket, addresses and DCCP ports, or by connection
/// identifier.
#[derive(Debug, Default)]
pub(super) struct Demux {
    connections: BTreeMap<(Route, Ports), (SessionId, PathId)>,
    identifiers: BTreeMap<u32, SessionId>,
    /// Connections in TIMEWAIT, each with the time at which its TIMEWAIT ends. No other state is kept for
    /// them.
    waiting: BTreeMap<(Route, Ports), Time>,
    /// Connections in TIMEWAIT, ordered by the end of their TIMEWAIT.
    wait_ends: VecDeque<(Time, (Route, Ports))>,
}

impl Demux {
    /// Keeps a connection in TIMEWAIT.
    pub(super) fn hold(&mut self, now: Time, route: &Route, ports: Ports) {
        let key = (*route, ports);
        let end = now + TIME_WAIT;
        while let Some((at, oldest)) = self.wait_ends.front().copied() {
            if at > now && self.wait_ends.len() < MAX_TIME_WAIT {
                break;
            }
            self.wait_ends.pop_front();
            if self.waiting.get(&oldest) == Some(&at) {
                self.waiting.remove(&oldest);
            }
        }
        self.waiting.insert(key, end);
        self.wait_ends.push_back((end, key));
    }

    /// Returns whether this connection is in TIMEWAIT.
    pub(super) fn waits(&self, now: Time, route: &Route, ports: Ports) -> bool {
        self.waiting.get(&(*route, ports)).is_some_and(|&end| now < end)
    }

    pub(super) fn find(&self, route: &Route, header: &Header) -> Option<(SessionId, PathId)> {
        let ports = Ports { local: header.dst_port, remote: header.src_port };
        let exact = self.connections.get(&(*route, ports));
        // If the operating system chooses a connection's local address, the connection accepts packets sent
        // to any local address.
        exact.or_else(|| self.connections.get(&(Route { local: None, ..*route }, ports))).copied()
    }

    /// Returns the requested ports, with a new local port if the requested one is 0, in use, or in TIMEWAIT.
    pub(super) fn free_ports(
        &self,
        now: Time,
        route: &Route,
        wanted: Ports,
        rng: &mut impl RngCore,
    ) -> Ports {
        let mut ports = wanted;
        // This many tries suffice unless nearly all ports are in use. In that case, the new connection
        // replaces an existing one.
        for _ in 0..EPHEMERAL.len() {
            let taken = self.connections.contains_key(&(*route, ports)) || self.waits(now, route, ports);
            if ports.local != 0 && !taken {
                break;
            }
            ports.local = EPHEMERAL.start + (rng.next_u32() % EPHEMERAL.len() as u32) as u16;
        }
        ports
    }

    /// Returns the connections over a socket.
    pub(super) fn over(&self, socket: u32) -> impl Iterator<Item = (&Route, (SessionId, PathId))> {
        let first = Route {
            socket,
            local: None,
            remote: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        };
        let from = self.connections.range((first, Ports { local: 0, remote: 0 })..);
        from.take_while(move |((route, _), _)| route.socket == socket)
            .map(|((route, _), owner)| (route, *owner))
    }

    /// Returns the connections that this end opened from a socket to a destination. Incoming connections are
    /// not included, because their routes have a local address.
    pub(super) fn toward(
        &self,
        socket: u32,
        remote: SocketAddr,
    ) -> impl Iterator<Item = (SessionId, PathId)> {
        let route = Route { socket, local: None, remote };
        let ports = |port| Ports { local: port, remote: port };
        self.connections.range((route, ports(0))..=(route, ports(u16::MAX))).map(|(_, owner)| *owner)
    }

    pub(super) fn add(&mut self, route: &Route, ports: Ports, session: SessionId, path: PathId) {
        self.connections.insert((*route, ports), (session, path));
    }

    pub(super) fn remove(&mut self, route: &Route, ports: Ports, session: SessionId) {
        if self.connections.get(&(*route, ports)).is_some_and(|(owner, _)| *owner == session) {
            self.connections.remove(&(*route, ports));
        }
    }

    pub(super) fn add_ci(&mut self, ci: u32, session: SessionId) {
        self.identifiers.insert(ci, session);
    }

    pub(super) fn remove_ci(&mut self, ci: u32) {
        self.identifiers.remove(&ci);
    }

    pub(super) fn knows_ci(&self, ci: u32) -> bool {
        self.identifiers.contains_key(&ci)
    }

    pub(super) fn by_ci(&self, ci: u32) -> Option<SessionId> {
        self.identifiers.get(&ci).copied()
    }
}
