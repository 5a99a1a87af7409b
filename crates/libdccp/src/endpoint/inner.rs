//! The object behind the handle of an endpoint: the endpoint itself and, if there is a private key, the
//! encrypted channels between its sessions and the program's sockets.

use crate::errno::{Outcome, invalid};
use crate::handles::Table;
use dccp_net::{Arrived, ChannelRoutes, is_channel};
use dccp_proto::{Ports, Route, Sink};
use dccp_secure::HEADER;
use dccp_sockets::Options;
use mpdccp_proto::{Endpoint, PathConfig, SessionId};
use mpdccp_units::{Duration, Ecn, Time};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The size of an IPv4 header and a UDP header.
pub(super) const OVERHEAD: u16 = 28;
/// The difference in size between an IPv6 header and an IPv4 header.
pub(super) const MORE: u16 = 20;

/// All connections of an event loop, without sockets, clock or threads. The program sends and receives the
/// packets in UDP datagrams, and passes in the time.
pub struct dccp_endpoint {
    _opaque: [u8; 0],
}

pub(super) struct Out {
    pub(super) route: Route,
    pub(super) ecn: Ecn,
    pub(super) bytes: Vec<u8>,
}

pub(super) struct Loop {
    pub(super) endpoint: Endpoint,
    /// The encrypted channels between the endpoint and the program's sockets, or `None` without a private
    /// key.
    pub(super) routes: Option<ChannelRoutes>,
    /// The channels of each session, which are closed when the session ends.
    pub(super) opened: BTreeMap<SessionId, Vec<u32>>,
    pub(super) options: Options,
    pub(super) out: VecDeque<Out>,
    pub(super) delivered: Option<(SessionId, Vec<u8>)>,
    /// The latest time that the program has passed to the endpoint.
    pub(super) now: Time,
}

/// Collects the packets that the endpoint sends.
struct Keep<'a>(&'a mut VecDeque<Out>);

impl Sink for Keep<'_> {
    fn reserve(&mut self, route: &Route, ecn: Ecn, len: usize) -> &mut [u8] {
        let (begin, all) = record(route.socket, len);
        self.0.push_back(Out { route: *route, ecn, bytes: vec![0; all] });
        self.0.back_mut().map_or(&mut [], |out| &mut out.bytes[begin..begin + len])
    }
}

pub(super) static ENDPOINTS: Table<Mutex<Loop>> = Table::new();

impl Loop {
    /// Converts the program's time. The result never goes backwards, even if the program's time does.
    pub(super) fn at(&mut self, now_ns: u64) -> Time {
        self.now = self.now.max(Time::from_nanos(now_ns));
        self.now
    }

    pub(super) fn path(
        &mut self,
        now: Time,
        to: SocketAddr,
        socket: u32,
        local_port: u16,
    ) -> Outcome<PathConfig> {
        let overhead = self.sealing() + if to.is_ipv4() { OVERHEAD } else { OVERHEAD + MORE };
        let route = self.route(now, Route { socket, local: None, remote: to })?;
        let ports = Ports { local: local_port, remote: self.options.listening_port() };
        Ok(PathConfig::new(route, ports, self.options.largest_packet(), overhead))
    }

    /// Collects the packets that may be sent now, and encrypts them if there is a key.
    pub(super) fn fill(&mut self, now: Time) {
        self.endpoint.poll_transmit(now, &mut Keep(&mut self.out));
        self.seal(now);
    }

    /// With encryption, remembers that a session uses this channel, so that the channel can be closed with
    /// the session.
    pub(super) fn note(&mut self, session: SessionId, socket: u32) {
        if self.routes.is_some() {
            self.opened.entry(session).or_default().push(socket);
        }
    }

    /// Encrypts the last packets of an ended session, then closes the session's channels.
    pub(super) fn forget(&mut self, session: SessionId) {
        let Some(channels) = self.opened.remove(&session) else { return };
        self.fill(self.now);
        for channel in channels {
            self.routes.iter_mut().for_each(|routes| routes.close(channel));
        }
    }
}

/// Runs `act` on an endpoint, for one thread at a time.
pub(super) fn with<T>(
    endpoint: *const dccp_endpoint,
    act: impl FnOnce(&mut Loop) -> Outcome<T>,
) -> Outcome<T> {
    let made = ENDPOINTS.get(endpoint)?;
    let mut inner: MutexGuard<'_, Loop> = made.lock().unwrap_or_else(PoisonError::into_inner);
    act(&mut inner)
}

/// The number of the ChaCha20 stream from which the channels take their random numbers.
const SEEDS: u64 = u64::MAX;

/// Creates the channels if the options have a key. The channels need times that count from 1970.
pub(super) fn channels(options: &Options, seed: [u8; 32]) -> Option<ChannelRoutes> {
    let mut rng = ChaCha20Rng::from_seed(seed);
    rng.set_stream(SEEDS);
    let mut own = [0; 32];
    rng.fill_bytes(&mut own);
    options.channels(true, Duration::ZERO, own).map(ChannelRoutes::new)
}

/// Returns the position in its datagram of a packet with `len` bytes, and the length of the datagram. If the
/// socket is a channel, the datagram also has the overhead of encryption.
pub(super) fn record(socket: u32, len: usize) -> (usize, usize) {
    if is_channel(socket) { (HEADER, len + dccp_secure::OVERHEAD) } else { (0, len) }
}

/// Checks the number of a program's socket. Higher numbers are those of channels.
pub(super) fn check_socket(socket: u32) -> Outcome<()> {
    if is_channel(socket) {
        return Err(invalid(format!("invalid socket {socket}; numbers are below 2^31")));
    }
    Ok(())
}

impl Loop {
    /// Returns the route of a path. With encryption, the route uses a channel to the first peer of the
    /// options.
    pub(super) fn route(&mut self, now: Time, route: Route) -> Outcome<Route> {
        check_socket(route.socket)?;
        let Some(routes) = &mut self.routes else { return Ok(route) };
        let socket = routes.open(now, 0, &route);
        let socket = socket.ok_or_else(|| {
            invalid("dccp_options.peers is empty; a client with a key needs the public key of its server")
        })?;
        Ok(Route { socket, ..route })
    }

    /// Returns the number of bytes that encryption adds to each packet.
    pub(super) fn sealing(&self) -> u16 {
        if self.routes.is_some() { dccp_secure::OVERHEAD as u16 } else { 0 }
    }

    /// Handles a datagram from the network.
    pub(super) fn receive(&mut self, now: Time, from: &Route, ecn: Ecn, ip_len: u32, datagram: &[u8]) {
        let Some(routes) = &mut self.routes else {
            return self.endpoint.handle_datagram(now, from, ecn, ip_len, datagram);
        };
        let mut datagram = datagram.to_vec();
        if let Arrived::Packet(opened) = routes.handle(now, from, &mut datagram) {
            let packet = &datagram[opened.packet];
            self.endpoint.handle_peer(now, &opened.route, opened.peer, ecn, ip_len, packet);
        }
        // Discard the events, because no code here needs to know that a peer has moved.
        routes.events();
    }

    /// Encrypts the endpoint's packets that go through channels, then adds the channels' own messages.
    pub(super) fn seal(&mut self, now: Time) {
        let Loop { routes: Some(routes), out, .. } = self else { return };
        out.retain_mut(|packet| {
            let socket = packet.route.socket;
            if !is_channel(socket) {
                return true;
            }
            let len = packet.bytes.len();
            // If the channel has no key yet, it keeps the packet, and `channels.poll_transmit` returns it
            // once there is a key.
            let Some(to) = routes.seal(now, socket, (&mut packet.bytes, len)) else { return false };
            packet.route = Route { socket: to.socket, local: to.local, remote: to.remote };
            true
        });
        while let Some((to, bytes)) = routes.channels.poll_transmit() {
            let route = Route { socket: to.socket, local: to.local, remote: to.remote };
            out.push_back(Out { route, ecn: Ecn::NotEct, bytes });
        }
    }

    /// Returns when the next timer of the channels or the sessions expires.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let channels = self.routes.as_ref().and_then(|routes| routes.channels.poll_timeout());
        channels.into_iter().chain(self.endpoint.poll_timeout().map(|(at, _)| at)).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if let Some(routes) = &mut self.routes {
            routes.channels.handle_timeout(now);
            routes.events();
        }
        self.endpoint.handle_timeout(now);
    }
}
