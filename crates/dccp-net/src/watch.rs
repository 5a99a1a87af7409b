//! Watches the interfaces and addresses of this host, and tells whether a path can send and when something
//! changes.

#![expect(unsafe_code, reason = "no safe function returns the MTU of an interface")]

use crate::Bind;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::libc;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{bind, recv, socket};
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Groups of rtnetlink(7) messages: links, and the addresses, routes and routing rules of both IP versions.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 0x40000;

/// Becomes readable when an interface, an address, a route or a routing rule of this host changes.
pub struct HostWatch {
    socket: OwnedFd,
}

impl HostWatch {
    /// Starts watching. This needs no privilege.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> io::Result<HostWatch> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(HostWatch { socket })
    }

    /// Reads all messages. Returns the indices of the interfaces that were switched on. For everything else,
    /// the caller reads the current state from the system, so it does no harm to lose messages.
    pub fn drain(&self) -> Vec<u32> {
        let (mut buffer, mut on) = ([0; 16_384], Vec::new());
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(len @ 1..) => on.extend(switched_on(&buffer[..len])),
                Err(nix::Error::ENOBUFS | nix::Error::EINTR) => {}
                Ok(0) | Err(_) => return on,
            }
        }
    }
}

impl AsFd for HostWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the indices of the interfaces that were switched on according to rtnetlink(7) messages.
fn switched_on(messages: &[u8]) -> Vec<u32> {
    let u16_at = |at: usize| Some(u16::from_ne_bytes(*messages.get(at..)?.first_chunk()?));
    let u32_at = |at: usize| Some(u32::from_ne_bytes(*messages.get(at..)?.first_chunk()?));
    let (mut on, mut at) = (Vec::new(), 0);
    while let (Some(len), Some(kind)) = (u32_at(at), u16_at(at + 4)) {
        // The header has 16 bytes. Index, flags and the mask of changed flags follow after 4 more bytes.
        if let (libc::RTM_NEWLINK, Some(index), Some(flags), Some(changed)) =
            (kind, u32_at(at + 20), u32_at(at + 24), u32_at(at + 28))
            && flags & changed & libc::IFF_UP.cast_unsigned() != 0
        {
            on.push(index);
        }
        at += (len as usize).max(16).next_multiple_of(4);
    }
    on
}

/// Checks that the socket's interface or address exists and has link (carrier).
pub(crate) fn present(bound: &Bind) -> io::Result<()> {
    if bound.is_wildcard() {
        return Ok(());
    }
    judge(bound, getifaddrs()?)
}

fn judge(bound: &Bind, interfaces: impl Iterator<Item = InterfaceAddress>) -> io::Result<()> {
    let ip = Some(bound.addr.ip()).filter(|ip| !ip.is_unspecified());
    let mut absent = match bound.interface {
        Some(_) => Errno::NODEV.into(),
        None => Errno::ADDRNOTAVAIL.into(),
    };
    for entry in interfaces {
        if bound.interface.as_ref().is_some_and(|name| *name != entry.interface_name) {
            continue;
        }
        // The list has one entry per address and, for each interface, one entry without an address.
        if bound.interface.is_some() && ip.is_some() {
            absent = Errno::ADDRNOTAVAIL.into();
        }
        if ip.is_some() && address(&entry) != ip {
            continue;
        }
        let name = &entry.interface_name;
        return match entry.flags {
            flags if !flags.contains(InterfaceFlags::IFF_UP) => {
                Err(io::Error::other(format!("{name} is switched off")))
            }
            // Require both flags: the kernel may set IFF_RUNNING up to a second after IFF_LOWER_UP.
            flags if !flags.contains(InterfaceFlags::IFF_RUNNING | InterfaceFlags::IFF_LOWER_UP) => {
                Err(io::Error::other(format!("{name} has no link")))
            }
            _ => Ok(()),
        };
    }
    Err(absent)
}

/// Returns whether the kernel has IPv6. It may still be disabled on an interface.
pub fn has_ipv6() -> bool {
    std::fs::exists("/proc/net/if_inet6").unwrap_or(true)
}

/// Returns the usable interfaces whose name has this prefix and that have an address of this IP version,
/// sorted by name.
///
/// # Errors
/// The system's error.
pub fn interfaces_like(begin: &str, ipv4: bool) -> io::Result<Vec<String>> {
    Ok(like(begin, ipv4, getifaddrs()?))
}

fn like(begin: &str, ipv4: bool, interfaces: impl Iterator<Item = InterfaceAddress>) -> Vec<String> {
    let works = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let fits = |entry: &InterfaceAddress| {
        let link_local = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        entry.interface_name.starts_with(begin)
            && entry.flags.contains(works)
            && address(entry).is_some_and(|ip| ip.is_ipv4() == ipv4 && !link_local(ip))
    };
    let mut names: Vec<String> = interfaces.filter(fits).map(|entry| entry.interface_name).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the interface that has an address.
pub(crate) fn holder(ip: IpAddr) -> io::Result<String> {
    let entry = getifaddrs()?.find(|entry| address(entry) == Some(ip));
    entry.map(|entry| entry.interface_name).ok_or_else(|| Errno::ADDRNOTAVAIL.into())
}

/// Returns the MTU of an interface in bytes. Any socket can be used to ask for it.
pub(crate) fn mtu(socket: &impl AsRawFd, interface: &str) -> io::Result<u16> {
    // SAFETY: all fields may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero, which ends the name.
    let name = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
    name.zip(interface.as_bytes()).for_each(|(to, from)| *to = (*from).cast_signed() as libc::c_char);
    // SAFETY: the kernel reads a name and writes an MTU (netdevice(7)), both within the request.
    let mtu = unsafe {
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as libc::Ioctl, &raw mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
        request.ifr_ifru.ifru_mtu
    };
    Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
}

fn address(entry: &InterfaceAddress) -> Option<IpAddr> {
    let address = entry.address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|a| a.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|a| a.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::SockaddrStorage;
    use std::net::SocketAddrV4;

    fn entry(name: &str, flags: InterfaceFlags, ip: Option<[u8; 4]>) -> InterfaceAddress {
        let address = ip.map(|ip| SockaddrStorage::from(SocketAddrV4::new(ip.into(), 0)));
        InterfaceAddress {
            interface_name: name.into(),
            flags,
            address,
            netmask: None,
            broadcast: None,
            destination: None,
        }
    }

    #[test]
    fn an_interface_tells_its_mtu() {
        let name = holder([127, 0, 0, 1].into()).unwrap();
        let told = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu")).unwrap();
        let socket = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let mtu = |name| mtu(&socket, name);
        assert_eq!(mtu(&name).unwrap(), told.trim().parse::<u32>().unwrap().min(65_535) as u16);
        assert!(mtu("no-such-device").is_err() && holder([192, 0, 2, 99].into()).is_err());
    }

    #[test]
    fn an_interface_that_was_switched_on_is_found_among_the_messages() {
        let up = libc::IFF_UP.cast_unsigned();
        let message = |kind: u16, words: [u32; 4]| {
            let mut bytes = [36u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes.extend(words.iter().chain(&[0]).flat_map(|word| word.to_ne_bytes()));
            bytes
        };
        let messages = [
            message(libc::RTM_NEWLINK, [0, 7, up, up]),
            message(libc::RTM_NEWLINK, [0, 8, up, 0]),
            message(libc::RTM_NEWLINK, [0, 9, 0, up]),
            message(libc::RTM_NEWADDR, [0, 10, up, up]),
            message(libc::RTM_NEWLINK, [0, 11, up | 2, !0]),
        ];
        let bytes = messages.concat();
        assert_eq!(switched_on(&bytes), [7, 11]);
        (0..bytes.len()).for_each(|len| assert!(switched_on(&bytes[..len]).len() < 3));
    }

    #[test]
    fn interfaces_are_found_by_how_their_names_begin() {
        let running = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        let host = || {
            [
                entry("wwan1", running, Some([192, 0, 2, 1])),
                entry("wwan0", running, Some([192, 0, 2, 2])),
                entry("wwan0", running, Some([192, 0, 2, 3])),
                entry("wwan2", InterfaceFlags::IFF_UP, Some([192, 0, 2, 4])),
                entry("wwan3", running, None),
                entry("eth0", running, Some([192, 0, 2, 5])),
            ]
        };
        assert_eq!(like("wwan", true, host().into_iter()), ["wwan0", "wwan1"]);
        assert!(like("wwan", false, host().into_iter()).is_empty());
    }

    #[test]
    fn the_interface_of_a_path_must_exist_and_have_a_carrier() {
        let up = InterfaceFlags::IFF_UP;
        let lately = up | InterfaceFlags::IFF_RUNNING;
        let running = lately | InterfaceFlags::IFF_LOWER_UP;
        let host = || {
            [
                entry("good", running, None),
                entry("good", running, Some([192, 0, 2, 1])),
                entry("pulled", up, Some([192, 0, 2, 2])),
                entry("now", lately, None),
                entry("off", InterfaceFlags::empty(), None),
            ]
        };
        let say = |interface: Option<&str>, ip: [u8; 4]| {
            let bind = Bind { addr: (ip, 0).into(), interface: interface.map(String::from) };
            judge(&bind, host().into_iter()).map_err(|e| e.to_string())
        };
        let any = [0; 4];
        assert_eq!(say(Some("good"), any), Ok(()));
        assert_eq!(say(None, [192, 0, 2, 1]), Ok(()));
        assert_eq!(say(Some("pulled"), any), Err("pulled has no link".into()));
        assert_eq!(say(Some("now"), any), Err("now has no link".into()));
        assert_eq!(say(None, [192, 0, 2, 2]), Err("pulled has no link".into()));
        assert_eq!(say(Some("off"), any), Err("off is switched off".into()));
        assert!(say(Some("none"), any).unwrap_err().contains("No such device"));
        assert!(say(Some("good"), [192, 0, 2, 9]).unwrap_err().contains("Cannot assign"));
        assert!(say(None, [192, 0, 2, 9]).unwrap_err().contains("Cannot assign"));
    }
}
