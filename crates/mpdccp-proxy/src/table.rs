//! Which flows are proxied, and what becomes of each packet that is read from the tunnel's interface. No socket, no clock.
//!
//! A flow that was not open when the proxy first saw it, that is without a SYN, travels as packets, and a flow that was proxied never
//! does: the sequence numbers of its two legs differ.

use crate::answer::{Refusal, answer, reset_of};
use crate::segment::{Icmp, Segment, Tuple, quoted, with_checksum};
use mpdccp_units::{Duration, Time};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// A flow's number at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow(pub u64);

/// How long a flow that ended, or that is left to packets, is remembered: TIME-WAIT (RFC 9293 section 3.4.2) as Linux has it.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Why a TCP flow travels as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AsPacket {
    /// Its SYN was not seen.
    Midstream,
    /// MD5, TCP-AO or Multipath TCP.
    EndToEndOption,
    /// Accurate ECN or L4S.
    AccurateEcn,
    /// IP options, extension headers or fragments.
    NotPlain,
    /// Too many flows, or too many half-open ones of its source.
    Limit,
    /// The far end's SYN stayed unanswered.
    Unanswered,
    /// A policy rule is for its packets.
    Policy,
    /// The embedding said so.
    NotWanted,
}

impl AsPacket {
    /// All of them, in the order of [`FlowTable::as_packets`].
    pub const ALL: [AsPacket; 8] = [
        AsPacket::Midstream,
        AsPacket::EndToEndOption,
        AsPacket::AccurateEcn,
        AsPacket::NotPlain,
        AsPacket::Limit,
        AsPacket::Unanswered,
        AsPacket::Policy,
        AsPacket::NotWanted,
    ];

    /// As a metric names it.
    pub fn name(self) -> &'static str {
        match self {
            AsPacket::Midstream => "midstream",
            AsPacket::EndToEndOption => "end_to_end_option",
            AsPacket::AccurateEcn => "accurate_ecn",
            AsPacket::NotPlain => "not_plain",
            AsPacket::Limit => "limit",
            AsPacket::Unanswered => "unanswered",
            AsPacket::Policy => "policy",
            AsPacket::NotWanted => "not_wanted",
        }
    }
}

/// What to do with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it through the tunnel.
    Packet,
    /// Write it to the private namespace's device.
    Proxy(Flow),
    /// It is a SYN: ask the far end to connect. The table keeps the SYN.
    Open(Flow, Request),
    /// It is a held SYN again: drop it.
    Held(Flow),
    /// The host withdrew its held SYN: tell the far end.
    Withdrawn(Flow),
    /// As [`Proxy`](Verdict::Proxy), and the host gave up before its handshake was complete: end the flow at the far end and in the namespace.
    Aborted(Flow),
}

/// What the far end needs to know to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// From the host that opens to the host it wants.
    pub tuple: Tuple,
    /// TTL or hop limit of the SYN, which the far SYN carries too.
    pub ttl: u8,
    /// DSCP and ECN field of the SYN.
    pub traffic_class: u8,
    /// The SYN offers ECN.
    pub ecn: bool,
}

impl Request {
    /// A packet like the answers, to look up which rules hold for them.
    pub fn answer(&self) -> Vec<u8> {
        answer(self.tuple, self.traffic_class).unwrap_or_default()
    }
}

/// Bounds of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Flows at a time.
    pub flows: usize,
    /// Flows at a time that are not yet connected.
    pub half_open: usize,
    /// Of these, of one source address.
    pub half_open_per_source: usize,
}

impl Default for Limits {
    /// 65,536 flows, 4,096 half-open, 1,024 of one source.
    fn default() -> Limits {
        Limits { flows: 1 << 16, half_open: 1 << 12, half_open_per_source: 1 << 10 }
    }
}

#[derive(Debug)]
enum State {
    /// The far end was asked; the SYN waits here.
    Held(Held),
    /// This end was asked and is connecting; an ICMP error that came meanwhile.
    Connecting(Option<Icmp>),
    /// The far end is connected, and the host completes its handshake with the private namespace.
    Accepting,
    Open,
    /// Its late segments still belong to the private namespace.
    Ended,
    /// Left to packets.
    Packets,
    /// As if it had never been.
    Free,
}

#[derive(Debug)]
struct Held {
    syn: Vec<u8>,
    seq: u32,
    length: u32,
}

#[derive(Debug)]
struct Entry {
    flow: Flow,
    state: State,
    /// Of [`State::Ended`] and [`State::Packets`].
    until: Time,
}

/// The flows of one end.
#[derive(Debug)]
pub struct FlowTable {
    limits: Limits,
    /// By the direction of packets that are read from the interface.
    entries: HashMap<Tuple, Entry>,
    tuples: HashMap<Flow, Tuple>,
    half_open: HashMap<IpAddr, usize>,
    all_half_open: usize,
    /// Ended flows and those left to packets, in the order in which they are forgotten.
    remembered: VecDeque<(Time, Tuple)>,
    next: u64,
    counts: [u64; AsPacket::ALL.len()],
}

impl FlowTable {
    /// An empty table.
    pub fn new(limits: Limits) -> FlowTable {
        FlowTable {
            limits,
            entries: HashMap::new(),
            tuples: HashMap::new(),
            half_open: HashMap::new(),
            all_half_open: 0,
            remembered: VecDeque::new(),
            next: 0,
            counts: [0; AsPacket::ALL.len()],
        }
    }

    /// What to do with a packet read from the interface. `wanted` says whether a flow that opens may be proxied.
    pub fn on_packet(
        &mut self,
        now: Time,
        packet: &[u8],
        wanted: impl FnOnce(&Segment) -> Result<(), AsPacket>,
    ) -> Verdict {
        let Some(segment) = Segment::parse(packet) else {
            return self.on_other(packet);
        };
        self.forget(now);
        match self.entries.get(&segment.tuple) {
            Some(Entry { flow, state: State::Held(held), .. }) => {
                let flow = *flow;
                if segment.opens && segment.seq == held.seq {
                    return Verdict::Held(flow);
                }
                if segment.resets {
                    self.end(now, flow, State::Ended);
                    return Verdict::Withdrawn(flow);
                }
                if !segment.opens {
                    return Verdict::Held(flow);
                }
                // Another connection of the same ports: the host has forgotten the first.
                self.end(now, flow, State::Ended);
                Verdict::Withdrawn(flow)
            }
            Some(Entry { flow, state: State::Accepting, .. }) if segment.resets => {
                let flow = *flow;
                // The namespace's kernel drops a handshake that is reset without a word.
                self.end(now, flow, State::Ended);
                Verdict::Aborted(flow)
            }
            Some(Entry { flow, state: State::Open | State::Connecting(_) | State::Accepting, .. }) => {
                Verdict::Proxy(*flow)
            }
            Some(Entry { flow, state: State::Ended, .. }) if !segment.opens => Verdict::Proxy(*flow),
            Some(Entry { state: State::Packets, .. }) => self.as_packet(AsPacket::Unanswered, false),
            Some(_) | None if segment.opens => self.on_syn(packet, &segment, wanted(&segment)),
            Some(_) | None => self.as_packet(AsPacket::Midstream, false),
        }
    }

    fn on_syn(&mut self, packet: &[u8], segment: &Segment, wanted: Result<(), AsPacket>) -> Verdict {
        let source = segment.tuple.from.ip();
        let reason = if let Err(why) = wanted {
            Some(why)
        } else if segment.end_to_end_option {
            Some(AsPacket::EndToEndOption)
        } else if segment.accurate_ecn || segment.traffic_class & 3 == 1 {
            Some(AsPacket::AccurateEcn)
        } else if !segment.plain {
            Some(AsPacket::NotPlain)
        } else if !self.has_room(source) {
            Some(AsPacket::Limit)
        } else {
            None
        };
        if let Some(reason) = reason {
            return self.as_packet(reason, true);
        }
        let held = Held { syn: with_checksum(packet), seq: segment.seq, length: segment.length };
        let flow = self.insert(segment.tuple, State::Held(held));
        let Segment { tuple, ttl, traffic_class, ecn, .. } = *segment;
        Verdict::Open(flow, Request { tuple, ttl, traffic_class, ecn })
    }

    /// ICMP errors go where the packets came from that they quote.
    fn on_other(&mut self, packet: &[u8]) -> Verdict {
        let Some((tuple, icmp)) = quoted(packet) else { return Verdict::Packet };
        // The quote is a packet that the private namespace sent.
        match self.entries.get_mut(&tuple.reversed()) {
            Some(Entry { flow, state, .. }) if !matches!(state, State::Packets | State::Held(_)) => {
                if let State::Connecting(seen) = state {
                    *seen = Some(icmp);
                }
                Verdict::Proxy(*flow)
            }
            _ => Verdict::Packet,
        }
    }

    fn has_room(&self, source: IpAddr) -> bool {
        self.tuples.len() < self.limits.flows
            && self.all_half_open < self.limits.half_open
            && self.half_open.get(&source).is_none_or(|n| *n < self.limits.half_open_per_source)
    }

    fn insert(&mut self, tuple: Tuple, state: State) -> Flow {
        let flow = Flow(self.next);
        self.next += 1;
        if let Some(old) = self.entries.insert(tuple, Entry { flow, state, until: Time::ZERO }) {
            self.tuples.remove(&old.flow);
        }
        self.tuples.insert(flow, tuple);
        *self.half_open.entry(self.opener(tuple, flow)).or_default() += 1;
        self.all_half_open += 1;
        flow
    }

    /// Whose half-open flows a flow counts among: those of the host that opens it.
    fn opener(&self, tuple: Tuple, flow: Flow) -> IpAddr {
        match self.entries.get(&tuple) {
            Some(Entry { flow: f, state: State::Connecting(_), .. }) if *f == flow => tuple.to.ip(),
            _ => tuple.from.ip(),
        }
    }

    fn not_half_open(&mut self, tuple: Tuple, flow: Flow) {
        let source = self.opener(tuple, flow);
        if let Some(count) = self.half_open.get_mut(&source) {
            *count -= 1;
            self.all_half_open -= 1;
            if *count == 0 {
                self.half_open.remove(&source);
            }
        }
    }

    /// This end is asked to connect.
    ///
    /// # Errors
    /// What the other end is told: an earlier flow of these ports is still open here, or there are too many.
    pub fn connect(&mut self, now: Time, request: &Request) -> Result<Flow, Refusal> {
        self.forget(now);
        let tuple = request.tuple.reversed();
        match self.entries.get(&tuple).map(|entry| &entry.state) {
            Some(State::Held(_) | State::Connecting(_) | State::Accepting | State::Open) => {
                Err(Refusal::Busy)
            }
            _ if !self.has_room(request.tuple.from.ip()) => Err(Refusal::Silence),
            _ => Ok(self.insert(tuple, State::Connecting(None))),
        }
    }

    /// A packet is about to be written to the interface. A SYN that the other end left to packets frees its ports from an ended flow, so
    /// that the answers travel as packets too. Another segment of an ended flow comes from an end that lost its state: its numbers mean
    /// nothing to the host here. It is not to be written; what is returned is to be sent back, so that its host learns that the flow is over.
    pub fn on_delivered(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        if self.remembered.is_empty() {
            return None;
        }
        let segment = Segment::parse(packet)?;
        let entry = self.entries.get_mut(&segment.tuple.reversed())?;
        if !matches!(entry.state, State::Ended) {
            return None;
        }
        if segment.opens {
            entry.state = State::Packets;
            return None;
        }
        reset_of(&segment)
    }

    /// The far end is connected: the SYN of this flow may go to the private namespace now. `None` if it was withdrawn.
    pub fn accepted(&mut self, flow: Flow) -> Option<(Tuple, Vec<u8>)> {
        let tuple = *self.tuples.get(&flow)?;
        let entry =
            self.entries.get(&tuple).filter(|e| e.flow == flow && matches!(e.state, State::Held(_)))?;
        debug_assert_eq!(entry.flow, flow);
        let entry = self.entries.get_mut(&tuple)?;
        match std::mem::replace(&mut entry.state, State::Accepting) {
            State::Held(held) => Some((tuple, held.syn)),
            _ => None,
        }
    }

    /// The far end could not connect. Returns what the host is answered, if anything. What nobody answered is left to packets: the host's
    /// next SYN may take a way on which the answer does not come through the far end.
    pub fn refused(&mut self, now: Time, flow: Flow, why: Refusal) -> Option<Vec<u8>> {
        let tuple = *self.tuples.get(&flow)?;
        let Some(Entry { state: State::Held(held), .. }) = self.entries.get(&tuple) else { return None };
        let answer = why.packet(tuple, &held.syn, held.seq, held.length);
        match why {
            Refusal::Silence => self.end(now, flow, State::Packets),
            Refusal::Busy => self.end(now, flow, State::Free),
            Refusal::Reset | Refusal::Icmp(_) => self.end(now, flow, State::Ended),
        }
        answer
    }

    /// This end's connection is established.
    pub fn connected(&mut self, flow: Flow) {
        let Some(tuple) = self.tuples.get(&flow).copied() else { return };
        if matches!(
            self.entries.get(&tuple),
            Some(Entry { state: State::Connecting(_) | State::Accepting, .. })
        ) {
            self.not_half_open(tuple, flow);
            if let Some(entry) = self.entries.get_mut(&tuple) {
                entry.state = State::Open;
            }
        }
    }

    /// This end could not connect, as its kernel says; what the other end is told.
    pub fn failed(&mut self, now: Time, flow: Flow, refused: bool) -> Refusal {
        let seen = match self.tuples.get(&flow).and_then(|tuple| self.entries.get(tuple)) {
            Some(Entry { state: State::Connecting(seen), .. }) => *seen,
            _ => None,
        };
        let why = match (seen, refused) {
            (Some(icmp), _) => Refusal::Icmp(icmp),
            (None, true) => Refusal::Reset,
            (None, false) => Refusal::Silence,
        };
        let state = if why == Refusal::Silence { State::Packets } else { State::Ended };
        self.end(now, flow, state);
        why
    }

    /// The flow is over at this end: both directions ended, or it was reset.
    pub fn ended(&mut self, now: Time, flow: Flow) {
        self.end(now, flow, State::Ended);
    }

    fn end(&mut self, now: Time, flow: Flow, state: State) {
        let Some(tuple) = self.tuples.get(&flow).copied() else { return };
        if matches!(
            self.entries.get(&tuple),
            Some(Entry { state: State::Held(_) | State::Connecting(_) | State::Accepting, .. })
        ) {
            self.not_half_open(tuple, flow);
        }
        self.tuples.remove(&flow);
        if matches!(state, State::Free) {
            self.entries.remove(&tuple);
        } else if let Some(entry) = self.entries.get_mut(&tuple) {
            (entry.state, entry.until) = (state, now + REMEMBERED);
            self.remembered.push_back((entry.until, tuple));
        }
        // What ends is remembered for no more flows than may be open.
        while self.remembered.len() > self.limits.flows {
            self.forget_first();
        }
    }

    fn forget(&mut self, now: Time) {
        while self.remembered.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((until, tuple)) = self.remembered.pop_front() else { return };
        let over =
            |entry: &Entry| matches!(entry.state, State::Ended | State::Packets) && entry.until == until;
        if self.entries.get(&tuple).is_some_and(over) {
            self.entries.remove(&tuple);
        }
    }

    fn as_packet(&mut self, why: AsPacket, count: bool) -> Verdict {
        self.counts[why as usize] += u64::from(count);
        Verdict::Packet
    }

    /// Flows that are open or being opened.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Connections of a flow that is open or being opened.
    pub fn tuple(&self, flow: Flow) -> Option<Tuple> {
        self.tuples.get(&flow).copied()
    }

    /// SYNs that travelled as packets, by reason.
    pub fn as_packets(&self) -> impl Iterator<Item = (AsPacket, u64)> {
        AsPacket::ALL.into_iter().zip(self.counts)
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
