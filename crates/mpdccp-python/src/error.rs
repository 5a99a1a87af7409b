//! Converts errors to `OSError` with an errno value, so that Python raises `ConnectionRefusedError`,
//! `TimeoutError` and so on, as for its own sockets.

use dccp_sockets::{ConnectError, RecvError, SendError, StreamError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::fmt::Display;

/// Returns an `OSError`, whose subclass Python selects by the errno value.
pub(crate) fn os(errno: i32, text: impl Display) -> PyErr {
    PyOSError::new_err((errno, text.to_string()))
}

/// Returns the error for a call that has timed out.
pub(crate) fn expired(timeout: Option<f64>) -> PyErr {
    match timeout {
        Some(0.0) => os(SendError::Full.errno(), "the call would block"),
        _ => os(RecvError::TimedOut.errno(), "timed out"),
    }
}

pub(crate) fn connect(error: ConnectError) -> PyErr {
    match error {
        ConnectError::Options(what) => PyValueError::new_err(what),
        error => os(error.errno(), error),
    }
}

pub(crate) fn send(error: SendError) -> PyErr {
    match error {
        SendError::Empty => PyValueError::new_err(error.to_string()),
        error => os(error.errno(), error),
    }
}

pub(crate) fn stream(error: StreamError) -> PyErr {
    os(error.errno(), error)
}

pub(crate) fn stream_read(error: StreamError) -> PyErr {
    os(error.read_errno(), error)
}

pub(crate) fn recv(error: RecvError) -> PyErr {
    os(error.errno(), error)
}
