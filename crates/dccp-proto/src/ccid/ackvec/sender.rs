use super::ack_ratio::RatioRule;
use super::control::Control;
use super::history::{Fate, History, Packet};
use super::lateness::Delay;
use super::loss::{LossDetector, Rule};
use super::requests::Requests;
use super::restraint::Restraint;
use super::return_path::ReturnPath;
use super::rto::{DEFAULT_RTT, RtoTimer};
use crate::ccid::table::AckVectors;
use crate::ccid::{
    Arrival, Counts, Fated, Feedback, HalfConfig, Handover, Late, SenderHalf, SenderRequest, TxLoad, TxView,
};
use crate::{Ecn, Gate, Why};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use dccp_cc::{Amount, CcConfig, Controller, Part, RateSample, Remembered, RttEstimator, Sent, Window};
use dccp_wire::Seq;
use mpdccp_units::{Rate, Time};

/// Maximum number of packet fates kept until the owner fetches them.
const MAX_FATES: usize = 1 << 16;

/// Initial window of RFC 6928, in packets. A window is worth remembering only if it is far above this.
const INITIAL_WINDOW: u64 = 10;
/// A path counts as application-limited if data is waiting but the scheduler gives the path none for
/// 1/`HELD_BACK` of its round trip. The path's measured rate is then only the rate of the data it was given.
const HELD_BACK: u32 = 4;

/// Sending half of the CCIDs that use Ack Vectors. It keeps the history of packets in flight, detects losses,
/// measures RTT and delivery rate, and paces. The congestion control algorithm is a [`dccp_cc::Controller`].
///
/// This file handles sending, and `digest` handles acknowledgements.
#[derive(Debug)]
pub struct AckVecSender {
    pub(super) control: Control,
    /// Number of the group that shares the control.
    pub(super) group: Option<u64>,
    /// The state that the owner sees while another half has the group's control: the state when this half
    /// last had it. `None` while this half has the control, or if it is in no group.
    pub(super) resting: Option<Box<TxView>>,
    /// Whether to follow RFC 4341 in everything but the controller (CCID 2): see [`AckVectors`].
    pub(super) strict: bool,
    /// Whether this is a draft variant, which keeps the BBR draft's acknowledgement rules.
    pub(super) draft: bool,
    /// Draft variant only: the time since which the window has had room but there was nothing to send.
    quiet_since: Option<Time>,
    pub(super) ecn: Ecn,
    pub(super) mtu: u16,
    pub(super) history: History,
    /// Index of the first packet that was sent on this path; `u64::MAX` until a packet is sent. Earlier
    /// packets were sent before the path changed. Their fates are recorded, but congestion control ignores
    /// them.
    pub(super) ours: u64,
    pub(super) loss: LossDetector,
    pub(super) delay: Delay,
    pub(super) return_path: ReturnPath,
    pub(super) rto: RtoTimer,
    pub(super) requests: Requests,
    /// Index of the newest probe. If another packet leaves before the probe, this is the index of that packet
    /// instead, and the probe only triggers an acknowledgement.
    pub(super) probe: Option<u64>,
    /// Packets outstanding on this connection.
    pub(super) inflight: Amount,
    pub(super) counts: Counts,
    /// One past the newest packet that an Ack Vector has covered. Acknowledgements without a vector do not
    /// change this value.
    pub(super) told: u64,
    /// The round of this connection ends when a packet at or after this index is acknowledged.
    pub(super) round_end: u64,
    pub(super) last_rate: Option<RateSample>,
    pub(super) last_sent: Option<Time>,
    /// Fates of packets, if the owner requested them.
    pub(super) fates: Option<VecDeque<Fated>>,
    /// Buffers reused between acknowledgements.
    pub(super) closed: Vec<(Range<u64>, bool)>,
    pub(super) reported: Vec<(Range<u64>, bool)>,
}

impl AckVecSender {
    /// Creates a half for a congestion control of the table, or for an experiment.
    pub(crate) fn new(by: &AckVectors, cfg: &HalfConfig) -> AckVecSender {
        let cc = CcConfig { packets: by.strict || cfg.cc.packets, ..cfg.controller() };
        let half = AckVecSender::with_controller((by.controller)(&cc), by.strict, cfg);
        AckVecSender { ecn: by.ecn, ..half }
    }

    /// Creates a half for any controller. With `strict`, the half follows RFC 4341 in everything but the
    /// controller: it takes one RTT sample per window, and lost acknowledgements determine the Ack Ratio.
    pub(crate) fn with_controller(cc: Box<dyn Controller>, strict: bool, cfg: &HalfConfig) -> AckVecSender {
        // Draft variants use only TCP's traditional loss detection, as RFC 4341 describes it.
        let rule = if cfg.cc.draft { Rule::ThreeLater } else { Rule::Adaptive };
        let mut rtt = RttEstimator::default();
        if let Some(sample) = cfg.handshake_rtt {
            rtt.update(cfg.now, sample);
        }
        AckVecSender {
            control: Control::new(cc, rtt),
            group: None,
            resting: None,
            strict,
            draft: cfg.cc.draft,
            quiet_since: None,
            ecn: Ecn::Ect0,
            mtu: cfg.mtu,
            history: History::new(cfg.first_seq),
            ours: 0,
            loss: LossDetector::new(rule),
            delay: Delay::default(),
            return_path: ReturnPath::default(),
            rto: RtoTimer::default(),
            requests: Requests::new(RatioRule::of(strict, cfg.cc.draft)),
            probe: None,
            inflight: Amount::default(),
            counts: Counts::default(),
            told: 0,
            round_end: 0,
            last_rate: None,
            last_sent: None,
            fates: None,
            closed: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// Records the fate of packets for the owner. If too many are waiting to be fetched, drops the oldest.
    pub(super) fn note_fate(&mut self, range: &Range<u64>, lost: bool) {
        let Some(fates) = &mut self.fates else { return };
        if fates.len() >= MAX_FATES {
            fates.pop_front();
        }
        fates.push_back(Fated {
            first: self.history.seq(range.start),
            packets: range.end - range.start,
            lost,
        });
    }

    /// Notifies the controller of a restart if the data packet that is about to leave ends an idle period.
    fn check_idle(&mut self, now: Time) {
        let control = &mut self.control;
        let Some(last) = control.last_sent else { return };
        // RFC 4341 section 5.1: a sender is idle if nothing is in flight and it has sent no data for longer
        // than a timeout. Without `strict`, it is already idle if the application has no data.
        let idle =
            if self.strict { now.since(last) > control.rtt.rto() } else { control.sampler.app_limited() };
        if idle && control.inflight.packets == 0 {
            control.cc.on_idle_restart(now);
        }
    }

    /// draft-cheng-iccrg-delivery-rate-estimation-00 section 3.4: a sender is application-limited if its
    /// window has room and it sends nothing for some time. A gap that the application fills at once does not
    /// count.
    pub(super) fn end_quiet(&mut self, now: Time) {
        if self.quiet_since.take().is_some_and(|at| at < now) {
            self.control.sampler.set_app_limited(self.control.inflight);
        }
    }

    /// Returns when to ask the peer for an acknowledgement because none has arrived for long. Returns `None`
    /// before the first delivery: the path may drop ECN-capable packets but not Syncs, and only timeouts
    /// reveal this.
    fn probe_due(&self) -> Option<Time> {
        self.rto.probe_due(&self.control.rtt).filter(|_| !self.draft && self.counts.delivered.packets > 0)
    }

    fn on_data_sent(&mut self, now: Time, bytes: u32) {
        self.check_idle(now);
        let control = &mut self.control;
        control.cc.on_sent(&Sent { now, bytes, inflight: control.inflight });
        let limits = control.limits(now);
        if let Some(rate) = limits.pacing {
            control.pacer.on_sent(now, bytes, rate, limits.quantum);
        }
        control.inflight = control.inflight.plus(bytes);
        control.sent += 1;
        control.last_sent = Some(now);
        // The timer may still run for packets that were sent before the path changed.
        if self.inflight.packets == 0 {
            self.rto.stop();
        }
        self.inflight = self.inflight.plus(bytes);
        self.counts.sent = self.counts.sent.plus(bytes);
        self.last_sent = Some(now);
        self.rto.start(now);
    }
}

impl SenderHalf for AckVecSender {
    fn gate(&self, now: Time) -> Gate {
        let Control { inflight, pacer, .. } = &self.control;
        let limits = self.control.limits(now);
        if self.resting.is_some() || !limits.cwnd.has_room(*inflight) {
            return Gate::Closed(Why::Window);
        }
        let room = match limits.cwnd {
            Window::Packets(w) => w.saturating_sub(inflight.packets).saturating_mul(u64::from(self.mtu)),
            Window::Bytes(w) => w.saturating_sub(inflight.bytes),
        };
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let burst = match limits.pacing {
            None => room,
            Some(rate) => {
                let release = pacer.next_send(now);
                if release > now {
                    return Gate::At(release, Why::Pacing);
                }
                room.min(pacer.burst(now, rate, limits.quantum))
            }
        };
        Gate::Open { burst: burst.max(u32::from(self.mtu)) }
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn on_sent(&mut self, now: Time, seq: Seq, bytes: u32, payload: Option<u32>) {
        let data = payload.is_some();
        if data {
            self.end_quiet(now);
            let held_back = self.control.usage.on_sent(now);
            if !self.draft && held_back > self.control.rtt.srtt().unwrap_or(DEFAULT_RTT) / HELD_BACK {
                self.control.sampler.set_app_limited(self.control.inflight);
            }
        }
        let snapshot = data.then(|| self.control.sampler.on_sent(now, bytes, self.control.inflight));
        let packet = Packet { sent_at: now, bytes, fate: Fate::InFlight, snapshot };
        // The history ignores a number that was used before. The connection never uses a number twice.
        if let Some(index) = self.history.push(seq, packet) {
            self.ours = self.ours.min(index);
            if data {
                self.on_data_sent(now, bytes);
            }
        }
        self.trim_history(now);
    }

    fn on_peer_packet(&mut self, _now: Time, arrival: &Arrival) {
        self.requests.on_peer_packet(arrival);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.digest(now, feedback);
    }

    fn on_blocked(&mut self, now: Time, elsewhere: bool) {
        self.control.usage.on_blocked(now, elsewhere);
    }

    fn on_held_back(&mut self, now: Time) {
        self.control.usage.on_held_back(now);
    }

    fn on_app_limited(&mut self, now: Time) {
        self.control.usage.on_empty_queue(now);
        if !self.control.has_room() {
            return;
        }
        if !self.draft {
            if !self.control.recently_limited(now, self.last_rate.as_ref()) {
                self.control.sampler.set_app_limited(self.control.inflight);
            }
        } else if !self.control.recently_passed_over(now) {
            self.quiet_since.get_or_insert(now);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        if self.probe_due().is_some_and(|due| due <= now) {
            self.rto.on_probe();
            self.requests.probe();
            self.probe = Some(self.history.next());
        }
        if self.loss.due().is_some_and(|due| due <= now) {
            self.on_reorder_timeout(now);
        }
        if self.rto.due(&self.control.rtt).is_some_and(|due| due <= now) {
            self.on_rto(now);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.rto.due(&self.control.rtt).into_iter().chain(self.loss.due()).chain(self.probe_due()).min()
    }

    fn track_fates(&mut self) {
        self.fates.get_or_insert_default();
    }

    fn poll_fate(&mut self) -> Option<Fated> {
        self.fates.as_mut()?.pop_front()
    }

    fn poll_request(&mut self) -> Option<SenderRequest> {
        self.requests.poll()
    }

    fn on_ack_ratio(&mut self, ratio: u16) {
        self.control.cc.on_ack_ratio(ratio);
    }

    fn on_slow_receiver(&mut self, now: Time, buffer_drops: u64) {
        let limits = self.control.limits(now);
        let rtt = self.control.rtt.srtt();
        self.control.restraint = Some(Restraint::new(now, &limits, buffer_drops, self.mtu, rtt));
        self.control.cc.on_slow_receiver(buffer_drops);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.control.cc.on_mtu(mtu);
    }

    fn hold_probe_rtt(&mut self, hold: bool) {
        self.control.cc.hold_probe_rtt(hold);
    }

    fn couple(&mut self, part: &Part) {
        self.control.cc.couple(part);
    }

    fn resume(&mut self, saved: &Remembered, max_jump: u64) {
        // RFC 9959 section 3.2: resume only at the beginning, before any congestion, and not with a shared
        // control.
        let early = self.counts.lost.packets == 0 && self.counts.ce == 0 && !self.control.cc.settled();
        if early && self.group.is_none() && self.control.cc.resumption().is_none() {
            self.control.resume(saved, max_jump, self.mtu);
            // The jump sends more packets, so raise the Sequence Window first.
            self.requests.expect(saved.window / u64::from(self.mtu.max(1)));
        }
    }

    fn hand_over(&self, now: Time, acked: Seq) -> Handover {
        self.leave(now, acked)
    }

    fn take_over(&mut self, from: &Handover) {
        self.succeed(from);
    }

    fn view(&self) -> TxView {
        if let Some(view) = &self.resting {
            return (**view).clone();
        }
        let TxLoad { cwnd, inflight, pacing, bottleneck, app_limited, last_sent } = self.load();
        TxView {
            cwnd,
            inflight,
            pacing,
            rtt: self.control.rtt.clone(),
            delivery_rate: self.last_rate.map_or(Rate::ZERO, |sample| sample.rate),
            bottleneck,
            app_limited,
            phase: self.control.cc.phase(),
            sent: self.counts.sent,
            delivered: self.counts.delivered,
            lost: self.counts.lost,
            spurious: self.counts.spurious,
            ce: self.counts.ce,
            timeouts: self.counts.timeouts,
            last_sent,
            probing_rtt: self.probing_rtt(),
            resumption: self.control.cc.resumption(),
            capacity: self.control.observer.get(INITIAL_WINDOW * u64::from(self.mtu)),
        }
    }

    fn load(&self) -> TxLoad {
        if let Some(view) = &self.resting {
            return TxLoad::from(&**view);
        }
        let Control { cc, sampler, inflight, .. } = &self.control;
        let limits = cc.limits();
        TxLoad {
            cwnd: limits.cwnd,
            inflight: *inflight,
            pacing: limits.pacing,
            bottleneck: cc.bottleneck(),
            app_limited: sampler.app_limited(),
            last_sent: self.last_sent,
        }
    }

    fn probing_rtt(&self) -> bool {
        self.resting.as_ref().map_or_else(|| self.control.cc.probing_rtt(), |view| view.probing_rtt)
    }

    fn rtt(&self) -> &RttEstimator {
        self.resting.as_ref().map_or(&self.control.rtt, |view| &view.rtt)
    }

    fn late(&self, now: Time) -> Late {
        self.delay.get(now)
    }
}
