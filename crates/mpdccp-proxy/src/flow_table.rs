//! The flow table selects the flows to proxy, by returning a verdict for each packet from the tunnel's
//! interface. It uses no sockets and no clock.
//!
//! If the proxy has not seen the SYN of a flow, the flow travels as packets. A flow that is already proxied
//! cannot switch to packets, because its two hosts use different sequence numbers.

use crate::entry::{Entry, Held, Remembered, State};
use crate::journal::Journal;
use crate::refusal::{Refusal, reset_of};
use crate::segment::{Segment, Tuple, quoted, with_checksum};
use crate::verdict::{AsPacket, Flow, Limits, Request, Verdict, may_proxy};
use mpdccp_units::{Duration, Time};
use std::collections::HashMap;
use std::net::IpAddr;

/// How long the table holds a SYN. By then, its host has given up (tcp_syn_retries in Linux).
const HELD: Duration = Duration::from_secs(130);

/// How long the table remembers ended flows and flows that travel as packets: the TIME-WAIT of Linux
/// (RFC 9293 section 3.4.2).
const REMEMBERED: Duration = Duration::from_secs(60);

/// How long the table remembers a connection that died when an end of the tunnel restarted. The host of such
/// a connection may be silent for hours (RFC 9293 section 3.8.4).
const DEAD: Duration = Duration::from_secs(24 * 3_600);

/// How often the table looks for entries that have expired.
const FORGET: Duration = Duration::from_secs(1);

/// The flows of one end.
#[derive(Debug)]
pub struct FlowTable {
    limits: Limits,
    /// The entries, keyed by their addresses in the direction of packets from the tunnel's interface.
    entries: HashMap<Tuple, Entry>,
    tuples: HashMap<Flow, Tuple>,
    half_open: HashMap<IpAddr, usize>,
    all_half_open: usize,
    /// When to look for SYNs that have been held for too long, and for entries that have expired.
    look_at: Time,
    forget_at: Time,
    /// The first contains ended flows and flows that travel as packets, the second dead flows.
    remembered: [Remembered; 2],
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
            look_at: Time::ZERO,
            forget_at: Time::ZERO,
            remembered: Default::default(),
            journal: Journal::default(),
            next: 0,
            counts: [0; AsPacket::ALL.len()],
        }
    }

    /// Handles a packet from the tunnel's interface. `wanted` decides whether a new flow may be proxied.
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
                // A SYN with a different sequence number opens a new connection with the same ports: the host
                // has forgotten the first one.
                if segment.resets || segment.opens && segment.seq != held.seq {
                    self.end(now, flow, State::Ended);
                    return Verdict::Withdrawn(flow);
                }
                Verdict::Held(flow)
            }
            Some(Entry { flow, state: State::Accepting, .. }) if segment.resets => {
                let flow = *flow;
                // The namespace's kernel does not report that a handshake was reset.
                self.end(now, flow, State::Ended);
                Verdict::Aborted(flow)
            }
            Some(Entry { flow, state: State::Open | State::Connecting(_) | State::Accepting, .. }) => {
                let flow = *flow;
                self.on_segment(flow, &segment, packet)
            }
            Some(Entry { state: State::Dead, .. }) if !segment.opens => Verdict::Answer(reset_of(&segment)),
            Some(Entry { flow, state: State::Ended, .. }) if !segment.opens => Verdict::Proxy(*flow),
            Some(Entry { state: State::Packets(_), .. }) => Verdict::Packet,
            Some(_) | None if segment.opens => self.on_syn(now, packet, &segment, wanted(&segment)),
            Some(_) | None => self.as_packet(AsPacket::Midstream),
        }
    }

    /// Handles a super-packet (several segments in one packet, as with TSO). If its flow travels as packets,
    /// the caller must pass each of its segments to [`on_packet`](Self::on_packet), which counts them.
    pub fn on_super_packet(&mut self, now: Time, packet: &[u8]) -> Verdict {
        let counts = self.counts;
        let verdict = self.on_packet(now, packet, |_| Err(AsPacket::NotWanted));
        if verdict == Verdict::Packet {
            self.counts = counts;
        }
        verdict
    }

    /// Handles a segment of a connection that is proxied here.
    fn on_segment(&mut self, flow: Flow, segment: &Segment, packet: &[u8]) -> Verdict {
        let Some(entry) = self.entries.get_mut(&segment.tuple) else { return Verdict::Packet };
        // The sequence number of a keepalive is one less than that of the next segment
        // (RFC 9293 section 3.8.4). Linux window probes look the same.
        if matches!(entry.state, State::Open)
            && segment.may_probe
            && segment.seq == entry.next.wrapping_sub(1)
        {
            entry.keepalive = Some(with_checksum(packet));
            return Verdict::Keepalive(flow);
        }
        if segment.opens && std::mem::take(&mut entry.drop_syn) {
            // The namespace must not answer this SYN yet: either the old connection may have ended at the far
            // end, or the namespace has no listener yet. When the host repeats the SYN, this has changed.
            return Verdict::Held(flow);
        }
        let in_handshake = matches!(entry.state, State::Accepting);
        entry.drop_syn = segment.finishes || segment.resets || entry.drop_syn && !in_handshake;
        // After a retransmission, the next segment is still the same.
        let repeats = matches!(entry.state, State::Open) && segment.end().wrapping_sub(entry.next) > 1 << 31;
        if !(segment.resets || segment.opens || repeats) {
            entry.next = segment.end();
        }
        if std::mem::take(&mut entry.asked) { Verdict::Alive(flow) } else { Verdict::Proxy(flow) }
    }

    /// Records that the far host wants to know whether this host is alive. Returns false if the flow is not
    /// open.
    pub fn ask(&mut self, flow: Flow) -> bool {
        let entry = self.tuples.get(&flow).and_then(|tuple| self.entries.get_mut(tuple));
        let open = entry.filter(|entry| matches!(entry.state, State::Open));
        open.map(|entry| entry.asked = true).is_some()
    }

    /// Handles proof that the far host is alive. Returns the held keepalive, which the namespace answers.
    pub fn alive(&mut self, flow: Flow) -> Option<Vec<u8>> {
        self.entries.get_mut(self.tuples.get(&flow)?)?.keepalive.take()
    }

    fn on_syn(
        &mut self,
        now: Time,
        packet: &[u8],
        segment: &Segment,
        wanted: Result<(), AsPacket>,
    ) -> Verdict {
        let source = segment.tuple.from.ip();
        if let Err(reason) = may_proxy(segment, wanted, self.has_room(source)) {
            // Remove the ended flow that had the same ports.
            self.remove(segment.tuple);
            return self.as_packet(reason);
        }
        let held = Held { since: now, syn: with_checksum(packet), seq: segment.seq, length: segment.length };
        let flow = self.insert(segment.tuple, State::Held(held));
        let Segment { tuple, ttl, traffic_class, ecn, .. } = *segment;
        Verdict::Open(flow, Request { tuple, ttl, traffic_class, ecn })
    }

    /// Drops SYNs whose far end has not answered for so long that their hosts have given up. Returns their
    /// flows, which the caller must withdraw at the far end.
    pub fn give_up(&mut self, now: Time) -> Vec<Flow> {
        if now < self.look_at || self.all_half_open == 0 {
            return Vec::new();
        }
        self.look_at = now + HELD;
        let late = |state: &State| matches!(state, State::Held(held) if held.since + HELD <= now);
        let late = self.entries.values().filter(|entry| late(&entry.state));
        let late: Vec<Flow> = late.map(|entry| entry.flow).collect();
        late.iter().for_each(|flow| self.end(now, *flow, State::Free));
        late
    }

    /// Handles a packet without a TCP header. An ICMP error goes to the sender of the packet that the error
    /// quotes.
    fn on_other(&mut self, packet: &[u8]) -> Verdict {
        let Some((tuple, icmp)) = quoted(packet) else { return Verdict::Packet };
        // The tuple is reversed because the private namespace has sent the quoted packet.
        match self.entries.get_mut(&tuple.reversed()) {
            Some(Entry { flow, state, .. }) if !matches!(state, State::Packets(_) | State::Held(_)) => {
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

    /// Marks a connection as dead because an end of the tunnel has restarted. The caller learns of such
    /// connections from the other end, or from this end's [`journal`](Self::changes). If the table has an
    /// open connection with the same addresses, that connection is newer, and is kept. Once the table is
    /// full, ignores the connections of a peer that has its share. Otherwise, a peer could invent connections
    /// without end, and each would cost two writes to the journal.
    pub fn bury(&mut self, now: Time, peer: usize, tuple: Tuple) {
        self.forget(now);
        if self.remembered[1].has_share(Some(peer), self.limits.flows) {
            return;
        }
        if self.entries.get(&tuple).is_none_or(|entry| matches!(entry.state, State::Ended)) {
            let line = self.entries.get(&tuple).and_then(|entry| entry.line);
            let line = line.unwrap_or_else(|| self.journal.write(tuple));
            self.insert_dead(now, tuple, line, Some(peer));
        }
    }

    fn insert_dead(&mut self, now: Time, tuple: Tuple, line: u32, peer: Option<usize>) {
        let (flow, until) = (Flow(self.next), now + DEAD);
        self.next += 1;
        self.entries.insert(tuple, Entry { until, line: Some(line), peer, ..Entry::new(flow, State::Dead) });
        self.remember(1, until, tuple);
    }

    /// Restores the dead connections from the journal of an earlier run. `lines` are the lines of the file to
    /// which [`changes`](Self::changes) were written.
    pub fn restore(&mut self, now: Time, lines: impl Iterator<Item = Option<Tuple>>) {
        // Open, ended and dead flows may each have as many lines as there may be flows.
        for (line, tuple) in (0..).zip(lines.take(3 * self.limits.flows)) {
            self.journal.lines = line + 1;
            self.journal.free.push(line);
            let Some(tuple) = tuple.filter(|tuple| !self.entries.contains_key(tuple)) else { continue };
            self.journal.free.pop();
            self.insert_dead(now, tuple, line, None);
        }
    }

    /// Returns the journal lines that have changed since the last call, for the caller to write to a file.
    /// After a crash, [`restore`](Self::restore) learns from this file which connections died.
    pub fn changes(&mut self) -> Vec<(u32, Option<Tuple>)> {
        std::mem::take(&mut self.journal.changes)
    }

    /// Returns the host that is opening a half-open flow. The flow counts against that host's limit.
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

    /// Starts a connection to a host at this end, as requested by the other end.
    ///
    /// # Errors
    /// The answer to the other end: either an earlier flow with these ports is still open here, or there are
    /// too many flows.
    pub fn connect(&mut self, now: Time, request: &Request) -> Result<Flow, Refusal> {
        self.forget(now);
        let tuple = request.tuple.reversed();
        match self.entries.get(&tuple).map(|entry| &entry.state) {
            // Both hosts have sent a SYN (RFC 9293 section 3.5). Packets can carry such a connection.
            Some(State::Held(_)) => Err(Refusal::Limit),
            Some(State::Connecting(_) | State::Accepting | State::Open) => Err(Refusal::Busy),
            _ if !self.has_room(request.tuple.from.ip()) => Err(Refusal::Limit),
            _ => Ok(self.insert(tuple, State::Connecting(None))),
        }
    }

    /// Checks a packet that the other end sent as a packet, before it is written to the interface. If it is a
    /// SYN, an ended flow with the same ports is removed, so that the answers also travel as packets. Any
    /// other segment of an ended or dead flow comes from an end that has lost its state. Its sequence numbers
    /// mean nothing to the host here, so it must not be written. In that case, the method returns a RST,
    /// which the caller sends back so that the far host learns that the flow has ended.
    pub fn on_delivered(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        if self.remembered.iter().all(Remembered::is_empty) {
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

    /// Handles the report that the far end has connected. Returns the held SYN for the private namespace, or
    /// `None` if the host has given up.
    pub fn accepted(&mut self, flow: Flow) -> Option<(Tuple, Vec<u8>)> {
        let tuple = *self.tuples.get(&flow)?;
        let entry = self.entries.get_mut(&tuple).filter(|e| matches!(e.state, State::Held(_)))?;
        entry.line = Some(self.journal.write(tuple));
        entry.drop_syn = true;
        match std::mem::replace(&mut entry.state, State::Accepting) {
            State::Held(held) => Some((tuple, held.syn)),
            _ => None,
        }
    }

    /// Handles the report that the far end could not connect. Returns the answer for the host, if there is
    /// one. After [`Refusal::Limit`] and [`Refusal::Silence`], the flow travels as packets. After `Silence`,
    /// packets may work because the remote host may have answered over a route that bypasses the far end.
    pub fn refused(&mut self, now: Time, flow: Flow, why: Refusal) -> Option<Vec<u8>> {
        let tuple = *self.tuples.get(&flow)?;
        let Some(Entry { state: State::Held(held), .. }) = self.entries.get(&tuple) else { return None };
        let answer = why.packet(tuple, &held.syn, held.seq, held.length);
        match why {
            Refusal::Silence => self.end(now, flow, State::Packets(AsPacket::Unanswered)),
            Refusal::Limit => self.end(now, flow, State::Packets(AsPacket::Limit)),
            Refusal::Busy => self.end(now, flow, State::Free),
            Refusal::Reset | Refusal::Icmp(_) => self.end(now, flow, State::Ended),
        }
        answer
    }

    /// Returns whether this end's kernel is still connecting to its host.
    pub fn is_connecting(&self, flow: Flow) -> bool {
        let entry = self.tuples.get(&flow).and_then(|tuple| self.entries.get(tuple));
        entry.is_some_and(|entry| matches!(entry.state, State::Connecting(_)))
    }

    /// Stores that the connection to this end's host is established.
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

    /// Handles the report that this end's kernel could not connect. Returns the answer for the other end.
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
        self.end(
            now,
            flow,
            match why {
                Refusal::Silence => State::Packets(AsPacket::Unanswered),
                _ => State::Ended,
            },
        );
        why
    }

    /// Records that the flow has ended at this end, either in both directions or by a reset.
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
        if let State::Packets(why) = state {
            self.counts[why as usize] += 1;
        }
        if matches!(state, State::Free) {
            self.remove(tuple);
        } else if let Some(entry) = self.entries.get_mut(&tuple) {
            (entry.state, entry.until, entry.keepalive) = (state, now + REMEMBERED, None);
            let until = entry.until;
            self.remember(0, until, tuple);
        }
    }

    /// Sets the peer of a flow. If the table has too many ended flows, it forgets those of the peer with the
    /// most of them.
    pub fn set_peer(&mut self, flow: Flow, peer: usize) {
        if let Some(entry) = self.tuples.get(&flow).and_then(|tuple| self.entries.get_mut(tuple)) {
            entry.peer = Some(peer);
        }
    }

    fn remember(&mut self, kind: usize, until: Time, tuple: Tuple) {
        let peer = self.entries.get(&tuple).and_then(|entry| entry.peer);
        let surplus = self.remembered[kind].add(peer, (until, tuple), self.limits.flows);
        surplus.into_iter().for_each(|entry| self.forget_entry(entry));
    }

    fn forget(&mut self, now: Time) {
        if now >= self.forget_at {
            self.forget_at = now + FORGET;
            for kind in 0..self.remembered.len() {
                let expired = self.remembered[kind].expired(now);
                expired.into_iter().for_each(|entry| self.forget_entry(entry));
            }
        }
    }

    fn forget_entry(&mut self, (until, tuple): (Time, Tuple)) {
        let over = |entry: &Entry| {
            matches!(entry.state, State::Ended | State::Packets(_) | State::Dead) && entry.until == until
        };
        if self.entries.get(&tuple).is_some_and(over) {
            self.remove(tuple);
        }
    }

    fn as_packet(&mut self, why: AsPacket) -> Verdict {
        self.counts[why as usize] += 1;
        Verdict::Packet
    }

    /// Returns the number of flows that are open or half-open.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Returns whether no flow is open or half-open.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Returns the addresses of a flow that is open or half-open.
    pub fn tuple(&self, flow: Flow) -> Option<Tuple> {
        self.tuples.get(&flow).copied()
    }

    /// Returns how many connections were not proxied, by reason. For [`AsPacket::Midstream`], segments are
    /// counted instead.
    pub fn as_packets(&self) -> impl Iterator<Item = (AsPacket, u64)> {
        AsPacket::ALL.into_iter().zip(self.counts)
    }
}

#[cfg(test)]
#[path = "flow_table_tests.rs"]
mod tests;
