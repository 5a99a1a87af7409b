//! Errors and panics become negative errno values.

use dccp_sockets::{
    AcceptError, CcidError, ConnectError, FinishError, Reason, RecvError, ResetCode, SendError,
};
use rustix::io::Errno;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: Errno,
    pub(crate) text: String,
}

pub(crate) fn failure(errno: Errno, text: impl Into<String>) -> Failure {
    Failure { errno, text: text.into() }
}

pub(crate) fn invalid(text: impl Into<String>) -> Failure {
    failure(Errno::INVAL, text)
}

pub(crate) type Outcome<T> = Result<T, Failure>;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// What a call returns: its number, or the negative errno value of why it failed. No panic leaves it.
pub(crate) fn answer_size(call: impl FnOnce() -> Outcome<usize>) -> isize {
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(failure(Errno::IO, "the library failed: a panic, reported on standard error"))
    });
    match outcome {
        Ok(number) => number.try_into().unwrap_or(isize::MAX),
        Err(Failure { errno, text }) => {
            // Without the thread's memory, at its end, the number has to do.
            let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
            let _ = LAST.try_with(|last| last.replace(text));
            -(errno.raw_os_error() as isize)
        }
    }
}

/// As [`answer_size`], of an `int`.
pub(crate) fn answer(call: impl FnOnce() -> Outcome<usize>) -> c_int {
    answer_size(call).try_into().unwrap_or(c_int::MAX)
}

/// Why the last call of this thread that failed did, in words. Valid until the next one that fails.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The errno value of an end that is an error.
pub(crate) fn of_reason(reason: Reason) -> Errno {
    match reason {
        Reason::Aborted | Reason::ResetByUs(_) => Errno::CONNABORTED,
        Reason::Silent | Reason::NoAnswer | Reason::HandshakeTimeout | Reason::NoPath => Errno::TIMEDOUT,
        Reason::NoMultipath => Errno::PROTO,
        _ => Errno::CONNRESET,
    }
}

fn of_io(error: &io::Error) -> Errno {
    // The library says of what the system's error is: that is its source.
    let system = || error.get_ref()?.source()?.downcast_ref::<io::Error>();
    match (Errno::from_io_error(system().unwrap_or(error)), error.kind()) {
        (Some(errno), _) => errno,
        (None, ErrorKind::InvalidInput) => Errno::INVAL,
        // The resolver has numbers of its own.
        (None, _) => Errno::HOSTUNREACH,
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Failure {
        let errno = match &error {
            ConnectError::NoAddress => Errno::HOSTUNREACH,
            ConnectError::Options(_) => Errno::INVAL,
            ConnectError::TimedOut => Errno::TIMEDOUT,
            ConnectError::Refused(Reason::ResetByPeer(ResetCode::TooBusy)) => Errno::USERS,
            ConnectError::Refused(Reason::ResetByPeer(_)) => Errno::CONNREFUSED,
            ConnectError::Refused(reason) => of_reason(*reason),
            ConnectError::Forked => Errno::PERM,
            ConnectError::Io(error) => of_io(error),
            _ => Errno::IO,
        };
        failure(errno, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        failure(of_io(&error), error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        let errno = match error {
            SendError::Full => Errno::AGAIN,
            SendError::TooBig { .. } => Errno::MSGSIZE,
            SendError::Empty => Errno::INVAL,
            SendError::Closed(reason) if reason.is_orderly() => Errno::PIPE,
            SendError::Closed(reason) => of_reason(reason),
            SendError::Forked => Errno::PERM,
            _ => Errno::IO,
        };
        failure(errno, error.to_string())
    }
}

impl From<RecvError> for Failure {
    fn from(error: RecvError) -> Failure {
        let errno = match error {
            RecvError::TimedOut => Errno::TIMEDOUT,
            RecvError::Empty => Errno::AGAIN,
            RecvError::BufferTooSmall { .. } => Errno::MSGSIZE,
            RecvError::Forked => Errno::PERM,
            RecvError::Closed(reason) => of_reason(reason),
            _ => Errno::IO,
        };
        failure(errno, error.to_string())
    }
}

impl From<AcceptError> for Failure {
    fn from(error: AcceptError) -> Failure {
        let errno = match error {
            AcceptError::TimedOut => Errno::TIMEDOUT,
            AcceptError::Empty => Errno::AGAIN,
            AcceptError::Forked => Errno::PERM,
            _ => Errno::CONNABORTED,
        };
        failure(errno, error.to_string())
    }
}

impl From<FinishError> for Failure {
    fn from(error: FinishError) -> Failure {
        failure(of_reason(error.0), error.to_string())
    }
}

impl From<CcidError> for Failure {
    fn from(error: CcidError) -> Failure {
        let errno = match error {
            CcidError::NotOpen => Errno::NOTCONN,
            _ => Errno::INVAL,
        };
        failure(errno, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let answered = answer(|| panic!("on purpose"));
        assert_eq!(answered, -Errno::IO.raw_os_error());
    }

    #[test]
    fn a_text_with_a_null_byte_is_told_all_the_same() {
        answer(|| Err(invalid("one\0two")));
        LAST.with(|last| assert_eq!(last.borrow().to_str(), Ok("one two")));
    }
}
