use mpdccp_units::Duration;

use crate::error::probability;
use crate::{Aggregation, ConfigError, Jitter, LossModel, Policer, QueueConfig, RateModel};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// Transmission rate, in terms of the bytes passed to [`Link::push`](crate::Link::push).
    pub rate: RateModel,
    /// Propagation delay, from the last bit sent to the packet's delivery.
    pub delay: Duration,
    /// Random deviation from `delay`.
    pub jitter: Jitter,
    /// The queue before the transmitter.
    pub queue: QueueConfig,
    /// Loss on the wire, after transmission.
    pub loss: LossModel,
    /// Share of packets, 0 to 1, that arrive twice. The wire copies only packets that it did not lose.
    pub duplicate: f64,
    /// Drops packets that exceed a rate, before the queue.
    pub policer: Option<Policer>,
    /// Packets smaller than this count as acknowledgements. An acknowledgement that is next to be sent is
    /// dropped if a later one of its flow is queued (RFC 3449 section 5.2.1). Zero disables this.
    pub thin_below: u32,
    /// Sends packets in bursts.
    pub aggregation: Option<Aggregation>,
}

impl LinkConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.rate.validate()?;
        self.queue.validate()?;
        self.loss.validate()?;
        probability("duplicate", self.duplicate)?;
        self.policer.map_or(Ok(()), Policer::validate)?;
        self.aggregation.map_or(Ok(()), Aggregation::validate)
    }
}
