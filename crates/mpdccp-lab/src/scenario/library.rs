/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The scenario's name, which is also its path under `scenarios/`.
    pub name: &'static str,
    /// Content of the file.
    pub text: &'static str,
}

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        &[$(Named { name: $name, text: include_str!(concat!("../../../../scenarios/", $name, ".toml")) }),*]
    };
}

/// All built-in scenarios.
pub const LIBRARY: &[Named] = library![
    "paper/multipath-udp",
    "paper/multipath-tcp",
    "paper/single-path",
    "paper/fairness",
    "paper/competition",
    "paper/beside-tcp",
    "paper/shared-bottleneck",
    "paper/delay",
    "paper/loss",
    "dcp/one-flow",
    "dcp/with-tcp",
    "dcp/fast-link",
    "dcp/asymmetric",
    "dcp/ack-ratio",
    "dcp/overhead",
    "paper/matrix",
    "paper/matrix-tcp",
    "paper/mirrored",
    "paper/ecn",
    "paper/late-second-path",
    "reordering/two-paths",
    "reordering/unequal",
    "reordering/inner-tcp",
    "multipath/profiles",
    "multipath/good-and-bad",
    "multipath/three",
    "multipath/four",
    "multipath/small-flow",
    "multipath/urgent",
    "multipath/failover",
    "multipath/flapping",
    "multipath/lossy",
    "multipath/standby",
    "multipath/back",
    "multipath/spread",
    "multipath/repair",
    "multipath/swap-rate",
    "multipath/swap-rtt",
    "multipath/dips",
    "multipath/two-die",
    "multipath/odd",
    "multipath/operation",
    "multipath/operation-restarts",
    "calibration",
    "calibration-tunnel",
    "calibration-quic",
    "examples/three-paths",
    "examples/link-models",
    "examples/drive",
];
