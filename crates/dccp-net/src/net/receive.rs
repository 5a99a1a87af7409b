//! Receives packets from the sockets.

use super::Net;
use crate::capture::Form;
use crate::channels::{Arrived, ChannelRoutes};
use crate::outer_mark::{Marking, carried};
use crate::shards::{Mail, Neighbours};
use crate::{Capture, Qlog, Received, secure};
use dccp_proto::Route;
use mpdccp_proto::Endpoint;
use mpdccp_units::Time;
use std::net::SocketAddr;

impl Net {
    /// Receives once from a socket and passes the packets for this shard to `endpoint`. Their receive times
    /// never decrease.
    pub(crate) fn receive(&mut self, socket: u32, last: &mut Time, endpoint: &mut Endpoint) {
        let Net { sockets, capture, routes, neighbours, marking, qlog, .. } = self;
        let Some(encapsulation) = sockets.get_mut(&socket) else { return };
        let mut inlet = Inlet {
            socket,
            bound: capture.as_ref().and_then(|_| encapsulation.local_addr().ok()),
            capture,
            routes,
            neighbours,
            marking: marking.as_deref(),
            qlog,
            elsewhere: Vec::new(),
            answered: false,
        };
        let result = encapsulation.receive(&mut |packet| inlet.handle(packet, last, endpoint));
        let Inlet { elsewhere, answered, .. } = inlet;
        if answered {
            encapsulation.on_answer(*last);
        }
        self.refused.extend(encapsulation.refused().into_iter().map(|to| (socket, to)));
        for (shard, remote) in elsewhere {
            self.give(socket, remote, shard);
        }
        self.hand_over();
        if let Err(e) = result {
            // Either an earlier packet caused an ICMP error, or an interface has disappeared. Only log this:
            // if the cause persists, sending fails too.
            tracing::debug!("socket {socket}: cannot receive: {e}");
        }
    }
}

/// Handles the packets of one receive.
struct Inlet<'a> {
    socket: u32,
    /// Address of the socket, for the capture.
    bound: Option<SocketAddr>,
    capture: &'a mut Option<Capture>,
    routes: &'a mut Option<ChannelRoutes>,
    neighbours: &'a mut Neighbours,
    marking: Option<&'a dyn Marking>,
    qlog: &'a mut Option<Qlog>,
    /// Datagrams for other shards: the shard and the sender of each.
    elsewhere: Vec<(u8, SocketAddr)>,
    /// Whether an answer to an echo request has arrived.
    answered: bool,
}

impl Inlet<'_> {
    fn handle(&mut self, packet: Received<'_>, last: &mut Time, endpoint: &mut Endpoint) {
        let Inlet { socket, bound, capture, routes, marking, qlog, .. } = self;
        *last = packet.at.max(*last);
        let outer = Route { socket: *socket, local: packet.local, remote: packet.remote };
        if let Some(capture) = capture {
            let form = if routes.is_some() { Form::Sealed } else { Form::Dccp };
            capture.received(*socket, *bound, &packet, form);
        }
        let Some(routes) = routes else {
            let bytes = carried(*marking, packet.ecn, packet.bytes);
            if let Some(qlog) = qlog {
                qlog.packet(*last, false, bytes, packet.ecn);
            }
            return endpoint.handle_datagram(*last, &outer, packet.ecn, packet.ip_len, bytes);
        };
        let opened = match routes.handle(*last, &outer, packet.bytes) {
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
