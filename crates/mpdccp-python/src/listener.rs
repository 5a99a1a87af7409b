//! The Python class Listener.

use crate::connection::Connection;
use crate::error::{connect, os};
use crate::options::{Address, options, preshared_key, public_key};
use crate::wait::wait_or_fail;
use dccp_sockets::AcceptError;
use pyo3::exceptions::PyConnectionAbortedError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::os::fd::AsRawFd;

/// Accepts connections.
#[pyclass(module = "mpdccp", frozen)]
pub(crate) struct Listener(dccp_sockets::Listener);

#[pymethods]
impl Listener {
    /// Listens on a local address. Port 0 selects any free port.
    #[new]
    #[pyo3(signature = (address, **kwargs))]
    fn new(py: Python<'_>, address: Address, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Listener> {
        let options = options(kwargs)?;
        let at = address.resolve(py)?;
        py.detach(|| dccp_sockets::Listener::bind(&at[..], options)).map(Listener).map_err(connect)
    }

    /// Waits for the next connection.
    #[pyo3(signature = (timeout=None))]
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Connection> {
        let accepted = wait_or_fail(py, timeout, |slice| match self.0.accept_timeout(slice) {
            Err(AcceptError::TimedOut) => None,
            accepted => Some(accepted),
        });
        accepted?.map(Connection::new).map_err(|e| os(e.errno(), e))
    }

    /// Returns the next connection if there is one, or None otherwise.
    fn try_accept(&self) -> PyResult<Option<Connection>> {
        match self.0.try_accept() {
            Err(AcceptError::Empty) => Ok(None),
            accepted => {
                accepted.map(|accepted| Some(Connection::new(accepted))).map_err(|e| os(e.errno(), e))
            }
        }
    }

    /// A descriptor for selectors, which belongs to the listener. It is readable while a connection is
    /// waiting.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.descriptor()?.as_raw_fd())
    }

    /// From now on, accepts the peer with this public key.
    #[pyo3(signature = (key, preshared_key=None))]
    fn add_peer(&self, py: Python<'_>, key: &str, preshared_key: Option<&str>) -> PyResult<()> {
        let (key, preshared) = (public_key(key)?, self::preshared_key(preshared_key)?);
        py.detach(|| self.0.add_peer(key, preshared)).map_err(connect)
    }

    /// Stops accepting a peer, and ends its connections.
    fn remove_peer(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        let key = public_key(key)?;
        py.detach(|| self.0.remove_peer(key)).map_err(connect)
    }

    /// The address on which the listener listens.
    #[getter]
    fn address(&self) -> (String, u16) {
        let addr = self.0.local_addr();
        (addr.ip().to_string(), addr.port())
    }

    /// Stops listening. Accepted connections continue.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Returns the next connection. The iteration ends when the listener is closed.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Connection>> {
        match self.accept(py, None) {
            Err(e) if e.is_instance_of::<PyConnectionAbortedError>(py) => Ok(None),
            accepted => accepted.map(Some),
        }
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (_kind, _value, _trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<Py<PyAny>>,
        _value: Option<Py<PyAny>>,
        _trace: Option<Py<PyAny>>,
    ) {
        self.close(py);
    }
}
