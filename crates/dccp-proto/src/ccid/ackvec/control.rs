use super::restraint::Restraint;
use super::rto::DEFAULT_RTT;
use super::usage::{Samples, Usage};
use alloc::boxed::Box;
use core::cell::Cell;
use core::ops::{Deref, DerefMut};
use dccp_cc::{
    Amount, Controller, Limits, Observer, Pacer, RateSample, RateSampler, Remembered, Reno, ResumePhase,
    Resuming, RttEstimator,
};
use mpdccp_units::Time;

/// Congestion state of a path, without sequence numbers. It is owned by one sending half, or shared by
/// several connections between the same two hosts. All connections that share it together send as much as a
/// single connection would.
///
/// The owner of the connections keeps a shared control, and [lends](super::AckVecSender::exchange) it to one
/// half at a time.
#[derive(Debug)]
pub struct Control {
    pub(super) cc: Governor,
    pub(super) rtt: RttEstimator,
    pub(super) sampler: RateSampler,
    pub(super) pacer: Pacer,
    pub(super) usage: Usage,
    pub(super) samples: Samples,
    /// Measures the path's capacity.
    pub(super) observer: Observer,
    pub(super) restraint: Option<Restraint>,
    /// Outstanding packets of all connections that share the control.
    pub(super) inflight: Amount,
    /// Data packets sent so far.
    pub(super) sent: u64,
    pub(super) last_sent: Option<Time>,
    /// Losses and marks of packets sent before this time belong to the last reduction of the window.
    pub(super) reduced_at: Time,
    pub(super) reduction: Option<Reduction>,
    /// The round ends when an acknowledgement arrives for a packet that was sent after this amount had been
    /// delivered.
    pub(super) round_end: u64,
    /// Time at which data was last acknowledged or a timeout last counted as congestion.
    pub(super) heard: Time,
}

/// The last reduction of the window, kept for as long as its losses may prove spurious.
#[derive(Debug)]
pub(super) struct Reduction {
    pub(super) since: Time,
    /// Number of losses of this reduction that have not proved spurious.
    pub(super) losses: u64,
    /// Whether at least one loss proved spurious.
    pub(super) doubted: bool,
    /// Whether an ECN mark contributed to the reduction. If so, the reduction is not undone.
    pub(super) marked: bool,
}

/// A controller with a cache of its limits, which are read several times per packet.
#[derive(Debug)]
pub(super) struct Governor {
    cc: Box<dyn Controller>,
    limits: Cell<Option<Limits>>,
}

impl Governor {
    pub(super) fn limits(&self) -> Limits {
        let limits = self.limits.get().unwrap_or_else(|| self.cc.limits());
        self.limits.set(Some(limits));
        limits
    }
}

impl From<Box<dyn Controller>> for Governor {
    fn from(cc: Box<dyn Controller>) -> Governor {
        Governor { cc, limits: Cell::new(None) }
    }
}

impl Deref for Governor {
    type Target = dyn Controller;

    fn deref(&self) -> &(dyn Controller + 'static) {
        &*self.cc
    }
}

/// Mutable access drops the cached limits, because the caller may change them.
impl DerefMut for Governor {
    fn deref_mut(&mut self) -> &mut (dyn Controller + 'static) {
        self.limits.set(None);
        &mut *self.cc
    }
}

impl Control {
    pub(super) fn new(cc: Box<dyn Controller>, rtt: RttEstimator) -> Control {
        Control {
            cc: cc.into(),
            rtt,
            sampler: RateSampler::default(),
            pacer: Pacer::default(),
            usage: Usage::default(),
            samples: Samples::default(),
            observer: Observer::default(),
            restraint: None,
            inflight: Amount::default(),
            sent: 0,
            last_sent: None,
            reduced_at: Time::ZERO,
            reduction: None,
            round_end: 0,
            heard: Time::ZERO,
        }
    }

    /// Starts from the remembered capacity `saved`. Packets have `mtu` bytes.
    pub(super) fn resume(&mut self, saved: &Remembered, max_jump: u64, mtu: u16) {
        let placeholder = Box::new(Reno::tcp(mtu));
        let cc = core::mem::replace(&mut self.cc, Governor::from(placeholder as Box<dyn Controller>)).cc;
        self.cc = Governor::from(Box::new(Resuming::new(cc, *saved, max_jump, mtu)) as Box<dyn Controller>);
    }

    /// Returns whether acknowledgements may measure the path's capacity. They may not while Careful Resume
    /// uses an unvalidated window.
    pub(super) fn observes(&self) -> bool {
        self.cc.resumption().is_none_or(|phase| matches!(phase, ResumePhase::Normal(_)))
    }

    /// Returns the number of data packets sent so far by all connections that share the control.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the outstanding packets of all connections that share the control.
    pub fn inflight(&self) -> Amount {
        self.inflight
    }

    /// Returns the sending limits of the controller, reduced if the peer has requested that.
    pub(super) fn limits(&self, now: Time) -> Limits {
        let limits = self.cc.limits();
        self.restraint.map_or(limits, |restraint| restraint.apply(now, limits))
    }

    pub(super) fn has_room(&self) -> bool {
        self.cc.limits().cwnd.has_room(self.inflight)
    }

    /// Returns whether the window or pacing limited sending within the last round. `sample` is the newest
    /// delivery-rate sample.
    pub(super) fn recently_limited(&mut self, now: Time, sample: Option<&RateSample>) -> bool {
        let round = self.rtt.srtt().unwrap_or(DEFAULT_RTT);
        let paces = |sample: &RateSample| {
            let allowed = self.cc.limits().pacing.map(|rate| rate.bytes_in(sample.send_interval));
            allowed.is_none_or(|allowed| 2 * sample.delivered.bytes >= allowed)
        };
        let waited = self.usage.waited_within(now, round);
        self.usage.full_within(now, round)
            || (self.usage.blocked_within(now, round) && (waited || sample.is_none_or(paces)))
    }

    /// Returns whether a packet took another path within the last round because this path's gate was closed.
    pub(super) fn recently_passed_over(&self, now: Time) -> bool {
        self.usage.passed_over_within(now, self.rtt.srtt().unwrap_or(DEFAULT_RTT))
    }

    /// If the window is full, records that it has been full until now. Call this before any change that may
    /// make room in the window.
    pub(super) fn note_window(&mut self, now: Time) {
        if !self.has_room() {
            self.usage.on_full_window(now);
        }
    }
}
