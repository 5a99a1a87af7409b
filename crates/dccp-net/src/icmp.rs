//! What hosts on the way say of packets that left, as the kernel keeps it for a socket that asked (IP_RECVERR).

use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use std::io::IoSliceMut;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

/// The next error: of a packet to this destination, if its host says that nobody listens there; `None` if there is none.
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
        // Port unreachable, and protocol unreachable for native DCCP.
        ControlMessageOwned::Ipv4RecvErr(error, _) => {
            error.ee_origin == libc::SO_EE_ORIGIN_ICMP && error.ee_type == 3 && matches!(error.ee_code, 2 | 3)
        }
        // Port unreachable; an unknown next header is a parameter problem.
        ControlMessageOwned::Ipv6RecvErr(error, _) => {
            error.ee_origin == libc::SO_EE_ORIGIN_ICMP6
                && matches!((error.ee_type, error.ee_code), (1, 4) | (4, 1))
        }
        _ => false,
    });
    Some(to.filter(|_| nobody))
}
