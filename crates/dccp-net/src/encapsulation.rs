use dccp_proto::Ecn;
use mpdccp_units::Time;
use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A received DCCP packet.
#[derive(Debug)]
pub struct Received<'a> {
    /// When the kernel received the packet, on the driver's clock.
    pub at: Time,
    /// Local address to which the packet was sent; `None` if the socket is bound to one address.
    pub local: Option<IpAddr>,
    /// Address of the sender. With native DCCP, the port is 0.
    pub remote: SocketAddr,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Size of the IP packet in bytes.
    pub ip_len: u32,
    /// The DCCP packet, or a record that contains one.
    pub bytes: &'a mut [u8],
}

/// DCCP packets for one destination, all with the same DSCP and ECN field. Each has `segment` bytes; only the
/// last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Source address. Needed only if the socket is not bound to an address.
    pub local: Option<IpAddr>,
    /// Destination. Native DCCP ignores the port.
    pub remote: SocketAddr,
    /// DSCP in the IP header (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// ECN field in the IP header.
    pub ecn: Ecn,
    /// Size of each packet in bytes.
    pub segment: usize,
    /// The packets, one after the other without gaps.
    pub bytes: &'a [u8],
}

impl<'a> Burst<'a> {
    /// Creates a burst of one packet without DSCP and ECN.
    pub fn of_one(local: Option<IpAddr>, remote: SocketAddr, bytes: &'a [u8]) -> Burst<'a> {
        Burst { local, remote, dscp: 0, ecn: Ecn::NotEct, segment: bytes.len(), bytes }
    }

    /// Returns the TOS byte (IPv4) or traffic class (IPv6).
    pub fn tos(&self) -> u8 {
        self.dscp << 2 | self.ecn.bits()
    }
}

/// Why a burst or a part of it was not sent. [`SocketStats`] counts each error.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The buffer of the socket is full. The packets were dropped.
    BufferFull,
    /// The packets are larger than the interface's MTU.
    TooBig,
    /// There is no route, the interface is down, or the address is gone. Nothing can be sent until
    /// [`Encapsulation::check`] succeeds.
    LinkDown(io::Error),
}

/// Counters of one socket, in DCCP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStats {
    /// Packets that the kernel accepted.
    pub tx_packets: u64,
    /// Bytes of the IP packets that were sent.
    pub tx_bytes: u64,
    /// System calls that sent packets.
    pub tx_calls: u64,
    /// Packets dropped because the socket buffer was full.
    pub tx_buffer_full: u64,
    /// Packets dropped because they were larger than the interface's MTU.
    pub tx_too_big: u64,
    /// Packets dropped because there was no route, the interface was down, or the address was gone.
    pub tx_link_down: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes of the IP packets that were received.
    pub rx_bytes: u64,
    /// System calls that received packets.
    pub rx_calls: u64,
    /// Native packets dropped because of a wrong checksum (RFC 4340 section 9.1).
    pub rx_bad_checksum: u64,
    /// Packets dropped because they were empty, or shorter than the IP header says.
    pub rx_malformed: u64,
}

/// A socket that carries DCCP packets in IP.
pub trait Encapsulation: Send {
    /// Returns the name of the encapsulation: `udp`, `raw` or `tls`.
    fn name(&self) -> &'static str;

    /// Returns the size of the IP and UDP headers of a packet, in bytes.
    fn overhead(&self) -> u16;

    /// Sends a burst. After an error, the rest of the burst is dropped.
    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError>;

    /// Receives a limited number of waiting packets, passes each to `each`, and returns their number.
    ///
    /// # Errors
    /// The error of the system. Packets that have already arrived are not lost.
    fn receive(&mut self, each: &mut dyn FnMut(Received<'_>)) -> io::Result<usize>;

    /// Checks that the socket's interface or address exists, is up, and has link (carrier).
    ///
    /// # Errors
    /// The condition that is not met.
    fn present(&self) -> io::Result<()>;

    /// Checks whether the system could send to `remote` now. If an interface has disappeared and returned,
    /// this also binds the socket to it again.
    ///
    /// # Errors
    /// Why the system cannot send.
    fn check(&mut self, remote: SocketAddr) -> io::Result<()>;

    /// Returns the largest IP packet to `remote` that the system allows, in bytes.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16>;

    /// Returns the MTU, in bytes, of the interface through which packets to `remote` leave. ICMP messages
    /// cannot change it.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16>;

    /// Returns the source address used for packets to `remote`.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    fn source(&self, remote: SocketAddr) -> io::Result<IpAddr>;

    /// Returns the interface through which packets to `remote` leave.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    fn device(&self, remote: SocketAddr) -> io::Result<String>;

    /// Makes the kernel report ICMP unreachable messages. [`refused`](Self::refused) returns the destinations
    /// of the packets that caused them.
    ///
    /// # Errors
    /// The error of the system.
    fn heed_refusals(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Removes and returns the destinations that have answered with ICMP unreachable (port or protocol). The
    /// socket notices such answers only when it sends or receives.
    fn refused(&mut self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Returns the address to which the socket is bound. With native DCCP, the port is 0.
    ///
    /// # Errors
    /// The system's error.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Counters of the socket.
    fn stats(&self) -> SocketStats;

    /// Returns further counters by name, for connections that were refused or lost.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns whether [`ask`](Self::ask) should send an echo request now.
    fn asks(&mut self, _now: Time) -> bool {
        false
    }

    /// Sends an echo request over an encapsulation that is currently carrying no packets, to find out whether
    /// it works.
    fn ask(&mut self, _question: &Burst<'_>) {}

    /// Handles the peer's answer to an echo request over this socket.
    fn on_answer(&mut self, _now: Time) {}

    /// Handles a report that the path over this socket is failing, even if packets still arrive.
    fn on_suspect(&mut self, _now: Time) {}

    /// Sets the addresses that the peer's host advertises. While the path over this socket is down (`_up` is
    /// false), the socket may connect to one of them.
    fn on_advertised(&mut self, _now: Time, _addresses: &[IpAddr], _up: bool) {}

    /// Removes and returns the connection to `remote`, so that the same socket of another shard can take it.
    fn give(&mut self, _remote: SocketAddr) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Adds a connection that the same socket of another shard has given away.
    fn take(&mut self, _connection: Box<dyn Any + Send>) {}
}
