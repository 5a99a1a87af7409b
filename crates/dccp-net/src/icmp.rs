//! Reads ICMP errors about sent packets, which the kernel queues for a socket with IP_RECVERR.

use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use std::io::IoSliceMut;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

/// Reads the next error. Returns `None` if there is none. The inner value is the destination of the packet,
/// or `None` if the error does not say that the destination's port or protocol is unreachable.
pub(crate) fn next(socket: &impl AsRawFd) -> Option<Option<SocketAddr>> {
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let mut control = nix::cmsg_space!([u8; 128]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags).ok()?;
    let to = message.address.and_then(|to| {
        let v4 = to.as_sockaddr_in().map(|to| SocketAddr::V4(SocketAddrV4::from(*to)));
        v4.or_else(|| to.as_sockaddr_in6().map(|to| SocketAddr::V6(SocketAddrV6::from(*to))))
    });
    let errors = message.cmsgs().into_iter().flatten();
    let nobody = errors.into_iter().any(|error| match error {
        // Port unreachable, and for native DCCP also protocol unreachable.
        ControlMessageOwned::Ipv4RecvErr(error, _) => {
            error.ee_origin == libc::SO_EE_ORIGIN_ICMP && error.ee_type == 3 && matches!(error.ee_code, 2 | 3)
        }
        // Port unreachable, and a parameter problem, which reports an unknown next header.
        ControlMessageOwned::Ipv6RecvErr(error, _) => {
            error.ee_origin == libc::SO_EE_ORIGIN_ICMP6
                && matches!((error.ee_type, error.ee_code), (1, 4) | (4, 1))
        }
        _ => false,
    });
    Some(to.filter(|_| nobody))
}
