//! Receiving. If there is a backlog, another thread opens the records.

use super::{LinuxSocket, Net};
use crate::capture::Form;
use crate::channels::{Arrived, ChannelRoutes};
use crate::marking::{Marking, carried};
use crate::opening::{self, MOST_WAITING, Receipt};
use crate::shards::{Mail, Neighbours};
use crate::{Capture, Qlog, Received, secure};
use dccp_proto::Route;
use mpdccp_proto::Endpoint;
use mpdccp_units::Time;
use std::io;
use std::net::SocketAddr;

/// Handing fewer bytes over takes about as long as opening them.
const WORTH: usize = 40_000;

impl Net {
    /// Receives once from a socket and passes everything to `endpoint`, with times that never decrease.
    pub(crate) fn receive(&mut self, socket: u32, last: &mut Time, endpoint: &mut Endpoint) {
        // A capture contains the packets as they arrived.
        let aside = self.alarm.is_some() && self.routes.is_some() && self.capture.is_none();
        let result = if aside && self.open(socket).is_some_and(|open| open.receive_buffer().is_some()) {
            self.receive_aside(socket, last, endpoint)
        } else {
            let (sockets, mut inlet) = self.inlet(socket);
            let Some(Some(encapsulation)) = sockets.get_mut(socket as usize) else { return };
            let result = encapsulation.receive(&mut |packet| inlet.handle(packet, None, last, endpoint));
            let Inlet { elsewhere, answered, .. } = inlet;
            self.conclude(socket, *last, elsewhere, answered);
            result
        };
        let refused = self.open(socket).map(|encapsulation| encapsulation.refused()).unwrap_or_default();
        self.refused.extend(refused.into_iter().map(|to| (socket, to)));
        if let Err(e) = result {
            // The cause is an ICMP error of an earlier packet, or an interface that disappeared. If the error persists,
            // sending fails too.
            tracing::debug!("socket {socket}: cannot receive: {e}");
        }
    }

    fn open(&mut self, socket: u32) -> Option<&mut Box<dyn LinuxSocket>> {
        self.sockets.get_mut(socket as usize)?.as_mut()
    }

    /// Receives once. A backlog, and everything that arrives until it is done, goes to the thread that opens records.
    fn receive_aside(&mut self, socket: u32, last: &mut Time, endpoint: &mut Endpoint) -> io::Result<usize> {
        let mut receipt = self.spare.pop().unwrap_or_default();
        receipt.socket = socket;
        let Some(encapsulation) = self.open(socket) else { return Ok(0) };
        let result = encapsulation.receive(&mut |packet| receipt.add(packet));
        if let Some(buffer) = encapsulation.receive_buffer() {
            receipt.exchange(buffer);
        }
        let waiting = self.opening.as_ref().is_some_and(|opening| !opening.is_idle());
        if (!waiting && receipt.len() < WORTH) || !self.may_open() {
            self.handle(receipt, last, endpoint);
            return result;
        }
        if let (Some(routes), Some(opening)) = (&mut self.routes, &mut self.opening) {
            receipt.prepare(|datagram| routes.channels.prepare(*last, datagram));
            // If the thread died, the alarm ends the loop.
            let _ = opening.put(receipt);
        }
        result
    }

    /// Whether a thread may open records; starts it if necessary. It starts this late to have no more
    /// privileges than the running loop.
    fn may_open(&mut self) -> bool {
        let Some(alarm) = &self.alarm else { return false };
        if self.opening.is_none() {
            match opening::start(alarm.clone()) {
                Ok(worker) => self.opening = Some(worker),
                Err(e) => {
                    tracing::warn!("cannot start the opening thread: {e}; the event loop decrypts instead");
                    self.alarm = None;
                    return false;
                }
            }
        }
        true
    }

    /// Passes to `endpoint` the packets whose records the thread has opened.
    pub(crate) fn take_opened(&mut self, last: &mut Time, endpoint: &mut Endpoint) {
        while let Some(receipt) = self.opening.as_mut().and_then(|opening| opening.poll()) {
            self.handle(receipt, last, endpoint);
        }
    }

    fn handle(&mut self, mut receipt: Receipt, last: &mut Time, endpoint: &mut Endpoint) {
        let (_, mut inlet) = self.inlet(receipt.socket);
        receipt.drain(|packet, opened| inlet.handle(packet, opened, last, endpoint));
        let Inlet { socket, elsewhere, answered, .. } = inlet;
        self.conclude(socket, *last, elsewhere, answered);
        if self.spare.len() < MOST_WAITING {
            self.spare.push(receipt);
        }
    }

    fn inlet(&mut self, socket: u32) -> (&mut Vec<Option<Box<dyn LinuxSocket>>>, Inlet<'_>) {
        let Net { sockets, capture, capture_plaintext, routes, neighbours, marking, qlog, .. } = self;
        let encapsulation = sockets.get(socket as usize).and_then(Option::as_deref);
        let bound = capture.as_ref().and(encapsulation).and_then(|bound| bound.local_addr().ok());
        let plaintext = *capture_plaintext && routes.is_some();
        let marking = marking.as_deref();
        let (elsewhere, answered) = (Vec::new(), false);
        let inlet = Inlet {
            socket,
            bound,
            capture,
            plaintext,
            routes,
            neighbours,
            marking,
            qlog,
            elsewhere,
            answered,
        };
        (sockets, inlet)
    }

    fn conclude(&mut self, socket: u32, last: Time, elsewhere: Vec<(u8, SocketAddr)>, answered: bool) {
        if let Some(encapsulation) = self.open(socket).filter(|_| answered) {
            encapsulation.on_answer(last);
        }
        for (shard, remote) in elsewhere {
            self.give(socket, remote, shard);
        }
        self.hand_over();
    }
}

/// Handles the packets of one receive.
struct Inlet<'a> {
    socket: u32,
    /// Address of the socket, for the capture.
    bound: Option<SocketAddr>,
    capture: &'a mut Option<Capture>,
    /// The capture contains the channels' plaintext instead of their records.
    plaintext: bool,
    routes: &'a mut Option<ChannelRoutes>,
    neighbours: &'a mut Neighbours,
    marking: Option<&'a dyn Marking>,
    qlog: &'a mut Option<Qlog>,
    /// Other datagrams: their shards and their senders.
    elsewhere: Vec<(u8, SocketAddr)>,
    /// An answer to an echo request arrived.
    answered: bool,
}

impl Inlet<'_> {
    fn handle(
        &mut self,
        packet: Received<'_>,
        opened: Option<secure::OpenedRecord>,
        last: &mut Time,
        endpoint: &mut Endpoint,
    ) {
        let Inlet { socket, bound, capture, plaintext, routes, marking, qlog, .. } = self;
        *last = packet.at.max(*last);
        let outer = Route { socket: *socket, local: packet.local, remote: packet.remote };
        if let Some(capture) = capture.as_mut().filter(|_| !*plaintext) {
            let form = if routes.is_some() { Form::Sealed } else { Form::Dccp };
            capture.received(*socket, *bound, &packet, packet.bytes, form);
        }
        let Some(routes) = routes else {
            let bytes = carried(*marking, packet.ecn, packet.bytes);
            if let Some(qlog) = qlog {
                qlog.packet(*last, false, bytes, packet.ecn);
            }
            return endpoint.handle_datagram(*last, &outer, packet.ecn, packet.ip_len, bytes);
        };
        let arrived = match opened {
            Some(opened) => routes.handle_opened(*last, &outer, packet.bytes, opened),
            None => routes.handle(*last, &outer, packet.bytes),
        };
        let opened = match arrived {
            Arrived::Packet(opened) => opened,
            Arrived::Elsewhere(shard) => {
                let (ecn, ip_len, bytes) = (packet.ecn, packet.ip_len, packet.bytes.to_vec());
                if !self.elsewhere.contains(&(shard, outer.remote)) {
                    self.elsewhere.push((shard, outer.remote));
                }
                return self.neighbours.put(shard, Mail::Datagram { from: outer, ecn, ip_len, bytes });
            }
            Arrived::Nothing => return,
        };
        if let Some(capture) = capture.as_mut().filter(|_| *plaintext) {
            let inner = &packet.bytes[opened.packet.clone()];
            capture.received(*socket, *bound, &packet, inner, Form::Dccp);
        }
        let inner = carried(*marking, packet.ecn, &mut packet.bytes[opened.packet]);
        if secure::EchoAnswer::read(inner).is_some() {
            self.answered = true;
            return;
        }
        if let Some(qlog) = qlog {
            qlog.packet(*last, false, inner, packet.ecn);
        }
        endpoint.handle_peer(*last, &opened.route, opened.peer, packet.ecn, packet.ip_len, inner);
    }
}

#[cfg(all(test, feature = "encryption"))]
#[path = "receive_tests.rs"]
mod tests;
