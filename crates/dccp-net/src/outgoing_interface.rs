//! Finds the interface through which the system's routes would send a packet (rtnetlink(7)).

use nix::libc;
use nix::net::if_::if_indextoname;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{recv, sendto, socket};
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// Size of the header of a message, and size of the header of a route.
const HEADER: usize = 16;
const ROUTE: usize = 12;

/// Returns the interface through which the system would send a packet with this mark from `source` to
/// `remote`.
///
/// # Errors
/// The error of the system, for example if there is no route.
pub(crate) fn find(source: IpAddr, remote: IpAddr, mark: Option<u32>) -> io::Result<String> {
    let kernel =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    let question = question(source, remote, mark);
    sendto(kernel.as_raw_fd(), &question, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; 4096];
    let len = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let index = read(&answer[..len])?;
    Ok(if_indextoname(index)?.to_string_lossy().into_owned())
}

fn bits(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn question(source: IpAddr, remote: IpAddr, mark: Option<u32>) -> Vec<u8> {
    let family = if remote.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let (to, from) = (bits(remote), bits(source));
    let bits = (to.len() * 8) as u8;
    let mut attributes = vec![(libc::RTA_DST, to), (libc::RTA_SRC, from)];
    attributes.extend(mark.map(|mark| (libc::RTA_MARK, mark.to_ne_bytes().to_vec())));
    let mut message = vec![0; HEADER];
    // Address family, then the lengths of destination and source. The remaining fields are zero in a request.
    message.extend([family, bits, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (kind, value) in attributes {
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
    }
    let len = message.len() as u32;
    message[..4].copy_from_slice(&len.to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message
}

/// Returns the index of the interface in an answer of the kernel.
fn read(answer: &[u8]) -> io::Result<u32> {
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let u16_at = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let kind = u16_at(4).ok_or_else(bad)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let errno = answer.get(HEADER..).and_then(|rest| rest.first_chunk()).map(|e| i32::from_ne_bytes(*e));
        return Err(Errno::from_raw_os_error(-errno.unwrap_or(-libc::EIO)).into());
    }
    let mut at = HEADER + ROUTE;
    while let (Some(len), Some(kind)) = (u16_at(at), u16_at(at + 2)) {
        let value = answer.get(at + 4..at + usize::from(len)).ok_or_else(bad)?;
        if kind == libc::RTA_OIF {
            return value.first_chunk().map(|index| u32::from_ne_bytes(*index)).ok_or_else(bad);
        }
        at += usize::from(len).max(4).next_multiple_of(4);
    }
    Err(Errno::HOSTUNREACH.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_routes_of_this_host_say_which_interface() {
        for here in ["127.0.0.1", "::1"] {
            let here: IpAddr = here.parse().unwrap();
            if std::net::UdpSocket::bind((here, 0)).is_ok() {
                assert_eq!(find(here, here, None).unwrap(), "lo");
            }
        }
        // The system cannot send from an address that this host does not have.
        assert!(find([192, 0, 2, 99].into(), [127, 0, 0, 1].into(), None).is_err());
        for len in 0..60 {
            let _ = read(&[3; 60][..len]);
        }
    }
}
