//! Where a resumption is, and how it ended.

/// Where a resumption is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumePhase {
    /// The initial window is to confirm the path (section 3.2).
    Reconnaissance,
    /// What was saved is tried (section 3.3).
    Unvalidated,
    /// What was tried is to arrive (section 3.4).
    Validating,
    /// It did not all arrive (section 3.5).
    SafeRetreat,
    /// Over.
    Normal(ResumeEnd),
}

/// How a resumption ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeEnd {
    /// What was tried arrived.
    Validated,
    /// The application had too little to send.
    RateLimited,
    /// The window had grown as large by itself.
    NoGain,
    /// Congestion came before the jump.
    Congested,
    /// The round-trip time is another path's.
    PathChanged,
    /// A retransmission timeout.
    TimedOut,
    /// The jump was too much.
    Retreated,
}
