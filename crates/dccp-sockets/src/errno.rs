//! Maps each error to the closest errno value, for interfaces that report errors as numbers: C, Python, and
//! the sockets of other systems.

use crate::{
    AcceptError, CcidError, ConnectError, FinishError, Reason, RecvError, ResetCode, SendError, StreamError,
};
use rustix::io::Errno;
use std::io::{self, ErrorKind};

/// Returns the errno value for a connection that did not end in an orderly way.
fn of_reason(reason: Reason) -> Errno {
    match reason {
        Reason::Aborted | Reason::ResetByUs(_) => Errno::CONNABORTED,
        Reason::Silent | Reason::NoAnswer | Reason::HandshakeTimeout | Reason::NoPath => Errno::TIMEDOUT,
        Reason::NoMultipath => Errno::PROTO,
        Reason::NobodyListens => Errno::CONNREFUSED,
        _ => Errno::CONNRESET,
    }
}

fn of_io(error: &io::Error) -> Errno {
    // This crate wraps system errors to add context. The original error is the source.
    let system = || error.get_ref()?.source()?.downcast_ref::<io::Error>();
    match (Errno::from_io_error(system().unwrap_or(error)), error.kind()) {
        (Some(errno), _) => errno,
        (None, ErrorKind::InvalidInput) => Errno::INVAL,
        // The resolver's errors have their own numbers.
        (None, _) => Errno::HOSTUNREACH,
    }
}

impl ConnectError {
    /// Returns the errno value that is closest to this error.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            ConnectError::NoAddress => Errno::HOSTUNREACH,
            ConnectError::Options(_) => Errno::INVAL,
            ConnectError::TimedOut => Errno::TIMEDOUT,
            ConnectError::Refused(Reason::ResetByPeer(ResetCode::TooBusy)) => Errno::USERS,
            ConnectError::Refused(Reason::ResetByPeer(_)) => Errno::CONNREFUSED,
            ConnectError::Refused(reason) => of_reason(*reason),
            ConnectError::Forked => Errno::PERM,
            ConnectError::Io(error) => of_io(error),
        };
        errno.raw_os_error()
    }
}

impl SendError {
    /// Returns the errno value that is closest to this error. After an orderly end, this is EPIPE.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            SendError::Full => Errno::AGAIN,
            SendError::TooBig { .. } => Errno::MSGSIZE,
            SendError::Empty => Errno::INVAL,
            SendError::Closed(reason) if reason.is_orderly() => Errno::PIPE,
            SendError::Closed(reason) => of_reason(*reason),
            SendError::Forked => Errno::PERM,
        };
        errno.raw_os_error()
    }
}

impl RecvError {
    /// Returns the errno value that is closest to this error. Calls that return 0 at an orderly end, the
    /// end of the data, do not use the value then.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            RecvError::TimedOut => Errno::TIMEDOUT,
            RecvError::Empty => Errno::AGAIN,
            RecvError::BufferTooSmall { .. } => Errno::MSGSIZE,
            RecvError::Forked => Errno::PERM,
            RecvError::Closed(reason) => of_reason(*reason),
        };
        errno.raw_os_error()
    }
}

impl AcceptError {
    /// Returns the errno value that is closest to this error.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            AcceptError::TimedOut => Errno::TIMEDOUT,
            AcceptError::Empty => Errno::AGAIN,
            AcceptError::Forked => Errno::PERM,
            AcceptError::Closed => Errno::CONNABORTED,
        };
        errno.raw_os_error()
    }
}

impl StreamError {
    /// Returns the errno value that is closest to this error. After an orderly end, this is EPIPE.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            StreamError::TimedOut => Errno::TIMEDOUT,
            StreamError::Reset(_) => Errno::CONNRESET,
            StreamError::Stopped(_) | StreamError::Ended => Errno::PIPE,
            StreamError::Closed(reason) if reason.is_orderly() => Errno::PIPE,
            StreamError::Closed(reason) => of_reason(*reason),
            StreamError::Unsupported => Errno::OPNOTSUPP,
            StreamError::TooMany => Errno::AGAIN,
            StreamError::Forked => Errno::PERM,
        };
        errno.raw_os_error()
    }

    /// Returns the errno value that is closest to this error of a read. After an orderly end of the
    /// connection, this is not EPIPE, because the stream's data is incomplete.
    pub fn read_errno(&self) -> i32 {
        match self {
            StreamError::Closed(reason) => of_reason(*reason).raw_os_error(),
            _ => self.errno(),
        }
    }
}

impl FinishError {
    /// Returns the errno value that is closest to this error.
    pub fn errno(&self) -> i32 {
        of_reason(self.0).raw_os_error()
    }
}

impl CcidError {
    /// Returns the errno value that is closest to this error.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            CcidError::NotOpen => Errno::NOTCONN,
            CcidError::Unknown(_) => Errno::INVAL,
            CcidError::Forked => Errno::PERM,
        };
        errno.raw_os_error()
    }
}
