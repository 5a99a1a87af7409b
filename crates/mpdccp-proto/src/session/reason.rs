use core::fmt;
use dccp_proto::CloseReason;
use dccp_wire::ResetCode;

/// Reason for the end of a path or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// This end closed the path or session.
    Closed,
    /// The peer closed the path or session.
    ClosedByPeer,
    /// This end closed the path or session before it was open.
    ClosedBeforeOpen,
    /// This end aborted the path or session.
    Aborted,
    /// The peer aborted the path or session.
    AbortedByPeer,
    /// The peer reset the path or session with this code.
    ResetByPeer(ResetCode),
    /// This end reset the path or session with this code, because the peer made an error.
    ResetByUs(ResetCode),
    /// The application removed the path.
    Removed,
    /// The peer joined again from the same address.
    Replaced,
    /// The path was an unproven join, and gave way to others.
    Displaced,
    /// The session is plain DCCP, which has only one path.
    Plain,
    /// No packet arrived for longer than the path timeout.
    Silent,
    /// The peer did not answer.
    NoAnswer,
    /// The peer's host reported that nothing listens there (ICMP).
    NobodyListens,
    /// The handshake took too long.
    HandshakeTimeout,
    /// The client tried the next path for the first subflow.
    NextTried,
    /// All paths were down for too long.
    NoPath,
    /// The peer does not know the session, most likely because it restarted.
    UnknownToPeer,
    /// The peer does not speak Multipath DCCP, and the settings refuse a fallback.
    NoMultipath,
}

impl Reason {
    /// Returns the stable name for programs.
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
            Reason::NobodyListens => "nobody_listens",
            Reason::HandshakeTimeout => "handshake_timeout",
            Reason::NextTried => "next_tried",
            Reason::NoPath => "no_path",
            Reason::UnknownToPeer => "unknown_to_peer",
            Reason::NoMultipath => "no_multipath",
        }
    }

    /// Returns whether one of the ends closed cleanly.
    pub fn is_orderly(self) -> bool {
        matches!(self, Reason::Closed | Reason::ClosedByPeer | Reason::ClosedBeforeOpen)
    }
}

/// Writes the reason in words.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Closed => "closed",
            Reason::ClosedByPeer => "closed by the peer",
            Reason::ClosedBeforeOpen => "closed while connecting",
            Reason::Aborted => "aborted by this end",
            Reason::AbortedByPeer => "aborted by the peer",
            Reason::ResetByPeer(code) => {
                write!(f, "reset by the peer: {code:?}")?;
                return hint(*code).map_or(Ok(()), |hint| write!(f, " ({hint})"));
            }
            Reason::ResetByUs(code) => return write!(f, "reset by this end: {code:?}"),
            Reason::Removed => "removed",
            Reason::Replaced => "replaced by a new subflow",
            Reason::Displaced => "displaced by other joins",
            Reason::Plain => "the session is plain DCCP, which has only one path",
            Reason::Silent => "no packet from the peer for too long",
            Reason::NoAnswer => "no answer from the peer",
            Reason::NobodyListens => "the peer's host reports that nothing listens there",
            Reason::HandshakeTimeout => "no answer in time",
            Reason::NextTried => "no answer; trying the next address",
            Reason::NoPath => "all paths were down for too long",
            Reason::UnknownToPeer => "the peer no longer knows the session",
            Reason::NoMultipath => "the peer does not support Multipath DCCP",
        })
    }
}

/// Returns the likely meaning of a Reset, for the user who set up the connection.
fn hint(code: ResetCode) -> Option<&'static str> {
    Some(match code {
        ResetCode::NoConnection => {
            "the peer does not know the connection, because it restarted or a NAT changed this end's address"
        }
        ResetCode::ConnectionRefused => {
            "the peer does not accept this session, or listens on another DCCP port"
        }
        ResetCode::BadServiceCode => "another application listens on that port",
        ResetCode::TooBusy => {
            "the peer has reached its limit of sessions or paths, in total or for this host"
        }
        ResetCode::OptionError | ResetCode::MandatoryError => {
            "the peer does not understand the options of this end"
        }
        _ => return None,
    })
}

impl From<CloseReason> for Reason {
    fn from(reason: CloseReason) -> Reason {
        match reason {
            CloseReason::Local => Reason::Closed,
            CloseReason::Peer => Reason::ClosedByPeer,
            CloseReason::Reset(code) => Reason::ResetByPeer(code),
            CloseReason::Aborted(code) => Reason::ResetByUs(code),
            // The only other reason is TimedOut.
            _ => Reason::NoAnswer,
        }
    }
}
