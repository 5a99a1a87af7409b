use crate::links::Links;
use crate::poller::{Poller, Source};
use crate::{Batch, Capture, Carrier, CarrierStats, LinkChange, Received, SendError};
use dccp_proto::Route;
use mpdccp_proto::Endpoint;
use rustix::fd::AsFd;
use std::io;
use std::net::SocketAddr;
use units::Time;

/// A carrier the loop can wait for.
pub(crate) trait LinuxCarrier: Carrier + AsFd {}
impl<T: Carrier + AsFd> LinuxCarrier for T {}

/// The carrier sockets of a driver and what waits to leave through them.
pub struct Net {
    sockets: Vec<Option<Box<dyn LinuxCarrier>>>,
    links: Links,
    /// Where the endpoint writes packets.
    pub batch: Batch,
    /// Copies everything sent and received.
    pub capture: Option<Capture>,
}

impl Net {
    pub(crate) fn new() -> Net {
        Net { sockets: Vec::new(), links: Links::default(), batch: Batch::default(), capture: None }
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
        self.links.forget(socket);
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

    /// What the system knows of the largest IP packet on the way to `remote`, bytes.
    ///
    /// # Errors
    /// No such socket, or no route.
    pub fn path_mtu(&self, socket: u32, remote: SocketAddr) -> io::Result<u16> {
        self.carrier(socket).ok_or(io::ErrorKind::NotFound)?.path_mtu(remote)
    }

    /// Asks the system whether a destination can still be reached, without sending.
    pub fn watch(&mut self, now: Time, socket: u32, remote: SocketAddr) {
        if let Err(e) = self.path_mtu(socket, remote) {
            self.links.mark(now, socket, remote, Some(e.to_string()));
        }
    }

    /// Receives once from a socket and hands everything to `endpoint`; the time handed on never runs backwards.
    pub(crate) fn receive(&mut self, socket: u32, now: Time, last: &mut Time, endpoint: &mut Endpoint) {
        let Some(Some(carrier)) = self.sockets.get_mut(socket as usize) else { return };
        let capture = &mut self.capture;
        let bound = if capture.is_some() { carrier.local_addr().ok() } else { None };
        let result = carrier.receive(now, &mut |packet: Received<'_>| {
            if let Some(capture) = capture {
                capture.received(socket, bound, &packet);
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
            if let Some(capture) = &mut self.capture {
                capture.sent(socket, &**carrier, &run.burst());
            }
            match carrier.send(&run.burst()) {
                Ok(()) => self.links.mark(now, socket, remote, None),
                Err(SendError::LinkDown(e)) => self.links.mark(now, socket, remote, Some(e.to_string())),
                // Counted; the congestion control will see the loss.
                Err(SendError::BufferFull | SendError::TooBig) => {}
            }
        }
        self.batch.clear();
    }

    /// When to call [`retry`](Self::retry).
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.links.next_retry()
    }

    /// Looks whether broken destinations can be reached again.
    pub(crate) fn retry(&mut self, now: Time) {
        let sockets = &mut self.sockets;
        self.links.retry(now, |socket, remote| match sockets.get_mut(socket as usize) {
            Some(Some(carrier)) => carrier.check(remote).is_ok(),
            _ => false,
        });
    }

    pub(crate) fn take_changes(&mut self) -> Vec<LinkChange> {
        self.links.take_changes()
    }
}
