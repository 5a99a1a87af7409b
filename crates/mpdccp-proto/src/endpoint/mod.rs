//! All sessions of one thread, and their interface.

mod accept;
mod commands;
mod congestion_groups;
mod cookie_codec;
mod cookies;
mod demux;
mod listener;
mod memory;
mod occupancy;
mod rendezvous;
mod strangers;
mod total_cap;

use crate::Counters;
use crate::blocks::Blocks;
use crate::counter::count;
use crate::session::Session;
use crate::{Counter, FlowKey, ListenConfig, PathConfig, SessionConfig, SessionEvent, SessionId, Wake};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use congestion_groups::Groups;
use cookie_codec::Cookies;
use core::net::{IpAddr, SocketAddr};
use dccp_proto::{Ecn, Route, Sink};
use dccp_wire::{Packet, PacketType};
use demux::Demux;
use listener::Listener;
use memory::Memory;
use mpdccp_units::Time;
use occupancy::Occupancy;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use rendezvous::Rendezvous;
use strangers::{Question, Strangers};
use total_cap::TotalCap;
use tracing::Span;

/// Counters of packets that belong to no connection.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EndpointStats {
    /// How often each counted event has occurred.
    pub counters: Counters,
    /// Source of the most recently refused Request, and the reason for the refusal.
    pub refused: Option<(SocketAddr, Counter)>,
}

impl EndpointStats {
    fn count(&mut self, what: Counter) {
        count(&mut self.counters, what);
    }
}

#[derive(Debug)]
struct Entry {
    session: Session,
    /// The time of the session's entry in [`Endpoint::timers`], and the reason for it.
    armed: Option<(Time, Wake)>,
    /// Whether the session needs [`Endpoint::poll_transmit`].
    dirty: bool,
    /// Whether the session is waiting for its turn to send.
    waiting: bool,
    /// Whether the session has datagrams for [`Endpoint::poll_deliver`].
    ready: bool,
    /// Port of the listener that accepted the session, and the source under which the session is counted.
    listener: Option<(u16, IpAddr)>,
    /// Whether the listener counts the session as open instead of half open.
    opened: bool,
    /// Length of the Response, kept for as long as the Response may be repeated.
    answer: usize,
    /// Number of the session's events in [`Endpoint::events`].
    untold: usize,
    /// Span of the session's `tracing` events.
    span: Span,
    /// Bytes in the session's queues, as counted in [`Endpoint::memory`].
    queued: u64,
}

/// Maximum number of pending events. Beyond it, options from the peer's application are dropped.
const MAX_EVENTS: usize = 1024;

/// All sessions of one thread, and their interface.
///
/// First pass in all pending inputs ([`handle_datagram`](Self::handle_datagram),
/// [`handle_timeout`](Self::handle_timeout)) and commands ([`send`](Self::send),
/// [`add_path`](Self::add_path), ...). Then drain [`poll_transmit`](Self::poll_transmit),
/// [`poll_deliver`](Self::poll_deliver) and [`poll_event`](Self::poll_event), and set a single timer from
/// [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Endpoint {
    rng: ChaCha20Rng,
    sessions: BTreeMap<SessionId, Box<Entry>>,
    next_session: u64,
    demux: Demux,
    listeners: BTreeMap<u16, Listener>,
    /// Congestion states that connections share.
    groups: Groups,
    /// Buffers for packets. Like the groups, they are lent to each session while it is processed.
    blocks: Blocks,
    /// First byte of new connection identifiers, if set.
    shard: Option<u8>,
    timers: BTreeSet<(Time, SessionId)>,
    dirty: Vec<SessionId>,
    /// Rate limit of all sessions together.
    total_cap: TotalCap,
    /// Memory limit of all sessions together.
    memory: Memory,
    /// Sessions that may have datagrams for the application.
    ready: VecDeque<SessionId>,
    events: VecDeque<(SessionId, SessionEvent)>,
    /// The session whose end was reported last. Its status can still be read.
    closed: Option<SessionId>,
    strangers: Strangers,
    rendezvous: Rendezvous,
    cookies: Cookies,
    flow_key: FlowKey,
    stats: EndpointStats,
}

impl Endpoint {
    /// Creates an endpoint without sessions. Outside simulations, `seed` must come from the operating
    /// system's random source, because keys and nonces are derived from it.
    pub fn new(seed: [u8; 32]) -> Endpoint {
        let mut rng = ChaCha20Rng::from_seed(seed);
        // The secret for cookies comes from a separate random stream, so it does not affect keys and nonces.
        rng.set_stream(1);
        let mut secret = [0; 32];
        rng.fill_bytes(&mut secret);
        Endpoint {
            rng: ChaCha20Rng::from_seed(seed),
            cookies: Cookies::new(secret),
            flow_key: FlowKey::of_seed(seed),
            sessions: BTreeMap::new(),
            next_session: 0,
            demux: Demux::default(),
            listeners: BTreeMap::new(),
            groups: Groups::default(),
            blocks: Blocks::default(),
            shard: None,
            timers: BTreeSet::new(),
            dirty: Vec::new(),
            total_cap: TotalCap::default(),
            memory: Memory::default(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            closed: None,
            strangers: Strangers::default(),
            rendezvous: Rendezvous::default(),
            stats: EndpointStats::default(),
        }
    }

    /// Makes all new connection identifiers begin with these eight bits, so that a dispatcher in front of
    /// several endpoints can find the right endpoint for an MP_JOIN. The other bits are random.
    pub fn set_shard(&mut self, shard: u8) {
        self.shard = Some(shard);
    }

    /// Accepts sessions on a DCCP port. If the port is already open, the settings apply to new sessions.
    pub fn listen(&mut self, cfg: ListenConfig) {
        match self.listeners.get_mut(&cfg.port) {
            Some(listener) => listener.change(cfg),
            None => {
                let mut sessions = Occupancy::default();
                for entry in self.sessions.values() {
                    if let Some((_, source)) = entry.listener.filter(|(port, _)| *port == cfg.port) {
                        sessions.change(source, entry.opened, true);
                    }
                }
                self.listeners.insert(cfg.port, Listener::new(cfg, sessions));
            }
        }
    }

    /// Stops accepting sessions on a DCCP port. Existing sessions continue.
    pub fn unlisten(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Returns the key for [`crate::PktInfo::of_ip`], which describes packets to be sent.
    pub fn flow_key(&self) -> FlowKey {
        self.flow_key
    }

    /// Opens a session over a first path.
    pub fn connect(&mut self, now: Time, cfg: SessionConfig, path: PathConfig) -> SessionId {
        let (ci, seed) = (self.fresh_ci(), self.seed());
        let session = Session::client(cfg, now, path, ci, seed);
        let span = self.next_span(false);
        let id = self.insert(session, None, span);
        self.settle(now, id);
        id
    }

    /// Processes a DCCP packet that arrived on `route`. For UDP, `bytes` is the payload of the datagram.
    /// `len` is the length of the IP packet on the wire. For a native packet, the caller must already have
    /// verified the checksum.
    pub fn handle_datagram(&mut self, now: Time, route: &Route, ecn: Ecn, len: u32, bytes: &[u8]) {
        self.handle_from(now, route, None, ecn, len, bytes);
    }

    /// Like [`handle_datagram`](Self::handle_datagram), but for a route whose encapsulation authenticates the
    /// peer. `peer` is its `id` in [`ListenConfig::peers`]. Over this route, only that peer can open and join
    /// sessions, from any address.
    pub fn handle_peer(&mut self, now: Time, route: &Route, peer: u32, ecn: Ecn, len: u32, bytes: &[u8]) {
        self.handle_from(now, route, Some(peer), ecn, len, bytes);
    }

    fn handle_from(&mut self, now: Time, route: &Route, peer: Option<u32>, ecn: Ecn, len: u32, bytes: &[u8]) {
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            // RFC 4340 section 8.5 step 1: bytes that are not a valid packet are ignored, without a Reset.
            Err(error) => return self.stats.count(Counter::Unparsable(error)),
        };
        let overhead = len.saturating_sub(bytes.len() as u32);
        let question = Question { len, overhead, proven: peer.is_some() };
        match self.demux.find(route, &packet.header) {
            Some((id, _))
                if packet.header.ptype == PacketType::Request && !self.may_repeat(now, id, question) =>
            {
                self.stats.count(Counter::AnswerTooLarge);
            }
            Some((id, path)) => {
                self.with(now, id, |session| session.handle_packet(now, path, ecn, len, &packet));
            }
            None => self.handle_stranger(now, route, peer, (ecn, question), &packet),
        }
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.remove(&(at, id));
            if let Some(entry) = self.sessions.get_mut(&id) {
                entry.armed = None;
            }
            self.with(now, id, |session| session.handle_timeout(now));
        }
    }

    /// Returns when and why to call [`handle_timeout`](Self::handle_timeout) and then
    /// [`poll_transmit`](Self::poll_transmit) again.
    pub fn poll_timeout(&self) -> Option<(Time, Wake)> {
        if !self.dirty.is_empty() || !self.events.is_empty() || self.strangers.is_waiting() {
            return Some((Time::ZERO, Wake::NotDrained));
        }
        let listen = self.rendezvous.next_timeout().map(|at| (at, Wake::Listen));
        let turn = self.total_cap.next().map(|at| (at, Wake::Turn));
        let timer = self.timers.first().and_then(|(_, id)| self.sessions.get(id)?.armed);
        listen.into_iter().chain(turn).chain(timer).min_by_key(|(at, _)| *at)
    }

    /// Writes all packets that may be sent now into `sink`. Sessions take turns of limited size. If more
    /// packets could be sent, [`poll_timeout`](Self::poll_timeout) is due at once.
    pub fn poll_transmit(&mut self, now: Time, sink: &mut dyn Sink) {
        self.strangers.transmit(sink);
        self.rendezvous.transmit(now, sink);
        let mut dirty = core::mem::take(&mut self.dirty);
        // If all sessions share a rate limit, this loop sends no data; the loop below sends it in turns.
        let allowance = self.total_cap.is_set().then_some(0);
        for id in dirty.drain(..) {
            self.transmit(now, id, allowance, sink);
        }
        // Put the emptied list back to reuse its allocation. No session was marked as dirty in the meantime.
        self.dirty = dirty;
        while let Some((id, bytes)) = self.total_cap.turn(now) {
            if let Some(entry) = self.sessions.get_mut(&id) {
                entry.waiting = false;
                let rest = self.transmit(now, id, Some(bytes), sink);
                self.total_cap.on_sent(now, bytes - rest);
            }
        }
    }

    /// Lets a session send at most `allowance` bytes of data, and returns the unused allowance.
    fn transmit(&mut self, now: Time, id: SessionId, allowance: Option<i64>, sink: &mut dyn Sink) -> i64 {
        let sessions = self.sessions.len();
        let Some(entry) = self.sessions.get_mut(&id) else { return 0 };
        let shares = entry.session.shares_congestion();
        if shares {
            self.groups.lend(&mut entry.session);
        }
        core::mem::swap(&mut self.blocks, &mut entry.session.blocks);
        let (rest, held) = entry.session.poll_transmit_within(now, allowance, sink);
        core::mem::swap(&mut self.blocks, &mut entry.session.blocks);
        entry.dirty = false;
        self.memory.change(&mut entry.queued, entry.session.queued());
        if !self.memory.allows(entry.queued, 0, sessions) {
            entry.session.stop_holding(now);
            self.memory.change(&mut entry.queued, entry.session.queued());
        }
        let next = entry.session.poll_timeout();
        if shares {
            self.groups.take_back(id, &mut entry.session);
        }
        if entry.armed.map(|(t, _)| t) != next.map(|(t, _)| t) {
            if let Some((t, _)) = entry.armed {
                self.timers.remove(&(t, id));
            }
            if let Some((t, _)) = next {
                self.timers.insert((t, id));
            }
        }
        entry.armed = next;
        if held && !core::mem::replace(&mut entry.waiting, true) {
            self.total_cap.wait(id, rest);
        }
        // If streams have sent data, an event tells the application that they have room for more.
        self.gather(id);
        self.reap(id);
        rest
    }

    /// Returns the next datagram for the application.
    pub fn poll_deliver(&mut self) -> Option<(SessionId, Vec<u8>)> {
        while let Some(&id) = self.ready.front() {
            if let Some(entry) = self.sessions.get_mut(&id) {
                if let Some(data) = entry.session.poll_deliver() {
                    return Some((id, data));
                }
                entry.ready = false;
            }
            self.ready.pop_front();
            self.reap(id);
        }
        None
    }

    /// Returns a buffer for a datagram to be sent, reusing the buffer of an earlier datagram if possible. Its
    /// contents are arbitrary.
    pub fn take_block(&mut self) -> Vec<u8> {
        self.blocks.take()
    }

    /// Returns the buffer of a datagram from [`poll_deliver`](Self::poll_deliver) for reuse. Dropping the
    /// buffer instead does no harm.
    pub fn put_block(&mut self, block: Vec<u8>) {
        self.blocks.put(block);
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<(SessionId, SessionEvent)> {
        if let Some(id) = self.closed.take() {
            self.reap(id);
        }
        let (id, event) = self.events.pop_front()?;
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.untold -= 1;
        }
        self.closed = matches!(event, SessionEvent::Closed(_)).then_some(id);
        Some((id, event))
    }

    fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    /// Returns a new connection identifier, unique on this host (RFC 9897 section 3.2.4).
    fn fresh_ci(&mut self) -> u32 {
        loop {
            let random = self.rng.next_u32();
            let ci = self.shard.map_or(random, |shard| random >> 8 | u32::from(shard) << 24);
            if !self.demux.knows_ci(ci) {
                return ci;
            }
        }
    }

    /// Returns the tracing span for the next session.
    fn next_span(&self, server: bool) -> Span {
        tracing::debug_span!("session", id = self.next_session, server)
    }

    fn insert(&mut self, session: Session, listener: Option<(u16, IpAddr)>, span: Span) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        self.demux.add_ci(session.local_ci(), id);
        let entry = Entry {
            session,
            armed: None,
            dirty: false,
            waiting: false,
            ready: false,
            listener,
            opened: false,
            answer: 0,
            untold: 0,
            span,
            queued: 0,
        };
        self.sessions.insert(id, Box::new(entry));
        id
    }

    /// Runs `act` on a session, then handles the consequences.
    fn with<T>(&mut self, now: Time, id: SessionId, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let entry = self.sessions.get_mut(&id)?;
        let _in = entry.span.clone().entered();
        let session = &mut entry.session;
        core::mem::swap(&mut self.blocks, &mut session.blocks);
        let result = if session.shares_congestion() {
            self.groups.lend(session);
            let result = act(session);
            core::mem::swap(&mut self.blocks, &mut session.blocks);
            self.groups.take_back(id, session);
            for other in self.groups.follow(id, session) {
                self.mark(other);
            }
            result
        } else {
            let result = act(session);
            core::mem::swap(&mut self.blocks, &mut session.blocks);
            result
        };
        self.settle(now, id);
        Some(result)
    }

    fn mark(&mut self, id: SessionId) {
        if let Some(entry) = self.sessions.get_mut(&id).filter(|entry| !entry.dirty) {
            entry.dirty = true;
            self.dirty.push(id);
        }
    }

    /// After an input, updates everything that depends on a session: its connections, its listener's counts,
    /// its events and its datagrams.
    fn settle(&mut self, now: Time, id: SessionId) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        if !core::mem::replace(&mut entry.dirty, true) {
            self.dirty.push(id);
        }
        let _in = entry.span.clone().entered();
        while let Some(gone) = entry.session.poll_gone() {
            self.demux.remove(&gone.route, gone.ports, id);
            if gone.time_wait || entry.is_by_cookie() {
                self.demux.hold(now, &gone.route, gone.ports);
            }
        }
        while let Some((path, route, ports)) = entry.session.poll_connect(now) {
            let ports = self.demux.free_ports(now, &route, ports, &mut self.rng);
            self.demux.add(&route, ports, id, path);
            entry.session.connect(now, path, ports);
        }
        if let Some((port, source)) = entry.listener
            && let Some(listener) = self.listeners.get_mut(&port)
        {
            listener.follow(source, &mut entry.opened, entry.session.state());
        }
        if !core::mem::replace(&mut entry.ready, true) {
            self.ready.push_back(id);
        }
        self.gather(id);
    }

    /// Fetches a session's events.
    fn gather(&mut self, id: SessionId) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        while let Some(event) = entry.session.poll_event() {
            // The peer can cause any number of these events; all other events are bounded in number.
            if matches!(event, SessionEvent::Private(..)) && self.events.len() >= MAX_EVENTS {
                self.stats.count(Counter::MpExpTooMany);
                continue;
            }
            tracing::debug!(?event, "session");
            self.events.push_back((id, event));
            entry.untold += 1;
        }
    }

    /// Removes a session that has ended and has nothing left to send, deliver or report.
    fn reap(&mut self, id: SessionId) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        if entry.dirty || !entry.session.is_finished() || entry.ready {
            return;
        }
        if self.closed == Some(id) || entry.untold > 0 {
            return;
        }
        self.memory.change(&mut entry.queued, 0);
        self.demux.remove_ci(entry.session.local_ci());
        if let Some((t, _)) = entry.armed {
            self.timers.remove(&(t, id));
        }
        if let Some((port, source)) = entry.listener
            && let Some(listener) = self.listeners.get_mut(&port)
        {
            listener.forget(source, entry.opened);
        }
        self.sessions.remove(&id);
    }
}
