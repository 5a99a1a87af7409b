//! The daemon's network sockets, and the DCCP ports that are in use.

use super::settings::Settings;
use super::socket::{Options, Socket};
use dccp_net::{Bind, Core, RawEncapsulation, UdpEncapsulation, canonical, with_port};
use dccp_proto::{Ports, Route};
use dccp_wire::ResetCode;
use mpdccp_proto::{Fallback, ListenConfig, PathConfig, Reason, SessionConfig, SessionId, is_unicast};
use mpdccp_units::Time;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The first port of the ephemeral range (RFC 6335 section 6).
const EPHEMERAL: u16 = 49_152;
/// The maximum length of the IP packets that the daemon sends, in bytes.
const MTU: u16 = 1500;

pub(super) struct Network {
    /// The UDP port of this daemon and of its peers.
    udp_port: Option<u16>,
    /// The sockets for outgoing connections: the first for IPv4, the second for IPv6 if the host supports it.
    out: (u32, Option<u32>),
    /// The sockets for outgoing connections of programs that have selected an interface, keyed by interface.
    devices: BTreeMap<String, (u32, Option<u32>)>,
    /// The length of the IPv4 header, plus the UDP header if UDP is used.
    overhead: u16,
    /// The ports in use. The value is the inode of the socket that listens on the port, if there is one.
    ports: BTreeMap<u16, Option<u64>>,
    next_port: u16,
}

impl Network {
    pub(super) fn open(core: &mut Core, settings: &Settings) -> io::Result<Network> {
        let mut open = |ip: IpAddr, port: u16| {
            let bind = Bind { addr: SocketAddr::new(ip, port), interface: None };
            match settings.udp_port {
                Some(_) => UdpEncapsulation::new(bind).and_then(|socket| core.add_socket(socket)),
                None => RawEncapsulation::marked(bind, None).and_then(|socket| core.add_socket(socket)),
            }
        };
        let (v4, v6) = (IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED));
        let about = |e: io::Error| match settings.udp_port {
            Some(port) => {
                io::Error::new(e.kind(), format!("UDP port {port}: {e}; choose another port with --udp-port"))
            }
            None => io::Error::new(
                e.kind(),
                format!("cannot open a raw socket for IP protocol 33: {e}; it needs CAP_NET_RAW"),
            ),
        };
        // A raw socket receives all packets of its protocol, so the same socket serves both listening sockets
        // and outgoing connections.
        let first = open(v4, settings.udp_port.unwrap_or(0)).map_err(about)?;
        let second = match open(v6, settings.udp_port.unwrap_or(0)) {
            Ok(socket) => Some(socket),
            Err(e) if Errno::from_io_error(&e) == Some(Errno::AFNOSUPPORT) => None,
            Err(e) => return Err(about(e)),
        };
        let out = match settings.udp_port {
            None => (first, second),
            Some(_) => (open(v4, 0)?, second.map(|_| open(v6, 0)).transpose()?),
        };
        Ok(Network {
            udp_port: settings.udp_port,
            out,
            devices: BTreeMap::new(),
            overhead: core.net.socket(first).map_or(0, |socket| socket.overhead()),
            ports: BTreeMap::new(),
            next_port: core.ephemeral_port(),
        })
    }

    /// Implements bind(2), and returns the address. If the program did not select a port, the daemon does.
    pub(super) fn bind(&mut self, uid: u32, addr: SocketAddr) -> Result<SocketAddr, Errno> {
        if (1..1024).contains(&addr.port()) && uid != 0 {
            return Err(Errno::ACCESS);
        }
        if self.ports.contains_key(&addr.port()) {
            return Err(Errno::ADDRINUSE);
        }
        // The kernel knows whether the host has the address.
        UdpSocket::bind(with_port(addr, 0)).map_err(|_| Errno::ADDRNOTAVAIL)?;
        let port = if addr.port() == 0 { self.free_port().ok_or(Errno::ADDRINUSE)? } else { addr.port() };
        self.ports.insert(port, None);
        Ok(with_port(addr, port))
    }

    fn free_port(&mut self) -> Option<u16> {
        for _ in EPHEMERAL..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(EPHEMERAL);
            if !self.ports.contains_key(&port) {
                return Some(port);
            }
        }
        None
    }

    pub(super) fn release(&mut self, socket: &Socket) {
        // An accepted socket shares the port of its listening socket, so the port must remain in use.
        if let Some(port) = socket.reserved {
            self.ports.remove(&port);
        }
    }

    /// Opens sockets bound to an interface, which all programs that select that interface share. Native DCCP
    /// does not support this, because every raw socket receives all packets.
    pub(super) fn on_device(&mut self, core: &mut Core, name: &str) -> Result<(u32, Option<u32>), Errno> {
        if let Some(out) = self.devices.get(name) {
            return Ok(*out);
        }
        self.udp_port.ok_or(Errno::OPNOTSUPP)?;
        let mut open = |ip: IpAddr| {
            let bind = Bind { addr: SocketAddr::new(ip, 0), interface: Some(name.to_owned()) };
            let socket = UdpEncapsulation::new(bind).and_then(|socket| core.add_socket(socket));
            socket.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::NODEV))
        };
        let v4 = open(Ipv4Addr::UNSPECIFIED.into())?;
        let v6 = self.out.1.map(|_| open(Ipv6Addr::UNSPECIFIED.into())).transpose();
        if v6.is_err() {
            core.net.remove(v4);
        }
        let out = (v4, v6?);
        self.devices.insert(name.to_owned(), out);
        Ok(out)
    }

    /// Returns the inode of the socket that listens on a port.
    pub(super) fn listening(&self, port: u16) -> Option<u64> {
        self.ports.get(&port).copied().flatten()
    }

    pub(super) fn listen(&mut self, core: &mut Core, inode: u64, port: u16, options: &Options) {
        self.ports.insert(port, Some(inode));
        core.endpoint.listen(ListenConfig {
            mtu: MTU,
            max_sessions_per_source: 1024,
            ..ListenConfig::for_anyone(port, session(options), self.overhead, 4096)
        });
    }

    /// Implements connect(2) for a socket with a local port. Returns the session and the local address, which
    /// has another port if the socket's port is in TIMEWAIT.
    pub(super) fn connect(
        &mut self,
        (core, now): (&mut Core, Time),
        local: SocketAddr,
        to: SocketAddr,
        options: &Options,
    ) -> Result<(SessionId, SocketAddr), Errno> {
        // As in the kernel, a connection to the unspecified address goes to this host.
        let to = match canonical(to) {
            SocketAddr::V4(to) if to.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, to.port()).into(),
            SocketAddr::V6(to) if to.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, to.port()).into(),
            to => to,
        };
        let remote = with_port(to, self.udp_port.unwrap_or(0));
        let out = match &options.device {
            Some(name) => self.on_device(core, name)?,
            None => self.out,
        };
        let socket = if to.is_ipv4() { Some(out.0) } else { out.1 };
        let socket = socket.ok_or(Errno::AFNOSUPPORT)?;
        if !is_unicast(to.ip()) || to.port() == 0 {
            return Err(Errno::NETUNREACH);
        }
        let system = |e: io::Error| Errno::from_io_error(&e).unwrap_or(Errno::NETUNREACH);
        let mtu = core.net.path_mtu(socket, remote).map_err(system)?;
        let from = local.ip().to_canonical();
        let route = Route { socket, local: (!from.is_unspecified()).then_some(from), remote };
        let ports = Ports { local: local.port(), remote: to.port() };
        let overhead = if to.is_ipv4() { self.overhead } else { self.overhead + 20 };
        let path = PathConfig::new(route, ports, mtu.min(MTU), overhead);
        let id = core.endpoint.connect(now, session(options), path);
        let port = core.endpoint.status(now, id).and_then(|status| Some(status.paths.first()?.ports.local));
        Ok((id, with_port(local, port.unwrap_or(local.port()))))
    }

    /// Returns the local address of a session.
    pub(super) fn local(&self, core: &Core, now: Time, session: SessionId) -> Option<SocketAddr> {
        let status = core.endpoint.status(now, session)?;
        let path = status.paths.first()?;
        let ip =
            path.route.local.or_else(|| core.net.socket(path.route.socket)?.source(path.route.remote).ok());
        Some(SocketAddr::new(ip?.to_canonical(), path.ports.local))
    }
}

/// Returns whether an interface has an address. A listener that is bound to an interface accepts only
/// connections to that interface's addresses.
pub(super) fn has_address(name: &str, ip: IpAddr) -> bool {
    let address = |entry: &nix::ifaddrs::InterfaceAddress| {
        let address = entry.address.as_ref()?;
        let v4 = address.as_sockaddr_in().map(|a| a.ip().into());
        v4.or_else(|| address.as_sockaddr_in6().map(|a| a.ip().into()))
    };
    nix::ifaddrs::getifaddrs()
        .is_ok_and(|mut all| all.any(|entry| entry.interface_name == name && address(&entry) == Some(ip)))
}

/// Returns the address of the peer of a session.
pub(super) fn peer(core: &Core, now: Time, session: SessionId) -> Option<SocketAddr> {
    let status = core.endpoint.status(now, session)?;
    let path = status.paths.first()?;
    Some(with_port(canonical(path.route.remote), path.ports.remote))
}

fn session(options: &Options) -> SessionConfig {
    let (first, others) = options.services.split_first().unwrap_or((&0, &[]));
    let connection = dccp_proto::Config {
        service_code: *first,
        also_services: others.to_vec(),
        tx_ccids: options.tx_ccids.clone(),
        rx_ccids: options.rx_ccids.clone(),
        coverage: options.send_coverage,
        min_coverage: options.receive_coverage,
        least_request: dccp_proto::PADDED_REQUEST,
        ..dccp_proto::Config::default()
    };
    let session = mpdccp_proto::Settings::of_datagrams().session();
    SessionConfig { multipath: false, fallback: Fallback::Plain, connection, ..session }
}

/// Returns the errno value with which the kernel reports that a DCCP connection has ended for this reason.
pub(super) fn errno(reason: Reason) -> Errno {
    match reason {
        Reason::ResetByPeer(code) => match code {
            ResetCode::NoConnection | ResetCode::ConnectionRefused => Errno::CONNREFUSED,
            ResetCode::PacketError => Errno::NOMSG,
            ResetCode::OptionError => Errno::ILSEQ,
            ResetCode::MandatoryError => Errno::OPNOTSUPP,
            ResetCode::BadServiceCode => Errno::BADRQC,
            ResetCode::TooBusy => Errno::USERS,
            ResetCode::BadInitCookie => Errno::BADR,
            ResetCode::AggressionPenalty => Errno::DQUOT,
            _ => Errno::CONNRESET,
        },
        Reason::NobodyListens => Errno::CONNREFUSED,
        Reason::Silent | Reason::NoAnswer | Reason::HandshakeTimeout | Reason::NoPath => Errno::TIMEDOUT,
        _ => Errno::CONNRESET,
    }
}
