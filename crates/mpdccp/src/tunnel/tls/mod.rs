//! Carries packets over TLS 1.3 on TCP, for networks that block UDP. Everything runs on the data thread. A
//! socket with several connections has its own epoll instance, so that the data thread sees a single
//! descriptor.

mod certificate;
mod client;
mod connection;
mod proxy;
mod server;
mod targets;

pub(crate) use client::TlsClient;
pub(crate) use server::TlsServer;

use dccp_net::SocketStats;
use mpdccp_units::Time;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io;
use std::net::SocketAddr;

/// The ALPN protocol, which is one that HTTPS uses. It is not `h2`, because the server answers unknown
/// clients in HTTP/1.1.
const ALPN: &[u8] = b"http/1.1";

/// Size of the largest IP packet on a path over TLS, where the network does not limit the size.
const MTU: u16 = 1500;

/// Returns the size of the IP and UDP headers. Packets over TLS have the same size limit as packets over UDP,
/// so that switching the transport with `auto` changes no sizes.
fn overhead(addr: SocketAddr) -> u16 {
    if addr.is_ipv4() { 28 } else { 48 }
}

/// An epoll instance for the descriptors of one socket.
struct Poll(OwnedFd);

impl Poll {
    fn new() -> io::Result<Poll> {
        Ok(Poll(epoll::create(CreateFlags::CLOEXEC)?))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Watches a descriptor for becoming readable and, if `writes` is set, also writable.
    fn watch(&self, fd: impl AsFd, id: u64, writes: bool) -> io::Result<()> {
        let flags = EventFlags::IN | if writes { EventFlags::OUT } else { EventFlags::empty() };
        let data = EventData::new_u64(id);
        match epoll::add(&self.0, fd.as_fd(), data, flags) {
            Err(Errno::EXIST) => Ok(epoll::modify(&self.0, fd.as_fd(), data, flags)?),
            result => Ok(result?),
        }
    }

    /// Stops watching a descriptor that stays open.
    fn unwatch(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, fd.as_fd())?)
    }

    /// Returns the descriptors that are ready now.
    fn ready(&self) -> Vec<u64> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = epoll::wait(&self.0, &mut events[..], Some(&at_once)).unwrap_or(0);
        events[..n].iter().map(|event| event.data.u64()).collect()
    }
}

/// Adds the counters of UDP and TLS.
fn sum(udp: &SocketStats, tls: &SocketStats) -> SocketStats {
    SocketStats {
        tx_packets: udp.tx_packets + tls.tx_packets,
        tx_bytes: udp.tx_bytes + tls.tx_bytes,
        tx_calls: udp.tx_calls + tls.tx_calls,
        tx_buffer_full: udp.tx_buffer_full + tls.tx_buffer_full,
        tx_link_down: udp.tx_link_down + tls.tx_link_down,
        rx_packets: udp.rx_packets + tls.rx_packets,
        rx_bytes: udp.rx_bytes + tls.rx_bytes,
        rx_calls: udp.rx_calls + tls.rx_calls,
        ..*udp
    }
}

fn now() -> Time {
    dccp_net::Clock.now()
}

#[cfg(test)]
mod tests;
