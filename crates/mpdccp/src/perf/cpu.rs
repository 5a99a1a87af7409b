//! Measures the CPU use of this process.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// CPU use in percent of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    pub(crate) total: f64,
    pub(crate) user: f64,
    pub(crate) system: f64,
}

/// Measures the CPU use since this value was created.
pub(crate) struct Cpu {
    since: Instant,
    before: [f64; 2],
}

impl Cpu {
    pub(crate) fn new() -> Cpu {
        Cpu { since: Instant::now(), before: seconds() }
    }

    /// Returns the CPU use since this value was created.
    pub(crate) fn share(&self) -> Share {
        let elapsed = self.since.elapsed().as_secs_f64().max(1e-3);
        let now = seconds();
        let [user, system] = [0, 1].map(|i| (now[i] - self.before[i]).max(0.0) * 100.0 / elapsed);
        Share { total: user + system, user, system }
    }
}

/// Returns the user and system time of this process in seconds, or zeros if they are unavailable.
fn seconds() -> [f64; 2] {
    let seconds = |time: TimeVal| time.num_microseconds() as f64 * 1e-6;
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or([0.0; 2], |usage| [usage.user_time(), usage.system_time()].map(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let cpu = Cpu { since: Instant::now(), before: [0.0; 2] };
        while seconds()[0] == 0.0 {
            std::hint::black_box((0..1_000_000_u64).sum::<u64>());
        }
        let Share { total, user, system } = cpu.share();
        assert!(user > 0.0 && total == user + system);
        // Only CPU time after creation counts, so the time used before is stored.
        assert!(Cpu::new().before[0] > 0.0);
    }
}
