use core::fmt;

use units::Duration;

use crate::{Aggregation, Jitter, LossModel, Policer, QueueConfig, RateModel};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// How fast it transmits; counts the bytes handed to [`Link::push`](crate::Link::push).
    pub rate: RateModel,
    /// Propagation, from the last bit sent to the packet's delivery.
    pub delay: Duration,
    /// Deviation from `delay`.
    pub jitter: Jitter,
    /// What waits for the transmitter.
    pub queue: QueueConfig,
    /// Loss after transmission.
    pub loss: LossModel,
    /// Drops before the queue what exceeds a rate.
    pub policer: Option<Policer>,
    /// Packets smaller than this are taken for acknowledgements: when one's turn comes while a later one of its flow waits, it is
    /// dropped (RFC 3449 section 5.2.1). At zero none is.
    pub thin_below: u32,
    /// Packets leave in bursts.
    pub aggregation: Option<Aggregation>,
}

impl LinkConfig {
    /// Whether a link can be made of it.
    ///
    /// # Errors
    /// Names the first setting that makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.rate.validate()?;
        self.queue.validate()?;
        self.loss.validate()?;
        self.policer.map_or(Ok(()), Policer::validate)?;
        self.aggregation.map_or(Ok(()), Aggregation::validate)
    }
}

/// A setting that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Which one, as the field is called.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl core::error::Error for ConfigError {}

/// Refuses with `problem` unless `ok`.
pub(crate) fn ensure(ok: bool, field: &'static str, problem: &'static str) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { Err(ConfigError { field, problem }) }
}

pub(crate) fn probability(field: &'static str, p: f64) -> Result<(), ConfigError> {
    ensure((0.0..=1.0).contains(&p), field, "a probability lies between 0 and 1")
}
