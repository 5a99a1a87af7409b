//! Validation of windows that an application does not fill (RFC 7661): determines which part of the window
//! the path has recently carried.

use crate::AckEvent;
use mpdccp_units::{Duration, Time};

/// Sampling period of the maximum, as a time and as a number of round trips; the longer of the two applies
/// (section 4.2).
const SAMPLING: (Duration, u32) = (Duration::from_secs(1), 3);
/// Number of parts of the sampling period (section 4.5.1).
const PARTS: usize = 5;
/// A window that has not been validated for this long is reduced (section 4.4).
pub(crate) const NON_VALIDATED_PERIOD: Duration = Duration::from_secs(300);

/// Validation state of a window. A window is validated if at least half of it was acknowledged in one round
/// of the sampling period.
#[derive(Debug, Default)]
pub(crate) struct Validation {
    /// Number of packets acknowledged in the running round. `None` in an incomplete first round.
    round: Option<u64>,
    /// Maximum number of packets acknowledged in a round, for each part of the sampling period. `None` until
    /// a full round has ended after the start or after a congestion event.
    most: Option<[u64; PARTS]>,
    part_since: Time,
    part: Duration,
    /// Time at which the window was last validated.
    at: Time,
}

impl Validation {
    /// Adds an acknowledgement, for a window of `cwnd` packets.
    pub(crate) fn on_ack(&mut self, ev: &AckEvent<'_>, cwnd: u64) {
        let period = SAMPLING.0.max(ev.estimator.srtt().unwrap_or_default() * SAMPLING.1);
        self.part = period / PARTS as u32;
        self.age(ev.now);
        let sample = self.round.map(|round| round.saturating_add(ev.acked.packets));
        self.round = if ev.round_end { Some(0) } else { sample };
        if let Some(sample) = sample.filter(|_| ev.round_end) {
            let most = self.most.get_or_insert_default();
            most[0] = most[0].max(sample);
        }
        if self.is_valid(cwnd) {
            self.at = ev.now;
        }
    }

    /// Drops samples older than the sampling period.
    pub(crate) fn age(&mut self, now: Time) {
        let Some(most) = self.most.as_mut().filter(|_| !self.part.is_zero()) else {
            self.part_since = now;
            return;
        };
        let parts = now.since(self.part_since).as_nanos() / self.part.as_nanos();
        for _ in 0..parts.min(PARTS as u128) {
            most.rotate_right(1);
            most[0] = 0;
        }
        if parts >= PARTS as u128 {
            self.round = None;
        }
        if parts > 0 {
            self.part_since = now;
        }
    }

    /// Returns pipeACK, in packets.
    pub(crate) fn pipe_ack(&self) -> Option<u64> {
        self.most.map(|most| most.into_iter().chain(self.round).max().unwrap_or(0))
    }

    /// Returns whether the window is validated. A window without any sample counts as validated
    /// (section 4.3).
    pub(crate) fn is_valid(&self, cwnd: u64) -> bool {
        self.pipe_ack().is_none_or(|pipe| pipe >= cwnd / 2)
    }

    /// Section 4.4.1: drops measurements taken before a congestion event.
    pub(crate) fn restart(&mut self) {
        self.most = None;
        self.round = None;
    }

    /// Section 4.4.3: returns true once the window has not been validated for [`NON_VALIDATED_PERIOD`], and
    /// again each time that another such period passes.
    pub(crate) fn ran_out(&mut self, now: Time, cwnd: u64) -> bool {
        self.age(now);
        let out = !self.is_valid(cwnd) && now.since(self.at) > NON_VALIDATED_PERIOD;
        if out {
            self.at = now;
        }
        out
    }
}
