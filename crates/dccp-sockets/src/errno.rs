//! Maps each error to the closest errno value, for interfaces that report errors as numbers: C, Python, and
//! the sockets of other systems.

use dccp_wire::ResetCode;
use mpdccp_proto::Reason;
use rustix::io::Errno;
use std::io::{self, ErrorKind};

/// Returns the errno value for a connection that did not end in an orderly way.
pub(crate) fn of_reason(reason: Reason) -> Errno {
    match reason {
        Reason::Aborted | Reason::ResetByUs(_) => Errno::CONNABORTED,
        Reason::Silent | Reason::NoAnswer | Reason::HandshakeTimeout | Reason::NoPath => Errno::TIMEDOUT,
        Reason::NoMultipath => Errno::PROTO,
        Reason::NobodyListens => Errno::CONNREFUSED,
        _ => Errno::CONNRESET,
    }
}

pub(crate) fn of_io(error: &io::Error) -> Errno {
    // This crate wraps system errors to add context. The original error is the source.
    let system = || error.get_ref()?.source()?.downcast_ref::<io::Error>();
    match (Errno::from_io_error(system().unwrap_or(error)), error.kind()) {
        (Some(errno), _) => errno,
        (None, ErrorKind::InvalidInput) => Errno::INVAL,
        // The resolver's errors have their own numbers.
        (None, _) => Errno::HOSTUNREACH,
    }
}

/// Returns the errno value for a write to a connection that has ended.
pub(crate) fn of_end(reason: Reason) -> Errno {
    if reason.is_orderly() { Errno::PIPE } else { of_reason(reason) }
}

/// Returns the errno value for a connection that ended before it was open.
pub(crate) fn of_refusal(reason: Reason) -> Errno {
    match reason {
        Reason::ResetByPeer(ResetCode::TooBusy) => Errno::USERS,
        Reason::ResetByPeer(_) => Errno::CONNREFUSED,
        reason => of_reason(reason),
    }
}
