use dccp_proto::CloseReason;
use dccp_wire::ResetCode;

/// Why a path or a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Closed by this end.
    Closed,
    /// Closed by the peer.
    ClosedByPeer,
    /// Closed by this end before it was open.
    ClosedBeforeOpen,
    /// Ended at once by this end.
    Aborted,
    /// Ended at once by the peer.
    AbortedByPeer,
    /// Reset by the peer, with this code.
    ResetByPeer(ResetCode),
    /// Reset by this end for a fault, with this code.
    ResetByUs(ResetCode),
    /// The application removed the path.
    Removed,
    /// The peer joined anew from the same address.
    Replaced,
    /// Many others joined, and this one had proved nothing.
    Displaced,
    /// The session is plain DCCP, which has one path.
    Plain,
    /// Silent for longer than it is worth waiting.
    Silent,
    /// No answer from the peer.
    NoAnswer,
    /// The handshake took too long.
    HandshakeTimeout,
    /// The first subflow is tried on the next path.
    NextTried,
    /// No path was up for too long.
    NoPath,
    /// The peer does not know the session, most likely as it was restarted.
    UnknownToPeer,
    /// The peer does not speak Multipath DCCP, and fallback is refused.
    NoMultipath,
}

impl Reason {
    /// Its name, for machines; it does not change.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Closed => "closed",
            Reason::ClosedByPeer => "closed_by_peer",
            Reason::ClosedBeforeOpen => "closed_before_open",
            Reason::Aborted => "aborted",
            Reason::AbortedByPeer => "aborted_by_peer",
            Reason::ResetByPeer(_) => "reset_by_peer",
            Reason::ResetByUs(_) => "reset_by_us",
            Reason::Removed => "removed",
            Reason::Replaced => "replaced",
            Reason::Displaced => "displaced",
            Reason::Plain => "plain",
            Reason::Silent => "silent",
            Reason::NoAnswer => "no_answer",
            Reason::HandshakeTimeout => "handshake_timeout",
            Reason::NextTried => "next_tried",
            Reason::NoPath => "no_path",
            Reason::UnknownToPeer => "unknown_to_peer",
            Reason::NoMultipath => "no_multipath",
        }
    }

    /// In good order, by either end.
    pub fn is_orderly(self) -> bool {
        matches!(self, Reason::Closed | Reason::ClosedByPeer | Reason::ClosedBeforeOpen)
    }
}

impl From<CloseReason> for Reason {
    fn from(reason: CloseReason) -> Reason {
        match reason {
            CloseReason::Local => Reason::Closed,
            CloseReason::Peer => Reason::ClosedByPeer,
            CloseReason::Reset(code) => Reason::ResetByPeer(code),
            CloseReason::Aborted(code) => Reason::ResetByUs(code),
            CloseReason::TimedOut => Reason::NoAnswer,
        }
    }
}
