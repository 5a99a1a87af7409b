use dccp_proto::Timer;

mpdccp_units::named! {
    /// Why a session or an endpoint wants to be called again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Wake
    with
        /// A timer of a connection.
        Connection(Timer)
    {
        /// Output must be fetched.
        NotDrained = "not_drained",
        /// Another DCCP-Listen is due (RFC 5596).
        Listen = "listen",
        /// The limit shared by all sessions allows more data.
        Turn = "turn",
        /// A hole has lasted too long, or held packets must be released.
        Reorder = "reorder",
        /// The streams acknowledge data, or an acknowledgement is overdue.
        Streams = "streams",
        /// A queued datagram expires.
        QueueExpiry = "queue_expiry",
        /// A path may send again.
        Gate = "gate",
        /// The scheduler asked to be called again at this time.
        Scheduler = "scheduler",
        /// The session's rate limit allows more data.
        Rate = "rate",
        /// There is more to send now.
        Backlog = "backlog",
        /// A path needs a probe, or has been silent for too long.
        Probe = "probe",
        /// A connection has taken too long to open or close.
        Patience = "patience",
        /// A path is retried.
        Connect = "connect",
        /// The client gives up on the first path and tries the next one.
        FirstAttempt = "first_attempt",
        /// An unconfirmed option is retransmitted.
        Confirm = "confirm",
        /// The peer has taken too long to end the session.
        CloseWait = "close_wait",
        /// All paths have been down for too long.
        Survive = "survive",
    }
}
