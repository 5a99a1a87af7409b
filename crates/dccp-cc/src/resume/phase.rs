//! Phases of a resumption and its outcomes.

/// Phase of a resumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumePhase {
    /// The initial window confirms the path (section 3.2).
    Reconnaissance,
    /// The window is the jump, which is at most half of the saved window and not yet validated (section 3.3).
    Unvalidated,
    /// The sender waits until the jump's packets arrive (section 3.4).
    Validating,
    /// Packets of the jump were lost or marked, or a round-trip time indicates that this is another path
    /// (section 3.5).
    SafeRetreat,
    /// The resumption is over.
    Normal(ResumeEnd),
}

/// Outcome of a resumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeEnd {
    /// The jump's packets arrived.
    Validated,
    /// The application had too little to send.
    RateLimited,
    /// Before the jump, the window grew to the size of the jump, or the search for the path's capacity ended.
    NoGain,
    /// Congestion occurred before the jump.
    Congested,
    /// A round-trip time indicates that this is another path.
    PathChanged,
    /// A retransmission timeout occurred.
    TimedOut,
    /// The jump exceeded the path's capacity.
    Retreated,
}
