/// A subflow's part of a bottleneck that it shares with others of its session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Growth of its window in congestion avoidance, of what a flow alone would do. At most 1.
    pub increase: f64,
    /// Reductions of its window, of what a flow alone would do. At least 1.
    pub decrease: f64,
    /// How strongly it probes for bandwidth, of what a flow alone would do: its share of the rate, or an equal one if that is more.
    pub weight: f64,
    /// Another subflow at this bottleneck is in ProbeRTT: now is the time for it.
    pub probe_rtt: bool,
}

impl Part {
    /// All of it.
    pub const ALONE: Part = Part { increase: 1.0, decrease: 1.0, weight: 1.0, probe_rtt: false };
}
