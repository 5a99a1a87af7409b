//! What a path is made of, beyond rate, delay and the limit of its queue.

use core::time::Duration;

use linkem::{
    CoDelConfig, DrdConfig, DualPi2Config, FqCoDelConfig, LinkConfig, LossModel, QueueConfig, QueueKind,
    RateModel, RedConfig, Spread,
};
use serde::Deserialize;

use super::quantity;
use super::{PathSpec, QueueLimit};

/// How a queue is managed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Discipline {
    /// What does not fit is dropped.
    DropTail {},
    /// Drop-tail that marks ECN-capable packets above a level.
    MarkAbove {
        /// The level.
        #[serde(deserialize_with = "quantity::queue")]
        above: QueueLimit,
    },
    /// Random early detection; both levels in the unit of the queue's limit.
    Red {
        /// No drops below this average.
        #[serde(deserialize_with = "quantity::queue")]
        min: QueueLimit,
        /// Steeper from here.
        #[serde(deserialize_with = "quantity::queue")]
        max: QueueLimit,
        /// Probability at `max`.
        #[serde(default, deserialize_with = "quantity::opt_share")]
        probability: Option<f64>,
        /// Weight of a new queue length in the average.
        weight: Option<f64>,
        /// Mark instead of dropping.
        #[serde(default)]
        ecn: bool,
    },
    /// RFC 8289.
    Codel {
        /// Acceptable delay.
        #[serde(default, deserialize_with = "quantity::opt_time")]
        target: Option<Duration>,
        /// About the longest round-trip time.
        #[serde(default, deserialize_with = "quantity::opt_time")]
        interval: Option<Duration>,
        /// Mark instead of dropping.
        #[serde(default)]
        ecn: bool,
    },
    /// RFC 8290.
    FqCodel {
        /// As for CoDel.
        #[serde(default, deserialize_with = "quantity::opt_time")]
        target: Option<Duration>,
        /// As for CoDel.
        #[serde(default, deserialize_with = "quantity::opt_time")]
        interval: Option<Duration>,
        /// Queues.
        flows: Option<u32>,
        /// Mark instead of dropping; it does unless told otherwise.
        ecn: Option<bool>,
    },
    /// Derivative random drop, as the NIST Net emulator has it; in packets.
    Drd {
        /// No drops up to this many.
        min: u64,
        /// 95 % are dropped from this many on.
        max: u64,
    },
    /// Two coupled queues, one for L4S (RFC 9332), with the settings of its appendix.
    #[serde(rename = "dual-pi2")]
    DualPi2 {},
}

/// Varying delay.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JitterSpec {
    /// How deviations are distributed.
    #[serde(default)]
    pub spread: SpreadKind,
    /// Half the width, or the standard deviation.
    #[serde(deserialize_with = "quantity::time")]
    pub by: Duration,
    /// Whether packets may overtake.
    #[serde(default)]
    pub reorder: bool,
}

/// Distributions of jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpreadKind {
    /// Cut at four standard deviations.
    #[default]
    Normal,
    /// Up to so much either way.
    Uniform,
}

/// Loss in bursts after Gilbert and Elliott: two states, each with its loss; after each packet the state may change.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLoss {
    /// Probability that the bad state begins.
    #[serde(deserialize_with = "quantity::share")]
    pub begin: f64,
    /// Probability that it ends: the inverse of its mean length in packets.
    #[serde(deserialize_with = "quantity::share")]
    pub end: f64,
    /// Loss in the good state, none if absent.
    #[serde(default, deserialize_with = "quantity::share")]
    pub good: f64,
    /// Loss in the bad state, all if absent.
    #[serde(default, deserialize_with = "quantity::opt_share")]
    pub bad: Option<f64>,
}

/// Independent losses.
pub(crate) fn loss_model(share: f64) -> LossModel {
    if share > 0.0 { LossModel::Bernoulli(share) } else { LossModel::None }
}

impl PathSpec {
    /// One direction of it, for the emulator.
    pub fn link(&self) -> LinkConfig {
        let loss = match self.burst_loss {
            Some(b) => LossModel::GilbertElliott {
                to_bad: b.begin,
                to_good: b.end,
                loss_good: b.good,
                loss_bad: b.bad.unwrap_or(1.0),
            },
            None => loss_model(self.loss),
        };
        let jitter = self.jitter.map_or_else(Default::default, |j| linkem::Jitter {
            spread: match j.spread {
                SpreadKind::Normal => Spread::Normal(j.by),
                SpreadKind::Uniform => Spread::Uniform(j.by),
            },
            reorder: j.reorder,
        });
        LinkConfig {
            rate: self.trace.clone().map_or(RateModel::Constant(self.rate), RateModel::Trace),
            delay: self.owd,
            jitter,
            queue: QueueConfig { kind: self.queue_kind(), limit: self.queue.limit() },
            loss,
        }
    }

    /// The other direction of it.
    pub fn link_back(&self) -> LinkConfig {
        let queue = self.back_queue.unwrap_or(self.queue);
        PathSpec { rate: self.back_rate.unwrap_or(self.rate), queue, ..self.clone() }.link()
    }

    fn queue_kind(&self) -> QueueKind {
        let codel = |target: Option<Duration>, interval: Option<Duration>, ecn| {
            let usual = CoDelConfig::default();
            CoDelConfig {
                target: target.unwrap_or(usual.target),
                interval: interval.unwrap_or(usual.interval),
                ecn,
            }
        };
        match self.discipline {
            None | Some(Discipline::DropTail {}) => QueueKind::DropTail,
            Some(Discipline::MarkAbove { above }) => QueueKind::MarkAbove(above.limit()),
            Some(Discipline::Red { min, max, probability, weight, ecn }) => {
                let usual = RedConfig::new(min.number(), max.number());
                QueueKind::Red(RedConfig {
                    max_p: probability.unwrap_or(usual.max_p),
                    weight: weight.unwrap_or(usual.weight),
                    ecn,
                    ..usual
                })
            }
            Some(Discipline::Codel { target, interval, ecn }) => {
                QueueKind::CoDel(codel(target, interval, ecn))
            }
            Some(Discipline::FqCodel { target, interval, flows, ecn }) => {
                let usual = FqCoDelConfig::default();
                QueueKind::FqCoDel(FqCoDelConfig {
                    flows: flows.unwrap_or(usual.flows),
                    codel: codel(target, interval, ecn.unwrap_or(usual.codel.ecn)),
                    ..usual
                })
            }
            Some(Discipline::Drd { min, max }) => QueueKind::Drd(DrdConfig { min, max }),
            Some(Discipline::DualPi2 {}) => QueueKind::DualPi2(DualPi2Config::default()),
        }
    }

    /// What is wrong with the link, if anything.
    pub(super) fn link_problem(&self) -> Option<String> {
        let in_bytes = |limit| matches!(limit, QueueLimit::Bytes(_));
        if let Some(Discipline::Red { min, max, .. }) = self.discipline
            && (in_bytes(min) != in_bytes(self.queue) || in_bytes(max) != in_bytes(self.queue))
        {
            return Some("RED's min and max have the unit of `queue`".to_owned());
        }
        if self.burst_loss.is_some() && self.loss > 0.0 {
            return Some("either loss or burst_loss".to_owned());
        }
        if self.back_rate.is_some() && self.rate_trace.is_some() {
            return Some("either rate_trace or back_rate".to_owned());
        }
        let (there, back) = (self.link().validate(), self.link_back().validate());
        there.and(back).err().map(|e| e.to_string())
    }
}
