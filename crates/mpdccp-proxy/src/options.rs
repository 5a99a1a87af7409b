//! Creates sockets with the options that the proxy needs.

use crate::namespace::ECN_MARK;
use crate::verdict::Request;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Returns keepalive options. The kernel sends the first probe after one second of silence, the minimum in
/// Linux, and then one every 75 s. The connection survives as many unanswered probes as Linux allows, because
/// the host at the other end of the tunnel decides when to give up. If that host gives up, a reset arrives.
pub(crate) fn keepalive() -> TcpKeepalive {
    let params = TcpKeepalive::new().with_time(Duration::from_secs(1));
    params.with_interval(Duration::from_secs(75)).with_retries(127)
}

/// Returns a TCP socket that can bind to any address, including addresses that this host does not have
/// (IP_TRANSPARENT).
pub(crate) fn transparent(like: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(like), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // This call also works for IPv6 sockets, because IP_TRANSPARENT and IPV6_TRANSPARENT set the same flag in
    // Linux.
    socket.set_ip_transparent_v4(true)?;
    socket.set_reuse_address(true)?;
    // Without this option, the kernel removes urgent bytes from the data (RFC 6093).
    socket.set_out_of_band_inline(true)?;
    if like.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Makes the socket copy the host's SYN: its SYN offers ECN if the host's does, and its packets have the same
/// TTL and DSCP.
pub(crate) fn copy_header(socket: &Socket, request: &Request) -> io::Result<()> {
    if request.ecn {
        socket.set_mark(ECN_MARK)?;
    }
    let (ttl, dscp) = (u32::from(request.ttl.max(1)), u32::from(request.traffic_class & !3));
    match request.tuple.to {
        SocketAddr::V4(_) => {
            socket.set_ttl_v4(ttl)?;
            socket.set_tos_v4(dscp)
        }
        SocketAddr::V6(_) => {
            socket.set_unicast_hops_v6(ttl)?;
            socket.set_tclass_v6(dscp)
        }
    }
}
