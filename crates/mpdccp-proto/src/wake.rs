use dccp_proto::Timer;

/// Why a session or an endpoint wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wake {
    /// Something waits to be fetched.
    NotDrained,
    /// DCCP-Listen is sent again (RFC 5596).
    Listen,
    /// A session may send more within the bound on all of them.
    Turn,
    /// A hole ends, or held packets go on.
    Reorder,
    /// The streams acknowledge, or miss an acknowledgement.
    Streams,
    /// A datagram gets too old to be sent.
    QueueExpiry,
    /// A path may send again.
    Gate,
    /// The scheduler asked to be asked again.
    Scheduler,
    /// The bound on what is sent allows more.
    Rate,
    /// There is more to send now.
    Backlog,
    /// A path is to be probed, or is silent for too long.
    Probe,
    /// A connection that opens or closes is given up.
    Patience,
    /// A path is tried again.
    Connect,
    /// The first path is given up for the next.
    FirstAttempt,
    /// An option that was not confirmed is sent again.
    Confirm,
    /// The session's end is not waited for any longer.
    CloseWait,
    /// No path was up for too long.
    Survive,
    /// A timer of one of its connections.
    Connection(Timer),
}

impl Wake {
    /// Its name, for traces.
    pub const fn name(self) -> &'static str {
        match self {
            Wake::NotDrained => "not_drained",
            Wake::Listen => "listen",
            Wake::Turn => "turn",
            Wake::Reorder => "reorder",
            Wake::Streams => "streams",
            Wake::QueueExpiry => "queue_expiry",
            Wake::Gate => "gate",
            Wake::Scheduler => "scheduler",
            Wake::Rate => "rate",
            Wake::Backlog => "backlog",
            Wake::Probe => "probe",
            Wake::Patience => "patience",
            Wake::Connect => "connect",
            Wake::FirstAttempt => "first_attempt",
            Wake::Confirm => "confirm",
            Wake::CloseWait => "close_wait",
            Wake::Survive => "survive",
            Wake::Connection(timer) => timer.name(),
        }
    }
}
