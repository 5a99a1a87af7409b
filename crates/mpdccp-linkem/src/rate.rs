use alloc::vec::Vec;

use mpdccp_units::{Duration, Rate};

use crate::Trace;
use crate::error::{ConfigError, ensure};

/// Rate of a link over time.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum RateModel {
    /// Transmission takes no time, so packets never queue.
    #[default]
    Unlimited,
    /// The rate is constant. With rate zero, nothing is sent, and the queue fills.
    Constant(Rate),
    /// The rate is constant on average. After a pause, up to `burst` bytes are sent at once, as with `tbf` of
    /// `tc`.
    TokenBucket {
        /// Average rate.
        rate: Rate,
        /// Size of the burst, bytes.
        burst: u32,
    },
    /// A list of rates. Each has the time, counted from the link's start, from which it applies. The first
    /// time is zero, and times increase. If the rate changes during a transmission, the rest of the packet is
    /// sent at the new rate.
    Steps(Vec<(Duration, Rate)>),
    /// A recording, which repeats.
    Trace(Trace),
}

impl RateModel {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if let RateModel::Steps(steps) = self {
            ensure(
                steps.first().is_some_and(|s| s.0.is_zero()),
                "rate",
                "the first step must be at time zero",
            )?;
            ensure(steps.is_sorted_by(|a, b| a.0 < b.0), "rate", "the times of the steps must increase")?;
        }
        Ok(())
    }
}
