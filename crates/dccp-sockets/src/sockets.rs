//! Creates sockets, channels and paths from the options.

use crate::context::about;
use crate::path::Encapsulation;
use crate::shared::SharedSockets;
use crate::{ConnectError, Options, Path};
use dccp_net::secure::{Channels, OVERHEAD};
use dccp_net::{Bind, Core, RawEncapsulation, UdpEncapsulation, canonical, with_port};
use dccp_proto::{Ports, Route};
use mpdccp_proto::{ListenConfig, PathConfig, PeerFilter, is_unicast};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

fn open_socket(core: &mut Core, options: &Options, bind: Bind) -> io::Result<u32> {
    let mut what = format!("a socket on {}", bind.addr);
    if let Some(interface) = &bind.interface {
        what = format!("{what} through the interface {interface}");
    }
    let mark = options.mark;
    let opened = match options.encapsulation {
        Encapsulation::Udp => UdpEncapsulation::marked(bind, mark).and_then(|socket| core.add_socket(socket)),
        Encapsulation::Raw => RawEncapsulation::marked(bind, mark)
            .and_then(|socket| core.add_socket(if options.key.is_some() { socket.sealed() } else { socket })),
    };
    opened.map_err(|e| about(&what, e))
}

fn overhead(core: &Core, socket: u32, options: &Options) -> u16 {
    let secure = if options.key.is_some() { OVERHEAD as u16 } else { 0 };
    core.net.socket(socket).map_or(0, |c| c.overhead()) + secure
}

impl Options {
    /// Creates the encrypted channels if there is a key. Peers are numbered by their position in the list.
    /// `unix` is the time since 1970 at the driver's time zero.
    pub fn channels(&self, accepts: bool, unix: Duration, seed: [u8; 32]) -> Option<Channels> {
        let mut channels =
            Channels::new(dccp_net::secure::Settings::new(self.key.clone()?, accepts, unix, seed));
        if accepts && self.any_peer {
            channels.admit_strangers(self.max_connections, self.per_source());
        }
        for (number, (key, preshared)) in (0u32..).zip(&self.peers) {
            channels.add_peer(number, *key, preshared.clone());
        }
        Some(channels)
    }

    /// Returns the peers that a listener accepts, numbered by their position in the list. Without a key, all
    /// peers have number 0.
    pub fn named_peers(&self) -> Vec<PeerFilter> {
        let count = if self.key.is_some() { self.peers.len() as u32 } else { 1 };
        (0..count).map(|id| PeerFilter { id, remotes: Vec::new() }).collect()
    }

    /// Returns whether a listener accepts every peer that has a key.
    pub fn admits_any_peer(&self) -> bool {
        self.any_peer
    }
}

/// If there is a key, puts encrypted channels between sockets and sessions.
pub(crate) fn secure(core: &mut Core, options: &Options, accepts: bool) -> Result<(), ConnectError> {
    let since_1970 = dccp_net::Clock.wall_nanos().saturating_sub(core.clock.now().as_nanos());
    let unix = Duration::from_nanos(since_1970);
    if let Some(channels) = options.channels(accepts, unix, dccp_net::random_seed()?) {
        core.net.secure(channels);
    }
    Ok(())
}

/// Returns the socket address and the DCCP port for an address.
pub(crate) fn places(options: &Options, addr: SocketAddr) -> (SocketAddr, u16) {
    match options.encapsulation {
        Encapsulation::Udp => (addr, options.dccp_port),
        Encapsulation::Raw => (with_port(addr, 0), addr.port()),
    }
}

/// Returns the configuration of a listener at `addr`, which accepts the configured peers.
pub(crate) fn listen_config(
    core: &Core,
    options: &Options,
    (addr, socket): (SocketAddr, u32),
    peers: &[u32],
) -> ListenConfig {
    let overhead = overhead(core, socket, options);
    let filter = |id| PeerFilter { id, remotes: Vec::new() };
    let peers = match options.key {
        None => vec![filter(0)],
        Some(_) => peers.iter().copied().map(filter).collect(),
    };
    let mut session = options.session(true);
    // An unknown peer might acknowledge packets that it has not received. Skipping some sequence numbers
    // reveals this, because the peer cannot know which ones were never sent.
    session.connection.skip_numbers = options.key.is_none() || options.any_peer;
    ListenConfig {
        port: places(options, addr).1,
        session,
        peers,
        strangers: options.any_peer,
        mtu: options.mtu,
        // `overhead` must be for IPv4 here; the endpoint adds the extra bytes of IPv6.
        overhead: if addr.is_ipv4() { overhead } else { overhead - 20 },
        max_sessions: options.max_connections,
        max_sessions_per_source: options.per_source(),
    }
}

/// Listens for sessions. Returns the socket's address and number.
pub(crate) fn listen(
    core: &mut Core,
    options: &Options,
    addr: SocketAddr,
) -> Result<(SocketAddr, u32), ConnectError> {
    let (socket_addr, port) = places(options, addr);
    let socket =
        open_socket(core, options, Bind { addr: socket_addr, interface: options.interface.clone() })?;
    let peers: Vec<u32> = (0u32..).zip(&options.peers).map(|(number, _)| number).collect();
    core.endpoint.listen(listen_config(core, options, (addr, socket), &peers));
    let bound = core.net.socket(socket).and_then(|c| c.local_addr().ok()).unwrap_or(addr);
    let bound = if options.encapsulation == Encapsulation::Raw { with_port(bound, port) } else { bound };
    Ok((bound, socket))
}

/// Opens a path of a connection: the socket, or the channel over it. Connections to the same peer may share
/// both. `peer` is the number of the peer's key.
pub(crate) fn open_path(
    core: &mut Core,
    shared: &mut SharedSockets,
    options: &Options,
    (path, to): (&Path, SocketAddr),
    peer: u32,
) -> Result<PathConfig, ConnectError> {
    let to = canonical(to);
    if !is_unicast(to.ip()) || to.port() == 0 {
        return Err(ConnectError::Options(
            "invalid remote address; expected a unicast address and a port from 1 to 65535",
        ));
    }
    let (remote, port) = places(options, to);
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let local = path.local.unwrap_or(any).to_canonical();
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(ConnectError::Options("both ends of a path must have the same IP version"));
    }
    let interface = path.interface.as_ref().or(options.interface.as_ref()).cloned();
    let bind = Bind { interface, ..Bind::toward(remote, local, options.source_ports.0) };
    // If the caller has chosen the ports, the socket serves this connection only.
    let key = (options.source_ports == (0, 0)).then(|| (bind.addr, bind.interface.clone(), remote, peer));
    let (socket, own_port) = shared.take(core, key, |core| {
        let socket = open_socket(core, options, bind)?;
        if let Err(e) = core.net.path_mtu(socket, remote) {
            core.net.remove(socket);
            return Err(about(&format!("no route to {}", remote.ip()), e).into());
        }
        if options.key.is_none() {
            return Ok(socket);
        }
        let route = Route { socket, local: None, remote };
        let channel = core.net.open_channel(core.clock.now(), peer, &route);
        if channel.is_none() {
            core.net.remove(socket);
        }
        channel.ok_or(ConnectError::Options("too many encrypted channels are open"))
    })?;
    let route = Route { socket, local: None, remote };
    let overhead = overhead(core, core.net.resolve(&route).socket, options);
    let mtu = core.net.path_mtu(socket, remote).map_or(options.mtu, |mtu| mtu.min(options.mtu));
    let local = if options.source_ports.1 == 0 { own_port } else { options.source_ports.1 };
    let ports = Ports { local, remote: port };
    Ok(PathConfig { prio: path.priority, ..PathConfig::new(route, ports, mtu, overhead) })
}
