use crate::bind::Bind;
use crate::socket::{Socket, socket_methods};
use crate::{Burst, Encapsulation, Received, SendError, SocketStats};
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A socket for DCCP in UDP (RFC 6773).
pub struct UdpEncapsulation(Socket);

impl UdpEncapsulation {
    /// Opens and binds a socket.
    ///
    /// # Errors
    /// The error of the system, for example if the address is in use, if the address or the interface does
    /// not exist, or if the permission is missing.
    pub fn new(bind: Bind) -> io::Result<UdpEncapsulation> {
        UdpEncapsulation::marked(bind, None)
    }

    /// Opens a socket like [`new`](Self::new), but with a mark on its packets (SO_MARK) for policy routing.
    ///
    /// # Errors
    /// As for [`new`](Self::new); a mark needs CAP_NET_ADMIN.
    pub fn marked(bind: Bind, mark: Option<u32>) -> io::Result<UdpEncapsulation> {
        Ok(UdpEncapsulation(Socket::new(bind, false, mark, None)?))
    }

    /// Opens one of `shards` sockets that share an address. They must be opened in the order of their
    /// numbers. Records arrive at the socket whose number is in their header (byte 4); the kernel distributes
    /// other datagrams by a hash of their addresses. Otherwise like [`marked`](Self::marked).
    ///
    /// # Errors
    /// As for [`marked`](Self::marked).
    pub fn shared(bind: Bind, mark: Option<u32>, shard: u8, shards: u8) -> io::Result<UdpEncapsulation> {
        Ok(UdpEncapsulation(Socket::new(bind, false, mark, Some((shard, shards)))?))
    }
}

impl AsFd for UdpEncapsulation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

/// Returns the size of the IP and UDP headers.
fn overhead(addr: SocketAddr) -> u16 {
    if addr.is_ipv4() { 28 } else { 48 }
}

impl Encapsulation for UdpEncapsulation {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn overhead(&self) -> u16 {
        overhead(self.0.bind().addr)
    }

    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        self.0.outlet.send(burst)
    }

    fn receive(&mut self, each: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        let overhead = u32::from(self.overhead());
        let mut packets = 0;
        self.0.receive(&mut |stats, message| {
            if message.bytes.is_empty() {
                stats.rx_malformed += 1;
            }
            for bytes in message.bytes.chunks_mut(message.stride) {
                packets += 1;
                stats.rx_packets += 1;
                stats.rx_bytes += u64::from(overhead) + bytes.len() as u64;
                each(Received {
                    at: message.at,
                    local: message.local,
                    remote: message.remote,
                    ecn: message.ecn,
                    ip_len: overhead + bytes.len() as u32,
                    bytes,
                });
            }
        })?;
        Ok(packets)
    }

    socket_methods!(0);

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
