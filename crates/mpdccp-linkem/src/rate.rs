use alloc::vec::Vec;

use mpdccp_units::{Duration, Rate};

use crate::Trace;
use crate::error::{ConfigError, ensure};

/// Rate of a link over time.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum RateModel {
    /// Transmission is instantaneous, so packets never queue.
    #[default]
    Unlimited,
    /// A constant rate. If it is zero, nothing is sent and the queue fills up.
    Constant(Rate),
    /// A rate that is constant on average: after a pause, up to `burst` bytes are sent at once, as by the
    /// `tbf` of `tc`.
    TokenBucket {
        /// Average rate.
        rate: Rate,
        /// Size of the burst, bytes.
        burst: u32,
    },
    /// A list of rates, each with the time after the link's start from which it applies. The first time is
    /// zero, and the times increase. If the rate changes during a transmission, the rest of the packet is
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
