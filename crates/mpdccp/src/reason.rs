//! Why paths and sessions end, in words.

use dccp_wire::ResetCode;
use mpdccp_proto::Reason;

/// In words.
pub(crate) fn words(reason: Reason) -> String {
    let words = match reason {
        Reason::Closed => "closed",
        Reason::ClosedByPeer => "closed by the peer",
        Reason::ClosedBeforeOpen => "closed before it was open",
        Reason::Aborted => "ended at once by this end",
        Reason::AbortedByPeer => "ended at once by the peer",
        Reason::ResetByPeer(code) => {
            return match hint(code) {
                Some(hint) => format!("reset by the peer: {code:?} ({hint})"),
                None => format!("reset by the peer: {code:?}"),
            };
        }
        Reason::ResetByUs(code) => return format!("reset by this end: {code:?}"),
        Reason::Removed => "removed",
        Reason::Replaced => "replaced by a new subflow",
        Reason::Displaced => "displaced by other joins",
        Reason::Plain => "plain DCCP has one path",
        Reason::Silent => "silent for too long",
        Reason::NoAnswer => "no answer from the peer",
        Reason::HandshakeTimeout => "no answer in time",
        Reason::NextTried => "no answer, trying the next",
        Reason::NoPath => "no path was up for too long",
        Reason::UnknownToPeer => "the peer does not know the session any more",
        Reason::NoMultipath => "the peer does not speak Multipath DCCP, and fallback is refused",
        other => other.name(),
    };
    words.to_string()
}

/// What a Reset most likely means to whoever set the connection up.
fn hint(code: ResetCode) -> Option<&'static str> {
    Some(match code {
        ResetCode::NoConnection => {
            "it does not know the connection: it was restarted, or a NAT changed the address"
        }
        ResetCode::ConnectionRefused => "it does not accept this session, or listens on another DCCP port",
        ResetCode::BadServiceCode => "another application listens there",
        ResetCode::TooBusy => "it has all the sessions or paths it allows",
        ResetCode::OptionError | ResetCode::MandatoryError => "it does not understand our options",
        _ => return None,
    })
}
