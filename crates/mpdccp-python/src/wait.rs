//! Runs calls that wait. While a call waits, other Python threads run, and Ctrl-C interrupts the call.

use crate::error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// Maximum delay before Ctrl-C takes effect.
const SLICE: Duration = Duration::from_millis(100);

/// Repeats the attempt until it has a result, or returns `None` after the timeout. A timeout of 0 means a
/// single attempt; without a timeout, waits forever.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    mut attempt: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    let limit = timeout.map(|seconds| {
        Duration::try_from_secs_f64(seconds).map_err(|e| {
            PyValueError::new_err(format!(
                "invalid timeout {seconds}: {e}; expected a number of seconds, 0 or more, or None"
            ))
        })
    });
    let until = limit.transpose()?.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = match (timeout, until) {
            (Some(_), Some(until)) => until.saturating_duration_since(Instant::now()),
            _ => SLICE,
        };
        if let Some(result) = py.detach(|| attempt(left.min(SLICE))) {
            return Ok(Some(result));
        }
        py.check_signals()?;
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// Like [`wait`], but raises an error after the timeout: `BlockingIOError` if the timeout was 0, otherwise
/// `TimeoutError`.
pub(crate) fn wait_or_fail<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    attempt: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<T> {
    wait(py, timeout, attempt)?.ok_or_else(|| error::expired(timeout))
}
