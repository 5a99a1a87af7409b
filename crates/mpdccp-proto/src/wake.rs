use dccp_proto::Timer;

/// Why a session or an endpoint wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wake {
    /// Output must be fetched.
    NotDrained,
    /// Another DCCP-Listen is due (RFC 5596).
    Listen,
    /// The limit shared by all sessions allows more data.
    Turn,
    /// A hole has lasted too long, or held packets must be released.
    Reorder,
    /// The streams acknowledge data, or an acknowledgement is overdue.
    Streams,
    /// A queued datagram expires.
    QueueExpiry,
    /// A path may send again.
    Gate,
    /// The scheduler asked to be called again at this time.
    Scheduler,
    /// The session's rate limit allows more data.
    Rate,
    /// There is more to send now.
    Backlog,
    /// A path needs a probe, or has been silent for too long.
    Probe,
    /// A connection has taken too long to open or close.
    Patience,
    /// A path is retried.
    Connect,
    /// The client gives up on the first path and tries the next one.
    FirstAttempt,
    /// An unconfirmed option is retransmitted.
    Confirm,
    /// The peer has taken too long to end the session.
    CloseWait,
    /// All paths have been down for too long.
    Survive,
    /// A timer of a connection.
    Connection(Timer),
}

impl Wake {
    /// Returns its name, for traces.
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
