//! Sends bursts of packets, each burst with its DSCP and ECN field, through a UDP or raw socket.

use crate::icmp;
use crate::{Burst, SendError, SocketStats, with_port};
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Maximum number of ICMP errors that are read at once, because an attacker can send many.
const MOST_ERRORS: usize = 64;
/// Maximum number of refusing destinations that are stored, because an attacker can send many ICMP messages.
const MOST_REFUSED: usize = 16;

/// The sending part of a socket, which is bound and non-blocking.
pub(crate) struct Outlet {
    pub(crate) inner: socket2::Socket,
    raw: bool,
    ipv4: bool,
    /// Whether to use segmentation offload. It is turned off when the kernel refuses a send that uses it.
    pub(crate) segmentation: bool,
    /// Whether to read ICMP errors from the kernel.
    pub(crate) heeds_refusals: bool,
    /// The destinations that have refused packets.
    refused: Vec<SocketAddr>,
    /// Counters of sent packets.
    pub(crate) stats: SocketStats,
}

impl Outlet {
    pub(crate) fn new(inner: socket2::Socket, raw: bool, ipv4: bool, segmentation: bool) -> Outlet {
        let (refused, stats) = (Vec::new(), SocketStats::default());
        Outlet { inner, raw, ipv4, segmentation, heeds_refusals: false, refused, stats }
    }

    /// Sends a burst. After an error, the rest of the burst is dropped.
    pub(crate) fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        if self.raw {
            // Raw IPv6 sockets interpret the port as the protocol number, so set it to 0.
            return self.send_burst(&Burst { remote: with_port(burst.remote, 0), ..*burst });
        }
        self.send_burst(burst)
    }

    /// Implements [`Encapsulation::refused`](crate::Encapsulation::refused).
    pub(crate) fn refused(&mut self) -> Vec<SocketAddr> {
        let to = |to: SocketAddr| if self.raw { with_port(to, 0) } else { to };
        std::mem::take(&mut self.refused).into_iter().map(to).collect()
    }

    /// Reads the pending errors of earlier packets. As long as an error is pending, the kernel reports it
    /// instead of sending or receiving. Returns whether there was one.
    pub(crate) fn read_errors(&mut self) -> bool {
        if !self.heeds_refusals {
            return false;
        }
        let mut any = false;
        for _ in 0..MOST_ERRORS {
            let Some(refused) = icmp::next(&self.inner) else { break };
            any = true;
            let new = refused.filter(|to| !self.refused.contains(to));
            let room = self.refused.len() < MOST_REFUSED;
            self.refused.extend(new.filter(|_| room));
        }
        any
    }

    /// Sends a burst and counts the packets. Uses one system call if possible.
    fn send_burst(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        if self.segmentation && burst.bytes.len() > burst.segment {
            match self.transmit(burst, burst.bytes, Some(burst.segment)) {
                // Some drivers cannot segment packets. From now on, send each packet with its own call.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::IO) => {
                    tracing::info!(
                        "the kernel refused segmentation offload ({e}); packets are sent one by one"
                    );
                    self.segmentation = false;
                }
                // Before Linux 6.14, the packets exceed the path's MTU, which may have dropped only for now.
                // Sent one by one, they get the error for that.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::INVAL) => {}
                result => return self.count(result, burst.bytes, burst.segment),
            }
        }
        let mut rest = burst.bytes;
        while !rest.is_empty() {
            let (packet, later) = rest.split_at(burst.segment.min(rest.len()));
            match self.transmit(burst, packet, None) {
                Ok(()) => self.count(Ok(()), packet, burst.segment)?,
                // After an error, drop the rest of the burst.
                Err(e) => return self.count(Err(e), rest, burst.segment),
            }
            rest = later;
        }
        Ok(())
    }

    fn transmit(&mut self, burst: &Burst<'_>, bytes: &[u8], segment: Option<usize>) -> io::Result<()> {
        let (tos, class) = (burst.tos(), i32::from(burst.tos()));
        let segment = segment.map(u16::try_from).transpose().map_err(io::Error::other)?;
        let (from4, from6) = source_info(burst.local);
        let mut control = Vec::with_capacity(3);
        control.push(match burst.remote {
            SocketAddr::V4(_) => ControlMessage::Ipv4Tos(&tos),
            SocketAddr::V6(_) => ControlMessage::Ipv6TClass(&class),
        });
        control.extend(segment.as_ref().map(ControlMessage::UdpGsoSegments));
        control.extend(from4.as_ref().map(ControlMessage::Ipv4PacketInfo));
        control.extend(from6.as_ref().map(ControlMessage::Ipv6PacketInfo));
        let to = SockaddrStorage::from(burst.remote);
        let fd = self.inner.as_raw_fd();
        let mut told = false;
        loop {
            match sendmsg(fd, &[IoSlice::new(bytes)], &control, MsgFlags::MSG_DONTWAIT, Some(&to)) {
                Err(nix::Error::EINTR) => {}
                Err(e) if !matches!(e, nix::Error::EAGAIN | nix::Error::ENOBUFS) && !told => {
                    // The error may belong to an earlier packet, perhaps to another destination. The current
                    // packet has not been sent, so try once more.
                    told = true;
                    if !self.heeds_refusals {
                        return Err(e.into());
                    }
                    self.read_errors();
                }
                result => return result.map(drop).map_err(io::Error::from),
            }
        }
    }

    /// Counts the result of sending packets of `segment` bytes each. Only the last may be shorter.
    fn count(&mut self, result: io::Result<()>, bytes: &[u8], segment: usize) -> Result<(), SendError> {
        let packets = bytes.len().div_ceil(segment) as u64;
        let stats = &mut self.stats;
        let Err(e) = result else {
            let ip = if self.ipv4 { 20 } else { 40 };
            let header = if self.raw { ip } else { ip + 8 };
            stats.tx_packets += packets;
            stats.tx_bytes += bytes.len() as u64 + packets * header;
            stats.tx_calls += 1;
            return Ok(());
        };
        match Errno::from_io_error(&e) {
            Some(Errno::AGAIN | Errno::NOBUFS) => {
                stats.tx_buffer_full += packets;
                Err(SendError::BufferFull)
            }
            Some(Errno::MSGSIZE) => {
                stats.tx_too_big += packets;
                Err(SendError::TooBig)
            }
            _ => {
                stats.tx_link_down += packets;
                Err(SendError::LinkDown(e))
            }
        }
    }
}

/// Returns the control message that sets the source address of a packet.
fn source_info(local: Option<IpAddr>) -> (Option<libc::in_pktinfo>, Option<libc::in6_pktinfo>) {
    match local {
        None => (None, None),
        Some(IpAddr::V4(ip)) => {
            let ipi_spec_dst = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            let ipi_addr = libc::in_addr { s_addr: 0 };
            (Some(libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr }), None)
        }
        Some(IpAddr::V6(ip)) => {
            let ipi6_addr = libc::in6_addr { s6_addr: ip.octets() };
            (None, Some(libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the kernel refuse segmentation with EINVAL: it does not segment packets without a checksum.
    #[expect(unsafe_code, reason = "no crate offers SO_NO_CHECK")]
    fn send_without_checksum(socket: &socket2::Socket, on: libc::c_int) {
        let len = size_of_val(&on) as libc::socklen_t;
        let (fd, value) = (socket.as_raw_fd(), (&raw const on).cast());
        // SAFETY: the pointer refers to `on`, and the length is that of `on`.
        let result = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, value, len) };
        assert_eq!(result, 0);
    }

    #[test]
    fn link_local_destinations_keep_their_interface() {
        let to: SocketAddr = "[fe80::1%2]:7".parse().unwrap();
        for (raw, port) in [(false, 7), (true, 0)] {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut outlet = Outlet::new(socket.into(), raw, false, false);
            outlet.refused.push(to);
            assert_eq!(outlet.refused(), [with_port(to, port)]);
        }
    }

    #[test]
    fn a_refusal_that_may_end_does_not_turn_segmentation_off() {
        let bound = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = bound();
        let mut outlet = Outlet::new(bound().into(), false, true, true);
        let remote = receiver.local_addr().unwrap();
        let bytes = [7; 300];
        let burst = Burst { segment: 100, ..Burst::of_one(None, remote, &bytes) };
        send_without_checksum(&outlet.inner, 1);
        outlet.send(&burst).unwrap();
        assert_eq!((outlet.stats.tx_packets, outlet.stats.tx_calls), (3, 3));
        send_without_checksum(&outlet.inner, 0);
        outlet.send(&burst).unwrap();
        assert_eq!((outlet.stats.tx_packets, outlet.stats.tx_calls), (6, 4));
    }
}
