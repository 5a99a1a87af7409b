use super::buffer::Hole;
use super::give_up::{Rule, Tracks, candidates};
use super::track::Track;
use mpdccp_units::Duration;

/// Margin added to a measured wait, on top of a quarter of that wait. It covers lags that have not been
/// observed yet.
const MARGIN: Duration = Duration::from_millis(5);
/// The receiver does not wait for a path that has carried no data for this long.
const IDLE: Duration = Duration::from_secs(10);

/// The adaptive rule: a hole may last as long as the recent lag of the paths that may still fill it.
#[derive(Debug)]
pub(super) struct Adaptive {
    /// Longest wait for a missing packet.
    pub(super) max: Duration,
}

impl Adaptive {
    fn worthwhile(&self, lag: Duration) -> Duration {
        if lag <= self.max { lag } else { Duration::ZERO }
    }

    /// Returns how long a packet of this path may lag behind other paths.
    fn wait_on(&self, tracks: &Tracks, track: &Track) -> Duration {
        let fastest = tracks.values().filter(|t| t.up).filter_map(|t| t.rtt).min();
        let by_rtt = || Some(track.rtt?.saturating_sub(fastest?) / 2);
        let guess = || by_rtt().map(|lag| self.worthwhile(lag));
        let lag = track.late.get().or_else(guess);
        lag.map_or(Duration::MAX, |lag| lag + lag / 4 + MARGIN)
    }
}

impl Rule for Adaptive {
    fn trusts_proofs(&self) -> bool {
        true
    }

    fn waits_for_repairs(&self) -> bool {
        true
    }

    fn worth(&self, late: Duration) -> Option<Duration> {
        Some(self.worthwhile(late))
    }

    fn wait_for(&self, tracks: &Tracks, hole: Hole) -> Duration {
        // The receiver does not wait for paths without data, in particular not for standby paths. The first
        // packet of such a path may therefore be delivered late.
        let busy = candidates(tracks, hole).filter(|t| t.brought_data_within(IDLE, hole.seen));
        busy.map(|t| self.wait_on(tracks, t)).max().unwrap_or(MARGIN).min(self.max)
    }

    fn longest(&self, tracks: &Tracks) -> Duration {
        let waits = tracks.values().filter(|t| t.up).map(|t| self.wait_on(tracks, t));
        waits.max().unwrap_or(self.max).min(self.max)
    }
}
