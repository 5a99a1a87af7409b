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
    /// Whether one more packet may be sent with `inflight` outstanding. A byte window is overshot by less than a packet.
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

/// All a controller may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Congestion window.
    pub cwnd: Window,
    /// Pacing rate in IP bytes on the wire; `None` leaves sending to the window alone.
    pub pacing: Option<Rate>,
    /// Largest burst, bytes.
    pub quantum: u32,
}

/// A data packet as it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// IP bytes on the wire.
    pub bytes: u32,
    /// Outstanding before this packet.
    pub inflight: Amount,
}

/// A packet as it is declared lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a> {
    /// When.
    pub now: Time,
    /// Taken when it left.
    pub snapshot: &'a Snapshot,
    /// IP bytes on the wire.
    pub bytes: u32,
    /// Total lost so far on this connection, this packet included.
    pub lost: Amount,
    /// Total delivered so far.
    pub delivered: Amount,
}

/// One acknowledgement, digested. Everything a controller may know.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    /// When it arrived.
    pub now: Time,
    /// Newly reported received (ECN-marked ones included).
    pub acked: Amount,
    /// Newly declared lost.
    pub lost: Amount,
    /// Newly reported ECN-marked (they are in `acked` too), packets.
    pub ce: u64,
    /// A loss or mark among packets sent after the last reduction: at most one a window of data (RFC 4341 section 5).
    pub congestion: bool,
    /// Newest RTT sample, acknowledgement delay taken out.
    pub rtt: Option<Duration>,
    /// Smoothed values, this sample included.
    pub estimator: &'a RttEstimator,
    /// Delivery-rate sample, if this acknowledgement gave a valid one.
    pub rate: Option<RateSample>,
    /// Outstanding before it was digested.
    pub inflight_before: Amount,
    /// Outstanding after.
    pub inflight: Amount,
    /// Total delivered so far on this connection, after.
    pub delivered: Amount,
    /// A packet round ended with it: a packet sent after the previous round's end was acknowledged.
    pub round_end: bool,
    /// The path was kept from sending more by the application alone: not if it was limited by window or pacing
    /// within the last round.
    pub app_limited: bool,
}

/// A congestion control algorithm. Owns no clock, sends nothing, knows no protocol.
pub trait Controller: Send + core::fmt::Debug {
    /// A data packet left.
    fn on_sent(&mut self, pkt: &Sent);
    /// A packet was declared lost, told before the [`Controller::on_ack`] that counts it: for those that want to know which.
    fn on_packet_lost(&mut self, _pkt: &Lost<'_>) {}
    /// An acknowledgement was digested.
    fn on_ack(&mut self, ev: &AckEvent<'_>);
    /// The retransmission timeout fired: all in flight is presumed lost.
    fn on_rto(&mut self, now: Time);
    /// A packet that was declared lost at `declared` arrived after all, told before the [`Controller::on_ack`] that counts it.
    fn on_late_packet(&mut self, _declared: Time) {}
    /// Every loss of the last reduction proved to be mere reordering: it may be taken back.
    fn on_spurious_loss(&mut self, _now: Time) {}
    /// The peer acknowledges once for this many data packets from now on.
    fn on_ack_ratio(&mut self, _ratio: u16) {}
    /// A packet is about to leave after an idle period (nothing in flight).
    fn on_idle_restart(&mut self, now: Time);
    /// The largest packet changed (IP bytes).
    fn on_mtu(&mut self, mtu: u16);
    /// The receiver reported Slow Receiver, or Data Dropped with `buffer_drops` packets newly reported dropped in its
    /// receive buffer (RFC 4341 section 5.2).
    fn on_slow_receiver(&mut self, _buffer_drops: u64) {}
    /// What may be sent now. It changes by the inputs above and below alone: it is not asked again before the next.
    fn limits(&self) -> Limits;
    /// The state's name as people know it (`startup`, `probe_bw`, `slow_start`, ...).
    fn phase(&self) -> &'static str;
    /// Bottleneck bandwidth estimate, for those that keep one.
    fn bottleneck(&self) -> Option<Rate> {
        None
    }
    /// Wants no other path of the session to be drained at this time (BBR's ProbeRTT): see [`Controller::hold_probe_rtt`].
    fn probing_rtt(&self) -> bool {
        false
    }
    /// Told that another path of the session is in ProbeRTT, so this one should wait with its own.
    fn hold_probe_rtt(&mut self, _hold: bool) {}
    /// Its part of a bottleneck that it shares with other paths of the session, from now on; [`Part::ALONE`] at first.
    fn couple(&mut self, _part: &Part) {}
    /// Whether it has found out what the path carries, and only feels its way on from there.
    fn settled(&self) -> bool {
        true
    }
    /// Takes the place of another congestion control on the same path, before any input. Without it this one starts afresh.
    fn inherit(&mut self, _from: &Inherited) {}
    /// Where it is with what was remembered of the path, if it began from that (RFC 9959).
    fn resumption(&self) -> Option<ResumePhase> {
        None
    }
}

/// What a congestion control leaves to the one that takes its place in a running connection.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    /// When.
    pub now: Time,
    /// What it kept in flight, IP bytes.
    pub window: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// The least one known.
    pub min_rtt: Option<Duration>,
    /// See [`Controller::settled`]. The next must not begin a new search then: changing would be a way around congestion control
    /// (RFC 4340 section 10.5).
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

/// How a controller is set up.
#[derive(Clone, Copy, Debug)]
pub struct CcConfig {
    /// Largest packet, IP bytes.
    pub mtu: u16,
    /// Count windows in packets, as the reference does, rather than bytes.
    pub packets: bool,
    /// BBR, version 1 or 3, exactly after the draft instead of the tuned variant.
    pub draft: bool,
    /// Seed for the algorithm's random choices.
    pub seed: u64,
}
