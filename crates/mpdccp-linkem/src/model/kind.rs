//! Definition of a model.

use alloc::boxed::Box;
use core::fmt;

use mpdccp_units::{Duration, Rate};

use crate::random::Random;
use crate::{LinkConfig, LossModel, RateModel};

/// A named link.
pub struct Model {
    /// Name in files and on command lines.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Source of the model's figures.
    pub source: &'static str,
    /// The link with its usual rates and delays. The first direction is from the client to the network, the
    /// second from the network to the client.
    pub(super) usual: fn() -> [LinkConfig; 2],
    /// The states of the link over time. They never end.
    pub(super) course: fn(Random) -> Course,
}

pub(super) type Course = Box<dyn Iterator<Item = Step> + Send>;

/// Properties of one direction that change with time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Rate of the link. During an outage it is zero, and packets queue.
    pub rate: Rate,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Share of packets lost on the wire.
    pub loss: f64,
}

/// A state of the link. It lasts until the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Time from the link's start to this step. It is zero for the first step.
    pub at: Duration,
    /// States of the direction from the client to the network, and of the direction from the network to the
    /// client.
    pub ways: [State; 2],
}

impl Model {
    /// Returns both directions with their usual rates and delays: client to network, then network to client.
    pub fn usual(&self) -> [LinkConfig; 2] {
        (self.usual)()
    }

    /// States of both directions over time. Equal seeds give equal results.
    pub fn course(&self, seed: u64) -> impl Iterator<Item = Step> + Send + use<> {
        (self.course)(Random::new(seed, 4))
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Model) -> bool {
        self.name == other.name
    }
}

impl State {
    /// Returns the state of a link with this configuration and a constant rate. For other rate models, the
    /// rate is zero.
    pub fn of(config: &LinkConfig) -> State {
        let rate = if let RateModel::Constant(rate) = config.rate { rate } else { Rate::ZERO };
        let loss = if let LossModel::Bernoulli(share) = config.loss { share } else { 0.0 };
        State { rate, delay: config.delay, loss }
    }

    /// Applies the state to `config`.
    pub fn applied(self, config: LinkConfig) -> LinkConfig {
        let loss = if self.loss > 0.0 { LossModel::Bernoulli(self.loss) } else { LossModel::None };
        LinkConfig { rate: RateModel::Constant(self.rate), delay: self.delay, loss, ..config }
    }
}

/// Creates a link with a constant rate. The queue is given as the time that the link needs to send its
/// content.
pub(super) fn config(rate: Rate, delay: Duration, queue: Duration) -> LinkConfig {
    // The queue has as many bytes as the rate sends in that time.
    let bytes = rate.bytes_in(queue);
    let queue = crate::QueueConfig { limit: crate::Limit::Bytes(bytes), ..Default::default() };
    LinkConfig { rate: RateModel::Constant(rate), delay, queue, ..LinkConfig::default() }
}

pub(super) fn mbps(mbps: f64) -> Rate {
    Rate::from_mbps(mbps)
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns steps at equal intervals. `next` computes each step from its time.
pub(super) fn every(tick: Duration, mut next: impl FnMut(Duration) -> [State; 2] + Send + 'static) -> Course {
    Box::new((0u32..).map(move |n| {
        let at = tick * n;
        Step { at, ways: next(at) }
    }))
}
