//! Answers to packets that belong to no connection.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use dccp_proto::{Ecn, Route, Sink, refuse};
use dccp_wire::{Packet, PacketType, Reset};
use mpdccp_units::{Duration, Time};

/// Period to which the limits below apply.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of Resets per [`Kind`] and period. RFC 4340 section 8.1.3 requires a rate limit and
/// suggests 1024 per second. This limit is higher, so that after a restart of this host, thousands of peers
/// soon learn that it has lost their connections.
const MAX_RESETS: u32 = 8_192;
/// Maximum number of Resets to one address, which many peers may share.
const MAX_TO_ADDRESS: u32 = 1_024;
/// Maximum number of Resets to one address and port.
const MAX_TO_PORT: u32 = 16;

/// Maximum size of an answer to an unproven address, as a multiple of the size of the packet that it answers.
/// Both sizes are those of the IP packets.
const MOST_PER_BYTE: u64 = 3;
/// Number of bytes per second, and in one burst, by which all answers together may exceed the packets that
/// they answer. A Request without padding, such as Linux's, is shorter than its Response; this allowance lets
/// such clients connect without enabling amplification.
const EXCESS: u64 = 128 << 10;

/// A packet that belongs to no connection: its length as an IP packet, the length of the headers around the
/// DCCP packet, and whether the encapsulation proves the sender's address. The answer has headers of the same
/// length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) len: u32,
    pub(super) overhead: u32,
    pub(super) proven: bool,
}

/// The type of the packet being answered. Each type has its own budget, so that a flood of Requests cannot
/// use up the Resets meant for the peers of a restarted host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Other,
}

/// Resets sent in this period.
#[derive(Debug, Default)]
struct Budget {
    all: u32,
    addresses: BTreeMap<IpAddr, u32>,
    ports: BTreeMap<SocketAddr, u32>,
}

impl Budget {
    /// Takes one Reset from the budget. Returns false if no Reset is left for this peer. The tables have at
    /// most one entry per Reset, so their memory is bounded.
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

/// Answers waiting to be sent, and their rate limits.
#[derive(Debug)]
pub(super) struct Strangers {
    waiting: VecDeque<(Route, Vec<u8>)>,
    /// Number of bytes of [`EXCESS`] left, and when it was last updated.
    excess: (u64, Time),
    period: Time,
    budgets: [Budget; 2],
}

/// A sink that queues packets.
pub(super) struct Keep<'a>(&'a mut VecDeque<(Route, Vec<u8>)>);

impl Sink for Keep<'_> {
    fn reserve(&mut self, route: &Route, _ecn: Ecn, len: usize) -> &mut [u8] {
        self.0.push_back((*route, alloc::vec![0; len]));
        self.0.back_mut().map_or(&mut [], |(_, bytes)| bytes)
    }
}

impl Default for Strangers {
    fn default() -> Strangers {
        Strangers {
            waiting: VecDeque::new(),
            excess: (EXCESS, Time::ZERO),
            period: Time::ZERO,
            budgets: Default::default(),
        }
    }
}

impl Strangers {
    /// Returns whether a DCCP packet of `answer` bytes may be sent as an answer.
    pub(super) fn may_answer(&mut self, now: Time, question: Question, answer: usize) -> bool {
        if question.proven {
            return true;
        }
        let (asked, answer) = (u64::from(question.len), answer as u64 + u64::from(question.overhead));
        let earned = (now.since(self.excess.1).as_micros() as u64).saturating_mul(EXCESS) / 1_000_000;
        if earned > 0 {
            self.excess = ((self.excess.0.saturating_add(earned)).min(EXCESS), now);
        }
        let more = answer.saturating_sub(asked);
        let may = answer <= asked * MOST_PER_BYTE && more <= self.excess.0;
        self.excess.0 -= if may { more } else { 0 };
        may
    }

    /// Queues the answer written by `write`, and returns its length. Returns `None` if the queue is full or
    /// the answer is not allowed.
    pub(super) fn answer_with(
        &mut self,
        now: Time,
        question: Question,
        write: impl FnOnce(&mut Keep<'_>),
    ) -> Option<usize> {
        // The number of queued answers is limited as well.
        if self.waiting.len() >= MAX_RESETS as usize {
            return None;
        }
        let before = self.waiting.len();
        write(&mut Keep(&mut self.waiting));
        let len = self.waiting.iter().skip(before).map(|(_, bytes)| bytes.len()).sum();
        let may = self.may_answer(now, question, len);
        if !may {
            self.waiting.truncate(before);
        }
        may.then_some(len)
    }

    /// Answers with a Reset. Returns false if the limit is reached.
    pub(super) fn answer(
        &mut self,
        now: Time,
        route: &Route,
        question: Question,
        packet: &Packet<'_>,
        reset: Reset,
    ) -> bool {
        if now.since(self.period) >= PERIOD {
            (self.period, self.budgets) = (now, Default::default());
        }
        let kind = match packet.header.ptype {
            PacketType::Request => Kind::Request,
            _ => Kind::Other,
        };
        if !self.budgets[kind as usize].take(route.remote) {
            return false;
        }
        self.answer_with(now, question, |keep| refuse(packet, reset, &[], route, keep)).is_some()
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
