use alloc::vec::Vec;

use mpdccp_units::{Duration, Rate};

use crate::Trace;
use crate::error::{ConfigError, ensure};

/// How fast a link transmits.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum RateModel {
    /// Transmission takes no time; nothing ever queues.
    #[default]
    Unlimited,
    /// Always the same. At zero nothing leaves and the queue fills.
    Constant(Rate),
    /// The same in the long run; after a pause up to `burst` bytes leave at once, as with `tc`'s `tbf`.
    TokenBucket {
        /// In the long run.
        rate: Rate,
        /// Bytes.
        burst: u32,
    },
    /// From each duration after the link's start on, that rate. The first is at zero, the times increase. A packet in
    /// transmission when the rate changes goes on at the new one.
    Steps(Vec<(Duration, Rate)>),
    /// As recorded, over and over.
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
