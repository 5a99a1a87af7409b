//! Sockets with the proxy's options.

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Sends a keepalive probe after a second of silence, the minimum in Linux, then one every 75 s. The
/// connection survives as many unanswered probes as Linux allows: the host at the other end of the tunnel
/// decides when to give up, and then a reset arrives.
pub(crate) fn keepalive() -> TcpKeepalive {
    let params = TcpKeepalive::new().with_time(Duration::from_secs(1));
    params.with_interval(Duration::from_secs(75)).with_retries(127)
}

/// A socket that may use any local address.
pub(crate) fn transparent(like: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(like), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // The call also works for IPv6 sockets: Linux has one flag for both (IPV6_TRANSPARENT sets the same one).
    socket.set_ip_transparent_v4(true)?;
    socket.set_reuse_address(true)?;
    if like.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}
