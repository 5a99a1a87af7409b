//! The parameters of the experiments, and their finished runs.

use crate::bounds::Bounds;
use crate::scenario::Aim;
use crate::store::Kept;

/// The set's name.
pub(in crate::reproduce) const NAME: &str = "dcp";

/// Number of seeds in the simulator.
pub(super) const SEEDS: u64 = 5;
/// Number of seeds for the echo experiment in the simulator.
pub(super) const ECHO_SEEDS: u64 = 20;
/// Duration of a quick run, seconds.
pub(super) const QUICK_S: f64 = 60.0;
/// Duration, in seconds, of a run with enough loss events for statistics. In the paper's 200 s, a single flow
/// has only about ten.
pub(super) const LONG_S: f64 = 1_000.0;
/// Length, in seconds, of the bins over which figures average rates.
pub(super) const BIN_S: f64 = 2.0;

/// The combinations of queue and competing TCP in the experiment that measures the friendliness F.
pub(super) const CROSS_TRAFFIC: [CrossTraffic; 3] = [
    CrossTraffic {
        key: "reno",
        short: "Reno",
        words: "TCP Reno, derivative random drop",
        counts: &[1, 2, 3, 4, 5, 6, 7, 8, 9],
    },
    CrossTraffic {
        key: "cubic",
        short: "CUBIC",
        words: "TCP CUBIC, derivative random drop",
        counts: &[1, 4, 9],
    },
    CrossTraffic {
        key: "reno-tail",
        short: "Reno, drop-tail",
        words: "TCP Reno, drop-tail of 125 packets",
        counts: &[1, 4, 9],
    },
];

pub(super) struct CrossTraffic {
    pub(super) key: &'static str,
    pub(super) short: &'static str,
    pub(super) words: &'static str,
    pub(super) counts: &'static [u32],
}

/// Variants for the asymmetric link. A label names the CCIDs of the forward and the reverse direction.
pub(super) const ASYMMETRIC: [&str; 4] = ["ccid3-2", "ccid2-3", "ccid2-2", "ccid3-3"];
/// Variants for the experiment on the cost of acknowledgements.
pub(super) const ACKS: [&str; 6] =
    ["ccid2-ratio2", "ccid2-ratio4", "ccid2-ratio8", "ccid2-ratio16", "ccid5", "ccid3"];
/// Variants for the echo experiment.
pub(super) const ECHOES: [&str; 6] = ["udp", "ccid2", "ccid3", "ccid5", "tcp-reno", "tcp-cubic"];
/// Loss in each direction: the name used in labels, and the value used in scenarios.
pub(super) const LOSSES: [(&str, &str); 2] = [("clean", "0 %"), ("loss", "5 %")];
/// Numbers of TCP flows in addition to the paper's.
pub(super) const MANY: [u32; 3] = [16, 32, 64];

pub(super) fn with_tcp(cross: &CrossTraffic, n: u32) -> String {
    format!("with-tcp-{}-{n}", cross.key)
}

/// A finished run.
pub(super) struct Made {
    pub(super) name: String,
    pub(super) kept: Kept,
    /// Aims of the run's scenario.
    pub(super) aims: Vec<Aim>,
}

impl Made {
    /// Returns the bounds of the scenario's aim for a metric.
    pub(super) fn aim(&self, metric: &str) -> Option<Bounds> {
        let own = |aim: &&Aim| *aim.label.as_ref() == self.kept.key.label && *aim.metric.as_ref() == metric;
        self.aims.iter().find(own).map(Aim::bounds)
    }
}
