use super::restraint::Restraint;
use super::rto::DEFAULT_RTT;
use super::usage::{Samples, Usage};
use alloc::boxed::Box;
use core::cell::Cell;
use core::ops::{Deref, DerefMut};
use dccp_cc::{
    Amount, Controller, Limits, Observer, Pacer, RateSampler, Remembered, Reno, ResumePhase, Resuming,
    RttEstimator,
};
use mpdccp_units::Time;

/// What congestion control knows of a path, apart from sequence numbers: one sending half has it to itself, or several connections
/// between the same two hosts share it, so that together they take the part of one.
///
/// Whoever owns the connections keeps a shared one, and [lends](super::AckVecSender::exchange) it to the half it works on.
#[derive(Debug)]
pub struct Control {
    pub(super) cc: Governor,
    pub(super) rtt: RttEstimator,
    pub(super) sampler: RateSampler,
    pub(super) pacer: Pacer,
    pub(super) usage: Usage,
    pub(super) samples: Samples,
    /// What the path is seen to carry.
    pub(super) observer: Observer,
    pub(super) restraint: Option<Restraint>,
    /// Outstanding, of all who share.
    pub(super) inflight: Amount,
    /// Data packets sent so far.
    pub(super) sent: u64,
    pub(super) last_sent: Option<Time>,
    /// Losses and marks of packets sent before belong to the last reduction.
    pub(super) reduced_at: Time,
    pub(super) reduction: Option<Reduction>,
    /// The round ends with a packet that left when this much or more was delivered.
    pub(super) round_end: u64,
    /// When data was last acknowledged, or a timeout taken for congestion.
    pub(super) heard: Time,
}

/// The last reduction of the window, while it may prove spurious.
#[derive(Debug)]
pub(super) struct Reduction {
    pub(super) since: Time,
    /// Losses behind it that have not proved spurious.
    pub(super) losses: u64,
    /// Something proved spurious.
    pub(super) doubted: bool,
    /// A mark was among its reasons: it stands.
    pub(super) marked: bool,
}

/// An algorithm, and what it allows: several ask for that between two inputs of it, with every packet.
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

/// For an input, after which limits may be others.
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

    /// Begins from what is remembered of the path, in packets of `mtu` bytes.
    pub(super) fn resume(&mut self, saved: &Remembered, max_jump: u64, mtu: u16) {
        let placeholder = Box::new(Reno::tcp(mtu));
        let cc = core::mem::replace(&mut self.cc, Governor::from(placeholder as Box<dyn Controller>)).cc;
        self.cc = Governor::from(Box::new(Resuming::new(cc, *saved, max_jump, mtu)) as Box<dyn Controller>);
    }

    /// What it sees the path carry is its own, not of a jump that is not validated.
    pub(super) fn observes(&self) -> bool {
        self.cc.resumption().is_none_or(|phase| matches!(phase, ResumePhase::Normal(_)))
    }

    /// Data packets sent so far by all who share it.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Outstanding, of all who share it.
    pub fn inflight(&self) -> Amount {
        self.inflight
    }

    /// What may be sent: the controller's limits within what the peer asked for.
    pub(super) fn limits(&self, now: Time) -> Limits {
        let limits = self.cc.limits();
        self.restraint.map_or(limits, |restraint| restraint.apply(now, limits))
    }

    pub(super) fn has_room(&self) -> bool {
        self.cc.limits().cwnd.has_room(self.inflight)
    }

    /// Limited by window or pacing within the last round.
    pub(super) fn recently_limited(&self, now: Time) -> bool {
        self.usage.limited_within(now, self.rtt.srtt().unwrap_or(DEFAULT_RTT))
    }

    /// Passed over for another path within the last round.
    pub(super) fn recently_passed_over(&self, now: Time) -> bool {
        self.usage.passed_over_within(now, self.rtt.srtt().unwrap_or(DEFAULT_RTT))
    }

    /// Notes that the window was full until now, if it was; told before anything may make room.
    pub(super) fn note_window(&mut self, now: Time) {
        if !self.has_room() {
            self.usage.on_full_window(now);
        }
    }
}
