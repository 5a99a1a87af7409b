use mpdccp_units::Duration;

use crate::error::probability;
use crate::{Aggregation, ConfigError, Jitter, LossModel, Policer, QueueConfig, RateModel};

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
    /// Share of packets, 0 to 1, that arrive twice: the wire makes a copy of what it did not lose.
    pub duplicate: f64,
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
        probability("duplicate", self.duplicate)?;
        self.policer.map_or(Ok(()), Policer::validate)?;
        self.aggregation.map_or(Ok(()), Aggregation::validate)
    }
}
