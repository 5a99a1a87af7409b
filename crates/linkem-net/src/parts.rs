//! Parts of a link's configuration, as written in files.

use core::time::Duration;

use mpdccp_linkem::{CoDelConfig, DrdConfig, DualPi2Config, FqCoDelConfig, PieConfig, QueueKind, RedConfig};
use mpdccp_units::Rate;
use serde::Deserialize;

use crate::quantity::{self, QueueLimit};

/// Queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Discipline {
    /// Drops packets that do not fit.
    DropTail {},
    /// Drop-tail, but marks ECN-capable packets above a level.
    MarkAbove {
        /// The level above which packets are marked.
        #[serde(deserialize_with = "quantity::queue")]
        above: QueueLimit,
    },
    /// Random early detection. Both levels are in the same unit as the queue's limit.
    Red {
        /// Average queue length below which no packet is dropped.
        #[serde(deserialize_with = "quantity::queue")]
        min: QueueLimit,
        /// Average queue length from which the drop probability grows faster.
        #[serde(deserialize_with = "quantity::queue")]
        max: QueueLimit,
        /// Drop probability when the average is `max`.
        #[serde(default, deserialize_with = "quantity::opt_share")]
        probability: Option<f64>,
        /// Weight of a new queue length in the average.
        weight: Option<f64>,
        /// Mark ECN-capable packets instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// CoDel (RFC 8289).
    Codel {
        /// Acceptable standing delay.
        #[serde(default, deserialize_with = "quantity::opt_time")]
        target: Option<Duration>,
        /// About the longest round-trip time.
        #[serde(default, deserialize_with = "quantity::opt_time")]
        interval: Option<Duration>,
        /// Mark ECN-capable packets instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// FQ-CoDel (RFC 8290).
    FqCodel {
        /// Acceptable standing delay, as for CoDel.
        #[serde(default, deserialize_with = "quantity::opt_time")]
        target: Option<Duration>,
        /// About the longest round-trip time, as for CoDel.
        #[serde(default, deserialize_with = "quantity::opt_time")]
        interval: Option<Duration>,
        /// Number of queues.
        flows: Option<u32>,
        /// Mark ECN-capable packets instead of dropping them; on by default.
        ecn: Option<bool>,
    },
    /// Derivative random drop, as in the NIST Net emulator. Both thresholds count packets.
    Drd {
        /// While no more than this many packets are queued, no packet is dropped.
        min: u64,
        /// While at least this many packets are queued, 95 % of arriving packets are dropped.
        max: u64,
    },
    /// RFC 8033, with its default settings.
    Pie {
        /// Mark ECN-capable packets instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// Two coupled queues, one of which is for L4S, with the settings from the appendix of RFC 9332.
    #[serde(rename = "dual-pi2")]
    DualPi2 {},
}

/// A delay that varies.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JitterSpec {
    /// Distribution of the deviations.
    #[serde(default)]
    pub spread: SpreadKind,
    /// Standard deviation of a normal distribution, or half the width of a uniform one.
    #[serde(deserialize_with = "quantity::time")]
    pub by: Duration,
    /// Time after which the correlation of deviations has fallen to 1/e. If not given, each packet's
    /// deviation is independent.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub memory: Option<Duration>,
    /// Whether packets may be reordered.
    #[serde(default)]
    pub reorder: bool,
}

/// Distributions of jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpreadKind {
    /// Normal, truncated at four standard deviations.
    #[default]
    Normal,
    /// Uniform between minus and plus `by`.
    Uniform,
}

/// Bursty loss by the Gilbert-Elliott model. It has two states with different loss probabilities, and may
/// change its state after each packet.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLoss {
    /// Probability of entering the bad state.
    #[serde(deserialize_with = "quantity::share")]
    pub begin: f64,
    /// Probability of leaving the bad state: the inverse of that state's mean length in packets.
    #[serde(deserialize_with = "quantity::share")]
    pub end: f64,
    /// Loss probability in the good state; 0 by default.
    #[serde(default, deserialize_with = "quantity::share")]
    pub good: f64,
    /// Loss probability in the bad state; 1 by default.
    #[serde(default, deserialize_with = "quantity::opt_share")]
    pub bad: Option<f64>,
}

/// A rate limit without a queue: packets beyond it are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerSpec {
    /// Average rate.
    #[serde(deserialize_with = "quantity::rate")]
    pub rate: Rate,
    /// Bytes that may pass at once after a pause.
    #[serde(deserialize_with = "quantity::bytes")]
    pub burst: u32,
}

/// Sends packets in bursts, as Wi-Fi does.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregationSpec {
    /// Mean wait for the medium before each burst.
    #[serde(deserialize_with = "quantity::time")]
    pub access: Duration,
    /// Maximum number of packets per burst.
    pub packets: u32,
}

/// Returns the emulator's discipline for this setting.
pub(crate) fn queue_kind(discipline: Option<Discipline>) -> QueueKind {
    let codel = |target: Option<Duration>, interval: Option<Duration>, ecn| {
        let usual = CoDelConfig::default();
        CoDelConfig {
            target: target.unwrap_or(usual.target),
            interval: interval.unwrap_or(usual.interval),
            ecn,
        }
    };
    match discipline {
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
        Some(Discipline::Codel { target, interval, ecn }) => QueueKind::CoDel(codel(target, interval, ecn)),
        Some(Discipline::FqCodel { target, interval, flows, ecn }) => {
            let usual = FqCoDelConfig::default();
            QueueKind::FqCoDel(FqCoDelConfig {
                flows: flows.unwrap_or(usual.flows),
                codel: codel(target, interval, ecn.unwrap_or(usual.codel.ecn)),
                ..usual
            })
        }
        Some(Discipline::Drd { min, max }) => QueueKind::Drd(DrdConfig { min, max }),
        Some(Discipline::Pie { ecn }) => QueueKind::Pie(PieConfig { ecn, ..PieConfig::default() }),
        Some(Discipline::DualPi2 {}) => QueueKind::DualPi2(DualPi2Config::default()),
    }
}
