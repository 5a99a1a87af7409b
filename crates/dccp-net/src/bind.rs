use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// Converts an IPv4-mapped IPv6 address to an IPv4 address, because IPv6 sockets here carry only IPv6.
pub fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), addr.port()),
        IpAddr::V6(_) => addr,
    }
}

/// Changes the port of an address. Keeps the scope of a link-local address.
pub fn with_port(mut addr: SocketAddr, port: u16) -> SocketAddr {
    addr.set_port(port);
    addr
}

/// The local address and interface of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Address and, for UDP, port. The system chooses the address if it is unspecified, and the port if it is
    /// 0.
    pub addr: SocketAddr,
    /// The only interface to use (SO_BINDTODEVICE).
    pub interface: Option<String>,
}

impl Bind {
    /// Returns the binding for packets from a local address to `remote`. A link-local address takes the scope
    /// of `remote`.
    pub fn toward(remote: SocketAddr, local: IpAddr, port: u16) -> Bind {
        let addr = match (local, remote) {
            (IpAddr::V6(ip), SocketAddr::V6(to)) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, port, 0, to.scope_id()).into()
            }
            _ => SocketAddr::new(local, port),
        };
        Bind { addr, interface: None }
    }

    /// Returns whether the system chooses both the address and the interface.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.addr.ip().is_unspecified() && self.interface.is_none()
    }

    /// Returns whether received packets must tell to which local address they were sent, so that answers
    /// leave from the same address. A client on an interface has no fixed port and does not need this,
    /// because it sends first.
    pub(crate) fn tells_local(&self) -> bool {
        self.addr.ip().is_unspecified() && (self.interface.is_none() || self.addr.port() != 0)
    }

    pub(crate) fn set_interface(&self, socket: &socket2::Socket) -> io::Result<()> {
        self.interface.as_ref().map_or(Ok(()), |name| socket.bind_device(Some(name.as_bytes())))
    }
}
