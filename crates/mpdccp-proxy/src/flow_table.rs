//! The flow table selects the flows to proxy, and handles each packet from the tunnel's interface. It has no
//! socket and no clock.
//!
//! A flow whose SYN the proxy did not see travels as packets. A proxied flow never does, because the sequence
//! numbers at its two hosts differ.

use crate::journal::Journal;
use crate::refusal::{Refusal, reset_of};
use crate::segment::{Icmp, Segment, Tuple, quoted, with_checksum};
use crate::verdict::{AsPacket, Flow, Limits, Request, Verdict, may_proxy};
use mpdccp_units::{Duration, Time};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// How long ended flows and flows that travel as packets are remembered: TIME-WAIT (RFC 9293 section 3.4.2)
/// as in Linux.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How long a connection that died with an end of the tunnel is remembered. Its host may be silent for hours
/// (RFC 9293 section 3.8.4).
const DEAD: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug)]
enum State {
    /// The far end was asked to connect. The table holds the SYN.
    Held(Held),
    /// This end was asked to connect. Contains an ICMP error that arrived meanwhile.
    Connecting(Option<Icmp>),
    /// The far end is connected, and the host is completing its handshake with the private namespace.
    Accepting,
    Open,
    /// The flow has ended. Its late segments still belong to the private namespace.
    Ended,
    /// The flow travels as packets.
    Packets,
    /// The connection broke when an end of the tunnel restarted. Segments of its host are answered with RST.
    Dead,
    /// The flow is not in the table.
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
    /// When [`State::Ended`], [`State::Packets`] or [`State::Dead`] expires.
    until: Time,
    /// Sequence number of the host's next segment.
    next: u32,
    /// The host's keepalive, held until the far host has answered.
    keepalive: Option<Vec<u8>>,
    /// Whether the far host asked if this host is alive.
    asked: bool,
    /// Whether the host has sent FIN or RST, and no new SYN with these ports since.
    closing: bool,
    /// The flow's line in the journal.
    line: Option<u32>,
}

impl Entry {
    fn new(flow: Flow, state: State) -> Entry {
        Entry {
            flow,
            state,
            until: Time::ZERO,
            next: 0,
            keepalive: None,
            asked: false,
            closing: false,
            line: None,
        }
    }
}

/// The flows of one end.
#[derive(Debug)]
pub struct FlowTable {
    limits: Limits,
    /// The key has the addresses in the direction of packets from the interface.
    entries: HashMap<Tuple, Entry>,
    tuples: HashMap<Flow, Tuple>,
    half_open: HashMap<IpAddr, usize>,
    all_half_open: usize,
    /// Two lists in order of expiry. The first has ended flows and flows that travel as packets, the second
    /// dead flows.
    remembered: [VecDeque<(Time, Tuple)>; 2],
    journal: Journal,
    next: u64,
    counts: [u64; AsPacket::ALL.len()],
}

impl FlowTable {
    /// Creates an empty table.
    pub fn new(limits: Limits) -> FlowTable {
        FlowTable {
            limits,
            entries: HashMap::new(),
            tuples: HashMap::new(),
            half_open: HashMap::new(),
            all_half_open: 0,
            remembered: Default::default(),
            journal: Journal::default(),
            next: 0,
            counts: [0; AsPacket::ALL.len()],
        }
    }

    /// Handles a packet from the interface. `wanted` says whether a new flow may be proxied.
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
                // A new connection with the same ports: the host has forgotten the first one.
                self.end(now, flow, State::Ended);
                Verdict::Withdrawn(flow)
            }
            Some(Entry { flow, state: State::Accepting, .. }) if segment.resets => {
                let flow = *flow;
                // If a handshake is reset, the namespace's kernel drops it without a report.
                self.end(now, flow, State::Ended);
                Verdict::Aborted(flow)
            }
            Some(Entry { flow, state: State::Open | State::Connecting(_) | State::Accepting, .. }) => {
                let flow = *flow;
                self.on_segment(flow, &segment, packet)
            }
            Some(Entry { state: State::Dead, .. }) if !segment.opens => Verdict::Answer(reset_of(&segment)),
            Some(Entry { flow, state: State::Ended, .. }) if !segment.opens => Verdict::Proxy(*flow),
            Some(Entry { state: State::Packets, .. }) => self.as_packet(AsPacket::Unanswered, false),
            Some(_) | None if segment.opens => self.on_syn(packet, &segment, wanted(&segment)),
            Some(_) | None => self.as_packet(AsPacket::Midstream, false),
        }
    }

    /// Handles a segment of a connection that is proxied here.
    fn on_segment(&mut self, flow: Flow, segment: &Segment, packet: &[u8]) -> Verdict {
        let Some(entry) = self.entries.get_mut(&segment.tuple) else { return Verdict::Packet };
        // RFC 9293 section 3.8.4: the sequence number of a keepalive is one less than the next number.
        // Linux's window probes look the same.
        if matches!(entry.state, State::Open)
            && segment.may_probe
            && segment.seq == entry.next.wrapping_sub(1)
        {
            entry.keepalive = Some(with_checksum(packet));
            return Verdict::Keepalive(flow);
        }
        if segment.opens && std::mem::take(&mut entry.closing) {
            // This SYN starts a new connection. The namespace must not answer it yet: the old connection may
            // have ended at the far end without this end knowing. The host retransmits the SYN; by then, this
            // end knows.
            return Verdict::Held(flow);
        }
        entry.closing |= segment.finishes || segment.resets;
        if !segment.resets {
            entry.next = segment.end();
        }
        if std::mem::take(&mut entry.asked) { Verdict::Alive(flow) } else { Verdict::Proxy(flow) }
    }

    /// The far end asks whether this host is alive. Returns false if the flow is not open.
    pub fn ask(&mut self, flow: Flow) -> bool {
        let entry = self.tuples.get(&flow).and_then(|tuple| self.entries.get_mut(tuple));
        let open = entry.filter(|entry| matches!(entry.state, State::Open));
        open.map(|entry| entry.asked = true).is_some()
    }

    /// The far host is alive. Returns the near host's keepalive, which the private namespace then answers.
    pub fn alive(&mut self, flow: Flow) -> Option<Vec<u8>> {
        self.entries.get_mut(self.tuples.get(&flow)?)?.keepalive.take()
    }

    fn on_syn(&mut self, packet: &[u8], segment: &Segment, wanted: Result<(), AsPacket>) -> Verdict {
        let source = segment.tuple.from.ip();
        if let Err(reason) = may_proxy(segment, wanted, self.has_room(source)) {
            // An earlier flow with these ports has ended.
            self.remove(segment.tuple);
            return self.as_packet(reason, true);
        }
        let held = Held { syn: with_checksum(packet), seq: segment.seq, length: segment.length };
        let flow = self.insert(segment.tuple, State::Held(held));
        let Segment { tuple, ttl, traffic_class, ecn, .. } = *segment;
        Verdict::Open(flow, Request { tuple, ttl, traffic_class, ecn })
    }

    /// Handles other packets. An ICMP error goes to where the quoted packet came from.
    fn on_other(&mut self, packet: &[u8]) -> Verdict {
        let Some((tuple, icmp)) = quoted(packet) else { return Verdict::Packet };
        // The quoted packet came from the private namespace.
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
        self.remove(tuple);
        self.entries.insert(tuple, Entry::new(flow, state));
        self.tuples.insert(flow, tuple);
        *self.half_open.entry(self.opener(tuple, flow)).or_default() += 1;
        self.all_half_open += 1;
        flow
    }

    fn remove(&mut self, tuple: Tuple) {
        if let Some(old) = self.entries.remove(&tuple) {
            self.tuples.remove(&old.flow);
            self.journal.erase(old.line);
        }
    }

    /// A connection with these addresses died with an end of the tunnel, according to the other end or to the
    /// [`journal`](Self::changes) of this end. If a connection with these addresses is open here, it is a
    /// newer one.
    pub fn bury(&mut self, now: Time, tuple: Tuple) {
        self.forget(now);
        if self.entries.get(&tuple).is_none_or(|entry| matches!(entry.state, State::Ended)) {
            let flow = Flow(self.next);
            self.next += 1;
            let line = self.entries.get(&tuple).and_then(|entry| entry.line);
            let until = now + DEAD;
            let line = line.or_else(|| Some(self.journal.write(tuple)));
            self.entries.insert(tuple, Entry { until, line, ..Entry::new(flow, State::Dead) });
            self.remember(1, until, tuple);
        }
    }

    /// Restores dead connections from the [`changes`](Self::changes) of an earlier run.
    pub fn restore(&mut self, now: Time, lines: impl Iterator<Item = Option<Tuple>>) {
        for (line, tuple) in (0..).zip(lines.take(self.limits.flows)) {
            self.journal.lines = line + 1;
            self.journal.free.push(line);
            let Some(tuple) = tuple.filter(|tuple| !self.entries.contains_key(tuple)) else { continue };
            self.journal.free.pop();
            let (flow, until) = (Flow(self.next), now + DEAD);
            self.next += 1;
            self.entries.insert(tuple, Entry { until, line: Some(line), ..Entry::new(flow, State::Dead) });
            self.remember(1, until, tuple);
        }
    }

    /// Journal lines that changed since the last call: the connections that a host may believe to be open.
    /// [`restore`](Self::restore) learns from them which connections died with this end.
    pub fn changes(&mut self) -> Vec<(u32, Option<Tuple>)> {
        std::mem::take(&mut self.journal.changes)
    }

    /// The host whose limit a half-open flow counts against: the host that opens the flow.
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

    /// This end is asked to connect to a host.
    ///
    /// # Errors
    /// The answer for the other end: an earlier flow with these ports is still open here, or there are too
    /// many flows.
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

    /// Checks a packet for the interface. A SYN that the other end sent as a packet removes an ended flow
    /// with the same ports, so that the answers travel as packets too. Any other segment of an ended flow
    /// comes from an end that lost its state. Its sequence numbers mean nothing to the host here, so it must
    /// not be written. The returned packet must then be sent back, so that the far host learns that the flow
    /// has ended.
    pub fn on_delivered(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        if self.remembered.iter().all(VecDeque::is_empty) {
            return None;
        }
        let segment = Segment::parse(packet)?;
        let tuple = segment.tuple.reversed();
        match self.entries.get(&tuple)?.state {
            State::Ended | State::Dead if segment.opens => {
                self.remove(tuple);
                None
            }
            State::Ended | State::Dead => reset_of(&segment),
            _ => None,
        }
    }

    /// The far end is connected. Returns the SYN for the private namespace, or `None` if the host withdrew
    /// it.
    pub fn accepted(&mut self, flow: Flow) -> Option<(Tuple, Vec<u8>)> {
        let tuple = *self.tuples.get(&flow)?;
        let entry =
            self.entries.get(&tuple).filter(|e| e.flow == flow && matches!(e.state, State::Held(_)))?;
        debug_assert_eq!(entry.flow, flow);
        let entry = self.entries.get_mut(&tuple)?;
        entry.line = Some(self.journal.write(tuple));
        match std::mem::replace(&mut entry.state, State::Accepting) {
            State::Held(held) => Some((tuple, held.syn)),
            _ => None,
        }
    }

    /// The far end could not connect. Returns the answer to the host, if any. After [`Refusal::Silence`], the
    /// flow is forwarded as packets instead: if the remote host answers over a route that bypasses the far
    /// end, only packets work.
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
                entry.line = entry.line.or_else(|| Some(self.journal.write(tuple)));
            }
        }
    }

    /// This end's kernel could not connect. Returns the answer to the other end.
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

    /// The flow has ended at this end: both directions ended, or it was reset.
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
            self.remove(tuple);
        } else if let Some(entry) = self.entries.get_mut(&tuple) {
            (entry.state, entry.until, entry.keepalive) = (state, now + REMEMBERED, None);
            let until = entry.until;
            self.remember(0, until, tuple);
        }
    }

    /// Limits each of the two lists to the maximum number of open flows.
    fn remember(&mut self, kind: usize, until: Time, tuple: Tuple) {
        self.remembered[kind].push_back((until, tuple));
        while self.remembered[kind].len() > self.limits.flows {
            self.forget_first(kind);
        }
    }

    fn forget(&mut self, now: Time) {
        for kind in 0..self.remembered.len() {
            while self.remembered[kind].front().is_some_and(|(until, _)| *until <= now) {
                self.forget_first(kind);
            }
        }
    }

    fn forget_first(&mut self, kind: usize) {
        let Some((until, tuple)) = self.remembered[kind].pop_front() else { return };
        let over = |entry: &Entry| {
            matches!(entry.state, State::Ended | State::Packets | State::Dead) && entry.until == until
        };
        if self.entries.get(&tuple).is_some_and(over) {
            self.remove(tuple);
        }
    }

    fn as_packet(&mut self, why: AsPacket, count: bool) -> Verdict {
        self.counts[why as usize] += u64::from(count);
        Verdict::Packet
    }

    /// Number of flows that are open or being opened.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether no flow is open or being opened.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Addresses of a flow that is open or being opened.
    pub fn tuple(&self, flow: Flow) -> Option<Tuple> {
        self.tuples.get(&flow).copied()
    }

    /// Number of SYNs that travelled as packets, by reason.
    pub fn as_packets(&self) -> impl Iterator<Item = (AsPacket, u64)> {
        AsPacket::ALL.into_iter().zip(self.counts)
    }
}

#[cfg(test)]
#[path = "flow_table_tests.rs"]
mod tests;
