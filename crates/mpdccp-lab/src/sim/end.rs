//! Runs one end of a tunnel in virtual time. The tunnel's code, keys, channels and handshakes are those of
//! the program; a simulated host executes the tunnel's actions.

mod actions;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use core::time::Duration;
use dccp_net::{Arrived, ChannelEvent, ChannelRoutes, data_of, is_channel};
use dccp_proto::{Ecn, Route};
use dccp_secure::{HEADER, OVERHEAD, TAG};
use mpdccp_proto::{Endpoint, SessionEvent, SessionId};
use mpdccp_proxy::{Command as SocketCommand, Event};
use mpdccp_tunnel::{Command, HostEvent, Marker, Outcome, Packet, Saved, Tunnel};
use mpdccp_units::Time;

use super::outer::Outer;
use super::program::{Program, make, read};
use super::side::Side;
use crate::LabError;
use crate::scenario::TunnelEvent;
use crate::tunnel_files::{TunnelFiles, client_address};

/// Size in bytes of the IPv4 and UDP headers around each DCCP packet.
pub(super) const HEADERS: u16 = 28;
/// Largest packet of every path.
pub(super) const MTU: u16 = 1500;
/// Number of a server's only socket.
const LISTEN: u32 = 0;

#[derive(Debug)]
struct Socket {
    local: SocketAddr,
    /// Path of the interface to which the socket is bound, or `None` if the socket is bound to an address.
    path: Option<usize>,
    /// IP bytes sent and received.
    bytes: u64,
}

/// A packet that leaves the tunnel.
#[derive(Debug)]
pub(super) enum Inner {
    /// An IP packet for the host, to be delivered through the tunnel's interface.
    Host(Vec<u8>),
    /// An IP packet for the private namespace, in which the tunnel terminates TCP connections that it carries
    /// as streams.
    Namespace(Vec<u8>),
}

pub(super) struct End {
    side: Side,
    program: Program,
    seed: [u8; 32],
    /// Files saved by the program, which survive a restart.
    saved: Saved,
    tunnel: Tunnel,
    channels: Option<ChannelRoutes>,
    sockets: BTreeMap<u32, Socket>,
    opened: u16,
    marker: Marker,
    /// MTU of the tunnel's interface.
    pub(super) mtu: u16,
    /// Packets dropped by the queues of sessions that have since ended.
    lost: u64,
    /// Commands for the private namespace's sockets.
    commands: Vec<SocketCommand>,
    /// Number of address changes of a client, by path.
    roamed: BTreeMap<usize, usize>,
    /// Set once the program has been asked to exit: the time until its restart.
    ending: Option<Duration>,
    ended: bool,
    /// Set while the program is not running: the time of its restart.
    down: Option<Time>,
    /// The error of the last command that was refused.
    refused: Option<String>,
}

impl End {
    /// Starts the program with this configuration file.
    ///
    /// # Errors
    /// Fails if the file is invalid.
    pub(super) fn start(
        now: Time,
        side: Side,
        text: &str,
        seed: [u8; 32],
    ) -> Result<(End, Endpoint), LabError> {
        let program = read(text)?;
        let mut endpoint = Endpoint::new(seed);
        let (tunnel, channels) = make(now, side, &program, &Saved::new(), seed, &mut endpoint);
        let mut end = End {
            side,
            seed,
            saved: Saved::new(),
            tunnel,
            channels,
            sockets: BTreeMap::new(),
            opened: 0,
            marker: Marker::new(&program.0),
            mtu: 0,
            lost: 0,
            commands: Vec::new(),
            roamed: BTreeMap::new(),
            ending: None,
            ended: false,
            down: None,
            refused: None,
            program,
        };
        end.begin(now, &mut endpoint);
        Ok((end, endpoint))
    }

    /// Does what the program does when it starts.
    fn begin(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.act(now, endpoint);
        if self.side == Side::Server {
            let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, dccp_wire::DCCP_UDP_PORT));
            self.sockets.insert(LISTEN, Socket { local, path: None, bytes: 0 });
            self.tunnel.listen(endpoint, MTU, self.overhead());
        }
        let carried = self.tunnel.carried().unwrap_or_else(|| mpdccp_tunnel::inner_mtu(MTU, self.overhead()));
        // A larger MTU is possible only if the file sets one.
        self.mtu = mpdccp_tunnel::interface_mtu(&self.program.0, carried).unwrap_or(carried);
        if self.program.0.wants_streams() {
            self.tunnel.set_proxy(endpoint, Ok(usize::MAX));
        }
        self.tunnel.start(endpoint, now, self.mtu);
        self.act(now, endpoint);
    }

    /// Restarts the program with its saved files.
    fn begin_again(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.down = None;
        self.seed[31] = self.seed[31].wrapping_add(1);
        *endpoint = Endpoint::new(self.seed);
        (self.tunnel, self.channels) = make(now, self.side, &self.program, &self.saved, self.seed, endpoint);
        self.marker = Marker::new(&self.program.0);
        self.begin(now, endpoint);
    }

    /// Ends the program with all its sockets, and schedules its restart at `until`.
    fn die(&mut self, now: Time, endpoint: &mut Endpoint, until: Time) {
        self.lost = self.dropped(now, endpoint);
        *endpoint = Endpoint::new(self.seed);
        self.sockets.clear();
        self.channels = None;
        self.commands = vec![SocketCommand::Stop];
        (self.ending, self.ended, self.down) = (None, false, Some(until));
    }

    /// Exits the program once its sessions are closed and its last packets sent.
    pub(super) fn settle(&mut self, now: Time, endpoint: &mut Endpoint) {
        if self.ended {
            let until = now + self.ending.unwrap_or_default();
            self.die(now, endpoint, until);
        }
    }

    /// Executes an event of the scenario, whose changes `files` must already contain.
    ///
    /// # Errors
    /// Fails if the tunnel refuses the event.
    pub(super) fn on_scenario(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        event: &TunnelEvent,
        files: &TunnelFiles<'_>,
    ) -> Result<(), LabError> {
        let server = self.side == Side::Server;
        if event.reload.is_some() {
            let program = read(&files.text(self.side))?;
            let command = Command::Reload(Box::new(program.0.clone()), program.1.clone());
            self.program = program;
            self.command(now, endpoint, command);
        } else if event.drain && server {
            self.command(now, endpoint, Command::Drain);
        } else if let (Some(name), false) = (&event.roam, server) {
            let path = files.used().find(|(_, path)| path.name.as_ref() == name.as_ref());
            path.into_iter().for_each(|(path, _)| *self.roamed.entry(path).or_default() += 1);
            if self.down.is_none() {
                self.tunnel.handle_host(endpoint, now, HostEvent::Changed);
                self.act(now, endpoint);
            }
        } else if event.kill == Some(self.side) {
            self.die(now, endpoint, now + event.away);
        } else if event.restart == Some(self.side) {
            self.ending = Some(event.away);
            self.command(now, endpoint, Command::ShutDown);
        }
        self.refused.take().map_or(Ok(()), |why| Err(self.error(why)))
    }

    /// Sends a command to the program. If the program is not running, it does not need the command, because
    /// it reads its file when it starts.
    fn command(&mut self, now: Time, endpoint: &mut Endpoint, command: Command) {
        if self.down.is_none() {
            self.tunnel.handle_command(endpoint, now, 0, command);
            self.act(now, endpoint);
        }
    }

    /// Returns the client's current address on a path.
    fn here(&self, path: usize) -> IpAddr {
        client_address(path, self.roamed.get(&path).copied().unwrap_or(0)).into()
    }

    fn error(&self, why: impl std::fmt::Display) -> LabError {
        LabError::failed(format!("the tunnel's {}", self.side.name()), why)
    }

    /// Returns the size in bytes of all headers around each DCCP packet.
    fn overhead(&self) -> u16 {
        HEADERS + if self.channels.is_some() { OVERHEAD as u16 } else { 0 }
    }

    /// Returns when to call [`on_timeout`](Self::on_timeout).
    pub(super) fn next_timeout(&self) -> Option<Time> {
        if self.down.is_some() {
            return self.down;
        }
        let channels = self.channels.as_ref().and_then(|routes| routes.channels.poll_timeout());
        channels.into_iter().chain(self.tunnel.poll_timeout()).min()
    }

    pub(super) fn on_timeout(&mut self, now: Time, endpoint: &mut Endpoint) {
        if let Some(at) = self.down {
            if at <= now {
                self.begin_again(now, endpoint);
            }
            return;
        }
        if let Some(routes) = &mut self.channels
            && routes.channels.poll_timeout().is_some_and(|at| at <= now)
        {
            routes.channels.handle_timeout(now);
        }
        self.channel_events(now, endpoint);
        if self.tunnel.poll_timeout().is_some_and(|at| at <= now) {
            self.tunnel.handle_timeout(endpoint, now);
            self.act(now, endpoint);
        }
    }

    /// Returns the session with the peer.
    pub(super) fn session(&self) -> Option<SessionId> {
        let mut sessions = self.tunnel.sessions().filter(|_| self.down.is_none());
        sessions.next().map(|(session, _)| session)
    }

    /// Returns how many packets the queues of all sessions have dropped so far.
    pub(super) fn dropped(&self, now: Time, endpoint: &Endpoint) -> u64 {
        self.lost + self.session().map_or(0, |session| dropped(now, endpoint, session))
    }

    /// Passes a packet from this host to the tunnel's interface. If the tunnel answers immediately, returns
    /// the answer.
    pub(super) fn send(&mut self, now: Time, endpoint: &mut Endpoint, packet: Vec<u8>) -> Option<Inner> {
        self.packet(now, endpoint, Packet::Interface(packet))
    }

    /// Takes the commands issued since the last call for the namespace's sockets.
    pub(super) fn take_commands(&mut self) -> Vec<SocketCommand> {
        std::mem::take(&mut self.commands)
    }

    /// Handles an event from the namespace's sockets.
    pub(super) fn on_sockets(&mut self, now: Time, endpoint: &mut Endpoint, event: Event) {
        if self.down.is_none() {
            self.tunnel.handle_sockets(endpoint, now, vec![event]);
            self.act(now, endpoint);
        }
    }

    /// Handles a datagram delivered by a session. Returns the packet that leaves the tunnel, if any.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        session: SessionId,
        data: Vec<u8>,
    ) -> Option<Inner> {
        self.packet(now, endpoint, Packet::Session(session, data))
    }

    fn packet(&mut self, now: Time, endpoint: &mut Endpoint, packet: Packet) -> Option<Inner> {
        if self.down.is_some() {
            return None;
        }
        let outcome = self.tunnel.handle_packet(endpoint, now, packet);
        self.act(now, endpoint);
        match outcome {
            Outcome::Write(packet) => {
                self.tunnel.count_written(1, packet.len() as u64);
                Some(Inner::Host(packet))
            }
            Outcome::Proxy(packet) => Some(Inner::Namespace(packet)),
            // A packet is never handed over, because there is only one shard.
            Outcome::Done | Outcome::HandOver(..) => None,
        }
    }

    pub(super) fn on_event(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        session: SessionId,
        event: SessionEvent,
    ) {
        if matches!(event, SessionEvent::Closed(_)) {
            self.lost += dropped(now, endpoint, session);
        }
        self.tunnel.handle_event(endpoint, now, session, event);
        self.act(now, endpoint);
    }

    /// Encrypts one of the endpoint's packets for sending. Returns `None` if the packet has to wait for a
    /// key.
    pub(super) fn leave(
        &mut self,
        now: Time,
        route: &Route,
        ecn: Ecn,
        mut bytes: Vec<u8>,
    ) -> Option<(Outer, Ecn, Vec<u8>)> {
        let ecn = self.marker.outer(data_of(&bytes).map(|data| &bytes[data]), ecn).ecn;
        let mut to = *route;
        if is_channel(route.socket) {
            bytes.splice(0..0, [0; HEADER]);
            bytes.resize(bytes.len() + TAG, 0);
            let segment = bytes.len();
            let address = self.channels.as_mut()?.seal(now, route.socket, (&mut bytes, segment))?;
            to = Route { socket: address.socket, local: address.local, remote: address.remote };
        }
        Some((self.outer(&to, bytes.len())?, ecn, bytes))
    }

    /// Takes the next message of the encrypted channels, such as a handshake message, and returns it with its
    /// addresses.
    pub(super) fn poll_message(&mut self) -> Option<(Outer, Vec<u8>)> {
        loop {
            let (to, message) = self.channels.as_mut()?.channels.poll_transmit()?;
            let to = Route { socket: to.socket, local: to.local, remote: to.remote };
            if let Some(outer) = self.outer(&to, message.len()) {
                return Some((outer, message));
            }
        }
    }

    fn outer(&mut self, route: &Route, len: usize) -> Option<Outer> {
        let here = self.sockets.get(&route.socket)?.path.map(|path| self.here(path));
        let socket = self.sockets.get_mut(&route.socket)?;
        socket.bytes += len as u64 + u64::from(HEADERS);
        let from = match here.or(route.local) {
            Some(local) if socket.local.ip().is_unspecified() => SocketAddr::new(local, socket.local.port()),
            _ => socket.local,
        };
        Some(Outer { from, to: route.remote })
    }

    /// Handles a datagram that has arrived. Drops the datagram if no socket has its destination address.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        outer: &Outer,
        (ecn, ip_len): (Ecn, u32),
        mut bytes: Vec<u8>,
    ) {
        let to = outer.to;
        let takes = |socket: &Socket| {
            let local = socket.path.map_or(socket.local.ip(), |path| self.here(path));
            socket.local.port() == to.port() && (local == to.ip() || local.is_unspecified())
        };
        let number = self.sockets.iter().find(|(_, socket)| takes(socket)).map(|(number, _)| *number);
        let Some((number, socket)) = number.and_then(|n| Some((n, self.sockets.get_mut(&n)?))) else {
            return;
        };
        socket.bytes += u64::from(ip_len);
        let route = Route { socket: number, local: Some(to.ip()), remote: outer.from };
        let Some(routes) = &mut self.channels else {
            let kept = kept(&self.marker, ecn, &mut bytes);
            return endpoint.handle_datagram(now, &route, ecn, ip_len, &bytes[kept]);
        };
        if let Arrived::Packet(opened) = routes.handle(now, &route, &mut bytes) {
            let packet = &mut bytes[opened.packet];
            let kept = kept(&self.marker, ecn, packet);
            endpoint.handle_peer(now, &opened.route, opened.peer, ecn, ip_len, &packet[kept]);
        }
        self.channel_events(now, endpoint);
    }

    /// Passes the channels' events to the tunnel.
    fn channel_events(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(routes) = &mut self.channels else { return };
        for event in routes.events() {
            let event = match event {
                ChannelEvent::Ready(socket) => HostEvent::Answered { socket },
                ChannelEvent::Moved(socket, remote) => {
                    HostEvent::Moved { socket, peer: routes.peer(socket), remote }
                }
            };
            self.tunnel.handle_host(endpoint, now, event);
        }
        self.act(now, endpoint);
    }
}

/// Returns how many packets a session's queue has dropped.
pub(super) fn dropped(now: Time, endpoint: &Endpoint, session: SessionId) -> u64 {
    let stats = endpoint.status(now, session).map(|status| status.queue_stats);
    stats.map_or(0, |q| q.dropped_full + q.dropped_old + q.dropped_early + q.dropped_too_big)
}

/// Applies the outer ECN field to the inner packet, if there is one. Returns the range of bytes that the
/// endpoint gets.
fn kept(marker: &Marker, ecn: Ecn, packet: &mut [u8]) -> Range<usize> {
    match data_of(packet).filter(|_| ecn.is_capable()) {
        Some(data) => 0..data.start + marker.arrived(&mut packet[data], ecn),
        None => 0..packet.len(),
    }
}
