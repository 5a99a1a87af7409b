//! The two halves of a direction as their connection sees them, and what it tells them.

use crate::{CcOptions, Ecn, Gate};
use alloc::vec::Vec;
use core::any::Any;
use dccp_cc::{Amount, CcConfig, Inherited, Part, Remembered, ResumePhase, RttEstimator, Window};
use dccp_wire::ack_vector::{State, runs};
use dccp_wire::{OptionBuf, Seq};
use mpdccp_units::{Duration, Rate, Time};

/// What one arriving acknowledgement says to a sending half. Ack Vector options of a packet are concatenated in order.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    /// Acknowledgement Number, extended to 48 bits.
    pub ack: Seq,
    /// Ack Vector cells, newest packet (`ack`) first; empty if none was sent.
    pub vector: &'a [u8],
    /// Time the peer held the packet `ack` before acknowledging it (Elapsed Time or Timestamp Echo).
    pub elapsed: Duration,
    /// CCID-specific options (types 128 to 255) addressed to the sender, as the raw option area.
    pub options: &'a [u8],
}

impl Feedback<'_> {
    /// Which of the packets `seqs` of ours, oldest first, is the newest that the peer has.
    pub(crate) fn newest_received(
        &self,
        seqs: impl DoubleEndedIterator<Item = Seq> + ExactSizeIterator,
    ) -> Option<usize> {
        let mut runs = runs(self.vector);
        // The newest packet of the run looked at, its state and length; without a vector, `ack` alone.
        let mut first = self.ack;
        let mut run = if self.vector.is_empty() { Some((State::Received, 1)) } else { runs.next() };
        for (at, seq) in seqs.enumerate().rev() {
            if seq.after(first) {
                continue;
            }
            while let Some((_, packets)) = run
                && first.diff(seq) >= i64::from(packets)
            {
                first = first.sub(u64::from(packets));
                run = runs.next();
            }
            let (state, _) = run?;
            if matches!(state, State::Received | State::ReceivedEcnMarked) {
                return Some(at);
            }
        }
        None
    }
}

/// A packet of the peer as a receiving half sees it; non-data packets too, for their sequence numbers.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its sequence number.
    pub seq: Seq,
    /// ECN field it arrived with.
    pub ecn: Ecn,
    /// Data or DataAck.
    pub data: bool,
    /// CCVal.
    pub ccval: u8,
    /// NDP Count, if it carried one.
    pub ndp: Option<u64>,
    /// IP bytes on the wire.
    pub bytes: u32,
    /// Application bytes in it, 0 if it is not data.
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

/// What a sending half asks its connection to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderRequest {
    /// Negotiate this Ack Ratio (RFC 4340 section 11.3).
    AckRatio(u16),
    /// Negotiate at least this Sequence Window (RFC 4340 section 7.5.1); a later, smaller one allows to lower it again.
    SequenceWindow(u64),
    /// Acknowledge the peer's acknowledgements soon (RFC 4341 section 6.2).
    AckPeer,
}

/// What became of packets that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fated {
    /// The first of them; with or without data.
    pub first: Seq,
    /// So many in a row.
    pub packets: u64,
    /// Declared lost; otherwise received.
    pub lost: bool,
}

/// How much longer packets take than those whose round-trip times are known: where packets overtake each other those are the fastest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Over all packets.
    pub mean: Duration,
    /// Mean deviation from that.
    pub deviation: Duration,
}

/// A sending half as schedulers, status and traces see it.
#[derive(Clone, Debug)]
pub struct TxView {
    /// Congestion window.
    pub cwnd: Window,
    /// Outstanding; of all that share the window, if several connections do.
    pub inflight: Amount,
    /// Pacing rate.
    pub pacing: Option<Rate>,
    /// Round-trip time estimates.
    pub rtt: RttEstimator,
    /// Newest delivery rate.
    pub delivery_rate: Rate,
    /// Bottleneck bandwidth, where the algorithm keeps one.
    pub bottleneck: Option<Rate>,
    /// Sending is limited by the application alone.
    pub app_limited: bool,
    /// The controller's state.
    pub phase: &'static str,
    /// Data sent so far.
    pub sent: Amount,
    /// Delivered so far.
    pub delivered: Amount,
    /// Declared lost so far.
    pub lost: Amount,
    /// Once declared lost, yet delivered in the end (not in `lost` any more), packets.
    pub spurious: u64,
    /// Reported ECN-marked so far, packets.
    pub ce: u64,
    /// Retransmission timeouts so far.
    pub timeouts: u64,
    /// When the newest data packet left.
    pub last_sent: Option<Time>,
    /// The controller is in ProbeRTT.
    pub probing_rtt: bool,
    /// Where it is with what was remembered of the path, if it began from that (RFC 9959).
    pub resumption: Option<ResumePhase>,
    /// What to remember of the path, once it has been seen to carry enough.
    pub capacity: Option<Remembered>,
}

/// What of a [`TxView`] a packet that leaves can change.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // see there
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
    /// Whether one more data packet may leave.
    fn gate(&self, now: Time) -> Gate;
    /// CCVal of a data packet that leaves now.
    fn ccval(&self, _now: Time) -> u8 {
        0
    }
    /// How data asks the network for marks instead of drops.
    fn ecn(&self) -> Ecn {
        Ecn::Ect0
    }
    /// A packet of `bytes` IP bytes left, with `payload` application bytes, or none if it is not data (such packets use sequence
    /// numbers too).
    fn on_sent(&mut self, now: Time, seq: Seq, bytes: u32, payload: Option<u32>);
    /// A valid packet of the peer arrived, of any type; told before [`on_feedback`](Self::on_feedback) of the same packet.
    /// Lost and marked acknowledgements are seen by their sequence numbers (RFC 4341 section 6.1.1).
    fn on_peer_packet(&mut self, _now: Time, _arrival: &Arrival) {}
    /// An acknowledgement arrived.
    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>);
    /// The peer sent Slow Receiver, or Data Dropped with `buffer_drops` packets newly reported dropped in its receive buffer
    /// (RFC 4341 section 5.2).
    fn on_slow_receiver(&mut self, _now: Time, _buffer_drops: u64) {}
    /// A packet was to be sent, and this path could not take it as its gate was shut: it waits, or went `elsewhere`.
    fn on_blocked(&mut self, _now: Time, _elsewhere: bool) {}
    /// Something waits, but not for this path.
    fn on_held_back(&mut self, _now: Time) {}
    /// Nothing is waiting to be sent on this path.
    fn on_app_limited(&mut self, now: Time);
    /// A timer of [`next_timeout`](Self::next_timeout) has come.
    fn on_timeout(&mut self, now: Time);
    /// When to call [`on_timeout`](Self::on_timeout).
    fn next_timeout(&self) -> Option<Time>;
    /// Keeps what becomes of packets for [`poll_fate`](Self::poll_fate), where the half learns of each.
    fn track_fates(&mut self) {}
    /// What became of packets, in the order in which it was learnt.
    fn poll_fate(&mut self) -> Option<Fated> {
        None
    }
    /// What the half wants from its connection; call until `None`.
    fn poll_request(&mut self) -> Option<SenderRequest>;
    /// The Ack Ratio in force changed (the peer confirmed it).
    fn on_ack_ratio(&mut self, ratio: u16);
    /// The largest packet changed, IP bytes.
    fn on_mtu(&mut self, mtu: u16);
    /// Another path of the session is in ProbeRTT.
    fn hold_probe_rtt(&mut self, hold: bool);
    /// Its part of a bottleneck that it shares with other paths of the session, from now on.
    fn couple(&mut self, _part: &Part) {}
    /// Begins from what is remembered of the path (RFC 9959), with at most `max_jump` bytes at once. Only at the beginning.
    fn resume(&mut self, _saved: &Remembered, _max_jump: u64) {}
    /// Everything one may look at.
    fn view(&self) -> TxView;
    /// A part of that, for each packet, as the next two are.
    fn load(&self) -> TxLoad {
        TxLoad::from(&self.view())
    }
    /// The round-trip times in it.
    fn rtt(&self) -> &RttEstimator;
    /// What packets take beyond these.
    fn late(&self, _now: Time) -> Late {
        Late::default()
    }
    /// Whether the controller is in ProbeRTT.
    fn probing_rtt(&self) -> bool {
        false
    }
    /// What the half leaves to the next; of what is under way, that after `acked`.
    fn hand_over(&self, now: Time, acked: Seq) -> Handover;
    /// Takes the place of another half, before anything else.
    fn take_over(&mut self, from: &Handover);
}

/// What a sending half leaves to the one that takes its place in a running connection.
#[derive(Clone, Debug)]
pub struct Handover {
    /// What its congestion control found out, unless it counts no more.
    pub found: Option<Inherited>,
    /// Data packets under way, oldest first.
    pub outstanding: Vec<Outstanding>,
    /// Counters, as in [`TxView`].
    pub counts: Counts,
}

/// A data packet under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Its number.
    pub seq: Seq,
    /// When it left.
    pub at: Time,
    /// IP bytes.
    pub bytes: u32,
}

/// Counters of a sending half; see [`TxView`].
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
    /// What the half with this view leaves.
    pub(super) fn of(
        view: &TxView,
        now: Time,
        mtu: u16,
        settled: bool,
        outstanding: Vec<Outstanding>,
    ) -> Handover {
        let srtt = view.rtt.srtt();
        let cwnd = view.cwnd.bytes(mtu);
        // Some keep a window well above what they mean to have in flight.
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
    /// Whether an acknowledgement is due.
    fn ack_due(&self, now: Time) -> AckDue;
    /// Appends the feedback options of an acknowledgement that will leave as packet `seq` with Acknowledgement Number `ack`.
    /// `room` is the most option bytes there is space for.
    fn write_feedback(&mut self, now: Time, seq: Seq, ack: Seq, room: usize, out: &mut OptionBuf);
    /// The peer reports (by Acknowledgement Number or Ack Vector) that it got our packets named in `feedback`.
    fn on_ack_of_ack(&mut self, now: Time, feedback: &Feedback<'_>);
    /// The Ack Ratio the peer asked for.
    fn on_ack_ratio(&mut self, ratio: u16);
    /// Send Ack Vector was negotiated to this (RFC 4340 section 11.5).
    fn on_send_ack_vector(&mut self, on: bool);
    /// Round-trip time known from the other half, for the delay of acknowledgements.
    fn on_rtt(&mut self, rtt: Duration);
}

/// What a half needs to know when it is made.
#[derive(Clone, Copy, Debug)]
pub struct HalfConfig {
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// The first sequence number of the sender of this direction.
    pub first_seq: Seq,
    /// Controller settings.
    pub cc: CcOptions,
    /// Seed for random choices.
    pub seed: u64,
    /// Round-trip time of the handshake, if measured.
    pub handshake_rtt: Option<Duration>,
    /// When the half is made, by the owner's clock.
    pub now: Time,
}

impl HalfConfig {
    /// What a controller needs to know.
    pub(crate) fn controller(&self) -> CcConfig {
        CcConfig { mtu: self.mtu, packets: self.cc.packets, draft: self.cc.draft, seed: self.seed }
    }
}
