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

/// Maximum number of option lists waiting for an Ack. Further lists are dropped and counted.
const MAX_OPTION_QUEUE: usize = 64;

/// One DCCP connection.
///
/// Call one input ([`handle_packet`](Self::handle_packet), [`handle_timeout`](Self::handle_timeout)) or one
/// command ([`transmit`](Self::transmit), [`close`](Self::close), [`abort`](Self::abort)) at a time. After
/// each call, drain [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event), and set a
/// single timer from [`poll_timeout`](Self::poll_timeout).
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
    /// Exists from PARTOPEN (client) or OPEN (server) on.
    halves: Option<Halves>,
    /// Requests or Responses sent, with the times at which they were sent, to measure the round-trip time of
    /// the handshake.
    handshake_sent: VecDeque<(Seq, Time)>,
    handshake_rtt: Option<Duration>,
    requests_sent: u32,
    /// Whether a Listen has triggered a retransmission of the Request.
    listen_received: bool,
    /// Our newest Response.
    last_response: Seq,
    /// Our newest Sync. A client that acknowledges nothing but this Sync or our Response may still be in
    /// PARTOPEN.
    last_sync: Option<Seq>,
    /// The greatest sequence number received (GSR) when an Ack last followed a SyncAck.
    followed: Option<Seq>,
    /// Init Cookie options to echo.
    cookies: Vec<u8>,
    timers: Timers,
    outbox: Outbox,
    extras: [Vec<u8>; Extra::COUNT],
    /// Exists if [`Config::skip_numbers`] is set.
    skipped: Option<skipped::Skipped>,
    /// Number of non-data packets sent since the last data packet (RFC 4340 section 7.7).
    ndp_run: u64,
    drops: dropped::DropReport,
    peer_drops: dropped::PeerDrops,
    ecn: ecn::EcnPath,
    /// A Timestamp to echo: its value and arrival time.
    timestamp: Option<(u32, Time)>,
    /// No Timestamp is echoed before this time.
    echo_after: Time,
    slow_receiver: bool,
    /// Application data to send on a Request or Response, and the data received on a Request or Response.
    early_data: Vec<u8>,
    early_received: Option<Vec<u8>>,
    /// Error Text of our own Reset and of the peer's Reset.
    error_text: Vec<u8>,
    peer_error_text: Option<String>,
    /// Exists in OPEN if path MTU discovery is enabled.
    pmtu: Option<pmtu::Pmtu>,
    /// Arrival time of the newest valid packet, which determines whether the connection is "active"
    /// (RFC 4340 section 7.5.3).
    last_valid: Time,
    /// Time at which the Greatest Acknowledgement Number Received last grew.
    last_answered: Time,
    /// Time at which the token bucket for answers will be full. The bucket limits Syncs and Resets sent in
    /// answer to invalid packets.
    answers_full_at: Time,
    /// The reason to report once the connection has finished closing.
    closing: Option<CloseReason>,
    events: VecDeque<Event>,
    stats: ConnectionStats,
    /// Buffer for the options of the packet being built, reused to avoid allocations.
    scratch: OptionBuf,
}

impl Connection {
    /// Sets the encoded options to carry on all packets of this kind from now on. An empty slice removes
    /// them.
    pub fn set_extra(&mut self, on: Extra, options: &[u8]) {
        let slot = &mut self.extras[on as usize];
        slot.clear();
        slot.extend_from_slice(options);
    }

    /// Requests an Ack with these encoded options (multipath signalling), sent as soon as possible or once
    /// OPEN is reached. The options are not retransmitted if that Ack is lost.
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

    /// Returns the next event for the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends a Sync, which the peer answers with a SyncAck, to test a silent path without using the
    /// congestion window. This has no effect except in OPEN.
    pub fn probe(&mut self) {
        if self.state == State::Open {
            self.outbox.sync = Some(self.numbers.gsr);
        }
    }

    /// Returns when a valid packet last arrived, or when the connection was created.
    pub fn last_received(&self) -> Time {
        self.last_valid
    }

    /// Returns when the peer last acknowledged a newer packet of ours than before; initially, this is the
    /// time at which the connection was created. Such an acknowledgement shows that the path works in both
    /// directions, whereas other packets show only that the direction from the peer works.
    pub fn last_answered(&self) -> Time {
        self.last_answered
    }

    /// Call this when a packet finds this path's gate closed. If `elsewhere`, the packet has taken another
    /// path. Otherwise it is waiting. For the next round trip, the path does not count as
    /// application-limited, even if the queue is empty.
    pub fn note_blocked(&mut self, now: Time, elsewhere: bool) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_blocked(now, elsewhere);
        }
    }

    /// Call this when data is waiting and this path's gate is open, but the scheduler has not given the path
    /// any data. The path's capacity cannot be measured while this lasts.
    pub fn note_held_back(&mut self, now: Time) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_held_back(now);
        }
    }

    /// Call this when this path's gate is open and nothing is waiting to be sent on the path.
    pub fn set_app_limited(&mut self, now: Time) {
        if let Some(halves) = &mut self.halves {
            halves.tx.on_app_limited(now);
        }
    }

    /// Starts recording the fate of each packet, which [`poll_fate`](Self::poll_fate) returns. CCIDs 3 and 4
    /// do not support this.
    pub fn track_fates(&mut self) {
        if let Some(halves) = &mut self.halves {
            halves.tx.track_fates();
        }
    }

    /// Returns the next fate recorded since [`track_fates`](Self::track_fates) was called.
    pub fn poll_fate(&mut self) -> Option<Fated> {
        self.halves.as_mut()?.tx.poll_fate()
    }

    /// Tells whether another path of the session is in ProbeRTT.
    pub fn hold_probe_rtt(&mut self, hold: bool) {
        if let Some(halves) = &mut self.halves {
            halves.tx.hold_probe_rtt(hold);
        }
    }

    /// Sets this path's share of a bottleneck that several paths of the session have in common. CCIDs 3 and 4
    /// ignore it.
    pub fn couple(&mut self, part: &Part) {
        if let Some(halves) = &mut self.halves {
            halves.tx.couple(part);
        }
    }

    /// Resumes carefully (RFC 9959) from the capacity that an earlier connection measured on this path
    /// ([`TxView::capacity`](crate::ccid::TxView)), jumping by at most `max_jump` bytes. This has no effect
    /// with CCIDs 3 and 4, or once congestion control has found its rate. The caller must ensure that no
    /// other connection uses the same memory ([`dccp_cc::Memory`]).
    pub fn resume(&mut self, saved: &Remembered, max_jump: u64) {
        if let Some(halves) = &mut self.halves {
            halves.tx.resume(saved, max_jump);
        }
    }

    /// Sets the size of the largest IP packet that the path carries, in bytes. With [`Config::probe_mtu`],
    /// this is only a hint: the search tries it first.
    pub fn set_mtu(&mut self, now: Time, mtu: u16) {
        match &mut self.pmtu {
            Some(pmtu) => pmtu.on_hint(now, mtu),
            None => self.use_mtu(mtu),
        }
    }

    /// Tells the connection that the host can send IP packets of `most` bytes. With [`Config::probe_mtu`],
    /// the search tries this size even if [`set_mtu`](Self::set_mtu) named a smaller one.
    pub fn try_mtu(&mut self, now: Time, most: u16) {
        if let Some(pmtu) = &mut self.pmtu {
            pmtu.on_most(now, most);
        }
    }

    /// Returns the size of the largest IP packet that the path is known to carry, in bytes.
    pub fn mtu(&self) -> u16 {
        self.cfg.mtu
    }

    fn use_mtu(&mut self, mtu: u16) {
        self.cfg.mtu = mtu;
        if let Some(halves) = &mut self.halves {
            halves.tx.on_mtu(mtu);
        }
    }

    /// Sets whether all Acks carry Slow Receiver (RFC 4340 section 11.6), which tells the peer that this end
    /// cannot keep up.
    pub fn set_slow_receiver(&mut self, slow: bool) {
        self.slow_receiver = slow;
    }

    /// Sets the data that a client's Request or a server's Response carries, including all retransmissions.
    /// Use at most a few hundred bytes, because options need room too (RFC 4340 sections 8.1.1 and 8.1.3).
    /// The peer accepts the data only if it is configured to ([`Config::early_data`]); otherwise it reports
    /// the data as dropped.
    pub fn set_early_data(&mut self, data: &[u8]) {
        if matches!(self.state, State::Request | State::Respond) {
            self.early_data = data.into();
        }
    }

    /// Takes the data that arrived on a Request or Response.
    pub fn take_early_data(&mut self) -> Option<Vec<u8>> {
        self.early_received.take()
    }

    /// Returns the Error Text of the peer's Reset.
    pub fn error_text(&self) -> Option<&str> {
        self.peer_error_text.as_deref()
    }

    /// Returns the Service Code in use.
    pub fn service_code(&self) -> u32 {
        self.cfg.service_code
    }

    /// Returns the connection's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the route of the connection's packets.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Returns the DCCP ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Returns the CCIDs of our sending half and of the peer's sending half, once negotiated.
    pub fn ccids(&self) -> Option<(u8, u8)> {
        self.halves.as_ref().map(|h| (h.tx_ccid, h.rx_ccid))
    }

    /// Returns whether the peer agreed to Multipath Capable.
    pub fn is_multipath(&self) -> bool {
        self.features.is_negotiated(feature::MULTIPATH_CAPABLE, preferences::multipath_side(self.is_server))
    }

    /// Returns the value of a feature that is in force at one end (RFC 4340 section 6.4), for status and
    /// traces.
    pub fn feature(&self, number: u8, side: Side) -> u64 {
        self.features.value(number, side)
    }

    /// Returns the state of the sending half, once the half exists.
    pub fn tx_view(&self) -> Option<TxView> {
        self.halves.as_ref().map(|h| h.tx.view())
    }

    /// Returns the part of [`tx_view`](Self::tx_view) that changes with each packet that is sent.
    pub fn tx_load(&self) -> Option<TxLoad> {
        self.halves.as_ref().map(|h| h.tx.load())
    }

    /// Returns the round-trip time estimates of [`tx_view`](Self::tx_view).
    pub fn tx_rtt(&self) -> Option<&RttEstimator> {
        self.halves.as_ref().map(|h| h.tx.rtt())
    }

    /// Returns the extra delay of packets compared with the packets that round-trip times are measured from.
    pub fn tx_late(&self, now: Time) -> Late {
        self.halves.as_ref().map_or(Late::default(), |h| h.tx.late(now))
    }

    /// Returns whether the controller is in ProbeRTT, or `None` before it exists.
    pub fn is_probing_rtt(&self) -> Option<bool> {
        self.halves.as_ref().map(|h| h.tx.probing_rtt())
    }

    /// Returns the sending half, if its CCID supports sharing congestion state with other connections. The
    /// caller must ensure that the connection is in OPEN and its CCID is settled.
    pub fn shareable(&mut self) -> Option<&mut AckVecSender> {
        ccid::shareable(&mut *self.halves.as_mut()?.tx)
    }

    /// Returns the counters of the connection.
    pub fn stats(&self) -> &ConnectionStats {
        &self.stats
    }

    fn extra(&self, on: Extra) -> &[u8] {
        &self.extras[on as usize]
    }

    fn count_drop(&mut self, reason: DropReason) {
        *self.stats.dropped.entry(reason).or_default() += 1;
    }

    /// Returns the best known round-trip time, or 0.2 s if none has been measured (RFC 4340 section 3.4).
    fn rtt(&self) -> Duration {
        let measured = self.tx_rtt().and_then(RttEstimator::srtt);
        measured.or(self.handshake_rtt).unwrap_or(Duration::from_millis(200))
    }

    /// Changes the state. Every state change goes through here.
    fn enter(&mut self, state: State) {
        trace(&self.route, self.ports, self.state, state);
        self.state = state;
    }

    /// Resets the connection with an error text, because the peer made an error.
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
