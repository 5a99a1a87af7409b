use super::cap::Cap;
use super::liveness::Liveness;
use super::loss_rate::LossRate;
use crate::keys::Tag;
use crate::sched::priorities::STANDBY;
use crate::{PathConfig, PathId, PathRow, PathState, PathStatus};
use dccp_cc::{Amount, RttEstimator};
use dccp_proto::ccid::Late;
use dccp_proto::{Connection, ConnectionStats, Gate, Sink, Why};
use dccp_wire::Seq;
use mpdccp_units::{Duration, Rate, Time};

/// State of a subflow's multipath handshake (RFC 9897 section 3.3), named after the last step taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// First subflow of a client: waits for the peer's MP_KEY.
    KeySent,
    /// Client: waits for the Response with MP_JOIN and HMAC(B).
    JoinSent { nonce: u32 },
    /// Server: waits for the Ack with this HMAC(A).
    JoinAnswered { tag: Tag },
    /// Not waiting for anything. Data may flow once the connection is open.
    Proven,
}

/// One path of a session: its settings, which persist, and its current connection, if any.
#[derive(Debug)]
pub(super) struct Subflow {
    pub(super) id: PathId,
    /// Settings of the path. The ports are those of the current connection.
    pub(super) cfg: PathConfig,
    pub(super) conn: Option<Connection>,
    pub(super) stage: Stage,
    /// State of the path. It is never [`PathState::Standby`], which follows from the priority instead.
    pub(super) state: PathState,
    /// Whether the path has been up at any time since its connection was created.
    pub(super) was_up: bool,
    /// Time at which the path's connection began to open or to close.
    pub(super) since: Time,
    pub(super) opened: Time,
    /// Time at which the path last became usable, by opening or by answering after a silence.
    pub(super) up_since: Time,
    /// Time at which a packet last arrived on a connection that was up.
    pub(super) last_up: Option<Time>,
    /// Whether the round trip takes at most half of the Request's retransmission interval.
    pub(super) is_quick: bool,
    /// Retransmission timeout at the time of the last packet received.
    pub(super) rto: Duration,
    /// Round-trip time before packets moved to another route. The scheduler sees it until the new route has
    /// been measured.
    pub(super) former_srtt: Option<Duration>,
    /// Estimated time until an answer arrives: the round trip, its jitter, and the peer's Ack delay.
    pub(super) answer: Duration,
    /// Time at which data last arrived.
    pub(super) data_at: Time,
    /// Time at which the connection last sent a data packet other than a stream packet.
    pub(super) datagram_at: Option<Time>,
    pub(super) liveness: Liveness,
    pub(super) loss: LossRate,
    /// Limits the rate of the path's data packets.
    pub(super) cap: Cap,
    /// Address IDs of both ends (RFC 9897 section 3.2.2), once the handshake has told them.
    pub(super) local_addr: Option<u8>,
    pub(super) remote_addr: Option<u8>,
    /// Whether the peer's priority applies: the peer joined this path, and this end has not set a priority.
    pub(super) yields: bool,
    /// The peer's MP_PRIO, with its MP_SEQ.
    pub(super) peer_prio: Option<(u8, Seq)>,
    /// Whether the application removed the path.
    pub(super) removed: bool,
    /// Whether this end connects the path, and reconnects it after a failure. The peer does this for paths
    /// that it opened.
    pub(super) ours: bool,
    /// The Address ID under which the peer advertised the destination of the path, if it did.
    pub(super) advertised: Option<u8>,
    /// Client: whether this end has tried to connect the path before.
    pub(super) tried: bool,
    /// Client: time of the next attempt to connect, and the interval between the next two attempts.
    pub(super) connect_at: Option<Time>,
    pub(super) connect_gap: Duration,
    /// Time at which the RTT was last sent to the peer.
    pub(super) rtt_told: Time,
    /// Since when the path has been in ProbeRTT, and whether it was told to postpone ProbeRTT.
    pub(super) probing_rtt: Option<Time>,
    pub(super) holding: bool,
}

/// State of a connecting client: the current path, when it was first tried, and the number of refusals so
/// far.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstAttempt {
    pub(super) path: PathId,
    pub(super) since: Time,
    /// How long this path is tried.
    pub(super) patience: Duration,
    pub(super) refused: usize,
}

impl FirstAttempt {
    pub(super) fn new(now: Time, patience: Duration) -> FirstAttempt {
        FirstAttempt { path: PathId(0), since: now, patience, refused: 0 }
    }
}

/// Minimum allowance for jitter, because timers are imprecise and hosts may be busy.
const GRANULARITY: Duration = Duration::from_millis(10);
/// Longest Ack delay of other implementations (RFC 4340 section 11.3). mpdccp delays Acks by at most a
/// quarter of a round trip.
const MAX_ACK_DELAY: Duration = Duration::from_millis(200);
/// A path that was up is retried at constant intervals for this long.
const MISSED: Duration = Duration::from_secs(120);
/// A path that sent nothing for this long is idle.
pub(super) const IDLE: Duration = Duration::from_secs(1);
/// Assumed capacity of a path without measurements.
const LEAST_RATE: Rate = Rate::from_bps(64_000);
/// First and largest interval between attempts to connect.
pub(super) const CONNECT_GAP: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

impl Subflow {
    pub(super) fn new(id: PathId, cfg: PathConfig) -> Subflow {
        Subflow {
            id,
            cfg,
            conn: None,
            stage: Stage::Proven,
            state: PathState::Down,
            was_up: false,
            since: Time::ZERO,
            opened: Time::ZERO,
            up_since: Time::ZERO,
            last_up: None,
            is_quick: false,
            rto: RttEstimator::INITIAL_RTO,
            former_srtt: None,
            answer: RttEstimator::INITIAL_RTO,
            data_at: Time::ZERO,
            datagram_at: None,
            liveness: Liveness::NEW,
            loss: LossRate::default(),
            cap: Cap::default(),
            local_addr: None,
            remote_addr: None,
            yields: false,
            peer_prio: None,
            removed: false,
            ours: false,
            advertised: None,
            tried: false,
            connect_at: None,
            connect_gap: CONNECT_GAP.0,
            rtt_told: Time::ZERO,
            probing_rtt: None,
            holding: false,
        }
    }

    /// Starts a new connection on the path.
    pub(super) fn start(&mut self, now: Time, conn: Connection, stage: Stage) {
        self.since = now;
        (self.rto, self.answer) = (RttEstimator::INITIAL_RTO, RttEstimator::INITIAL_RTO);
        (self.data_at, self.datagram_at, self.former_srtt) = (Time::ZERO, None, None);
        self.cfg.route = conn.route();
        self.cfg.ports = conn.ports();
        self.conn = Some(conn);
        self.stage = stage;
        self.state = PathState::Connecting;
        self.was_up = false;
        self.peer_prio = None;
        self.connect_at = None;
        (self.probing_rtt, self.holding) = (None, false);
    }

    /// The path's connection is open.
    pub(super) fn open(&mut self, now: Time) {
        (self.opened, self.up_since) = (now, now);
        self.liveness = Liveness::NEW;
        self.state = PathState::Up;
        self.was_up = true;
        self.connect_gap = CONNECT_GAP.0;
    }

    /// Updates the timeouts from the round-trip time when a packet has arrived.
    pub(super) fn learn_timeouts(&mut self) {
        let Some(rtt) = self.conn.as_ref().and_then(Connection::tx_rtt) else { return };
        self.rto = rtt.rto();
        self.is_quick = self.rto * 2 <= RttEstimator::INITIAL_RTO;
        self.answer = rtt.srtt().map_or(self.rto, |srtt| {
            srtt + (rtt.rttvar() * 4).max(GRANULARITY) + (srtt / 4).min(MAX_ACK_DELAY)
        });
    }

    /// Schedules the next attempt to connect.
    pub(super) fn connect_later(&mut self, now: Time) {
        self.connect_at = Some(now + self.connect_gap);
        self.connect_gap = (self.connect_gap * 2).min(CONNECT_GAP.1);
    }

    /// Returns whether the path was recently up for some time. Such a path is worth one Request per second.
    pub(super) fn is_missed(&self, now: Time) -> bool {
        let worked = !self.was_up || now.since(self.opened) >= CONNECT_GAP.0;
        worked && self.last_up.is_some_and(|at| now.since(at) < MISSED)
    }

    /// Returns when to connect, if the path has no connection.
    pub(super) fn connect_time(&self) -> Option<Time> {
        self.connect_at.filter(|_| self.conn.is_none())
    }

    /// Returns when a valid packet last arrived or, if none has, when the path opened.
    pub(super) fn heard(&self) -> Time {
        self.conn.as_ref().map_or(self.opened, |conn| conn.last_received().max(self.opened))
    }

    /// Returns when the peer's acknowledgements last covered a new packet or, if they have not yet, when the
    /// path opened.
    pub(super) fn answered(&self) -> Time {
        self.conn.as_ref().map_or(self.opened, |conn| conn.last_answered().max(self.opened))
    }

    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.conn.as_ref().and_then(Connection::tx_rtt).and_then(RttEstimator::recent_min)
    }

    /// Returns whether the path sent a datagram within this time. Stream packets do not count, because
    /// datagrams may avoid a distant path that the streams use.
    pub(super) fn has_sent_datagrams(&self, now: Time, within: Duration) -> bool {
        self.datagram_at.is_some_and(|at| now.since(at) <= within)
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == PathState::Up
    }

    /// Returns the state as reported to others: [`state`](Self::state), but with standby distinguished from
    /// up.
    fn shown(&self) -> PathState {
        if self.is_up() && self.prio() <= STANDBY { PathState::Standby } else { self.state }
    }

    /// Returns whether the subflow is a join whose peer has not yet proved knowledge of the keys.
    pub(super) fn is_half_open(&self) -> bool {
        matches!(self.stage, Stage::JoinAnswered { .. })
    }

    /// Returns whether the path is up or suspect.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, PathState::Up | PathState::Suspect)
    }

    /// Sends one data packet other than a stream packet. The gate must be open.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        options: &[u8],
        payload: &[u8],
        sink: &mut dyn Sink,
    ) -> Option<Seq> {
        self.datagram_at = Some(now);
        self.transmit_any(now, options, payload, sink)
    }

    /// Sends one data packet. The gate must be open.
    pub(super) fn transmit_any(
        &mut self,
        now: Time,
        options: &[u8],
        payload: &[u8],
        sink: &mut dyn Sink,
    ) -> Option<Seq> {
        let answered = self.answered();
        let conn = self.conn.as_mut()?;
        self.liveness.on_sent(now, answered);
        let sent = |conn: &Connection| conn.tx_view().map_or(0, |view| view.sent.bytes);
        let before = if self.cap.is_set() { sent(conn) } else { 0 };
        let seq = conn.transmit(now, options, payload, sink);
        if self.cap.is_set() {
            self.cap.on_sent(now, sent(conn).saturating_sub(before));
        }
        Some(seq)
    }

    /// Returns whether a data packet may be sent now.
    pub(super) fn gate(&self, now: Time) -> Gate {
        match &self.conn {
            Some(conn) if self.is_up() => match (conn.gate(now), self.cap.shut(now)) {
                (Gate::Open { .. }, Some(at)) => Gate::At(at, Why::Pacing),
                (Gate::At(gate, why), Some(at)) => Gate::At(gate.max(at), why),
                (gate, _) => gate,
            },
            Some(_) => Gate::Closed(Why::Handshake),
            None => Gate::Closed(Why::Closing),
        }
    }

    pub(super) fn watch_loss(&mut self, now: Time) {
        if let Some(view) = self.conn.as_ref().and_then(Connection::tx_view) {
            self.loss.update(now, &view);
        }
    }

    /// Returns the path as a scheduler sees it. `options` is the length of the multipath options on each
    /// packet.
    pub(super) fn row(&self, now: Time, options: usize) -> PathRow {
        let rtt = self.conn.as_ref().and_then(Connection::tx_rtt);
        let mut row = PathRow {
            id: self.id,
            state: self.shown(),
            name: self.cfg.name,
            prio: self.prio(),
            peer_prio: self.peer_prio.map_or(3, |(prio, _)| prio),
            gate: Gate::Closed(Why::Handshake),
            srtt: rtt.and_then(RttEstimator::srtt).or(self.former_srtt),
            rttvar: rtt.map_or(Duration::ZERO, RttEstimator::rttvar),
            min_rtt: rtt.and_then(RttEstimator::recent_min),
            late: self.conn.as_ref().map_or(Late::default(), |conn| conn.tx_late(now)),
            cwnd: 0,
            inflight: Amount::default(),
            pacing: None,
            rate: LEAST_RATE,
            app_limited: false,
            seen: LEAST_RATE,
            loss: self.loss.get(),
            max_payload: self.conn.as_ref().map_or(0, |c| c.max_payload(options)),
            up_since: self.up_since,
            last_sent: None,
            idle: true,
        };
        self.refresh(now, &mut row);
        row
    }

    /// Updates the fields of a row that change when a packet is sent.
    pub(super) fn refresh(&self, now: Time, row: &mut PathRow) {
        row.gate = self.gate(now);
        let Some(load) = self.conn.as_ref().and_then(Connection::tx_load) else { return };
        row.cwnd = load.cwnd.bytes(self.cfg.mtu);
        (row.inflight, row.pacing) = (load.inflight, load.pacing);
        let window = || row.srtt.map(|srtt| Rate::from_bytes_per(row.cwnd, srtt));
        let known = load.bottleneck.or_else(window).unwrap_or(Rate::ZERO);
        // If only the application limits the rate, the path may be as fast as its pacer.
        let rate = if load.app_limited { known.max(load.pacing.unwrap_or(known)) } else { known };
        row.rate = rate.max(LEAST_RATE);
        row.seen = known.max(LEAST_RATE);
        row.app_limited = load.app_limited;
        row.last_sent = load.last_sent;
        row.idle = load.last_sent.is_none_or(|at| now.since(at) > IDLE);
    }

    pub(super) fn status(&self, options: usize) -> PathStatus {
        let conn = self.conn.as_ref();
        PathStatus {
            id: self.id,
            state: self.shown(),
            prio: self.prio(),
            route: self.cfg.route,
            ports: self.cfg.ports,
            ccids: conn.and_then(Connection::ccids),
            mtu: conn.map_or(self.cfg.mtu, Connection::mtu),
            max_payload: conn.map_or(0, |c| c.max_payload_open(options)),
            tx: conn.and_then(Connection::tx_view),
            stats: conn.map_or_else(ConnectionStats::default, |c| c.stats().clone()),
            name: self.cfg.name,
            heard: self.heard(),
            answered: self.answered(),
            unanswered_since: self.liveness.unanswered_since(self.answered()),
        }
    }
}
