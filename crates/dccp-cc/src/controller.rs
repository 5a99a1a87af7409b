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
    /// Returns whether one more packet may be sent with `inflight` outstanding. The amount in flight may
    /// exceed a byte window by less than a packet.
    pub fn has_room(self, inflight: Amount) -> bool {
        match self {
            Window::Packets(w) => inflight.packets < w,
            Window::Bytes(w) => inflight.bytes < w,
        }
    }

    /// Returns the window in bytes, for packets of `mtu` bytes.
    pub fn bytes(self, mtu: u16) -> u64 {
        match self {
            Window::Packets(w) => w.saturating_mul(u64::from(mtu)),
            Window::Bytes(w) => w,
        }
    }

    /// Returns the window in packets of `mtu` bytes, at least one.
    pub fn packets(self, mtu: u16) -> u64 {
        match self {
            Window::Packets(w) => w,
            Window::Bytes(w) => (w / u64::from(mtu.max(1))).max(1),
        }
    }
}

/// Limits that a controller sets for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Congestion window.
    pub cwnd: Window,
    /// Pacing rate in IP bytes on the wire. With `None`, only the window limits sending.
    pub pacing: Option<Rate>,
    /// Largest burst, bytes.
    pub quantum: u32,
}

/// A data packet that is sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time of sending.
    pub now: Time,
    /// IP bytes on the wire.
    pub bytes: u32,
    /// Amount outstanding before this packet.
    pub inflight: Amount,
}

/// A packet that is declared lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'a> {
    /// Time of the declaration.
    pub now: Time,
    /// Delivery state recorded when the packet was sent.
    pub snapshot: &'a Snapshot,
    /// IP bytes on the wire.
    pub bytes: u32,
    /// Total lost so far on this connection, including this packet.
    pub lost: Amount,
    /// Total delivered so far.
    pub delivered: Amount,
}

/// One processed acknowledgement, with everything that a controller may use.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    /// Time at which the acknowledgement arrived.
    pub now: Time,
    /// Amount newly reported as received, including ECN-marked packets.
    pub acked: Amount,
    /// Amount newly declared lost.
    pub lost: Amount,
    /// Number of packets newly reported as ECN-marked, which are included in `acked`.
    pub ce: u64,
    /// Whether a packet sent after the last reduction was lost or marked. True at most once per window of
    /// data (RFC 4341 section 5).
    pub congestion: bool,
    /// Newest RTT sample, without the acknowledgement delay.
    pub rtt: Option<Duration>,
    /// The part of the RTT by which the return path's delay exceeds its minimum, or zero if unknown.
    pub returning: Duration,
    /// Smoothed values, including this sample.
    pub estimator: &'a RttEstimator,
    /// Delivery-rate sample, if this acknowledgement gave a valid one.
    pub rate: Option<RateSample>,
    /// Amount outstanding before this acknowledgement.
    pub inflight_before: Amount,
    /// Amount outstanding after this acknowledgement.
    pub inflight: Amount,
    /// Total delivered on this connection so far, including this acknowledgement.
    pub delivered: Amount,
    /// Whether this acknowledgement ended a packet round, because it covers a packet sent after the end of
    /// the previous round.
    pub round_end: bool,
    /// Whether only the application limited sending: neither the window nor pacing did so within the last
    /// round.
    pub app_limited: bool,
}

impl AckEvent<'_> {
    /// Returns the RTT sample without [`returning`](Self::returning). Only queues on the forward path raise
    /// this value.
    pub fn forward_rtt(&self) -> Option<Duration> {
        self.rtt.map(|rtt| rtt.saturating_sub(self.returning))
    }
}

/// A congestion control algorithm. It has no clock, sends nothing and depends on no protocol.
pub trait Controller: Send + core::fmt::Debug {
    /// A data packet was sent.
    fn on_sent(&mut self, pkt: &Sent);
    /// A packet was declared lost. For algorithms that need to know which packet was lost, the caller reports
    /// it before the [`Controller::on_ack`] that counts the packet.
    fn on_packet_lost(&mut self, _pkt: &Lost<'_>) {}
    /// An acknowledgement was processed.
    fn on_ack(&mut self, ev: &AckEvent<'_>);
    /// The retransmission timeout expired: everything in flight is presumed lost.
    fn on_rto(&mut self, now: Time);
    /// A packet that was declared lost at `declared` arrived after all. The caller reports this before the
    /// [`Controller::on_ack`] that counts the packet.
    fn on_late_packet(&mut self, _declared: Time) {}
    /// Every loss that caused the last reduction turned out to be reordering, so the controller may undo the
    /// reduction.
    fn on_spurious_loss(&mut self, _now: Time) {}
    /// All lost data of a recovery has been retransmitted and has arrived. Only a protocol that retransmits
    /// calls this.
    fn on_repaired(&mut self, _now: Time) {}
    /// From now on the peer acknowledges once per this many data packets.
    fn on_ack_ratio(&mut self, _ratio: u16) {}
    /// A packet is about to be sent after an idle period (nothing was in flight).
    fn on_idle_restart(&mut self, now: Time);
    /// The maximum packet size changed to `mtu` IP bytes.
    fn on_mtu(&mut self, mtu: u16);
    /// The receiver reported Slow Receiver or Data Dropped. `buffer_drops` is the number of packets newly
    /// reported as dropped in the receive buffer (RFC 4341 section 5.2).
    fn on_slow_receiver(&mut self, _buffer_drops: u64) {}
    /// Returns the current sending limits. Only the methods that take `&mut self` change them, so a caller
    /// may cache them until it calls one of these methods.
    fn limits(&self) -> Limits;
    /// Returns whether the sender needs many acknowledgements per window. By default, it does if it does not
    /// pace, because acknowledgements then clock out packets.
    fn clocked(&self) -> bool {
        self.limits().pacing.is_none()
    }
    /// Returns the name of the state (`startup`, `probe_bw`, `slow_start`, ...).
    fn phase(&self) -> &'static str;
    /// Returns the slow-start threshold in packets. `None` means infinite.
    fn threshold(&self) -> Option<u64> {
        None
    }
    /// Returns the bottleneck bandwidth estimate, if the algorithm has one.
    fn bottleneck(&self) -> Option<Rate> {
        None
    }
    /// Returns whether the controller is in BBR's ProbeRTT. While it is, no other path of the session should
    /// drain; see [`Controller::hold_probe_rtt`].
    fn probing_rtt(&self) -> bool {
        false
    }
    /// Another path of the session is in ProbeRTT, so this path should delay its own.
    fn hold_probe_rtt(&mut self, _hold: bool) {}
    /// Sets the controller's share of a bottleneck that it shares with other paths of the session. Initially
    /// the share is [`Part::ALONE`].
    fn couple(&mut self, _part: &Part) {}
    /// Returns whether the initial search for the path's capacity is over.
    fn settled(&self) -> bool {
        true
    }
    /// Takes over from another congestion control on the same path. This must be called before any other
    /// input. The default implementation ignores the inherited state.
    fn inherit(&mut self, _from: &Inherited) {}
    /// Returns the phase of Careful Resume, if the controller started from a remembered capacity (RFC 9959).
    fn resumption(&self) -> Option<ResumePhase> {
        None
    }
}

/// State that a congestion control passes to its successor in a running connection.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    /// Time of the change.
    pub now: Time,
    /// The amount that the controller keeps in flight, in IP bytes.
    pub window: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Minimum round-trip time, if known.
    pub min_rtt: Option<Duration>,
    /// See [`Controller::settled`]. If this is set, the successor must not start a new search. Otherwise a
    /// sender could evade congestion control by switching to another algorithm (RFC 4340 section 10.5).
    pub settled: bool,
}

impl Inherited {
    /// Returns the window in packets of `mtu` bytes, at least one.
    pub fn packets(&self, mtu: u16) -> u64 {
        Window::Bytes(self.window).packets(mtu)
    }

    /// Returns the rate in bytes per second, if a round-trip time is known.
    pub fn rate(&self) -> Option<f64> {
        self.srtt.filter(|srtt| !srtt.is_zero()).map(|srtt| self.window as f64 / srtt.as_secs_f64())
    }
}

/// Settings of a controller.
#[derive(Clone, Copy, Debug)]
pub struct CcConfig {
    /// Largest packet, IP bytes.
    pub mtu: u16,
    /// Whether windows count packets instead of bytes, as in the reference kernel.
    pub packets: bool,
    /// Whether BBR (version 1 or 3) follows the draft exactly. If false, the tuned variant is used.
    pub draft: bool,
    /// Seed for the algorithm's random choices.
    pub seed: u64,
}
