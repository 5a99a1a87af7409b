//! The Python class Stream.

use crate::data::Data;
use crate::error::{stream, stream_read};
use crate::wait::wait_or_fail;
use dccp_sockets::{ByteStream, StreamError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::AsRawFd;

/// A reliable stream of bytes in both directions, next to the datagrams of its connection.
#[pyclass(module = "mpdccp", frozen)]
pub(crate) struct Stream(pub(crate) ByteStream);

/// Repeats the call until it is done, or until a Python signal handler raises an exception.
pub(crate) fn waited<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    call: impl FnMut(std::time::Duration) -> Result<T, StreamError> + Send,
) -> PyResult<T> {
    result(py, timeout, call)?.map_err(stream)
}

/// Like [`waited`], but returns the error of the stream, which the caller converts.
fn result<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    mut call: impl FnMut(std::time::Duration) -> Result<T, StreamError> + Send,
) -> PyResult<Result<T, StreamError>> {
    wait_or_fail(py, timeout, |slice| match call(slice) {
        Err(StreamError::TimedOut) => None,
        result => Some(result),
    })
}

#[pymethods]
impl Stream {
    /// Writes all data, waiting while the buffer is full. The timeout limits the whole call. If it passes,
    /// the peer may receive only the start of the data.
    #[pyo3(signature = (data, timeout=None))]
    fn write(&self, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let py = data.py();
        let data = Data::of(data)?;
        let mut rest = data.as_slice();
        waited(py, timeout, |slice| {
            if !rest.is_empty() {
                rest = &rest[self.0.write_timeout(rest, Some(slice))?..];
            }
            // After this error, `waited` calls again, until the time limit.
            if rest.is_empty() { Ok(()) } else { Err(StreamError::TimedOut) }
        })
    }

    /// Writes as much as fits, and returns the number of bytes written.
    fn try_write(&self, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let data = Data::of(data)?;
        match self.0.write_timeout(data.as_slice(), Some(std::time::Duration::ZERO)) {
            Err(StreamError::TimedOut) => Ok(0),
            written => written.map_err(stream),
        }
    }

    /// Waits for data. Returns the available bytes, at most `most`; b"" at the end.
    #[pyo3(signature = (most=65536, timeout=None))]
    fn read<'py>(&self, py: Python<'py>, most: usize, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let mut room = vec![0; most.min(1 << 20)];
        let read = result(py, timeout, |slice| self.0.read_timeout(&mut room, Some(slice)))?;
        let len = read.map_err(stream_read)?;
        Ok(PyBytes::new(py, &room[..len]))
    }

    /// Ends writing. The peer still receives everything written so far. Reading can continue.
    fn end(&self) {
        self.0.end();
    }

    /// Ends writing, and waits until the peer has received everything.
    #[pyo3(signature = (timeout=None))]
    fn finish(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        waited(py, timeout, |slice| self.0.finish_timeout(Some(slice)))
    }

    /// Resets both directions immediately. The peer receives the given code.
    #[pyo3(signature = (code=0))]
    fn reset(&self, code: u16) {
        self.0.reset(code);
    }

    /// Stops reading. Data already written still reaches the peer.
    fn close(&self) {
        self.0.close();
    }

    /// Returns two values: whether a read would return at once, and whether a write would.
    fn ready(&self) -> (bool, bool) {
        self.0.ready()
    }

    /// A descriptor for selectors, for read events only. It belongs to the stream.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.descriptor()?.as_raw_fd())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Finishes the stream. After an exception, resets it instead.
    #[pyo3(signature = (kind, _value, _trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _value: Option<Py<PyAny>>,
        _trace: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        if kind.is_some() {
            self.reset(0);
            return Ok(());
        }
        match result(py, None, |slice| self.0.finish_timeout(Some(slice)))? {
            // `Ended` means that the block called `reset`, so there is nothing to wait for.
            Ok(()) | Err(StreamError::Ended) => self.close(),
            Err(e) => return Err(stream(e)),
        }
        Ok(())
    }
}
