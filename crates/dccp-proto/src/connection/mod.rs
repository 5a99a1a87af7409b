mod close;
mod data;
mod dropped;
mod ecn;
mod halves;
mod handshake;
mod input;
mod negotiated;
mod options;
mod outbox;
mod output;
mod pmtu;
mod preferences;
mod refuse;
mod skipped;
mod timeouts;
mod timers;
mod types;
mod validity;
#[cfg(test)]
mod wrap_tests;

pub use refuse::refuse;
pub use types::{
    CloseReason, ConnectionStats, DropCode, DropReason, Event, Extra, Outcome, Ports, Received, State, Timer,
};

use crate::ccid::{self, AckVecSender, Fated, Late, TxLoad, TxView};
use crate::features::{Negotiator, Side};
use crate::{Config, Route};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use dccp_cc::{Part, Remembered, RttEstimator};
use dccp_wire::{OptionBuf, Reset, ResetCode, Seq, feature};
use halves::{Halves, Negotiated};
use mpdccp_units::{Duration, Time};
use outbox::Outbox;
use rand_chacha::ChaCha8Rng;
use timers::Timers;
use validity::Numbers;

/// Encoded options waiting for an Ack; more are dropped and counted.
const MAX_OPTION_QUEUE: usize = 64;

/// One DCCP connection.
///
/// The contract: call one input ([`handle_packet`](Self::handle_packet), [`handle_timeout`](Self::handle_timeout)) or command
/// ([`transmit`](Self::transmit), [`close`](Self::close), [`abort`](Self::abort)); then drain
/// [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event), and arm one timer with
/// [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Connection {
    cfg: Config,
    is_server: bool,
    state: State,
    route: Route,
    ports: Ports,
    rng: ChaCha8Rng,
    numbers: Numbers,
    features: Negotiator,
    negotiated: Negotiated,
    /// From PARTOPEN (client) or OPEN (server) on.
    halves: Option<Halves>,
    /// Requests or Responses sent, for the handshake's round-trip time.
    handshake_sent: VecDeque<(Seq, Time)>,
    handshake_rtt: Option<Duration>,
    requests_sent: u32,
    /// A Listen has had a Request repeated.
    listen_received: bool,
    /// Our newest Response.
    last_response: Seq,
    /// And our newest Sync, which does not open the connection either.
    last_sync: Option<Seq>,
    /// Init Cookie options to echo.
    cookies: Vec<u8>,
    timers: Timers,
    outbox: Outbox,
    extras: [Vec<u8>; Extra::COUNT],
    /// With [`Config::skip_numbers`].
    skipped: Option<skipped::Skipped>,
    /// Non-data packets sent since the last data packet (RFC 4340 section 7.7).
    ndp_run: u64,
    drops: dropped::DropReport,
    peer_drops: dropped::PeerDrops,
    ecn: ecn::EcnPath,
    /// A Timestamp to echo: value, when it came.
    timestamp: Option<(u32, Time)>,
    slow_receiver: bool,
    /// Application data for Request or Response, and what came on one.
    early_data: Vec<u8>,
    early_received: Option<Vec<u8>>,
    /// Error Text for our Reset, and that of the peer's.
    error_text: Vec<u8>,
    peer_error_text: Option<String>,
    /// In OPEN, if it is wanted.
    pmtu: Option<pmtu::Pmtu>,
    /// When the newest valid packet came (RFC 4340 section 7.5.3, "active").
    last_valid: Time,
    /// When the Greatest Acknowledgement Number Received last grew.
    last_answered: Time,
    /// When the bucket of answers to what is wrong, Syncs or Resets, will be full.
    answers_full_at: Time,
    /// Who began to close.
    closing: Option<CloseReason>,
    events: VecDeque<Event>,
    stats: ConnectionStats,
    /// Options of the packet being built; kept for its memory.
    scratch: OptionBuf,
}

impl Connection {
    /// Options for all packets of this kind from now on, encoded; an empty slice takes them away.
    pub fn set_extra(&mut self, on: Extra, options: &[u8]) {
        let slot = &mut self.extras[on as usize];
        slot.clear();
        slot.extend_from_slice(options);
    }

    /// Asks for an Ack with these encoded options as soon as possible (multipath signalling): in OPEN at once, before that when it is
    /// reached. Nothing repeats them if that Ack is lost.
    pub fn send_options(&mut self, options: &[u8]) {
        if options.is_empty() {
            return;
        }
        let fits = options.len() + outbox::NDP_ROOM <= self.ack_room();
        if self.outbox.options.len() >= MAX_OPTION_QUEUE || !fits {
            self.stats.options_dropped += 1;
            return;
        }
        self.outbox.options.push_back(options.into());
    }

    /// What happened, for the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends a Sync, which the peer answers with a SyncAck: shows that a silent path lives, without spending window. Only in OPEN.
    pub fn probe(&mut self) {
        if self.state == State::Open {
            self.outbox.sync = Some(self.numbers.gsr);
        }
    }

    /// When a valid packet last arrived; before the first one, when the connection was made.
    pub fn last_received(&self) -> Time {
        self.last_valid
    }

    /// When something newer of ours was last acknowledged, which shows that the path leads both ways; before the first time, when the
    /// connection was made. Packets without such news show no more than that the peer's way here is open.
    pub fn last_answered(&self) -> Time {
        self.last_answered
    }

    /// A packet waits, or went `elsewhere`, because the gate of this path is shut: the path is then not application-limited for
    /// a round trip, however empty the queue.
    pub fn note_blocked(&mut self, now: Time, elsewhere: bool) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_blocked(now, elsewhere);
        }
    }

    /// What waits was not given to this path although its gate is open: how much it could carry does not show.
    pub fn note_held_back(&mut self, now: Time) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_held_back(now);
        }
    }

    /// Nothing waits to be sent on this path although its gate is open.
    pub fn set_app_limited(&mut self, now: Time) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_app_limited(now);
        }
    }

    /// Whoever owns the connection wants to know what becomes of each packet: fetch it with [`poll_fate`](Self::poll_fate). CCIDs 3 and
    /// 4 do not learn it.
    pub fn track_fates(&mut self) {
        if let Some(halves) = &mut self.halves {
            halves.tx.track_fates();
        }
    }

    /// What became of packets, since [`track_fates`](Self::track_fates).
    pub fn poll_fate(&mut self) -> Option<Fated> {
        self.halves.as_mut()?.tx.poll_fate()
    }

    /// Another path of the session is in ProbeRTT.
    pub fn hold_probe_rtt(&mut self, hold: bool) {
        if let Some(halves) = &mut self.halves {
            halves.tx.hold_probe_rtt(hold);
        }
    }

    /// Its part of a bottleneck that it shares with other paths of the session, from now on. CCIDs 3 and 4 take all of it anyhow.
    pub fn couple(&mut self, part: &Part) {
        if let Some(halves) = &mut self.halves {
            halves.tx.couple(part);
        }
    }

    /// Carefully resumes (RFC 9959) from what an earlier connection over this path found out ([`TxView::capacity`](crate::ccid::TxView)), with at most
    /// `max_jump` bytes at once. Without effect once congestion control has found its rate, and for CCIDs 3 and 4. Who calls it sees to it that no
    /// other connection uses the same memory ([`dccp_cc::Memory`]).
    pub fn resume(&mut self, saved: &Remembered, max_jump: u64) {
        if let Some(halves) = &mut self.halves {
            halves.tx.resume(saved, max_jump);
        }
    }

    /// The largest IP packet of the path changed, bytes; with [`Config::probe_mtu`] that is a hint which is tried first.
    pub fn set_mtu(&mut self, now: Time, mtu: u16) {
        match &mut self.pmtu {
            Some(pmtu) => pmtu.on_hint(now, mtu),
            None => self.use_mtu(mtu),
        }
    }

    /// IP packets as large as this leave the host: with [`Config::probe_mtu`] they are tried, although [`set_mtu`](Self::set_mtu) said less.
    pub fn try_mtu(&mut self, now: Time, most: u16) {
        if let Some(pmtu) = &mut self.pmtu {
            pmtu.on_most(now, most);
        }
    }

    /// The largest IP packet of the path, bytes, as far as it is known.
    pub fn mtu(&self) -> u16 {
        self.cfg.mtu
    }

    fn use_mtu(&mut self, mtu: u16) {
        self.cfg.mtu = mtu;
        if let Some(halves) = &mut self.halves {
            halves.tx.on_mtu(mtu);
        }
    }

    /// Whether this end says that it cannot keep up (RFC 4340 section 11.6): on all its Acks while it is set.
    pub fn set_slow_receiver(&mut self, slow: bool) {
        self.slow_receiver = slow;
    }

    /// Data to go on the Request, or as server on the Response, and all repetitions: at most a few hundred bytes, as options need room beside
    /// it (RFC 4340 sections 8.1.1 and 8.1.3). The peer takes it if it is set to ([`Config::early_data`]), and says otherwise that it did not.
    pub fn set_early_data(&mut self, data: &[u8]) {
        if matches!(self.state, State::Request | State::Respond) {
            self.early_data = data.into();
        }
    }

    /// Data that came on Request or Response.
    pub fn take_early_data(&mut self) -> Option<Vec<u8>> {
        self.early_received.take()
    }

    /// What the peer's Reset said in words.
    pub fn error_text(&self) -> Option<&str> {
        self.peer_error_text.as_deref()
    }

    /// The Service Code in use.
    pub fn service_code(&self) -> u32 {
        self.cfg.service_code
    }

    /// Where the handshake or close stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Where packets go.
    pub fn route(&self) -> Route {
        self.route
    }

    /// DCCP ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// (our sending CCID, the peer's), once negotiated.
    pub fn ccids(&self) -> Option<(u8, u8)> {
        self.halves.as_ref().map(|h| (h.tx_ccid, h.rx_ccid))
    }

    /// The peer agreed to Multipath Capable.
    pub fn is_multipath(&self) -> bool {
        self.features.is_negotiated(feature::MULTIPATH_CAPABLE, preferences::multipath_side(self.is_server))
    }

    /// The value of a feature in force at one end (RFC 4340 section 6.4), for status and traces.
    pub fn feature(&self, number: u8, side: Side) -> u64 {
        self.features.value(number, side)
    }

    /// The sending half, once there is one.
    pub fn tx_view(&self) -> Option<TxView> {
        self.halves.as_ref().map(|h| h.tx.view())
    }

    /// The part of [`tx_view`](Self::tx_view) that changes with each packet sent.
    pub fn tx_load(&self) -> Option<TxLoad> {
        self.halves.as_ref().map(|h| h.tx.load())
    }

    /// The round-trip times of [`tx_view`](Self::tx_view).
    pub fn tx_rtt(&self) -> Option<&RttEstimator> {
        self.halves.as_ref().map(|h| h.tx.rtt())
    }

    /// What packets take beyond these.
    pub fn tx_late(&self, now: Time) -> Late {
        self.halves.as_ref().map_or(Late::default(), |h| h.tx.late(now))
    }

    /// Whether the controller is in ProbeRTT, once there is one.
    pub fn is_probing_rtt(&self) -> Option<bool> {
        self.halves.as_ref().map(|h| h.tx.probing_rtt())
    }

    /// The sending half, if it can share its congestion state with other connections: once its CCID is settled, in OPEN.
    pub fn shareable(&mut self) -> Option<&mut AckVecSender> {
        ccid::shareable(&mut *self.halves.as_mut()?.tx)
    }

    /// Counters.
    pub fn stats(&self) -> &ConnectionStats {
        &self.stats
    }

    fn extra(&self, on: Extra) -> &[u8] {
        &self.extras[on as usize]
    }

    fn count_drop(&mut self, reason: DropReason) {
        *self.stats.dropped.entry(reason).or_default() += 1;
    }

    /// The best round-trip time there is; 0.2 s if none (RFC 4340 section 3.4).
    fn rtt(&self) -> Duration {
        let measured = self.tx_rtt().and_then(RttEstimator::srtt);
        measured.or(self.handshake_rtt).unwrap_or(Duration::from_millis(200))
    }

    /// The one place where the state changes.
    fn enter(&mut self, state: State) {
        trace(&self.route, self.ports, self.state, state);
        self.state = state;
    }

    /// Tears the connection down for a fault found in it, and says which.
    fn fail(&mut self, reset: Reset) {
        let [option, ..] = reset.data;
        self.error_text = match reset.code {
            ResetCode::OptionError => format!("option {option} is malformed").into(),
            ResetCode::MandatoryError => format!("option {option} is mandatory and not understood").into(),
            _ => core::mem::take(&mut self.error_text),
        };
        self.send_reset(reset);
        self.finish(CloseReason::Aborted(reset.code));
    }
}

/// Tells subscribers of `tracing` about a state change.
fn trace(route: &Route, ports: Ports, from: State, to: State) {
    let Ports { local, remote } = ports;
    tracing::debug!(%from, %to, peer = %route.remote, local_port = local, remote_port = remote, "connection state");
}
