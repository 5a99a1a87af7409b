use crate::poller::{Poller, Source};
use crate::{Batch, Burst, Capture, Carrier, CarrierStats, Received, SendError};
use dccp_proto::Route;
use mpdccp_proto::Endpoint;
use rustix::fd::AsFd;
use std::io;
use std::net::{IpAddr, SocketAddr};
use units::{Duration, Time};

/// A carrier the loop can wait for.
pub(crate) trait LinuxCarrier: Carrier + AsFd {}
impl<T: Carrier + AsFd> LinuxCarrier for T {}

/// Sending to a destination stopped or started to work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The socket.
    pub socket: u32,
    /// The destination.
    pub remote: SocketAddr,
    /// Works again.
    pub up: bool,
    /// Why not.
    pub why: String,
}

struct Broken {
    socket: u32,
    remote: SocketAddr,
}

/// How often a broken destination is looked at again.
const RETRY: Duration = Duration::from_millis(250);
/// A destination that a peer made up must not fill the list.
const MAX_BROKEN: usize = 64;

/// The carrier sockets of a driver and what waits to leave through them.
pub struct Net {
    sockets: Vec<Option<Box<dyn LinuxCarrier>>>,
    /// Where the endpoint writes packets.
    pub batch: Batch,
    /// Copies everything sent and received.
    pub capture: Option<Capture>,
    broken: Vec<Broken>,
    changes: Vec<LinkChange>,
    retry_at: Option<Time>,
}

impl Net {
    pub(crate) fn new() -> Net {
        Net {
            sockets: Vec::new(),
            batch: Batch::default(),
            capture: None,
            broken: Vec::new(),
            changes: Vec::new(),
            retry_at: None,
        }
    }

    pub(crate) fn add(&mut self, poller: &Poller, carrier: Box<dyn LinuxCarrier>) -> io::Result<u32> {
        let socket = u32::try_from(self.sockets.len()).map_err(io::Error::other)?;
        poller.add(carrier.as_fd(), Source::Socket(socket))?;
        self.sockets.push(Some(carrier));
        Ok(socket)
    }

    /// Closes a socket; its number is not used again.
    pub fn remove(&mut self, socket: u32) {
        if let Some(slot) = self.sockets.get_mut(socket as usize) {
            *slot = None;
        }
        self.broken.retain(|b| b.socket != socket);
    }

    /// A socket, unless it was closed.
    pub fn carrier(&self, socket: u32) -> Option<&dyn Carrier> {
        self.sockets.get(socket as usize)?.as_ref().map(|c| &**c as &dyn Carrier)
    }

    /// Counters of each open socket.
    pub fn stats(&self) -> Vec<(u32, CarrierStats)> {
        let numbered = (0u32..).zip(&self.sockets);
        numbered.filter_map(|(i, c)| Some((i, *c.as_ref()?.stats()))).collect()
    }

    /// Receives once from a socket and hands everything to `endpoint`; the time handed on never runs backwards.
    pub(crate) fn receive(&mut self, socket: u32, now: Time, last: &mut Time, endpoint: &mut Endpoint) {
        let Some(Some(carrier)) = self.sockets.get_mut(socket as usize) else { return };
        let bound = carrier.local_addr().ok();
        let capture = &mut self.capture;
        let result = carrier.receive(now, &mut |packet: Received<'_>| {
            if let Some(capture) = capture {
                capture.received(bound, &packet);
            }
            *last = packet.at.max(*last);
            let route = Route { socket, local: packet.local, remote: packet.remote };
            endpoint.handle_datagram(*last, &route, packet.ecn, packet.ip_len, packet.bytes);
        });
        if let Err(e) = result {
            // Errors of earlier sends (ICMP) and of interfaces that went away; sending shows whether they last.
            tracing::debug!("socket {socket}: receiving: {e}");
        }
    }

    /// Sends everything in the batch.
    pub(crate) fn flush(&mut self, now: Time) {
        for run in self.batch.runs() {
            let Route { socket, remote, .. } = *run.route();
            let Some(Some(carrier)) = self.sockets.get_mut(socket as usize) else { continue };
            let burst: Burst<'_> = run.burst();
            if let Some(capture) = &mut self.capture {
                capture.sent(carrier.local_addr().ok(), &burst);
            }
            let known = self.broken.iter().position(|b| b.socket == socket && b.remote == remote);
            match (carrier.send(&burst), known) {
                (Ok(()), Some(i)) => {
                    self.broken.swap_remove(i);
                    self.changes.push(LinkChange { socket, remote, up: true, why: String::new() });
                }
                (Err(SendError::LinkDown(e)), None) if self.broken.len() < MAX_BROKEN => {
                    self.broken.push(Broken { socket, remote });
                    self.retry_at.get_or_insert(now + RETRY);
                    self.changes.push(LinkChange { socket, remote, up: false, why: e.to_string() });
                }
                _ => {}
            }
        }
        self.batch.clear();
    }

    /// When to call [`retry`](Self::retry).
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.retry_at
    }

    /// Looks whether broken destinations can be reached again.
    pub(crate) fn retry(&mut self, now: Time) {
        if self.retry_at.is_none_or(|t| t > now) {
            return;
        }
        let Net { sockets, broken, changes, .. } = self;
        broken.retain(|&Broken { socket, remote }| {
            let Some(Some(carrier)) = sockets.get_mut(socket as usize) else { return false };
            let works = carrier.check(remote).is_ok();
            if works {
                changes.push(LinkChange { socket, remote, up: true, why: String::new() });
            }
            !works
        });
        self.retry_at = (!self.broken.is_empty()).then_some(now + RETRY);
    }

    pub(crate) fn take_changes(&mut self) -> Vec<LinkChange> {
        std::mem::take(&mut self.changes)
    }

    /// What the system knows of the largest IP packet on the way to `remote`, bytes.
    ///
    /// # Errors
    /// No such socket, or no route.
    pub fn path_mtu(&self, socket: u32, remote: SocketAddr) -> io::Result<u16> {
        self.carrier(socket).ok_or(io::ErrorKind::NotFound)?.path_mtu(remote)
    }
}

/// The address a packet leaves from, as far as it is known without asking the system.
pub(crate) fn local_of(bound: Option<SocketAddr>, packet: Option<IpAddr>, remote: SocketAddr) -> SocketAddr {
    let any: IpAddr = if remote.is_ipv4() { [0u8; 4].into() } else { [0u8; 16].into() };
    let bound = bound.unwrap_or(SocketAddr::new(any, 0));
    SocketAddr::new(packet.unwrap_or(bound.ip()), bound.port())
}
