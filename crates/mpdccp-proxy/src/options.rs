//! Sockets as the proxy needs them.

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// One probe at once where nothing came for a second, which is the least that Linux takes. How many may stay unanswered is the other host's to say:
/// that it gave up comes as a reset.
pub(crate) fn keepalive() -> TcpKeepalive {
    let params = TcpKeepalive::new().with_time(Duration::from_secs(1));
    params.with_interval(Duration::from_secs(75)).with_retries(127)
}

/// A socket that may have any address.
pub(crate) fn transparent(like: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(like), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // Of an IPv6 socket too: Linux keeps one flag for both (IPV6_TRANSPARENT sets the same).
    socket.set_ip_transparent_v4(true)?;
    socket.set_reuse_address(true)?;
    if like.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}
