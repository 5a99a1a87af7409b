//! Inviting a client (RFC 5596): DCCP-Listen opens the NATs and firewalls on this side of it.

use super::Endpoint;
use alloc::vec::Vec;
use dccp_proto::{Ecn, Ports, Route, Sink};
use dccp_wire::{Header, PacketType, Seq};
use units::{Duration, Time};

/// RFC 5596 section 2.2.2: repeated after 200 ms, ...
const INTERVAL: Duration = Duration::from_millis(200);
/// ... twice at most.
const COPIES: u8 = 3;
/// Most clients invited at a time.
const MAX_INVITED: usize = 1024;

/// A client in whose place the listener is INVITED; afterwards it simply listens.
#[derive(Debug)]
struct Invitation {
    route: Route,
    ports: Ports,
    service_code: u32,
    /// When the next Listen leaves.
    at: Time,
    left: u8,
}

impl Invitation {
    /// RFC 5596 section 2.2.1: number, CCVal and coverage zero, neither options nor data.
    fn packet(&self) -> Header {
        Header {
            src_port: self.ports.local,
            dst_port: self.ports.remote,
            ccval: 0,
            cscov: 0,
            ptype: PacketType::Listen,
            short: false,
            seq: Seq::new(0),
            ack: None,
            service_code: Some(self.service_code),
            reset: None,
        }
    }
}

/// Those whose Request has not come.
#[derive(Debug, Default)]
pub(super) struct Invitations(Vec<Invitation>);

impl Invitations {
    /// Their Request is here.
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

impl Endpoint {
    /// Tells a client that will connect from there, to a port that listens, that it is waited for (DCCP-Listen, RFC 5596): so that NATs and
    /// firewalls before this end let its Request in. Both must know each other's addresses and ports by other means. Three
    /// packets at most leave. False if nothing listens on `ports.local`, or too many are being invited.
    pub fn invite(&mut self, now: Time, route: Route, ports: Ports) -> bool {
        let Some(listener) = self.listeners.get(&ports.local) else { return false };
        let service_code = listener.cfg.session.connection.service_code;
        self.invitations.accept(&route, ports);
        if self.invitations.0.len() >= MAX_INVITED {
            return false;
        }
        self.invitations.0.push(Invitation { route, ports, service_code, at: now, left: COPIES });
        true
    }
}
