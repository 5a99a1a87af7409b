use dccp_proto::Ecn;
use mpdccp_units::Time;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A DCCP packet as it came in.
#[derive(Debug)]
pub struct Received<'a> {
    /// When the kernel got it, in the driver's time.
    pub at: Time,
    /// Address on this host it was sent to; `None` on a socket bound to one address.
    pub local: Option<IpAddr>,
    /// Sender; port 0 on native DCCP.
    pub remote: SocketAddr,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Bytes of the IP packet it came in.
    pub ip_len: u32,
    /// The DCCP packet, header to end, or a record that holds one.
    pub bytes: &'a mut [u8],
}

/// DCCP packets for one destination with one DSCP and ECN field, all of `segment` bytes but the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Source address, where the socket is not bound to one.
    pub local: Option<IpAddr>,
    /// Destination; the port is ignored by native DCCP.
    pub remote: SocketAddr,
    /// DSCP for the IP header (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// ECN field for the IP header.
    pub ecn: Ecn,
    /// Bytes of each packet.
    pub segment: usize,
    /// The packets, back to back.
    pub bytes: &'a [u8],
}

impl Burst<'_> {
    /// The IPv4 TOS or IPv6 traffic class byte.
    pub fn tos(&self) -> u8 {
        self.dscp << 2 | self.ecn.bits()
    }
}

/// Why a burst, or the rest of one, did not leave. Each is counted in [`SocketStats`].
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The socket's buffer is full; the packets are dropped as a full queue would.
    BufferFull,
    /// Larger than the interface's MTU.
    TooBig,
    /// No route, interface down, address gone: the path is of no use until [`Encapsulation::check`] says otherwise.
    LinkDown(io::Error),
}

/// Counters of one socket, in DCCP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStats {
    /// Packets handed to the kernel.
    pub tx_packets: u64,
    /// Bytes of their IP packets.
    pub tx_bytes: u64,
    /// System calls that did so.
    pub tx_calls: u64,
    /// Dropped: socket buffer full.
    pub tx_buffer_full: u64,
    /// Dropped: larger than the interface's MTU.
    pub tx_too_big: u64,
    /// Dropped: no route, interface down or address gone.
    pub tx_link_down: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes of their IP packets.
    pub rx_bytes: u64,
    /// System calls that did so.
    pub rx_calls: u64,
    /// Native packets with a wrong checksum, dropped (RFC 4340 section 9.1).
    pub rx_bad_checksum: u64,
    /// Empty datagrams, and native packets too short to hold what their IP header promises, dropped.
    pub rx_malformed: u64,
}

/// A socket that carries DCCP packets in IP.
pub trait Encapsulation: Send {
    /// IP and UDP header bytes each packet costs.
    fn overhead(&self) -> u16;

    /// Sends a burst. On an error the rest of the burst is dropped.
    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError>;

    /// Receives what is there, up to a bounded number of packets, and hands it to `each`. Returns the number of packets.
    ///
    /// # Errors
    /// What the system says; packets on the way are not lost.
    fn receive(&mut self, each: &mut dyn FnMut(Received<'_>)) -> io::Result<usize>;

    /// Whether the interface or address that the socket is bound to is there, switched on, and has a carrier.
    ///
    /// # Errors
    /// What is missing.
    fn present(&self) -> io::Result<()>;

    /// Whether the system could send to `remote` now. Also renews the binding to an interface that went and came back.
    ///
    /// # Errors
    /// Why it could not.
    fn check(&mut self, remote: SocketAddr) -> io::Result<()>;

    /// What the system knows of the largest IP packet on the way to `remote`, bytes.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16>;

    /// MTU of the interface that packets to `remote` leave through, bytes: what nobody on the way can change.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16>;

    /// Address of this host that packets to `remote` leave from.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn source(&self, remote: SocketAddr) -> io::Result<IpAddr>;

    /// Interface that packets to `remote` leave through.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn device(&self, remote: SocketAddr) -> io::Result<String>;

    /// Has [`refused`](Self::refused) tell; without this the kernel is not asked.
    ///
    /// # Errors
    /// What the system says.
    fn heed_refusals(&mut self) -> io::Result<()>;

    /// Takes the destinations whose hosts said that nobody listens there (ICMP), as far as sending and receiving have shown it.
    fn refused(&mut self) -> Vec<SocketAddr>;

    /// Address the socket is bound to; the port is 0 for native DCCP.
    ///
    /// # Errors
    /// What the system says.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Counters.
    fn stats(&self) -> &SocketStats;
}
