//! A session: one or more connections that together carry datagrams (RFC 9897).

mod address_ids;
mod addresses;
mod cap;
mod carried;
mod class_queues;
mod close;
mod confirm;
mod couple;
mod event;
mod fec;
mod gone;
mod handshake;
mod input;
mod join;
mod kept;
mod liveness;
mod loss_rate;
mod mp_prio;
mod path_manager;
mod path_state;
mod plausible;
mod private;
mod protect;
mod reason;
mod repair;
mod signal;
mod sources;
mod streams;
mod subflow;
mod transmit;

pub use address_ids::is_unicast;
pub(crate) use cap::Cap;
pub use event::SessionEvent;
#[cfg(feature = "serde")]
pub(crate) use fec::MOST as MAX_PER_FEC_PACKET;
pub(crate) use handshake::Offer;
pub(crate) use join::{Refusal, wanted_ci};
pub use reason::Reason;

use crate::Counters;
use crate::blocks::Blocks;
use crate::counter::count;
use crate::keys::Keys;
use crate::queue::QueueView;
use crate::reorder::{LastOfFlow, Reorderer};
use crate::{
    Counter, FlowKey, PathConfig, PathId, PathRow, PktInfo, SessionConfig, SessionState, SessionStatus, Wake,
};
use address_ids::{LocalAddrs, RemoteAddrs};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use carried::Carried;
use class_queues::ClassQueues;
use dccp_cc::Coupling;
use dccp_proto::ccid::AckVecSender;
use dccp_proto::{CcOptions, Config, Connection, Ports, State};
use dccp_wire::{MpOption, Opt, OptionBuf, Seq};
use fec::Fec;
use gone::Gone;
use mpdccp_units::Time;
use plausible::Plausible;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use repair::Repair;
use signal::Pending;
use subflow::{FirstAttempt, Subflow};

/// Length of MP_SEQ, bytes. It is the only option on every data packet (RFC 9897 section 3.2.5).
const MP_SEQ_LEN: usize = 9;
/// Length of the MP_EXP that carries the distance to the flow's previous packet, bytes.
const BACK_LEN: usize = 4;
/// Maximum number of datagrams waiting for the application in a plain session.
const MAX_DELIVERABLE: usize = 16_384;

/// The role of this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// One session, used like the endpoint: after inputs and commands, drain
/// [`poll_transmit`](Self::poll_transmit), [`poll_deliver`](Self::poll_deliver),
/// [`poll_event`](Self::poll_event), [`poll_connect`](Self::poll_connect) and [`poll_gone`](Self::poll_gone),
/// and then set a timer.
#[derive(Debug)]
pub(crate) struct Session {
    cfg: SessionConfig,
    role: Role,
    state: SessionState,
    /// Whether RFC 9897 is in use. Until the handshake completes, it is only offered.
    multipath: bool,
    rng: ChaCha20Rng,
    keys: Keys,
    next_mp_seq: Seq,
    plausible: Plausible,
    paths: Vec<Subflow>,
    next_path: u32,
    /// Ended connections that may still have a last packet to send.
    dying: Vec<Connection>,
    /// Connections that ended since [`Self::poll_gone`] was last drained.
    gone: Vec<Gone>,
    classes: ClassQueues,
    /// Byte streams, once the peer is known to support them.
    streams: Option<Box<Carried>>,
    /// The streams once the session has begun to end. Data that has arrived on them can still be read.
    unread: Option<Box<Carried>>,
    /// Rate limit for all queues together.
    cap: Cap,
    /// Number of bytes of data that this session may send while all sessions share a rate limit, and whether
    /// that limit has held data back.
    allowance: Option<i64>,
    held: bool,
    /// The endpoint's buffers, lent during calls.
    pub(crate) blocks: Blocks,
    rows: Vec<PathRow>,
    /// Paths that the policy rule for the packet at the head allows.
    allowed: Vec<PathRow>,
    /// Paths that priorities allow for the packet at the head. Unused if priorities allow all of `rows`.
    offered: Vec<PathRow>,
    offered_all: bool,
    reorderer: Box<dyn Reorderer>,
    repair: Repair,
    coupling: Coupling,
    fec: Fec,
    /// Whether packets to the peer carry the distance to their flow's previous packet.
    order_flows: bool,
    last_of_flow: LastOfFlow,
    /// Key for hashing the inner flows of arriving packets.
    flow_key: FlowKey,
    /// Whether the peer understands our private options.
    peer_is_ours: bool,
    /// Datagrams of a plain session that are waiting for the application.
    delivered: VecDeque<Vec<u8>>,
    /// Options that wait for their MP_CONFIRM.
    pending: Vec<Pending>,
    local_addrs: LocalAddrs,
    remote_addrs: RemoteAddrs,
    events: VecDeque<SessionEvent>,
    counters: Counters,
    /// Whether this end's application reads too slowly.
    slow_receiver: bool,
    /// The CCID that paths change to once they are open, if the application set one. The peer may refuse it.
    ccid: Option<u8>,
    /// Number of packets lost by connections that have ended.
    lost_before: u64,
    /// Time at which sending may continue, as determined by the last [`Self::poll_transmit`].
    wake: Option<(Time, Wake)>,
    /// Time of the last [`Self::poll_transmit`].
    polled: Time,
    /// Options of the packet being sent, kept to reuse the memory.
    options: OptionBuf,
    /// Time at which a path was last up or, if none has been, at which the session began.
    alive: Time,
    first: FirstAttempt,
    /// Time at which this end, while closing, stops waiting for the peer.
    close_at: Time,
    close_reason: Reason,
    /// Service Code of the first connection.
    service_code: u32,
    /// Error Text of the peer's last Reset.
    error_text: Option<String>,
    /// Server: id of the peer filter that matched.
    peer: u32,
}

impl Session {
    fn new(cfg: SessionConfig, role: Role, now: Time, ci: u32, seed: [u8; 32]) -> Session {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let keys = Keys::new(ci, &cfg.key_types, &mut rng);
        Session {
            role,
            state: SessionState::Connecting,
            multipath: cfg.multipath,
            keys,
            // RFC 9897 section 3.2.5: MP_SEQ starts at a random number.
            next_mp_seq: Seq::initial(rng.next_u64()),
            plausible: Plausible::default(),
            rng,
            paths: Vec::new(),
            next_path: 0,
            dying: Vec::new(),
            gone: Vec::new(),
            classes: ClassQueues::new(&cfg),
            streams: None,
            unread: None,
            allowance: None,
            held: false,
            cap: Cap::default(),
            blocks: Blocks::default(),
            rows: Vec::new(),
            allowed: Vec::new(),
            offered: Vec::new(),
            offered_all: false,
            reorderer: cfg.reorder.reorderer(),
            repair: Repair::default(),
            coupling: Coupling::default(),
            fec: Fec::default(),
            order_flows: false,
            last_of_flow: LastOfFlow::default(),
            flow_key: FlowKey::of_seed(seed),
            peer_is_ours: false,
            delivered: VecDeque::new(),
            pending: Vec::new(),
            local_addrs: LocalAddrs::default(),
            remote_addrs: RemoteAddrs::default(),
            events: VecDeque::new(),
            counters: Counters::new(),
            slow_receiver: false,
            ccid: None,
            lost_before: 0,
            wake: None,
            polled: Time::ZERO,
            options: OptionBuf::new(),
            alive: now,
            first: FirstAttempt::new(now, cfg.first_attempt),
            close_at: Time::MAX,
            close_reason: Reason::Closed,
            service_code: cfg.connection.service_code,
            error_text: None,
            peer: 0,
            cfg,
        }
    }

    /// Creates a client. It connects once the endpoint has assigned its ports ([`Self::poll_connect`]).
    pub(crate) fn client(
        cfg: SessionConfig,
        now: Time,
        path: PathConfig,
        ci: u32,
        seed: [u8; 32],
    ) -> Session {
        let mut session = Session::new(cfg, Role::Client, now, ci, seed);
        session.begin_path(now, path);
        session.paths[0].connect_at = Some(now);
        session
    }

    pub(crate) fn count(&mut self, what: Counter) {
        count(&mut self.counters, what);
    }

    fn index(&self, path: PathId) -> Option<usize> {
        self.paths.iter().position(|p| p.id == path)
    }

    fn new_path(&mut self, cfg: PathConfig) -> usize {
        // The peer can add and close any number of paths, so the counter may wrap around.
        while self.index(PathId(self.next_path)).is_some() {
            self.next_path = self.next_path.wrapping_add(1);
        }
        self.paths.push(Subflow::new(PathId(self.next_path), cfg));
        self.next_path = self.next_path.wrapping_add(1);
        self.paths.len() - 1
    }

    /// Returns the connection settings for a path.
    fn connection_config(&self, mtu: u16, overhead: u16) -> Config {
        Config {
            multipath: self.multipath,
            early_data: !self.multipath && self.cfg.connection.early_data,
            // RFC 9897 section 3.3: the server confirms with an Ack. Even without multipath, this spares the
            // client 200 ms in PARTOPEN, in which it cannot send full-size packets.
            ack_on_open: true,
            mtu,
            overhead,
            ..self.cfg.connection.clone()
        }
    }

    fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    /// Returns the length of the multipath options on each data packet, bytes.
    fn options_len(&self) -> usize {
        match (self.multipath, self.order_flows) {
            (true, true) => MP_SEQ_LEN + BACK_LEN,
            (true, false) => MP_SEQ_LEN,
            _ => 0,
        }
    }

    /// Changes this end's congestion control on all paths, including paths that open later. Returns false if
    /// no path accepts the change.
    pub(crate) fn set_ccid(&mut self, ccid: u8) -> bool {
        let taken = self.open_connections().fold(false, |taken, conn| conn.set_ccid(ccid) | taken);
        if taken {
            self.ccid = Some(ccid);
        }
        taken
    }

    /// Sets whether this end's application reads too slowly, on these paths and on paths that open later.
    pub(crate) fn set_slow_receiver(&mut self, slow: bool) {
        self.slow_receiver = slow;
        let connections = self.paths.iter_mut().filter_map(|p| p.conn.as_mut());
        connections.for_each(|conn| conn.set_slow_receiver(slow));
    }

    /// Queues one datagram.
    pub(crate) fn send(&mut self, now: Time, data: Vec<u8>, info: PktInfo) {
        let info = PktInfo { len: data.len(), ..info };
        if matches!(self.state, SessionState::Closing | SessionState::Closed) {
            self.count(Counter::SendWhileClosing);
        } else if data.is_empty() && self.cfg.multipath {
            // Send no empty datagrams: a DCCP-Data packet without payload has options that need an MP_SEQ.
            self.count(Counter::SendEmpty);
        } else {
            self.classes.push(now, data, info);
        }
    }

    /// Queues a packet of padding, which carries no data but does get an MP_SEQ.
    pub(crate) fn pad(&mut self, now: Time) {
        if self.state == SessionState::Open {
            self.classes.push(now, Vec::new(), PktInfo::default());
        }
    }

    /// Returns the number of bytes waiting to be sent or to be put in order.
    pub(crate) fn queued(&self) -> u64 {
        self.classes.view(Time::ZERO).bytes + self.reorderer.occupancy_bytes()
    }

    /// Returns the next datagram for the application.
    pub(crate) fn poll_deliver(&mut self) -> Option<Vec<u8>> {
        // The data of a Request waits until the session opens, because the owner does not know it before.
        if self.role == Role::Server && self.state == SessionState::Connecting {
            return None;
        }
        if let Some(data) = self.delivered.pop_front() {
            return Some(data);
        }
        // A packet without data only held its place in the order.
        core::iter::from_fn(|| self.reorderer.pop()).find(|data| !data.is_empty())
    }

    pub(crate) fn poll_event(&mut self) -> Option<SessionEvent> {
        let stream = || Some(SessionEvent::Stream(self.streams.as_mut()?.streams.poll_event()?));
        self.events.pop_front().or_else(stream)
    }

    /// Runs the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.state == SessionState::Closed {
            return;
        }
        for i in 0..self.paths.len() {
            if let Some(conn) = &mut self.paths[i].conn
                && conn.poll_timeout().is_some_and(|(t, _)| t <= now)
            {
                conn.handle_timeout(now);
                self.after_input(now, i);
            }
        }
        self.reorderer.on_timeout(now);
        self.on_stream_timeout(now);
        // Drop expired packets, even while no path is open.
        self.classes.expire(now);
        self.manage_paths(now);
        self.check_end(now);
        self.forget_paths();
    }

    /// Returns when to call [`Self::handle_timeout`] and [`Self::poll_transmit`] again, and why.
    pub(crate) fn poll_timeout(&self) -> Option<(Time, Wake)> {
        if self.state == SessionState::Closed {
            return None;
        }
        let connections = self.paths.iter().filter_map(|p| p.conn.as_ref()?.poll_timeout());
        let connections = connections.map(|(t, timer)| (t, Wake::Connection(timer)));
        connections
            .chain(self.reorderer.next_timeout().map(|t| (t, Wake::Reorder)))
            .chain(self.classes.next_expiry().map(|t| (t, Wake::QueueExpiry)))
            .chain(self.stream_timeout().map(|t| (t, Wake::Streams)))
            .chain(self.wake)
            .chain(self.management_timeouts())
            .chain(self.end_timeout())
            .min_by_key(|(t, _)| *t)
    }

    /// Returns whether the session has finished all work and sent all packets.
    pub(crate) fn is_finished(&self) -> bool {
        self.state == SessionState::Closed && self.dying.is_empty()
    }

    /// Returns the path and ports of a server's first connection.
    pub(crate) fn first_connection(&self) -> Option<(PathId, Ports)> {
        self.paths.first().map(|p| (p.id, p.cfg.ports))
    }

    /// Server: returns the id of the peer filter that matched.
    pub(crate) fn peer(&self) -> u32 {
        self.peer
    }

    pub(crate) fn state(&self) -> SessionState {
        self.state
    }

    pub(crate) fn local_ci(&self) -> u32 {
        self.keys.local_ci
    }

    /// Returns the paths as the scheduler sees them.
    pub(crate) fn rows(&self, now: Time) -> Vec<PathRow> {
        self.paths.iter().map(|p| p.row(now, self.options_len())).collect()
    }

    /// Returns the backlog of the send queue.
    pub(crate) fn backlog(&self, now: Time) -> QueueView {
        self.classes.view(now)
    }

    /// Returns the whole status of the session.
    pub(crate) fn status(&self, now: Time) -> SessionStatus {
        SessionStatus {
            service_code: self.service_code,
            error_text: self.error_text.clone(),
            state: self.state,
            multipath: self.multipath,
            ci: (self.keys.local_ci, self.keys.remote_ci),
            paths: self.paths.iter().map(|p| p.status(self.options_len())).collect(),
            max_payload: self
                .paths
                .iter()
                .filter(|p| p.is_up())
                .filter_map(|p| p.conn.as_ref().map(|c| c.max_payload_open(self.options_len())))
                .min(),
            peer_addresses: self.remote_addrs.list(),
            queue: self.classes.view(now),
            queue_stats: self.classes.stats(),
            lost: self.lost(),
            rules: self.classes.rules(),
            reorder: self.reorderer.stats(),
            repair: self.repair.stats(),
            fec: self.fec.stats(),
            streams: self.streams_status(),
            counters: self.counters.clone(),
        }
    }

    /// Returns whether the session's connections may share congestion state with other sessions.
    pub(crate) fn shares_congestion(&self) -> bool {
        self.cfg.share_congestion
    }

    /// Returns the congestion control options of the session's sending halves.
    pub(crate) fn cc_options(&self) -> CcOptions {
        self.cfg.connection.cc
    }

    /// Connections that have negotiated their CCIDs and may send.
    pub(crate) fn open_connections(&mut self) -> impl Iterator<Item = &mut Connection> {
        let live = self.paths.iter_mut().filter(|p| p.is_live()).filter_map(|p| p.conn.as_mut());
        live.filter(|conn| conn.state() == State::Open)
    }

    /// Connections that send no more data.
    pub(crate) fn ended(&mut self) -> impl Iterator<Item = &mut Connection> {
        let connections = self.paths.iter_mut().filter_map(|p| p.conn.as_mut());
        let closing = connections.filter(|conn| !matches!(conn.state(), State::PartOpen | State::Open));
        closing.chain(&mut self.dying)
    }

    /// Returns all sending halves that support shared congestion states.
    pub(crate) fn senders(&mut self) -> impl Iterator<Item = &mut AckVecSender> {
        let connections = self.paths.iter_mut().filter_map(|p| p.conn.as_mut());
        connections.chain(&mut self.dying).filter_map(Connection::shareable)
    }

    fn any_up(&self) -> bool {
        self.paths.iter().any(Subflow::is_up)
    }
}

/// Encodes multipath options. They always fit; an option that did not would be left out.
fn encode(options: &[MpOption<'_>]) -> OptionBuf {
    let mut buf = OptionBuf::new();
    for option in options {
        buf.push(&Opt::Mp(*option));
    }
    buf
}
