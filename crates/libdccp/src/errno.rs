//! Converts errors and panics to negative errno values.

use dccp_sockets::{AcceptError, CcidError, ConnectError, FinishError, RecvError, SendError, StreamError};
use rustix::io::Errno;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The error of a call.
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

/// Runs a call and returns its result, or its error as a negative errno value. Also stores the error text. A
/// panic becomes the error EIO.
pub(crate) fn answer_size(call: impl FnOnce() -> Outcome<usize>) -> isize {
    let outcome = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(failure(Errno::IO, "the library panicked; standard error has the message")));
    match outcome {
        Ok(number) => number.try_into().unwrap_or(isize::MAX),
        Err(Failure { errno, text }) => {
            // A thread that is ending no longer has storage for the text, so the caller gets only the errno
            // value.
            let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
            let _ = LAST.try_with(|last| last.replace(text));
            -(errno.raw_os_error() as isize)
        }
    }
}

/// Does the same as [`answer_size`] for a function that returns an `int`.
pub(crate) fn answer(call: impl FnOnce() -> Outcome<usize>) -> c_int {
    answer_size(call).try_into().unwrap_or(c_int::MAX)
}

/// Text of the last error in this thread, valid until the thread's next error.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Implements the conversion of the library's error types to an errno value and a text.
macro_rules! failures {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                failure(Errno::from_raw_os_error(error.errno()), error.to_string())
            }
        }
    )*};
}
failures!(AcceptError, CcidError, ConnectError, FinishError, RecvError, SendError, StreamError);

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
