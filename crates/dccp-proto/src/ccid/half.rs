//! The interfaces of a half-connection's two ends, the sending half and the receiving half, and their inputs.

use crate::{CcOptions, Ecn, Gate};
use alloc::vec::Vec;
use core::any::Any;
use dccp_cc::{Amount, CcConfig, Inherited, Part, Remembered, ResumePhase, RttEstimator, Window};
use dccp_wire::ack_vector::{State, runs};
use dccp_wire::{OptionBuf, Seq};
use mpdccp_units::{Duration, Rate, Time};

/// An acknowledgement for a sending half. Ack Vector options of a packet are concatenated in order.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    /// Acknowledgement Number, extended to 48 bits.
    pub ack: Seq,
    /// Ack Vector cells, newest packet (`ack`) first. Empty if the packet has no Ack Vector.
    pub vector: &'a [u8],
    /// How long the peer held the packet `ack` before acknowledging it (Elapsed Time or Timestamp Echo).
    pub elapsed: Duration,
    /// The Timestamp of the acknowledgement: the peer's clock when it sent the packet, in units of 10
    /// microseconds.
    pub timestamp: Option<u32>,
    /// CCID-specific options (types 128 to 255) addressed to the sender, as the raw option area.
    pub options: &'a [u8],
}

impl<'a> Feedback<'a> {
    /// Creates the feedback of a packet with an Ack Vector and no other options.
    pub fn new(ack: Seq, vector: &'a [u8]) -> Feedback<'a> {
        Feedback { ack, vector, elapsed: Duration::ZERO, timestamp: None, options: &[] }
    }

    /// Finds the newest of our packets `seqs` (oldest first) that the peer reports as received.
    pub(crate) fn newest_received(
        &self,
        seqs: impl DoubleEndedIterator<Item = Seq> + ExactSizeIterator,
    ) -> Option<usize> {
        self.reports(seqs).find(|(_, received)| *received).map(|(at, _)| at)
    }

    /// For each packet of `seqs` (ours, oldest first) that the peer reports, returns its position and whether
    /// it was received, newest packet first.
    pub(crate) fn reports(
        &self,
        seqs: impl DoubleEndedIterator<Item = Seq> + ExactSizeIterator,
    ) -> impl Iterator<Item = (usize, bool)> {
        let mut runs = runs(self.vector);
        // The first packet of the current run, and the run's state and length. Without a vector, `ack` alone
        // is a run.
        let mut first = self.ack;
        let mut run = if self.vector.is_empty() { Some((State::Received, 1)) } else { runs.next() };
        let told = seqs.enumerate().rev().skip_while(move |(_, seq)| seq.after(self.ack));
        told.map_while(move |(at, seq)| {
            while let Some((_, packets)) = run
                && first.diff(seq) >= i64::from(packets)
            {
                first = first.sub(u64::from(packets));
                run = runs.next();
            }
            let (state, _) = run?;
            Some((at, matches!(state, State::Received | State::ReceivedEcnMarked)))
        })
    }
}

/// A packet of the peer, as a receiving half sees it. Packets without data are included for their sequence
/// numbers.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Sequence number of the packet.
    pub seq: Seq,
    /// ECN field with which the packet arrived.
    pub ecn: Ecn,
    /// Whether the packet is Data or DataAck.
    pub data: bool,
    /// CCVal.
    pub ccval: u8,
    /// NDP Count, if the packet carried one.
    pub ndp: Option<u64>,
    /// Size of the IP packet, bytes.
    pub bytes: u32,
    /// Bytes of application data, 0 if the packet has none.
    pub payload: u32,
}

/// When a receiving half wants to acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AckDue {
    No,
    At(Time),
    Now,
}

/// A request of a sending half to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderRequest {
    /// Negotiate this Ack Ratio (RFC 4340 section 11.3).
    AckRatio(u16),
    /// Negotiate at least this Sequence Window (RFC 4340 section 7.5.1). A later request with a smaller value
    /// permits a smaller window again.
    SequenceWindow(u64),
    /// Acknowledge the peer's acknowledgements soon, so that it can drop reported state
    /// (RFC 4341 section 6.2).
    AckPeer,
    /// Send a Sync. The peer answers it at once with its newest feedback (RFC 4340 section 8.2).
    Probe,
}

/// The fate of consecutive sent packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fated {
    /// Sequence number of the first packet, with or without data.
    pub first: Seq,
    /// Number of consecutive packets.
    pub packets: u64,
    /// Whether the packets were declared lost. If not, they were received.
    pub lost: bool,
}

/// Extra delay of packets compared with those that give round-trip times, which with reordering are the
/// fastest packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Mean over all packets.
    pub mean: Duration,
    /// Mean deviation from the mean.
    pub deviation: Duration,
}

/// State of a sending half for schedulers, status and traces.
#[derive(Clone, Debug)]
pub struct TxView {
    /// Congestion window.
    pub cwnd: Window,
    /// Amount in flight. If several connections share the window, this is the sum over all of them.
    pub inflight: Amount,
    /// Pacing rate.
    pub pacing: Option<Rate>,
    /// Round-trip time estimates.
    pub rtt: RttEstimator,
    /// Newest delivery rate.
    pub delivery_rate: Rate,
    /// Bottleneck bandwidth, if the algorithm estimates it.
    pub bottleneck: Option<Rate>,
    /// Whether only the application limits sending.
    pub app_limited: bool,
    /// The controller's state.
    pub phase: &'static str,
    /// Data sent so far.
    pub sent: Amount,
    /// Data delivered so far.
    pub delivered: Amount,
    /// Data declared lost so far.
    pub lost: Amount,
    /// Number of packets that were declared lost but delivered later, and that no longer count in `lost`.
    pub spurious: u64,
    /// Number of packets reported as ECN-marked so far.
    pub ce: u64,
    /// Number of retransmission timeouts so far.
    pub timeouts: u64,
    /// Time at which the newest data packet was sent.
    pub last_sent: Option<Time>,
    /// Whether the controller is in ProbeRTT.
    pub probing_rtt: bool,
    /// Phase of Careful Resume, if the half started from a remembered capacity (RFC 9959).
    pub resumption: Option<ResumePhase>,
    /// Capacity to remember, once the path has carried enough data.
    pub capacity: Option<Remembered>,
}

/// The part of a [`TxView`] that changes when a packet is sent.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // `TxView` documents the fields
pub struct TxLoad {
    pub cwnd: Window,
    pub inflight: Amount,
    pub pacing: Option<Rate>,
    pub bottleneck: Option<Rate>,
    pub app_limited: bool,
    pub last_sent: Option<Time>,
}

impl From<&TxView> for TxLoad {
    fn from(view: &TxView) -> TxLoad {
        TxLoad {
            cwnd: view.cwnd,
            inflight: view.inflight,
            pacing: view.pacing,
            bottleneck: view.bottleneck,
            app_limited: view.app_limited,
            last_sent: view.last_sent,
        }
    }
}

/// The sending half of one direction.
pub trait SenderHalf: Any + Send + core::fmt::Debug {
    /// Returns whether and when one more data packet may leave.
    fn gate(&self, now: Time) -> Gate;
    /// Returns the CCVal of a data packet that is sent now.
    fn ccval(&self, _now: Time) -> u8 {
        0
    }
    /// Returns the ECN field of data packets.
    fn ecn(&self) -> Ecn {
        Ecn::Ect0
    }
    /// A packet of `bytes` IP bytes was sent. `payload` is its number of application bytes, or `None` if the
    /// packet is not data. Packets without data are reported too, because they use sequence numbers.
    fn on_sent(&mut self, now: Time, seq: Seq, bytes: u32, payload: Option<u32>);
    /// A valid packet of any type arrived from the peer. The caller reports it before it calls
    /// [`on_feedback`](Self::on_feedback) for the same packet. Gaps in the sequence numbers reveal lost
    /// acknowledgements, and the ECN field reveals marked ones (RFC 4341 section 6.1.1).
    fn on_peer_packet(&mut self, _now: Time, _arrival: &Arrival) {}
    /// An acknowledgement arrived.
    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>);
    /// The peer sent Slow Receiver or Data Dropped. `buffer_drops` is the number of packets newly reported as
    /// dropped in the peer's receive buffer (RFC 4341 section 5.2).
    fn on_slow_receiver(&mut self, _now: Time, _buffer_drops: u64) {}
    /// A packet was blocked because this path's gate was closed. If `elsewhere`, the packet took another
    /// path. Otherwise it is waiting.
    fn on_blocked(&mut self, _now: Time, _elsewhere: bool) {}
    /// Data is waiting, but the scheduler has not given it to this path.
    fn on_held_back(&mut self, _now: Time) {}
    /// Nothing is waiting to be sent on this path.
    fn on_app_limited(&mut self, _now: Time) {}
    /// A timer of [`next_timeout`](Self::next_timeout) expired.
    fn on_timeout(&mut self, now: Time);
    /// Returns when to call [`on_timeout`](Self::on_timeout).
    fn next_timeout(&self) -> Option<Time>;
    /// Enables [`poll_fate`](Self::poll_fate), if the half can report the fate of each packet.
    fn track_fates(&mut self) {}
    /// Returns the next fate, in the order in which fates became known.
    fn poll_fate(&mut self) -> Option<Fated> {
        None
    }
    /// Returns the next request to the connection. Call this until it returns `None`.
    fn poll_request(&mut self) -> Option<SenderRequest>;
    /// The peer has confirmed a new Ack Ratio.
    fn on_ack_ratio(&mut self, _ratio: u16) {}
    /// The largest packet now has `mtu` IP bytes.
    fn on_mtu(&mut self, mtu: u16);
    /// Says whether another path of the session is in ProbeRTT.
    fn hold_probe_rtt(&mut self, _hold: bool) {}
    /// Sets this half's share of a bottleneck that several paths of the session use.
    fn couple(&mut self, _part: &Part) {}
    /// Starts from a remembered capacity of the path (RFC 9959), with at most `max_jump` bytes at once. This
    /// only has an effect at the beginning of a connection.
    fn resume(&mut self, _saved: &Remembered, _max_jump: u64) {}
    /// Returns the complete state, for status and traces.
    fn view(&self) -> TxView;
    /// Returns the part of the state that changes with every packet. Like [`rtt`](Self::rtt) and
    /// [`late`](Self::late), this method is cheap enough to call for every packet.
    fn load(&self) -> TxLoad {
        TxLoad::from(&self.view())
    }
    /// Returns the round-trip times of the state.
    fn rtt(&self) -> &RttEstimator;
    /// Returns the extra delay of packets beyond the round-trip times.
    fn late(&self, _now: Time) -> Late {
        Late::default()
    }
    /// Returns whether the controller is in ProbeRTT.
    fn probing_rtt(&self) -> bool {
        false
    }
    /// Returns the state for a successor, including packets in flight that were sent after `acked`.
    fn hand_over(&self, now: Time, acked: Seq) -> Handover;
    /// Takes over from another half. This must be called before anything else.
    fn take_over(&mut self, from: &Handover);
}

/// State that a sending half passes to its successor in a running connection.
#[derive(Clone, Debug)]
pub struct Handover {
    /// The path as congestion control has measured it, or `None` if the path has changed. The packets in
    /// flight then say nothing about the new path.
    pub found: Option<Inherited>,
    /// Data packets in flight, oldest first.
    pub outstanding: Vec<Outstanding>,
    /// Counters, as in [`TxView`].
    pub counts: Counts,
}

/// A data packet in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// The packet's sequence number.
    pub seq: Seq,
    /// Time at which the packet was sent.
    pub at: Time,
    /// Size of the IP packet, bytes.
    pub bytes: u32,
}

/// Counters of a sending half, see [`TxView`].
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Counts {
    pub sent: Amount,
    pub delivered: Amount,
    pub lost: Amount,
    pub spurious: u64,
    pub ce: u64,
    pub timeouts: u64,
}

impl Handover {
    /// Creates the handover of a half with this view.
    pub(super) fn of(
        view: &TxView,
        now: Time,
        mtu: u16,
        settled: bool,
        outstanding: Vec<Outstanding>,
    ) -> Handover {
        let srtt = view.rtt.srtt();
        let cwnd = view.cwnd.bytes(mtu);
        // Some algorithms keep a window well above the amount that they aim to have in flight.
        let window = match (view.bottleneck, srtt) {
            (Some(rate), Some(srtt)) => rate.bytes_in(srtt).min(cwnd),
            _ => cwnd,
        };
        let min_rtt = view.rtt.min().map(|(least, _)| least);
        let TxView { sent, delivered, lost, spurious, ce, timeouts, .. } = *view;
        Handover {
            found: Some(Inherited { now, window, srtt, min_rtt, settled }),
            outstanding,
            counts: Counts { sent, delivered, lost, spurious, ce, timeouts },
        }
    }
}

/// The receiving half of one direction.
pub trait ReceiverHalf: Send + core::fmt::Debug {
    /// A valid packet arrived.
    fn on_packet(&mut self, now: Time, arrival: &Arrival);
    /// Returns whether an acknowledgement is due.
    fn ack_due(&self, now: Time) -> AckDue;
    /// Appends the feedback options of an acknowledgement to `out`. The acknowledgement will be sent as
    /// packet `seq` with Acknowledgement Number `ack`. `room` is the limit for option bytes.
    fn write_feedback(&mut self, now: Time, seq: Seq, ack: Seq, room: usize, out: &mut OptionBuf);
    /// The peer reported in `feedback` which of our packets it received, by Acknowledgement Number or Ack
    /// Vector. The feedback that these packets carried need not be repeated.
    fn on_ack_of_ack(&mut self, now: Time, feedback: &Feedback<'_>);
    /// The Ack Ratio requested by the peer.
    fn on_ack_ratio(&mut self, _ratio: u16) {}
    /// Negotiation switched Send Ack Vector on or off (RFC 4340 section 11.5).
    fn on_send_ack_vector(&mut self, on: bool);
    /// The other half has measured a round-trip time, which determines how long acknowledgements may wait.
    fn on_rtt(&mut self, rtt: Duration);
}

/// Settings of a new half.
#[derive(Clone, Copy, Debug)]
pub struct HalfConfig {
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// The first sequence number that the sender of this direction used.
    pub first_seq: Seq,
    /// Controller settings.
    pub cc: CcOptions,
    /// Seed for random choices.
    pub seed: u64,
    /// Round-trip time of the handshake, if measured.
    pub handshake_rtt: Option<Duration>,
    /// Time at which the half is created, by the owner's clock.
    pub now: Time,
}

impl HalfConfig {
    /// Creates the settings of a half that exists since [`Time::ZERO`], with a fixed seed.
    pub fn new(mtu: u16, first_seq: Seq, handshake_rtt: Option<Duration>) -> HalfConfig {
        HalfConfig { mtu, first_seq, cc: CcOptions::default(), seed: 1, handshake_rtt, now: Time::ZERO }
    }

    /// Returns the settings of this half's controller.
    pub(crate) fn controller(&self) -> CcConfig {
        CcConfig { mtu: self.mtu, packets: self.cc.packets, draft: self.cc.draft, seed: self.seed }
    }
}
