//! Rendezvous (RFC 5596): DCCP-Listen opens the NATs and firewalls in front of this end.

use alloc::vec::Vec;
use dccp_proto::{Ecn, Ports, Route, Sink};
use dccp_wire::{Header, PacketType, Seq};
use mpdccp_units::{Duration, Time};

/// Interval between Listens (RFC 5596 section 2.2.2).
const INTERVAL: Duration = Duration::from_millis(200);
/// Number of Listens to a client: the first and at most two repetitions (RFC 5596 section 2.2.2).
pub(super) const COPIES: u8 = 3;
/// Maximum number of clients that are expected at a time.
pub(super) const MAX_EXPECTED: usize = 1024;

/// A client that the listener has invited (state INVITED of RFC 5596).
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) route: Route,
    pub(super) ports: Ports,
    pub(super) service_code: u32,
    /// Time at which the next Listen is sent.
    pub(super) at: Time,
    pub(super) left: u8,
}

impl Expected {
    /// Returns a Listen. Its sequence number, CCVal and coverage are zero, and it has neither options nor
    /// data (RFC 5596 section 2.2.1).
    fn packet(&self) -> Header {
        let ports = (self.ports.local, self.ports.remote);
        let header = Header::new(ports, PacketType::Listen, Seq::new(0));
        Header { service_code: Some(self.service_code), ..header }
    }
}

/// Invited clients whose Request has not arrived.
#[derive(Debug, Default)]
pub(super) struct Rendezvous(pub(super) Vec<Expected>);

impl Rendezvous {
    /// Removes a client whose Request arrived.
    pub(super) fn accept(&mut self, route: &Route, ports: Ports) {
        self.0.retain(|guest| (guest.route.remote, guest.ports) != (route.remote, ports));
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.0.iter().map(|guest| guest.at).min()
    }

    pub(super) fn transmit(&mut self, now: Time, sink: &mut dyn Sink) {
        for guest in self.0.iter_mut().filter(|guest| guest.at <= now) {
            guest.at = now + INTERVAL;
            guest.left -= 1;
            let header = guest.packet();
            header.emit(&[], sink.reserve(&guest.route, Ecn::NotEct, header.packet_len(0, 0)));
        }
        self.0.retain(|guest| guest.left > 0);
    }
}
