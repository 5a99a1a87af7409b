//! Answers to packets that belong to no connection.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use dccp_proto::{Ecn, Route, Sink, refuse};
use dccp_wire::{Packet, PacketType, Reset};
use mpdccp_units::{Duration, Time};

/// Over which the limits below count.
const PERIOD: Duration = Duration::from_secs(1);
/// Most Resets of one [`Kind`]. RFC 4340 section 8.1.3 asks for a limit on the rate, and suggests 1024 a second; thousands of peers
/// that this host forgot in a restart are to know soon.
const MAX_RESETS: u32 = 8_192;
/// Most of them to one address, behind which there may be many peers, ...
const MAX_TO_ADDRESS: u32 = 1_024;
/// ... and to one address and port.
const MAX_TO_PORT: u32 = 16;

/// What is answered: a flood of Requests must not keep the peers of a restarted host ignorant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Other,
}

/// Resets that left in this period.
#[derive(Debug, Default)]
struct Budget {
    all: u32,
    addresses: BTreeMap<IpAddr, u32>,
    ports: BTreeMap<SocketAddr, u32>,
}

impl Budget {
    /// Takes one Reset out; false if there is none left for this peer. The tables are no longer than there are Resets.
    fn take(&mut self, remote: SocketAddr) -> bool {
        if self.all >= MAX_RESETS {
            return false;
        }
        let address = self.addresses.entry(remote.ip()).or_insert(0);
        if *address >= MAX_TO_ADDRESS {
            return false;
        }
        let port = self.ports.entry(remote).or_insert(0);
        if *port >= MAX_TO_PORT {
            return false;
        }
        self.all += 1;
        *address += 1;
        *port += 1;
        true
    }
}

/// Resets waiting to leave, and the limits on their rate.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    waiting: VecDeque<(Route, Vec<u8>)>,
    period: Time,
    budgets: [Budget; 2],
}

/// Takes packets.
pub(super) struct Keep<'a>(&'a mut VecDeque<(Route, Vec<u8>)>);

impl Sink for Keep<'_> {
    fn reserve(&mut self, route: &Route, _ecn: Ecn, len: usize) -> &mut [u8] {
        self.0.push_back((*route, alloc::vec![0; len]));
        self.0.back_mut().map_or(&mut [], |(_, bytes)| bytes)
    }
}

impl Strangers {
    /// Answers with a Reset; false if there were too many lately.
    pub(super) fn answer(&mut self, now: Time, route: &Route, packet: &Packet<'_>, reset: Reset) -> bool {
        if now.since(self.period) >= PERIOD {
            (self.period, self.budgets) = (now, Default::default());
        }
        let kind = match packet.header.ptype {
            PacketType::Request => Kind::Request,
            _ => Kind::Other,
        };
        // What is not fetched must not pile up either.
        if self.waiting.len() >= MAX_RESETS as usize || !self.budgets[kind as usize].take(route.remote) {
            return false;
        }
        refuse(packet, reset, &[], route, &mut Keep(&mut self.waiting));
        true
    }

    /// For answers of other kinds, if there is room.
    pub(super) fn sink(&mut self) -> Option<Keep<'_>> {
        (self.waiting.len() < MAX_RESETS as usize).then_some(Keep(&mut self.waiting))
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn transmit(&mut self, sink: &mut dyn Sink) {
        for (route, bytes) in self.waiting.drain(..) {
            sink.reserve(&route, Ecn::NotEct, bytes.len()).copy_from_slice(&bytes);
        }
    }
}
