use crate::{Amount, Part, RateSample, ResumePhase, RttEstimator, Snapshot};
use mpdccp_units::{Duration, Rate, Time};

/// A congestion window with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Window {
    Packets(u64),
    Bytes(u64),
}

impl Window {
    /// Whether one more packet may be sent with `inflight` outstanding. A byte window may be exceeded by less
    /// than a packet.
    pub fn has_room(self, inflight: Amount) -> bool {
        match self {
            Window::Packets(w) => inflight.packets < w,
            Window::Bytes(w) => inflight.bytes < w,
        }
    }

    /// The window in bytes, for packets of `mtu` bytes.
    pub fn bytes(self, mtu: u16) -> u64 {
        match self {
            Window::Packets(w) => w.saturating_mul(u64::from(mtu)),
            Window::Bytes(w) => w,
        }
    }

    /// The window in packets of `mtu` bytes, at least one.
    pub fn packets(self, mtu: u16) -> u64 {
        match self {
            Window::Packets(w) => w,
            Window::Bytes(w) => (w / u64::from(mtu.max(1))).max(1),
        }
    }
}

/// Sending limits of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Congestion window.
    pub cwnd: Window,
    /// Pacing rate in IP bytes on the wire; with `None` only the window limits sending.
    pub pacing: Option<Rate>,
    /// Largest burst, bytes.
    pub quantum: u32,
}

/// A data packet that leaves.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time of sending.
    pub now: Time,
    /// IP bytes on the wire.
    pub bytes: u32,
    /// Outstanding before this packet.
    pub inflight: Amount,
}

/// A packet that is declared lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a> {
    /// Time of the declaration.
    pub now: Time,
    /// Taken when the packet left.
    pub snapshot: &'a Snapshot,
    /// IP bytes on the wire.
    pub bytes: u32,
    /// Total lost so far on this connection, this packet included.
    pub lost: Amount,
    /// Total delivered so far.
    pub delivered: Amount,
}

/// One processed acknowledgement, with everything that a controller may use.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    /// When it arrived.
    pub now: Time,
    /// Newly reported received (ECN-marked ones included).
    pub acked: Amount,
    /// Newly declared lost.
    pub lost: Amount,
    /// Newly reported ECN-marked packets (included in `acked`).
    pub ce: u64,
    /// A loss or mark among packets sent after the last reduction: at most one per window of data
    /// (RFC 4341 section 5).
    pub congestion: bool,
    /// Newest RTT sample, without the acknowledgement delay.
    pub rtt: Option<Duration>,
    /// Part of the RTT beyond its minimum that the return path caused; zero if unknown.
    pub returning: Duration,
    /// Smoothed values, this sample included.
    pub estimator: &'a RttEstimator,
    /// Delivery-rate sample, if this acknowledgement gave a valid one.
    pub rate: Option<RateSample>,
    /// Outstanding before this acknowledgement.
    pub inflight_before: Amount,
    /// Outstanding after it.
    pub inflight: Amount,
    /// Total delivered on this connection, including this acknowledgement.
    pub delivered: Amount,
    /// It ended a packet round: a packet sent after the previous round's end was acknowledged.
    pub round_end: bool,
    /// Only the application limited sending: the window and pacing did not within the last round.
    pub app_limited: bool,
}

impl AckEvent<'_> {
    /// The RTT sample without delay of the return path beyond its minimum: only queues of the forward path
    /// raise it.
    pub fn forward_rtt(&self) -> Option<Duration> {
        self.rtt.map(|rtt| rtt.saturating_sub(self.returning))
    }
}

/// A congestion control algorithm. It has no clock, sends nothing and knows no protocol.
pub trait Controller: Send + core::fmt::Debug {
    /// A data packet left.
    fn on_sent(&mut self, pkt: &Sent);
    /// A packet was declared lost; called before the [`Controller::on_ack`] that counts it, for algorithms
    /// that need to know which packet.
    fn on_packet_lost(&mut self, _pkt: &Lost<'_>) {}
    /// An acknowledgement was processed.
    fn on_ack(&mut self, ev: &AckEvent<'_>);
    /// The retransmission timeout expired: everything in flight is presumed lost.
    fn on_rto(&mut self, now: Time);
    /// A packet that was declared lost at `declared` arrived after all; called before the
    /// [`Controller::on_ack`] that counts it.
    fn on_late_packet(&mut self, _declared: Time) {}
    /// Every loss of the last reduction proved to be reordering: the reduction may be undone.
    fn on_spurious_loss(&mut self, _now: Time) {}
    /// From now on the peer acknowledges once per this many data packets.
    fn on_ack_ratio(&mut self, _ratio: u16) {}
    /// A packet is about to leave after an idle period (nothing in flight).
    fn on_idle_restart(&mut self, now: Time);
    /// The largest packet changed (IP bytes).
    fn on_mtu(&mut self, mtu: u16);
    /// The receiver reported Slow Receiver, or Data Dropped with `buffer_drops` packets newly reported
    /// dropped in its receive buffer (RFC 4341 section 5.2).
    fn on_slow_receiver(&mut self, _buffer_drops: u64) {}
    /// Current sending limits. They change only through the inputs above and below, so callers may cache them
    /// until the next input.
    fn limits(&self) -> Limits;
    /// Name of the state (`startup`, `probe_bw`, `slow_start`, ...).
    fn phase(&self) -> &'static str;
    /// Slow-start threshold in packets; `None` is infinite.
    fn threshold(&self) -> Option<u64> {
        None
    }
    /// Bottleneck bandwidth estimate, if the algorithm has one.
    fn bottleneck(&self) -> Option<Rate> {
        None
    }
    /// Whether the controller is in BBR's ProbeRTT, so that no other path of the session should drain: see
    /// [`Controller::hold_probe_rtt`].
    fn probing_rtt(&self) -> bool {
        false
    }
    /// Another path of the session is in ProbeRTT, so this one should delay its own.
    fn hold_probe_rtt(&mut self, _hold: bool) {}
    /// Sets its share of a bottleneck that it shares with other paths of the session; [`Part::ALONE`] at
    /// first.
    fn couple(&mut self, _part: &Part) {}
    /// Whether the initial search for the path's capacity is over.
    fn settled(&self) -> bool {
        true
    }
    /// Takes over from another congestion control on the same path; call before any input. Otherwise it
    /// starts from the beginning.
    fn inherit(&mut self, _from: &Inherited) {}
    /// Phase of Careful Resume, if it started from a remembered capacity (RFC 9959).
    fn resumption(&self) -> Option<ResumePhase> {
        None
    }
}

/// State that a congestion control passes to its successor in a running connection.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    /// Time of the change.
    pub now: Time,
    /// The amount that the controller keeps in flight, IP bytes.
    pub window: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Minimum round-trip time known.
    pub min_rtt: Option<Duration>,
    /// See [`Controller::settled`]. If set, the successor must not start a new search: changing would
    /// otherwise bypass congestion control (RFC 4340 section 10.5).
    pub settled: bool,
}

impl Inherited {
    /// The window in packets of `mtu` bytes, at least one.
    pub fn packets(&self, mtu: u16) -> u64 {
        Window::Bytes(self.window).packets(mtu)
    }

    /// Bytes per second, if there is a round-trip time.
    pub fn rate(&self) -> Option<f64> {
        self.srtt.filter(|srtt| !srtt.is_zero()).map(|srtt| self.window as f64 / srtt.as_secs_f64())
    }
}

/// Settings of a controller.
#[derive(Clone, Copy, Debug)]
pub struct CcConfig {
    /// Largest packet, IP bytes.
    pub mtu: u16,
    /// Count windows in packets, as the reference does, instead of bytes.
    pub packets: bool,
    /// BBR, version 1 or 3, exactly as in the draft instead of the tuned variant.
    pub draft: bool,
    /// Seed for the algorithm's random choices.
    pub seed: u64,
}
