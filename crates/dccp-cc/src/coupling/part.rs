/// A subflow's part of a bottleneck that it shares with other subflows of its session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Growth of the subflow's window in congestion avoidance, relative to a single flow. At most 1.
    pub increase: f64,
    /// Size of the reductions of the subflow's window, relative to a single flow. At least 1.
    pub decrease: f64,
    /// Strength of the subflow's bandwidth probes, relative to a single flow. It is the subflow's share of
    /// the rate, but at least an equal share.
    pub weight: f64,
    /// Whether another subflow at this bottleneck is in ProbeRTT. If so, this subflow should join it.
    pub probe_rtt: bool,
}

impl Part {
    /// The part of a single flow.
    pub const ALONE: Part = Part { increase: 1.0, decrease: 1.0, weight: 1.0, probe_rtt: false };
}
