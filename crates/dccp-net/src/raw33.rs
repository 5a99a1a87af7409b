use crate::bind::Bind;
use crate::socket::{Message, Socket, socket_methods};
use crate::{Burst, Encapsulation, Received, SendError, SocketStats, with_port};
use dccp_wire::checksum;
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A socket for IP protocol 33, which carries native DCCP or the records of channels. Opening it needs
/// CAP_NET_RAW.
pub struct RawEncapsulation {
    socket: Socket,
    packet: Vec<u8>,
    /// Whether the socket carries records. Records are authenticated, so they have no DCCP checksum.
    sealed: bool,
}

impl RawEncapsulation {
    /// Opens and binds a socket. The port of `bind` is ignored.
    ///
    /// # Errors
    /// The error of the system, for example if permission is missing, or if the address or the interface does
    /// not exist.
    pub fn new(bind: Bind) -> io::Result<RawEncapsulation> {
        RawEncapsulation::marked(bind, None)
    }

    /// Opens a socket like [`new`](Self::new), but with a mark on its packets (SO_MARK) for policy routing.
    ///
    /// # Errors
    /// As for [`new`](Self::new); a mark needs CAP_NET_ADMIN.
    pub fn marked(mut bind: Bind, mark: Option<u32>) -> io::Result<RawEncapsulation> {
        bind.addr.set_port(0);
        Ok(RawEncapsulation {
            socket: Socket::new(bind, true, mark, None)?,
            packet: Vec::new(),
            sealed: false,
        })
    }

    /// Makes the socket carry the records of channels, and therefore neither write nor verify checksums.
    #[must_use]
    pub fn sealed(self) -> RawEncapsulation {
        RawEncapsulation { sealed: true, ..self }
    }
}

impl AsFd for RawEncapsulation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }
}

/// Removes the IP header from a received message, which only IPv4 sockets deliver. Returns the destination
/// and the packet.
fn strip(message: Message<'_>) -> Option<(IpAddr, &mut [u8])> {
    if message.remote.is_ipv6() {
        return Some((message.local?, message.bytes));
    }
    let header = usize::from(message.bytes.first()? & 15) * 4;
    let total = usize::from(u16::from_be_bytes([*message.bytes.get(2)?, *message.bytes.get(3)?]));
    let destination = *message.bytes.get(16..)?.first_chunk::<4>()?;
    Some((Ipv4Addr::from(destination).into(), message.bytes.get_mut(header..total)?))
}

impl Encapsulation for RawEncapsulation {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn overhead(&self) -> u16 {
        if self.socket.bind().addr.is_ipv4() { 20 } else { 40 }
    }

    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        if self.sealed {
            return self.socket.outlet.send(burst);
        }
        // The checksum covers the source address. Ask the system each time, because the host's addresses may
        // change.
        let source = burst.local.map_or_else(|| self.socket.source(burst.remote), Ok);
        let source = source.map_err(SendError::LinkDown)?;
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        packet.extend_from_slice(burst.bytes);
        for bytes in packet.chunks_mut(burst.segment) {
            // The shortest DCCP header has 12 bytes, so no packet is shorter.
            if bytes.len() >= 12 {
                checksum::fill(bytes, source, burst.remote.ip());
            }
        }
        let result = self.socket.outlet.send(&Burst { local: Some(source), bytes: &packet, ..*burst });
        self.packet = packet;
        result
    }

    fn receive(&mut self, each: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        // Answers must leave from the address to which a packet was sent, even if the socket is on an
        // interface.
        let wildcard = self.socket.bind().addr.ip().is_unspecified();
        let (header, sealed) = (u32::from(self.overhead()), self.sealed);
        let mut packets = 0;
        self.socket.receive(&mut |stats, message| {
            let Message { at, remote, ecn, .. } = message;
            let Some((local, bytes)) = strip(message) else {
                stats.rx_malformed += 1;
                return;
            };
            // RFC 4340 section 9.1: a packet with a wrong checksum must be dropped.
            if !sealed && !checksum::verify(bytes, local, remote.ip()) {
                stats.rx_bad_checksum += 1;
                return;
            }
            packets += 1;
            stats.rx_packets += 1;
            stats.rx_bytes += u64::from(header) + bytes.len() as u64;
            each(Received {
                at,
                local: wildcard.then_some(local),
                remote: with_port(remote, 0),
                ecn,
                ip_len: header + bytes.len() as u32,
                bytes,
            });
        })?;
        Ok(packets)
    }

    socket_methods!(socket);

    fn local_addr(&self) -> io::Result<SocketAddr> {
        let mut addr = self.socket.local_addr()?;
        addr.set_port(0);
        Ok(addr)
    }
}
