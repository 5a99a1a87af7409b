use mpdccp_units::Duration;

use crate::error::probability;
use crate::{Aggregation, ConfigError, Jitter, LossModel, Policer, QueueConfig, RateModel};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// Transmission rate. It counts the bytes that [`Link::push`](crate::Link::push) gets.
    pub rate: RateModel,
    /// Propagation delay, from the sending of the last bit to the delivery of the packet.
    pub delay: Duration,
    /// Random deviation from `delay`.
    pub jitter: Jitter,
    /// The queue before the transmitter.
    pub queue: QueueConfig,
    /// Loss on the wire, after transmission.
    pub loss: LossModel,
    /// Fraction (0 to 1) of packets that arrive twice. Only packets that the wire does not lose are
    /// duplicated.
    pub duplicate: f64,
    /// Drops packets that exceed a rate, before they reach the queue.
    pub policer: Option<Policer>,
    /// Packets smaller than this count as acknowledgements. When an acknowledgement would be sent next, it is
    /// dropped instead if a later acknowledgement of its flow is queued (RFC 3449 section 5.2.1). Zero
    /// disables this.
    pub thin_below: u32,
    /// Sends packets in bursts, if set.
    pub aggregation: Option<Aggregation>,
}

impl LinkConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// Returns the first invalid setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.rate.validate()?;
        self.queue.validate()?;
        self.loss.validate()?;
        probability("duplicate", self.duplicate)?;
        self.policer.map_or(Ok(()), Policer::validate)?;
        self.aggregation.map_or(Ok(()), Aggregation::validate)
    }
}
