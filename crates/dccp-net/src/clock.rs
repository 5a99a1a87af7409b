use mpdccp_units::{Duration, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The driver's clock: CLOCK_MONOTONIC. All processes of the machine share its epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// Returns the time since the epoch of this clock.
    pub fn now(self) -> Time {
        Time::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
    }

    /// Returns how long the host has been suspended since it booted. This clock stands still while the host
    /// is suspended.
    pub(crate) fn suspended(self) -> Duration {
        let since_boot = nanos(clock_gettime(ClockId::Boottime));
        Duration::from_nanos(since_boot.saturating_sub(self.now().as_nanos()))
    }

    /// Returns the nanoseconds since 1970, for file formats that need them.
    pub fn wall_nanos(self) -> u64 {
        nanos(clock_gettime(ClockId::Realtime))
    }
}

fn nanos(t: Timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
