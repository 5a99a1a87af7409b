use dccp_proto::Ecn;
use mpdccp_units::Time;
use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A received DCCP packet.
#[derive(Debug)]
pub struct Received<'a> {
    /// When the kernel received it, in the driver's time.
    pub at: Time,
    /// Local address that the packet was sent to; `None` on a socket bound to one address.
    pub local: Option<IpAddr>,
    /// Sender; port 0 on native DCCP.
    pub remote: SocketAddr,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Bytes of its IP packet.
    pub ip_len: u32,
    /// The DCCP packet from its header on, or a record that contains one.
    pub bytes: &'a mut [u8],
}

/// DCCP packets for one destination with one DSCP and ECN field. All have `segment` bytes but the last, which
/// may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Source address, if the socket is not bound to one.
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

/// Error when sending a burst, or its rest. Each is counted in [`SocketStats`].
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The socket's buffer is full; the packets are dropped.
    BufferFull,
    /// The packets are larger than the interface's MTU.
    TooBig,
    /// No route, interface down, or address gone: the path is unusable until [`Encapsulation::check`]
    /// succeeds.
    LinkDown(io::Error),
}

/// Counters of one socket, in DCCP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStats {
    /// Packets handed to the kernel.
    pub tx_packets: u64,
    /// Bytes of their IP packets.
    pub tx_bytes: u64,
    /// System calls that sent them.
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
    /// System calls that received them.
    pub rx_calls: u64,
    /// Native packets with a wrong checksum, dropped (RFC 4340 section 9.1).
    pub rx_bad_checksum: u64,
    /// Dropped: empty datagrams, and native packets shorter than their IP header says.
    pub rx_malformed: u64,
}

/// The sending half of an [`Encapsulation`].
pub trait Outlet: Send + Sync {
    /// Sends a burst. On an error the rest of the burst is dropped.
    ///
    /// # Errors
    /// The reason.
    fn send(&self, burst: &Burst<'_>) -> Result<(), SendError>;

    /// As [`Encapsulation::refused`].
    fn refused(&self) -> Vec<SocketAddr>;
}

/// A socket that carries DCCP packets in IP.
pub trait Encapsulation: Send {
    /// Encapsulation in use: `udp`, `raw` or `tls`.
    fn name(&self) -> &'static str;

    /// IP and UDP header bytes per packet.
    fn overhead(&self) -> u16;

    /// Sends a burst. On an error the rest of the burst is dropped.
    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError>;

    /// The part that sends, for another thread; it sends, counts and fails as [`send`](Self::send) does.
    /// `None` if sending needs the whole encapsulation.
    fn outlet(&self) -> Option<Arc<dyn Outlet>> {
        None
    }

    /// Receives waiting packets, up to a bounded number, and passes them to `each`. Returns the number of
    /// packets.
    ///
    /// # Errors
    /// The system's error; packets on the way are not lost.
    fn receive(&mut self, each: &mut dyn FnMut(Received<'_>)) -> io::Result<usize>;

    /// Whether the interface or address that the socket is bound to exists, is up, and has a carrier signal.
    ///
    /// # Errors
    /// The missing condition.
    fn present(&self) -> io::Result<()>;

    /// Whether the system could send to `remote` now. Also renews the binding to an interface that
    /// disappeared and returned.
    ///
    /// # Errors
    /// The reason why it could not.
    fn check(&mut self, remote: SocketAddr) -> io::Result<()>;

    /// Largest IP packet on the way to `remote` that the system knows, bytes.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16>;

    /// MTU of the interface that packets to `remote` leave through, bytes. No ICMP from the network can
    /// change it.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16>;

    /// Address of this host that packets to `remote` leave from.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    fn source(&self, remote: SocketAddr) -> io::Result<IpAddr>;

    /// Interface that packets to `remote` leave through.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    fn device(&self, remote: SocketAddr) -> io::Result<String>;

    /// Enables [`refused`](Self::refused); without it, the kernel does not report refusals.
    ///
    /// # Errors
    /// The system's error.
    fn heed_refusals(&mut self) -> io::Result<()>;

    /// Removes and returns the destinations that answered with ICMP unreachable (port or protocol), as seen
    /// by sends and receives so far.
    fn refused(&mut self) -> Vec<SocketAddr>;

    /// Address the socket is bound to; the port is 0 for native DCCP.
    ///
    /// # Errors
    /// The system's error.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Counters.
    fn stats(&self) -> SocketStats;

    /// Further counters, by name: connections that were refused or lost.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Whether to send an echo request with [`ask`](Self::ask) now.
    fn asks(&mut self, _now: Time) -> bool {
        false
    }

    /// Sends an echo request over an encapsulation that does not carry packets now, to see whether it works.
    fn ask(&mut self, _question: &Burst<'_>) {}

    /// The peer answered an echo request over this socket.
    fn on_answer(&mut self, _now: Time) {}

    /// The path over this socket fails, although packets may arrive.
    fn on_suspect(&mut self, _now: Time) {}

    /// The peer's host advertises these addresses. If the path over this socket is down, it may connect to one of them.
    fn on_advertised(&mut self, _now: Time, _addresses: &[IpAddr], _up: bool) {}

    /// Removes and returns the connection to `remote`, for the same socket of another shard.
    fn give(&mut self, _remote: SocketAddr) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Adds a connection that another shard's socket returned.
    fn take(&mut self, _connection: Box<dyn Any + Send>) {}
}
