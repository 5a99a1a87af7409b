use mpdccp_units::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The clock of the driver: CLOCK_MONOTONIC, whose epoch is the same for all processes of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The time since this clock's epoch.
    pub fn now(self) -> Time {
        Time::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
    }

    /// Nanoseconds since 1970, for file formats that need them.
    pub fn wall_nanos(self) -> u64 {
        nanos(clock_gettime(ClockId::Realtime))
    }
}

fn nanos(t: Timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
