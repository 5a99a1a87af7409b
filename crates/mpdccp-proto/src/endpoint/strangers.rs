//! Answers to packets that belong to no connection.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_proto::{Ecn, Route, Sink, refuse};
use dccp_wire::{Packet, ParseError, Reset};
use units::{Duration, Time};

/// Most Resets in a [`PERIOD`] (RFC 4340 section 8.1.3 asks for a limit, and suggests 1024 a second).
const MAX_RESETS: usize = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// Resets waiting to leave, and the limit on their rate.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    waiting: VecDeque<(Route, Vec<u8>)>,
    period: Time,
    sent: usize,
}

/// Takes one packet.
struct Keep<'a>(&'a mut VecDeque<(Route, Vec<u8>)>);

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
            (self.period, self.sent) = (now, 0);
        }
        // What is not fetched must not pile up either.
        if self.sent >= MAX_RESETS || self.waiting.len() >= MAX_RESETS {
            return false;
        }
        self.sent += 1;
        refuse(packet, reset, &[], route, &mut Keep(&mut self.waiting));
        true
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

pub(super) fn parse_error_name(error: ParseError) -> &'static str {
    match error {
        ParseError::Truncated => "truncated",
        ParseError::BadDataOffset => "bad_data_offset",
        ParseError::ShortNotAllowed => "short_not_allowed",
        ParseError::ReservedType => "reserved_type",
        ParseError::BadCoverage => "bad_coverage",
    }
}
