//! Implements [`Net`] with sockets, sending DCCP packets over UDP (RFC 6773) or as IP protocol 33.

use crate::run::{Net, Place};
use dccp_wire::{IPPROTO_DCCP, checksum};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Size of the receive buffer. No packet is larger.
const BUFFER: usize = 65_536;

/// How the flows reach the target.
#[derive(Clone, Debug)]
pub struct Route {
    /// The target's address. If packets travel over UDP, its port is the UDP port.
    pub remote: SocketAddr,
    /// Whether packets travel as IP protocol 33 instead of over UDP.
    pub raw: bool,
    /// The local addresses, which the flows use in turn. If the list is empty, the system selects an address.
    pub from: Vec<IpAddr>,
}

/// The sockets of one script.
pub struct Sockets {
    route: Route,
    begun: Instant,
    flows: Vec<(Socket, Place)>,
    buffer: Vec<u8>,
}

impl Sockets {
    /// Creates the network without opening any sockets yet.
    pub fn new(route: Route) -> Sockets {
        Sockets { route, begun: Instant::now(), flows: Vec::new(), buffer: vec![0; BUFFER] }
    }

    /// Receives one packet of a flow, if one is available. Ignores packets of other flows.
    fn read(&mut self, flow: usize) -> io::Result<Option<Vec<u8>>> {
        let (socket, place) = &self.flows[flow];
        let length = match (&*socket).read(&mut self.buffer) {
            Ok(length) => length,
            // An ICMP error is not an answer from the target, so ignore it.
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable
                ) =>
            {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let mut packet = &self.buffer[..length];
        if self.route.raw {
            if self.route.remote.is_ipv4() {
                // A raw IPv4 socket also returns the IP header.
                packet = packet
                    .get(usize::from(packet.first().copied().unwrap_or(0) & 15) * 4..)
                    .unwrap_or_default();
            }
            let ours = packet.get(2..4).is_some_and(|port| port == place.port.to_be_bytes());
            if !ours {
                return Ok(None);
            }
            if !checksum::verify(packet, self.route.remote.ip(), place.address) {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "a packet has a wrong checksum (RFC 4340 section 9.1)",
                ));
            }
        }
        Ok(Some(packet.to_vec()))
    }
}

impl Net for Sockets {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn open(&mut self) -> io::Result<Place> {
        let Route { remote, raw, from } = &self.route;
        let any: IpAddr =
            if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = from.get(self.flows.len() % from.len().max(1)).copied().unwrap_or(any);
        let domain = Domain::for_address(*remote);
        let socket = if *raw {
            Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(IPPROTO_DCCP))))?
        } else {
            Socket::new(domain, Type::DGRAM, None)?
        };
        socket.bind(&SockAddr::from(SocketAddr::new(local, 0)))?;
        let to = if *raw { SocketAddr::new(remote.ip(), 0) } else { *remote };
        socket.connect(&SockAddr::from(to))?;
        socket.set_nonblocking(true)?;
        let bound = socket.local_addr()?.as_socket().map_or(local, |a| a.ip());
        let mut random = [0; 2];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
        let place = Place { address: bound, port: 49_152 + u16::from_be_bytes(random) % 16_384 };
        self.flows.push((socket, place));
        Ok(place)
    }

    fn send(&mut self, flow: usize, mut packet: Vec<u8>, damage: u8) -> io::Result<()> {
        let (socket, place) = &self.flows[flow];
        if self.route.raw && packet.len() >= 12 {
            checksum::fill(&mut packet, place.address, self.route.remote.ip());
            packet[7] = packet[7].wrapping_add(damage);
        }
        match (&*socket).write(&packet) {
            // An ICMP error about an earlier packet makes this call fail before it sends the packet, so send
            // the packet again.
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => (&*socket).write(&packet).map(drop),
            other => other.map(drop),
        }
    }

    fn receive(&mut self, until: Duration) -> io::Result<Option<(usize, Vec<u8>)>> {
        loop {
            let left = until.saturating_sub(self.now());
            let ready = {
                let mut waiting: Vec<_> =
                    self.flows.iter().map(|(s, _)| PollFd::new(s, PollFlags::IN)).collect();
                let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
                poll(&mut waiting, Some(&timeout))?;
                waiting.iter().position(|fd| !fd.revents().is_empty())
            };
            match ready {
                None if left.is_zero() => return Ok(None),
                None => {}
                Some(flow) => {
                    if let Some(packet) = self.read(flow)? {
                        return Ok(Some((flow, packet)));
                    }
                }
            }
        }
    }
}
