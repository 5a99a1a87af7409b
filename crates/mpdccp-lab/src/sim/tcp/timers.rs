//! Implements the retransmission timeout (RFC 6298), and the tail loss probe that precedes it (RFC 8985
//! section 7).

use core::time::Duration;

use dccp_cc::RttEstimator;
use mpdccp_units::Time;

/// Interval of the clock on which Linux's timers fire: 250 ticks per second, as in Debian's kernels.
const TICK: Duration = Duration::from_millis(4);
/// Shortest wait, in ticks, for which the timer wheel uses its second level, and factor between the granules
/// of successive levels (kernel/time/timer.c).
const LEVEL: u64 = 64;
const LEVEL_FACTOR: u64 = 8;
/// Slack of the probe timer and of RACK's timer (`TCP_TIMEOUT_MIN_US`).
pub(super) const SLACK: Duration = Duration::from_millis(2);
/// Lower bound on the deviation part of the timeout (`tcp_rto_min`).
const MIN_DEVIATION: Duration = Duration::from_millis(200);
/// Slack of the probe timer when only one segment is in flight, as in Linux. It is longer because the
/// receiver may delay the acknowledgement.
const WORST_DELAY: Duration = Duration::from_millis(200);

/// Granularity of QUIC's timers, the default longest delay of acknowledgements (RFC 9000 section 18.2), and
/// the number of probe timeouts before persistent congestion.
const QUIC_GRANULARITY: Duration = Duration::from_millis(1);
const QUIC_MAX_ACK_DELAY: Duration = Duration::from_millis(25);
const QUIC_PROBE_ROUNDS: u32 = 2;

/// Returns when a timer that is set at `now` for `wait` fires. Linux rounds `wait` up to whole ticks, and
/// counts from the tick before `now`. Its timer wheel then fires at the next multiple of a granule. The
/// granule is a tick for waits below 256 ms, then 32 ms, and eight times as much from about 2 s on.
pub(super) fn after(now: Time, wait: Duration) -> Time {
    let tick = TICK.as_nanos() as u64;
    let wait = (wait.as_nanos() as u64).div_ceil(tick);
    let mut granule = 1;
    while wait > (LEVEL - 1) * granule {
        granule *= LEVEL_FACTOR;
    }
    let ticks = ((now.as_nanos() / tick + wait) / granule + 1) * granule;
    Time::ZERO + TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fired {
    Probe,
    Timeout,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    since: Option<Time>,
    /// Time at which a segment was last sent or acknowledged, from which the probe timer runs.
    latest: Time,
    backoff: u32,
    /// Whether a probe was sent and no acknowledgement has arrived since.
    probed: bool,
}

impl Timers {
    /// Handles the sending of a segment.
    pub(super) fn on_sent(&mut self, now: Time, first: bool) {
        self.latest = now;
        if first || self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// Handles the acknowledgement of new data. `outstanding` means that some data is not cumulatively
    /// acknowledged yet.
    pub(super) fn on_progress(&mut self, now: Time, outstanding: bool) {
        *self = Timers { since: outstanding.then_some(now), latest: now, ..Timers::default() };
    }

    /// Returns when a timer fires, and which one. `may_probe` means that no segment is known to be missing.
    /// `single` means that only one segment is in flight.
    pub(super) fn due(&self, rtt: &RttEstimator, may_probe: bool, single: bool) -> Option<(Time, Fired)> {
        let since = self.since?;
        let timeout = timeout(rtt).saturating_mul(1 << self.backoff.min(10)).min(RttEstimator::MAX_RTO);
        let srtt = rtt.srtt().filter(|_| may_probe && !self.probed);
        let probe = srtt.map(|s| after(self.latest, s * 2 + if single { WORST_DELAY } else { SLACK }));
        let timeout = after(since, timeout);
        Some(match probe.filter(|p| *p < timeout) {
            Some(probe) => (probe, Fired::Probe),
            None => (timeout, Fired::Timeout),
        })
    }

    /// Returns when QUIC's probe timeout expires (RFC 9002 section 6.2.1), and whether to send probes or to
    /// assume persistent congestion. Persistent congestion is assumed about as late as TCP's retransmission
    /// timeout after two tail loss probes (section 7.6.1).
    pub(super) fn due_in_quic(&self, rtt: &RttEstimator) -> Option<(Time, Fired)> {
        self.since?;
        let expected = rtt.srtt().map_or(RttEstimator::INITIAL_RTO, |srtt| {
            srtt + (rtt.rttvar() * 4).max(QUIC_GRANULARITY) + QUIC_MAX_ACK_DELAY
        });
        let wait = expected.saturating_mul(1 << self.backoff.min(10)).min(RttEstimator::MAX_RTO);
        Some((
            self.latest + wait,
            if self.backoff < QUIC_PROBE_ROUNDS { Fired::Probe } else { Fired::Timeout },
        ))
    }

    /// Returns the number of timeouts since the last progress.
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    pub(super) fn on_probe(&mut self, now: Time, in_quic: bool) {
        (self.probed, self.since) = (true, Some(now));
        self.backoff += u32::from(in_quic);
    }

    /// Handles a timeout. The next transmission restarts the timer.
    pub(super) fn on_timeout(&mut self) {
        (self.since, self.backoff) = (None, self.backoff.saturating_add(1));
    }
}

/// Returns the retransmission timeout without back-off. As in Linux, the minimum applies to the deviation
/// that is added to the smoothed round-trip time. In other stacks, the minimum applies to the sum.
pub(super) fn timeout(rtt: &RttEstimator) -> Duration {
    rtt.srtt().map_or(RttEstimator::INITIAL_RTO, |srtt| srtt + (rtt.rttvar() * 4).max(MIN_DEVIATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_on_ticks() {
        let ms = Duration::from_millis;
        let at = |now, wait| after(Time::from_millis(now), ms(wait)).as_nanos() / 1_000_000;
        assert_eq!([at(5, 9), at(8, 8), at(4, 252)], [4 + 12 + 4, 8 + 8 + 4, 4 + 252 + 4]);
    }

    #[test]
    fn long_timers_fire_on_multiples_of_longer_times() {
        let ms = Duration::from_millis;
        let at = |now, wait| after(Time::from_millis(now), ms(wait)).as_nanos() / 1_000_000;
        assert_eq!([at(0, 253), at(0, 256), at(32, 256)], [288, 288, 320]);
        assert_eq!([at(0, 2_016), at(0, 2_017)], [2_048, 2_048]);
        assert_eq!([at(256, 2_016), at(256, 2_017)], [2_304, 2_304]);
        assert_eq!([at(300, 2_016), at(300, 2_017)], [2_336, 2_560]);
    }

    #[test]
    fn probes_once_then_times_out_ever_later() {
        let mut rtt = RttEstimator::default();
        rtt.update(Time::ZERO, Duration::from_millis(50));
        let mut t = Timers::default();
        assert_eq!(t.due(&rtt, true, false), None);
        t.on_sent(Time::ZERO, true);
        assert_eq!(t.due(&rtt, true, false), Some((Time::from_millis(108), Fired::Probe)));
        // The timeout is 50 ms plus four times the deviation of 25 ms, but the second part is raised to its
        // minimum of 200 ms.
        assert_eq!(t.due(&rtt, false, false), Some((Time::from_millis(256), Fired::Timeout)));
        t.on_probe(Time::from_millis(103), false);
        assert_eq!(t.due(&rtt, true, false), Some((Time::from_millis(356), Fired::Timeout)));
        t.on_timeout();
        assert_eq!(t.due(&rtt, true, false), None);
        t.on_sent(Time::from_millis(300), true);
        assert_eq!(t.due(&rtt, false, false), Some((Time::from_millis(832), Fired::Timeout)));
        t.on_progress(Time::from_millis(400), true);
        assert_eq!(t.due(&rtt, true, true), Some((Time::from_millis(656), Fired::Timeout)));
    }
}
