use alloc::vec::Vec;

use mpdccp_units::{Duration, Rate};

use crate::Trace;
use crate::error::{ConfigError, ensure};

/// Rate of a link over time.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum RateModel {
    /// Transmission takes no time; nothing ever queues.
    #[default]
    Unlimited,
    /// Constant. At zero nothing leaves and the queue fills.
    Constant(Rate),
    /// Constant on average; after a pause up to `burst` bytes leave at once, as with `tc`'s `tbf`.
    TokenBucket {
        /// Average rate.
        rate: Rate,
        /// Burst in bytes.
        burst: u32,
    },
    /// Each rate applies from its time after the link's start. The first time is zero, and times increase. A
    /// packet in transmission when the rate changes continues at the new rate.
    Steps(Vec<(Duration, Rate)>),
    /// A recording, repeated.
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
