use super::ack_ratio::RatioRule;
use super::demands::Demands;
use super::digest::Reduction;
use super::history::{Fate, History, Packet};
use super::loss::{LossDetector, Rule};
use super::rto::RtoTimer;
use super::usage::Usage;
use crate::ccid::{Arrival, Demand, Feedback, HalfConfig, SenderHalf, TxView};
use crate::{Gate, Why};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use dccp_cc::{
    Algorithm, Amount, CcConfig, Controller, Pacer, RateSample, RateSampler, RttEstimator, Sent, Window,
};
use dccp_wire::Seq;
use units::{Duration, Rate, Time};

/// Stands in for the round-trip time until there is one (RFC 4340 section 3.4).
pub(super) const DEFAULT_RTT: Duration = Duration::from_millis(200);

/// Sending half of the CCIDs that are fed by Ack Vectors (2, 5): history of packets in flight, loss detection,
/// RTT, delivery rate, pacing; the algorithm itself is a [`dccp_cc::Controller`].
///
/// This file is what leaves; what comes back is in `digest`.
#[derive(Debug)]
pub struct AckVecSender {
    pub(super) cc: Box<dyn Controller>,
    /// CCID 2, to the letter of RFC 4341.
    pub(super) strict: bool,
    pub(super) mtu: u16,
    pub(super) history: History,
    pub(super) loss: LossDetector,
    pub(super) rto: RtoTimer,
    pub(super) rtt: RttEstimator,
    pub(super) sampler: RateSampler,
    pub(super) pacer: Pacer,
    pub(super) usage: Usage,
    pub(super) demands: Demands,
    pub(super) inflight: Amount,
    pub(super) sent: Amount,
    pub(super) lost: Amount,
    pub(super) spurious: u64,
    pub(super) ce: u64,
    pub(super) timeouts: u64,
    /// Losses and marks of packets before this index belong to the last reduction.
    pub(super) reduced_before: u64,
    pub(super) reduction: Option<Reduction>,
    /// The round ends when a packet from this index on is acknowledged.
    pub(super) round_end: u64,
    pub(super) last_rate: Option<RateSample>,
    pub(super) last_sent: Option<Time>,
    /// Memory kept between acknowledgements.
    pub(super) closed: Vec<(Range<u64>, bool)>,
    pub(super) reported: Vec<(Range<u64>, bool)>,
}

impl AckVecSender {
    /// A fresh half for `ccid`: 2 counts packets and keeps to the rules of RFC 4341; 7 runs CUBIC, 250 BBRv3, others BBRv1.
    pub fn new(ccid: u8, cfg: &HalfConfig) -> AckVecSender {
        let strict = ccid == 2;
        let cc = CcConfig { packets: strict || cfg.cc.packets, ..cfg.controller() };
        let algorithm = match ccid {
            2 => Algorithm::Reno,
            7 => Algorithm::Cubic,
            250 => Algorithm::Bbr3,
            _ => Algorithm::Bbr1,
        };
        AckVecSender::with_controller(algorithm.controller(&cc), strict, cfg)
    }

    /// A fresh half around any controller. `strict` keeps to the letter of RFC 4341 in what is not the controller's: loss by
    /// three later packets without undo, one RTT sample a window, Ack Ratio by lost acknowledgements.
    pub fn with_controller(cc: Box<dyn Controller>, strict: bool, cfg: &HalfConfig) -> AckVecSender {
        // The draft knows no other loss detection than TCP's.
        let rule = if strict || cfg.cc.draft { Rule::ThreeLater } else { Rule::Adaptive };
        let mut rtt = RttEstimator::default();
        if let Some(sample) = cfg.handshake_rtt {
            rtt.update(cfg.now, sample);
        }
        AckVecSender {
            cc,
            strict,
            mtu: cfg.mtu,
            history: History::new(cfg.first_seq),
            loss: LossDetector::new(rule),
            rto: RtoTimer::default(),
            rtt,
            sampler: RateSampler::default(),
            pacer: Pacer::default(),
            usage: Usage::default(),
            demands: Demands::new(if strict { RatioRule::AckCongestion } else { RatioRule::Window }),
            inflight: Amount::default(),
            sent: Amount::default(),
            lost: Amount::default(),
            spurious: 0,
            ce: 0,
            timeouts: 0,
            reduced_before: 0,
            reduction: None,
            round_end: 0,
            last_rate: None,
            last_sent: None,
            closed: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// Limited by window or pacing within the last round.
    pub(super) fn recently_limited(&self, now: Time) -> bool {
        self.usage.limited_within(now, self.rtt.srtt().unwrap_or(DEFAULT_RTT))
    }

    /// Notes that the window was full until now, if it was; told before anything may make room.
    pub(super) fn note_window(&mut self, now: Time) {
        if !self.cc.limits().cwnd.has_room(self.inflight) {
            self.usage.on_limited(now);
        }
    }

    /// Tells the controller of a restart, if a data packet that leaves now ends an idle period.
    fn check_idle(&mut self, now: Time) {
        let Some(last) = self.last_sent else { return };
        // RFC 4341 section 5.1: idle is more than a timeout without data. BBR asks for nothing in flight for want of data.
        let idle = if self.strict { now.since(last) > self.rtt.rto() } else { self.sampler.app_limited() };
        if idle && self.inflight.packets == 0 {
            self.cc.on_idle_restart(now);
        }
    }

    fn on_data_sent(&mut self, now: Time, bytes: u32) {
        self.check_idle(now);
        self.cc.on_sent(&Sent { now, bytes, inflight: self.inflight });
        let limits = self.cc.limits();
        if let Some(rate) = limits.pacing {
            self.pacer.on_sent(now, bytes, rate, limits.quantum);
        }
        self.inflight = self.inflight.plus(bytes);
        self.sent = self.sent.plus(bytes);
        self.last_sent = Some(now);
        self.rto.start(now);
    }
}

impl SenderHalf for AckVecSender {
    fn gate(&self, now: Time) -> Gate {
        let limits = self.cc.limits();
        if !limits.cwnd.has_room(self.inflight) {
            return Gate::Closed(Why::Window);
        }
        let room = match limits.cwnd {
            Window::Packets(w) => w.saturating_sub(self.inflight.packets).saturating_mul(u64::from(self.mtu)),
            Window::Bytes(w) => w.saturating_sub(self.inflight.bytes),
        };
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let burst = match limits.pacing {
            None => room,
            Some(rate) => {
                let release = self.pacer.next_send(now);
                if release > now {
                    return Gate::At(release, Why::Pacing);
                }
                room.min(self.pacer.burst(now, rate, limits.quantum))
            }
        };
        Gate::Open { burst: burst.max(u32::from(self.mtu)) }
    }

    fn on_sent(&mut self, now: Time, seq: Seq, bytes: u32, payload: Option<u32>) {
        let data = payload.is_some();
        let snapshot = data.then(|| self.sampler.on_sent(now, bytes, self.inflight));
        let packet = Packet { sent_at: now, bytes, fate: Fate::InFlight, snapshot };
        // A number that was used before cannot be told from the first; the connection never does that.
        if self.history.push(seq, packet).is_some() && data {
            self.on_data_sent(now, bytes);
        }
        self.trim_history(now);
    }

    fn on_peer_packet(&mut self, _now: Time, arrival: &Arrival) {
        self.demands.on_peer_packet(arrival);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.digest(now, feedback);
    }

    fn on_blocked(&mut self, now: Time) {
        self.usage.on_limited(now);
    }

    fn on_app_limited(&mut self, now: Time) {
        if self.cc.limits().cwnd.has_room(self.inflight) && !self.recently_limited(now) {
            self.sampler.set_app_limited(self.inflight);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        if self.loss.due().is_some_and(|due| due <= now) {
            self.on_reorder_timeout(now);
        }
        if self.rto.due(&self.rtt).is_some_and(|due| due <= now) {
            self.on_rto(now);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.rto.due(&self.rtt).into_iter().chain(self.loss.due()).min()
    }

    fn poll_demand(&mut self) -> Option<Demand> {
        self.demands.poll()
    }

    fn on_ack_ratio(&mut self, ratio: u16) {
        self.cc.on_ack_ratio(ratio);
    }

    fn on_slow_receiver(&mut self, buffer_drops: u64) {
        self.cc.on_slow_receiver(buffer_drops);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.cc.on_mtu(mtu);
    }

    fn hold_probe_rtt(&mut self, hold: bool) {
        self.cc.hold_probe_rtt(hold);
    }

    fn view(&self) -> TxView {
        let limits = self.cc.limits();
        TxView {
            cwnd: limits.cwnd,
            inflight: self.inflight,
            pacing: limits.pacing,
            rtt: self.rtt.clone(),
            delivery_rate: self.last_rate.map_or(Rate::ZERO, |sample| sample.rate),
            bottleneck: self.cc.bottleneck(),
            app_limited: self.sampler.app_limited(),
            phase: self.cc.phase(),
            sent: self.sent,
            delivered: self.sampler.delivered(),
            lost: self.lost,
            spurious: self.spurious,
            ce: self.ce,
            timeouts: self.timeouts,
            last_sent: self.last_sent,
            probing_rtt: self.cc.probing_rtt(),
        }
    }
}
