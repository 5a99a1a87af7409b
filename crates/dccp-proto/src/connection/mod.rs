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

/// Maximum number of lists of options that wait for the next Ack to carry them. Further lists are dropped and
/// counted.
const MAX_OPTION_QUEUE: usize = 64;

/// One DCCP connection.
///
/// Usage: call one input ([`handle_packet`](Self::handle_packet), [`handle_timeout`](Self::handle_timeout))
/// or command ([`transmit`](Self::transmit), [`close`](Self::close), [`abort`](Self::abort)); then drain
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
    /// Present from PARTOPEN (client) or OPEN (server) on.
    halves: Option<Halves>,
    /// Requests or Responses sent, with their times, for the handshake's round-trip time.
    handshake_sent: VecDeque<(Seq, Time)>,
    handshake_rtt: Option<Duration>,
    requests_sent: u32,
    /// A Listen has triggered a retransmission of the Request.
    listen_received: bool,
    /// Our newest Response.
    last_response: Seq,
    /// Our newest Sync. An acknowledgement of this Sync or of our Response does not show that the client has
    /// left PARTOPEN.
    last_sync: Option<Seq>,
    /// Init Cookie options to echo.
    cookies: Vec<u8>,
    timers: Timers,
    outbox: Outbox,
    extras: [Vec<u8>; Extra::COUNT],
    /// Present with [`Config::skip_numbers`].
    skipped: Option<skipped::Skipped>,
    /// Non-data packets sent since the last data packet (RFC 4340 section 7.7).
    ndp_run: u64,
    drops: dropped::DropReport,
    peer_drops: dropped::PeerDrops,
    ecn: ecn::EcnPath,
    /// A Timestamp to echo: its value and arrival time.
    timestamp: Option<(u32, Time)>,
    /// Before this time, no Timestamp is echoed.
    echo_after: Time,
    slow_receiver: bool,
    /// Application data to send on Request or Response, and the data received on one.
    early_data: Vec<u8>,
    early_received: Option<Vec<u8>>,
    /// Error Text of our Reset, and Error Text of the peer's Reset.
    error_text: Vec<u8>,
    peer_error_text: Option<String>,
    /// Present in OPEN, if enabled.
    pmtu: Option<pmtu::Pmtu>,
    /// When the newest valid packet arrived (RFC 4340 section 7.5.3, "active").
    last_valid: Time,
    /// When the Greatest Acknowledgement Number Received last grew.
    last_answered: Time,
    /// When the token bucket that limits Syncs and Resets in answer to invalid packets will be full.
    answers_full_at: Time,
    /// The reason to report when closing ends.
    closing: Option<CloseReason>,
    events: VecDeque<Event>,
    stats: ConnectionStats,
    /// Buffer for the options of the packet being built, reused to avoid allocations.
    scratch: OptionBuf,
}

impl Connection {
    /// Sets the encoded options for all packets of this kind from now on; an empty slice removes them.
    pub fn set_extra(&mut self, on: Extra, options: &[u8]) {
        let slot = &mut self.extras[on as usize];
        slot.clear();
        slot.extend_from_slice(options);
    }

    /// Requests an Ack with these encoded options (multipath signalling) as soon as possible, or once OPEN is
    /// reached. The options are not retransmitted if that Ack is lost.
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

    /// The next event for the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends a Sync, which the peer answers with a SyncAck. This tests a silent path without using the
    /// congestion window. Only in OPEN.
    pub fn probe(&mut self) {
        if self.state == State::Open {
            self.outbox.sync = Some(self.numbers.gsr);
        }
    }

    /// When a valid packet last arrived, or when the connection was created.
    pub fn last_received(&self) -> Time {
        self.last_valid
    }

    /// When the peer last acknowledged a newer packet of ours; at first, when the connection was created.
    /// Such an acknowledgement shows that the path works both ways. Other packets only show that the path
    /// from the peer works.
    pub fn last_answered(&self) -> Time {
        self.last_answered
    }

    /// Call this when a packet waits, or went `elsewhere`, because this path's gate is closed. The path is
    /// then not application-limited for a round trip, even if the queue is empty.
    pub fn note_blocked(&mut self, now: Time, elsewhere: bool) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_blocked(now, elsewhere);
        }
    }

    /// Call this when data waits and this path's gate is open, but the scheduler did not give it the data.
    /// The path's capacity cannot be measured then.
    pub fn note_held_back(&mut self, now: Time) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_held_back(now);
        }
    }

    /// Call this when nothing waits to be sent on this path although its gate is open.
    pub fn set_app_limited(&mut self, now: Time) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_app_limited(now);
        }
    }

    /// Starts recording the fate of each packet: fetch it with [`poll_fate`](Self::poll_fate). Not available
    /// with CCIDs 3 and 4.
    pub fn track_fates(&mut self) {
        if let Some(halves) = &mut self.halves {
            halves.tx.track_fates();
        }
    }

    /// The next fate of packets since [`track_fates`](Self::track_fates).
    pub fn poll_fate(&mut self) -> Option<Fated> {
        self.halves.as_mut()?.tx.poll_fate()
    }

    /// Tells whether another path of the session is in ProbeRTT.
    pub fn hold_probe_rtt(&mut self, hold: bool) {
        if let Some(halves) = &mut self.halves {
            halves.tx.hold_probe_rtt(hold);
        }
    }

    /// Sets this path's share of a bottleneck that several paths of the session use. CCIDs 3 and 4 ignore it.
    pub fn couple(&mut self, part: &Part) {
        if let Some(halves) = &mut self.halves {
            halves.tx.couple(part);
        }
    }

    /// Resumes carefully (RFC 9959) from the capacity that an earlier connection over this path measured
    /// ([`TxView::capacity`](crate::ccid::TxView)), with at most `max_jump` bytes at once. No effect once
    /// congestion control has found its rate, or with CCIDs 3 and 4. The caller must ensure that no other
    /// connection uses the same memory ([`dccp_cc::Memory`]).
    pub fn resume(&mut self, saved: &Remembered, max_jump: u64) {
        if let Some(halves) = &mut self.halves {
            halves.tx.resume(saved, max_jump);
        }
    }

    /// Sets the size of the largest IP packet of the path, in bytes. With [`Config::probe_mtu`] this is only
    /// a hint, which is tried first.
    pub fn set_mtu(&mut self, now: Time, mtu: u16) {
        match &mut self.pmtu {
            Some(pmtu) => pmtu.on_hint(now, mtu),
            None => self.use_mtu(mtu),
        }
    }

    /// The host can send IP packets of `most` bytes. With [`Config::probe_mtu`] this size is tried even if
    /// [`set_mtu`](Self::set_mtu) named a smaller one.
    pub fn try_mtu(&mut self, now: Time, most: u16) {
        if let Some(pmtu) = &mut self.pmtu {
            pmtu.on_most(now, most);
        }
    }

    /// The largest IP packet of the path known so far, bytes.
    pub fn mtu(&self) -> u16 {
        self.cfg.mtu
    }

    fn use_mtu(&mut self, mtu: u16) {
        self.cfg.mtu = mtu;
        if let Some(halves) = &mut self.halves {
            halves.tx.on_mtu(mtu);
        }
    }

    /// Sets whether all Acks carry Slow Receiver (RFC 4340 section 11.6), which says that this end cannot
    /// keep up.
    pub fn set_slow_receiver(&mut self, slow: bool) {
        self.slow_receiver = slow;
    }

    /// Sets data for the Request, or at a server for the Response, and for all their retransmissions. At most
    /// a few hundred bytes, since options need room too (RFC 4340 sections 8.1.1 and 8.1.3). The peer accepts
    /// the data if configured ([`Config::early_data`]), and otherwise reports that it was dropped.
    pub fn set_early_data(&mut self, data: &[u8]) {
        if matches!(self.state, State::Request | State::Respond) {
            self.early_data = data.into();
        }
    }

    /// Takes the data that arrived on Request or Response.
    pub fn take_early_data(&mut self) -> Option<Vec<u8>> {
        self.early_received.take()
    }

    /// Error Text of the peer's Reset.
    pub fn error_text(&self) -> Option<&str> {
        self.peer_error_text.as_deref()
    }

    /// The Service Code in use.
    pub fn service_code(&self) -> u32 {
        self.cfg.service_code
    }

    /// The connection's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// The route of the connection's packets.
    pub fn route(&self) -> Route {
        self.route
    }

    /// DCCP ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// The CCIDs of our sending half and of the peer's, once negotiated.
    pub fn ccids(&self) -> Option<(u8, u8)> {
        self.halves.as_ref().map(|h| (h.tx_ccid, h.rx_ccid))
    }

    /// Whether the peer agreed to Multipath Capable.
    pub fn is_multipath(&self) -> bool {
        self.features.is_negotiated(feature::MULTIPATH_CAPABLE, preferences::multipath_side(self.is_server))
    }

    /// The value of a feature that is in force at one end (RFC 4340 section 6.4), for status and traces.
    pub fn feature(&self, number: u8, side: Side) -> u64 {
        self.features.value(number, side)
    }

    /// State of the sending half, once the half exists.
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

    /// Extra delay of packets beyond the round-trip times.
    pub fn tx_late(&self, now: Time) -> Late {
        self.halves.as_ref().map_or(Late::default(), |h| h.tx.late(now))
    }

    /// Whether the controller is in ProbeRTT; `None` before it exists.
    pub fn is_probing_rtt(&self) -> Option<bool> {
        self.halves.as_ref().map(|h| h.tx.probing_rtt())
    }

    /// The sending half, if it can share its congestion state with other connections. This requires OPEN and
    /// a settled CCID.
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

    /// The best known round-trip time; 0.2 s if none (RFC 4340 section 3.4).
    fn rtt(&self) -> Duration {
        let measured = self.tx_rtt().and_then(RttEstimator::srtt);
        measured.or(self.handshake_rtt).unwrap_or(Duration::from_millis(200))
    }

    /// All state changes happen here.
    fn enter(&mut self, state: State) {
        trace(&self.route, self.ports, self.state, state);
        self.state = state;
    }

    /// Resets the connection with an error text after an error of the peer.
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

/// Reports a state change to `tracing`.
fn trace(route: &Route, ports: Ports, from: State, to: State) {
    let Ports { local, remote } = ports;
    tracing::debug!(%from, %to, peer = %route.remote, local_port = local, remote_port = remote, "connection state");
}
