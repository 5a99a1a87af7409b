//! What is run, and what was made of it.

use crate::bounds::Bounds;
use crate::scenario::Aim;
use crate::store::Kept;

/// The set's name.
pub(in crate::reproduce) const NAME: &str = "dcp";

/// Seeds in the simulator.
pub(super) const SEEDS: u64 = 5;
/// Seeds of the short exchanges there.
pub(super) const ECHO_SEEDS: u64 = 20;
/// A quick run ends here.
pub(super) const QUICK_S: f64 = 60.0;
/// A flow alone meets about ten loss events in the paper's 200 s; this long it meets enough of them to mean something.
pub(super) const LONG_S: f64 = 1_000.0;
/// Rates in figures are means over so long.
pub(super) const BIN_S: f64 = 2.0;

/// The queues and kinds of TCP that experiment F speaks of.
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

/// Variants of the asymmetric link: CCID forward, CCID in reverse.
pub(super) const ASYMMETRIC: [&str; 4] = ["ccid3-2", "ccid2-3", "ccid2-2", "ccid3-3"];
/// Variants of what acknowledgements cost.
pub(super) const ACKS: [&str; 6] =
    ["ccid2-ratio2", "ccid2-ratio4", "ccid2-ratio8", "ccid2-ratio16", "ccid5", "ccid3"];
/// Variants of the echoed packets.
pub(super) const ECHOES: [&str; 6] = ["udp", "ccid2", "ccid3", "ccid5", "tcp-reno", "tcp-cubic"];
/// Losses each way, in words and as scenarios write them.
pub(super) const LOSSES: [(&str, &str); 2] = [("clean", "0 %"), ("loss", "5 %")];
/// Numbers of TCP flows beyond the paper's.
pub(super) const MANY: [u32; 3] = [16, 32, 64];

pub(super) fn with_tcp(cross: &CrossTraffic, n: u32) -> String {
    format!("with-tcp-{}-{n}", cross.key)
}

/// A run that was made.
pub(super) struct Made {
    pub(super) name: String,
    pub(super) kept: Kept,
    /// Of its scenario.
    pub(super) aims: Vec<Aim>,
}

impl Made {
    /// What its scenario aims at.
    pub(super) fn aim(&self, metric: &str) -> Option<Bounds> {
        let own = |aim: &&Aim| *aim.label.as_ref() == self.kept.key.label && *aim.metric.as_ref() == metric;
        self.aims.iter().find(own).map(Aim::bounds)
    }
}
