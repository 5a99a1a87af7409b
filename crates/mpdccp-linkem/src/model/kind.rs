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
    /// The link with its usual rates and delays, first from the client to the network, then from the network
    /// to the client.
    pub(super) usual: fn() -> [LinkConfig; 2],
    /// The link's states over time, in an endless sequence.
    pub(super) course: fn(Random) -> Course,
}

pub(super) type Course = Box<dyn Iterator<Item = Step> + Send>;

/// Those properties of one direction that change over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Rate of the link. During an outage it is zero, and packets queue up.
    pub rate: Rate,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Share of packets lost on the wire.
    pub loss: f64,
}

/// A state of the link, which lasts until the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Time from the link's start to this step; zero for the first step.
    pub at: Duration,
    /// State of each direction: client to network, then network to client.
    pub ways: [State; 2],
}

impl Model {
    /// Returns both directions with their usual rates and delays: client to network, then network to client.
    pub fn usual(&self) -> [LinkConfig; 2] {
        (self.usual)()
    }

    /// Returns the states of both directions over time. The same seed always gives the same states.
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
    /// Returns the state of a link with this configuration. The state's rate is zero unless the rate model is
    /// constant.
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

/// Creates the configuration of a link with a constant rate. `queue` is the time that the link takes to send
/// a full queue.
pub(super) fn config(rate: Rate, delay: Duration, queue: Duration) -> LinkConfig {
    // The queue holds as many bytes as the link sends in that time.
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

/// Returns steps at equal intervals, with `next` computing each step from its time.
pub(super) fn every(tick: Duration, mut next: impl FnMut(Duration) -> [State; 2] + Send + 'static) -> Course {
    Box::new((0u32..).map(move |n| {
        let at = tick * n;
        Step { at, ways: next(at) }
    }))
}
