//! One end of a tunnel in virtual time: the real tunnel, whose actions a simulated host executes. Keys, channels and handshakes are real.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;

use core::time::Duration;
use dccp_net::{Arrived, ChannelRoutes, data_of, is_channel};
use dccp_proto::{Ecn, Experiment, Route};
use dccp_secure::{Aead, Channels, HEADER, OVERHEAD, PresharedKey, PrivateKey, TAG};
use mpdccp_proto::{Endpoint, SessionEvent, SessionId};
use mpdccp_tunnel::config::{Config, Security};
use mpdccp_tunnel::{
    Action, HostEvent, Keys, Looked, Marker, OpenPath, Outcome, Packet, Saved, Setup, Sizes, Tunnel,
};
use mpdccp_units::Time;

use super::side::Side;
use crate::LabError;

/// IPv4 and UDP headers around each DCCP packet.
pub(super) const HEADERS: u16 = 28;
/// Largest packet of every path.
pub(super) const MTU: u16 = 1500;
/// Both ends' clocks show this at [`Time::ZERO`]: 2026-01-15.
const WALL: Duration = Duration::from_secs(1_768_435_200);
/// UDP ports of a client's sockets.
const FIRST_PORT: u16 = 40_000;
/// A server's only socket.
const LISTEN: u32 = 0;

/// A UDP datagram of the tunnel on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outer {
    from: SocketAddr,
    to: SocketAddr,
}

impl Outer {
    /// The path that leads there.
    pub(super) fn path(&self) -> usize {
        path_to(self.to.ip())
    }

    /// What queues tell flows apart by.
    pub(super) fn flow(&self) -> u32 {
        u32::from(self.from.port()) << 16 | u32::from(self.to.port())
    }
}

/// The path that an outer address of a host is on.
pub(super) fn path_to(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(ip) => ip.octets()[2].into(),
        IpAddr::V6(_) => 0,
    }
}

#[derive(Debug)]
struct Socket {
    local: SocketAddr,
    /// IP bytes sent and received.
    bytes: u64,
}

pub(super) struct End {
    side: Side,
    tunnel: Tunnel,
    channels: Option<ChannelRoutes>,
    sockets: BTreeMap<u32, Socket>,
    opened: u16,
    marker: Marker,
    /// MTU of its interface.
    pub(super) mtu: u16,
    /// Packets that the queues of its ended sessions dropped.
    lost: u64,
}

impl End {
    /// Starts the program with this file.
    ///
    /// # Errors
    /// The file is wrong.
    pub(super) fn start(
        now: Time,
        side: Side,
        text: &str,
        experiment: Option<Experiment>,
        seed: [u8; 32],
    ) -> Result<(End, Endpoint), LabError> {
        let (cfg, keys) = read(text, experiment)?;
        let mut endpoint = Endpoint::new(seed);
        let marker = Marker::new(&cfg);
        let setup =
            Setup { cfg: cfg.clone(), keys: keys.clone(), saved: Saved::new(), shard: 0, seed, alive: None };
        let mut tunnel = Tunnel::new(&mut endpoint, now, setup);
        let unix = tunnel.handshake_time(WALL + now.since(Time::ZERO)).saturating_sub(now.since(Time::ZERO));
        let mut end = End {
            side,
            tunnel,
            channels: keys.own.clone().map(|own| ChannelRoutes::new(channels(own, &keys, side, unix, seed))),
            sockets: BTreeMap::new(),
            opened: 0,
            marker,
            mtu: 0,
            lost: 0,
        };
        end.act(now, &mut endpoint);
        if side == Side::Server {
            let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, dccp_wire::DCCP_UDP_PORT));
            end.sockets.insert(LISTEN, Socket { local, bytes: 0 });
            end.tunnel.listen(&mut endpoint, MTU, end.overhead());
        }
        let carried = end.tunnel.carried().unwrap_or_else(|| mpdccp_tunnel::inner_mtu(MTU, end.overhead()));
        end.mtu = mpdccp_tunnel::interface_mtu(&cfg, carried).map_err(|e| end.fault(e))?;
        end.tunnel.start(&mut endpoint, now, end.mtu);
        end.act(now, &mut endpoint);
        Ok((end, endpoint))
    }

    fn fault(&self, why: impl std::fmt::Display) -> LabError {
        LabError::failed(format!("the tunnel's {}", self.side.name()), why)
    }

    /// Headers around each DCCP packet.
    fn overhead(&self) -> u16 {
        HEADERS + if self.channels.is_some() { OVERHEAD as u16 } else { 0 }
    }

    /// When to call [`on_timeout`](Self::on_timeout).
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let channels = self.channels.as_ref().and_then(|routes| routes.channels.poll_timeout());
        channels.into_iter().chain(self.tunnel.poll_timeout()).min()
    }

    pub(super) fn on_timeout(&mut self, now: Time, endpoint: &mut Endpoint) {
        if let Some(routes) = &mut self.channels
            && routes.channels.poll_timeout().is_some_and(|at| at <= now)
        {
            routes.channels.handle_timeout(now);
        }
        self.moved(now, endpoint);
        if self.tunnel.poll_timeout().is_some_and(|at| at <= now) {
            self.tunnel.handle_timeout(endpoint, now);
            self.act(now, endpoint);
        }
    }

    /// The session with the other end.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.tunnel.sessions().next().map(|(session, _)| session)
    }

    /// What the queues of its sessions dropped so far, for whatever reason.
    pub(super) fn dropped(&self, now: Time, endpoint: &Endpoint) -> u64 {
        self.lost + self.session().map_or(0, |session| dropped(now, endpoint, session))
    }

    /// A packet of this host goes into the interface; what comes out of it at once.
    pub(super) fn send(&mut self, now: Time, endpoint: &mut Endpoint, packet: Vec<u8>) -> Option<Vec<u8>> {
        self.packet(now, endpoint, Packet::Interface(packet))
    }

    /// A session delivered something; what comes out of the interface.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        session: SessionId,
        data: Vec<u8>,
    ) -> Option<Vec<u8>> {
        self.packet(now, endpoint, Packet::Session(session, data))
    }

    fn packet(&mut self, now: Time, endpoint: &mut Endpoint, packet: Packet) -> Option<Vec<u8>> {
        let outcome = self.tunnel.handle_packet(endpoint, now, packet);
        self.act(now, endpoint);
        match outcome {
            Outcome::Write(packet) => {
                self.tunnel.count_written(1, packet.len() as u64);
                Some(packet)
            }
            // There is one shard, and no proxy.
            Outcome::Done | Outcome::HandOver(..) | Outcome::Proxy(_) => None,
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

    /// A packet of the endpoint as it leaves, unless it has to wait for a key.
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

    /// The next message of the channels themselves.
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
        let socket = self.sockets.get_mut(&route.socket)?;
        socket.bytes += len as u64 + u64::from(HEADERS);
        let from = match route.local {
            Some(local) if socket.local.ip().is_unspecified() => SocketAddr::new(local, socket.local.port()),
            _ => socket.local,
        };
        Some(Outer { from, to: route.remote })
    }

    /// A datagram arrived; it is dropped if no socket is where it goes.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        outer: &Outer,
        (ecn, ip_len): (Ecn, u32),
        mut bytes: Vec<u8>,
    ) {
        let to = outer.to;
        let takes = |local: &SocketAddr| {
            local.port() == to.port() && (local.ip() == to.ip() || local.ip().is_unspecified())
        };
        let Some((number, socket)) = self.sockets.iter_mut().find(|(_, socket)| takes(&socket.local)) else {
            return;
        };
        socket.bytes += u64::from(ip_len);
        let route = Route { socket: *number, local: Some(to.ip()), remote: outer.from };
        let Some(routes) = &mut self.channels else {
            let kept = kept(&self.marker, ecn, &mut bytes);
            return endpoint.handle_datagram(now, &route, ecn, ip_len, &bytes[kept]);
        };
        if let Arrived::Packet(opened) = routes.handle(now, &route, &mut bytes) {
            let packet = &mut bytes[opened.packet];
            let kept = kept(&self.marker, ecn, packet);
            endpoint.handle_peer(now, &opened.route, opened.peer, ecn, ip_len, &packet[kept]);
        }
        self.moved(now, endpoint);
    }

    /// Tells the tunnel of the other ends of channels that are elsewhere now.
    fn moved(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(routes) = &mut self.channels else { return };
        for (socket, to) in routes.moved() {
            let event = HostEvent::Moved { socket, peer: routes.peer(socket), remote: to.remote };
            self.tunnel.handle_host(endpoint, now, event);
        }
        self.act(now, endpoint);
    }

    /// Does what the tunnel asks for.
    fn act(&mut self, now: Time, endpoint: &mut Endpoint) {
        while let Some(action) = self.tunnel.poll_action() {
            let answer = match action {
                Action::OpenPath(path) => self.open(now, &path),
                Action::Look { socket, remote, .. } => self.look(now, socket, remote),
                Action::Resolve(name) => {
                    let answer = Err("the simulator has no names".to_owned());
                    HostEvent::Resolved { name, answer }
                }
                Action::ListInterfaces => HostEvent::Interfaces(Vec::new()),
                Action::SetAddresses { .. } => HostEvent::AddressesSet(Ok(())),
                Action::SetMtu(mtu) => {
                    self.mtu = mtu;
                    HostEvent::MtuSet(mtu, Ok(()))
                }
                other => {
                    self.act_silently(other);
                    continue;
                }
            };
            self.tunnel.handle_host(endpoint, now, answer);
        }
    }

    /// What has no answer.
    fn act_silently(&mut self, action: Action) {
        match (action, &mut self.channels) {
            (Action::CloseSocket(socket), _) => self.close(socket),
            (Action::SetMarking(marker), _) => self.marker = marker,
            (Action::AddPeer { peer, key, preshared }, Some(routes)) => {
                routes.channels.add_peer(peer, key, preshared);
            }
            (Action::RemovePeer(peer), Some(routes)) => routes.channels.remove_peer(peer),
            (Action::SetPrivateKey(key), Some(routes)) => routes.channels.set_private_key(key),
            (Action::ForgetHome(peer), Some(routes)) => routes.channels.forget_home(peer),
            // Routes, files, queues of the interface and the log are the kernel's and the user's; there are no shards.
            _ => {}
        }
    }

    fn open(&mut self, now: Time, path: &OpenPath) -> HostEvent {
        let (request, remote) = (path.request, path.remote);
        let failed = |why: &str| HostEvent::PathFailed { request, absent: false, why: why.to_owned() };
        let Some(local) = path.local else { return failed("a path needs an address of its own") };
        self.opened += 1;
        let mut socket = u32::from(self.opened);
        let local = SocketAddr::new(local, FIRST_PORT + self.opened);
        self.sockets.insert(socket, Socket { local, bytes: 0 });
        if let Some(routes) = &mut self.channels {
            let under = Route { socket, local: None, remote };
            let Some(channel) = routes.open(now, path.peer, &under) else {
                return failed("too many channels");
            };
            socket = channel;
        }
        HostEvent::PathOpened { request, socket, sizes: SIZES, overhead: self.overhead() }
    }

    fn close(&mut self, mut socket: u32) {
        if let Some(routes) = &mut self.channels
            && is_channel(socket)
        {
            let under = routes.resolve(socket).map_or(socket, |under| under.socket);
            routes.close(socket);
            socket = under;
        }
        self.sockets.remove(&socket);
    }

    fn look(&self, now: Time, socket: u32, remote: SocketAddr) -> HostEvent {
        let routes = self.channels.as_ref();
        let under = routes.and_then(|routes| Some(routes.resolve(socket)?.socket)).unwrap_or(socket);
        let heard = |routes: &ChannelRoutes| routes.channels.peer_stats(routes.peer(socket)?)?.heard;
        HostEvent::Looked(Looked {
            socket,
            remote,
            sizes: SIZES,
            carried: self.sockets.get(&under).map_or(0, |socket| socket.bytes),
            heard: routes.is_none_or(|routes| heard(routes).is_some()),
            handshake: routes.and_then(|routes| routes.channels.initiated()),
            unix: (WALL + now.since(Time::ZERO)).as_secs(),
        })
    }
}

/// What the system knows of every path.
const SIZES: Sizes = Sizes { path: Some(MTU), device: Some(MTU) };

/// Packets that the queue of a session dropped.
pub(super) fn dropped(now: Time, endpoint: &Endpoint, session: SessionId) -> u64 {
    let stats = endpoint.status(now, session).map(|status| status.queue_stats);
    stats.map_or(0, |q| q.dropped_full + q.dropped_old + q.dropped_early + q.dropped_too_big)
}

/// How much of a packet the endpoint gets, after what its outer header says was told to the data.
fn kept(marker: &Marker, ecn: Ecn, packet: &mut [u8]) -> Range<usize> {
    match data_of(packet).filter(|_| ecn.is_capable()) {
        Some(data) => 0..data.start + marker.arrived(&mut packet[data], ecn),
        None => 0..packet.len(),
    }
}

/// A file with its keys.
fn read(text: &str, experiment: Option<Experiment>) -> Result<(Config, Keys), LabError> {
    let cfg = Config::parse(Path::new("the tunnel's file"), text, 1);
    let mut cfg = cfg.map_err(|e| LabError::Failed(e.to_string()))?;
    cfg.experiment = experiment;
    if cfg.security == Security::None {
        let peers = vec![None; cfg.peers.len()];
        return Ok((cfg, Keys { own: None, peers }));
    }
    let own = cfg.private_key.as_ref().and_then(|key| key.0.parse::<PrivateKey>().ok());
    let peer = |key: PublicKeyOf<'_>| Some((key.get_ref().public_key?.0, PresharedKey::default()));
    let peers = cfg.peers.iter().map(peer).collect();
    Ok((cfg, Keys { own, peers }))
}

type PublicKeyOf<'a> = &'a toml::Spanned<mpdccp_tunnel::config::Peer>;

fn channels(private_key: PrivateKey, keys: &Keys, side: Side, unix: Duration, seed: [u8; 32]) -> Channels {
    let settings = dccp_secure::Settings {
        private_key,
        accepts: side == Side::Server,
        server: 0,
        shard: 0,
        aeads: Aead::preferred(),
        unix,
        seed,
    };
    let mut channels = Channels::new(settings);
    for (number, key) in (0u32..).zip(&keys.peers) {
        if let Some((key, preshared)) = key {
            channels.add_peer(number, *key, preshared.clone());
        }
    }
    channels
}
