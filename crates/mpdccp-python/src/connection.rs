//! The Python classes Connection and Connector.

use crate::data::Data;
use crate::error::{connect, os, recv, send, stream};
use crate::observe::{Event, Stats};
use crate::options::{Address, PathLike, options, priority, public_key};
use crate::stream::{Stream, waited};
use crate::wait::{wait, wait_or_fail};
use dccp_sockets::{ConnectError, Delivery, Named, PathId, Rate, RecvError, SchedulerKind, SendError};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PySlice};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// No datagram is larger than this.
const MOST: usize = 1 << 16;

fn pair(addr: SocketAddr) -> (String, u16) {
    (addr.ip().to_string(), addr.port())
}

/// Returns a datagram, or `at_end` if the connection has ended cleanly.
fn end<T>(received: Result<T, RecvError>, at_end: T) -> PyResult<T> {
    match received {
        Err(RecvError::Closed(reason)) if reason.is_orderly() => Ok(at_end),
        received => received.map_err(recv),
    }
}

/// A connection carries datagrams in both directions, as fast as congestion control allows. It may be shared
/// between threads.
// The flag says whether the program has called `abort`.
#[pyclass(module = "mpdccp", frozen)]
pub(crate) struct Connection(pub(crate) dccp_sockets::Connection, AtomicBool);

#[pymethods]
impl Connection {
    /// Queues a datagram, waiting while the queue is full.
    #[pyo3(signature = (data, *, priority=0, expires=None, timeout=None))]
    fn send(
        &self,
        data: &Bound<'_, PyAny>,
        priority: u8,
        expires: Option<f64>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let py = data.py();
        let expires_in = expires.map(Duration::try_from_secs_f64).transpose();
        let expires_in = expires_in.map_err(|e| PyValueError::new_err(format!("expires: {e}")))?;
        let delivery = Delivery { priority, expires_in };
        let data = Data::of(data)?;
        let data = data.as_slice();
        let sent = wait_or_fail(py, timeout, |slice| match self.0.send_timeout(data, delivery, slice) {
            Err(SendError::Full) => None,
            sent => Some(sent),
        });
        sent?.map_err(send)
    }

    /// Queues as many datagrams as fit, and returns how many were queued.
    fn send_many(&self, datagrams: &Bound<'_, PyAny>) -> PyResult<usize> {
        let all = datagrams.try_iter()?.map(|data| Data::of(&data?)).collect::<PyResult<Vec<_>>>()?;
        match self.0.try_send_many(all.iter().map(Data::as_slice)) {
            Err(SendError::Full) => Ok(0),
            sent => sent.map_err(send),
        }
    }

    /// Waits for the next datagram. Returns b"" after a clean end.
    #[pyo3(signature = (timeout=None))]
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let received = wait_or_fail(py, timeout, |slice| match self.0.recv_timeout(slice) {
            Err(RecvError::TimedOut) => None,
            received => Some(received),
        });
        Ok(PyBytes::new(py, &end(received?, Vec::new())?))
    }

    /// Returns the next datagram if there is one, b"" after a clean end, or None otherwise.
    fn try_recv<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match self.0.try_recv() {
            Err(RecvError::Empty) => Ok(None),
            received => Ok(Some(PyBytes::new(py, &end(received, Vec::new())?))),
        }
    }

    /// Waits for the next datagram, and copies it into a writable buffer. Returns its length, or 0 after a
    /// clean end.
    #[pyo3(signature = (buffer, timeout=None))]
    fn recv_into(&self, buffer: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<usize> {
        let py = buffer.py();
        // The items of the buffer may have any type, and the buffer may have several dimensions.
        let bytes = PyMemoryView::from(buffer)?.call_method1("cast", ("B",))?;
        let given = PyBuffer::<u8>::get(&bytes)?;
        if given.readonly() {
            return Err(PyValueError::new_err("the buffer must be writable"));
        }
        // Other Python code may use the buffer during the wait, so receive the datagram into separate memory
        // first.
        let mut room = vec![0; given.item_count().min(MOST)];
        let received = wait_or_fail(py, timeout, |slice| match self.0.recv_into_timeout(&mut room, slice) {
            Err(RecvError::TimedOut) => None,
            received => Some(received),
        });
        let len = end(received?, 0)?;
        let part = bytes.get_item(PySlice::new(py, 0, len as isize, 1))?;
        PyBuffer::<u8>::get(&part)?.copy_from_slice(py, &room[..len])?;
        Ok(len)
    }

    /// Waits for a datagram, then returns all that are available, at most `most`, or [] after a clean end.
    /// Raises ValueError if `most` is 0.
    #[pyo3(signature = (most=64, timeout=None))]
    fn recv_many<'py>(
        &self,
        py: Python<'py>,
        most: usize,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        // An empty list would mean the end.
        if most == 0 {
            return Err(PyValueError::new_err("`most` is 0; it must be at least 1"));
        }
        let first = self.recv(py, timeout)?;
        let mut all = vec![first];
        while all.len() < most && !all[0].as_bytes().is_empty() {
            match self.0.try_recv() {
                Ok(data) => all.push(PyBytes::new(py, &data)),
                Err(_) => break,
            }
        }
        all.retain(|data| !data.as_bytes().is_empty());
        Ok(all)
    }

    /// Waits for the next event. Returns None after the last event.
    #[pyo3(signature = (timeout=None))]
    fn next_event(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Event>> {
        self.here()?;
        wait_or_fail(py, timeout, |slice| match self.0.event_timeout(slice) {
            Some(event) => Some(Some(event.into())),
            // There was no event in time, or there will be none. After `close`, the latter is true even
            // before the connection has ended.
            None => match self.0.poll_event(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(event) => Some(event.map(Event::from)),
                Poll::Pending => None,
            },
        })
    }

    /// Returns the next event if there is one, or None otherwise.
    fn try_event(&self) -> Option<Event> {
        self.0.try_event().map(Event::from)
    }

    /// Sends the queued datagrams, waits until they are acknowledged or lost, and closes the connection.
    /// Returns the counters.
    #[pyo3(signature = (timeout=None))]
    fn finish(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Stats> {
        self.here()?;
        let finished = wait_or_fail(py, timeout, |slice| self.0.finish_timeout(slice))?;
        finished.map(Stats::from).map_err(|e| os(e.errno(), e))
    }

    /// Finishes the connection in the background. Calls waiting in other threads return, except `finish`.
    fn close(&self) {
        self.0.close();
    }

    /// Ends the connection immediately. The peer receives the text.
    #[pyo3(signature = (why=None))]
    fn abort(&self, why: Option<&str>) {
        self.1.store(true, Relaxed);
        match why {
            Some(why) => self.0.abort_with(why),
            None => self.0.abort(),
        }
        self.0.close();
    }

    /// For a connection from `Connector.start`: None until the peer answers, then True. Raises an error if
    /// the connection failed.
    #[pyo3(signature = (timeout=Some(0.0)), text_signature = "($self, timeout=0.0)")]
    fn opened(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<bool>> {
        match wait(py, timeout, |slice| self.0.opened(slice))? {
            None => Ok(None),
            Some(Ok(())) => Ok(Some(true)),
            Some(Err(e)) => Err(connect(e)),
        }
    }

    /// Opens a reliable stream to the peer. Both ends need the option `streams`.
    fn open_stream(&self, py: Python<'_>) -> PyResult<Stream> {
        py.detach(|| self.0.open_stream()).map(Stream).map_err(stream)
    }

    /// Waits for the peer to open a stream.
    #[pyo3(signature = (timeout=None))]
    fn accept_stream(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Stream> {
        waited(py, timeout, |slice| self.0.accept_stream(Some(slice))).map(Stream)
    }

    /// Returns five values. The first three say whether recv, send and next_event would return without
    /// waiting. The fourth says whether the connection has ended, and the fifth whether a stream is waiting
    /// to be accepted. After this call, the descriptor reports the next change.
    fn ready(&self) -> (bool, bool, bool, bool, bool) {
        let ready = self.0.ready();
        (ready.readable, ready.writable, ready.event, ready.closed, ready.stream)
    }

    /// A descriptor for selectors, for read events only. It belongs to the connection.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.descriptor()?.as_raw_fd())
    }

    /// Counters and state of the connection.
    fn stats(&self, py: Python<'_>) -> Stats {
        py.detach(|| self.0.stats()).into()
    }

    /// Sends `rate` bits per second for `duration` seconds, with padding if there is no data. In this way,
    /// `stats().allowed` shows the capacity of the path before the program sends more.
    fn probe(&self, rate: u64, duration: f64) -> PyResult<()> {
        let duration = Duration::try_from_secs_f64(duration);
        let duration = duration.map_err(|e| PyValueError::new_err(format!("duration: {e}")))?;
        self.0.probe(Rate::from_bps(rate), duration);
        Ok(())
    }

    /// Adds a path to a client's multipath session, and returns the path's number.
    fn add_path(&self, py: Python<'_>, path: PathLike) -> PyResult<u32> {
        let path = path.path()?;
        py.detach(|| self.0.add_path(path)).map(|PathId(number)| number).map_err(connect)
    }

    /// Closes a path cleanly.
    fn remove_path(&self, path: u32) {
        self.0.remove_path(PathId(path));
    }

    /// Changes the priority of a path at both ends.
    fn set_priority(&self, path: u32, priority: u8) -> PyResult<()> {
        self.0.set_priority(PathId(path), self::priority(priority)?);
        Ok(())
    }

    /// Changes the scheduler, which chooses the path of each datagram that this end sends.
    fn set_scheduler(&self, scheduler: &str) -> PyResult<()> {
        self.0.set_scheduler(SchedulerKind::named(scheduler).map_err(PyValueError::new_err)?);
        Ok(())
    }

    /// Changes the congestion control for data that this end sends.
    fn set_ccid(&self, py: Python<'_>, ccid: u8) -> PyResult<()> {
        py.detach(|| self.0.set_ccid(ccid)).map_err(|e| os(e.errno(), e))
    }

    /// Largest datagram that all paths can currently carry, in bytes.
    #[getter]
    fn max_datagram(&self) -> usize {
        self.0.max_datagram_size()
    }

    /// Whether the connection is a multipath session (RFC 9897).
    #[getter]
    fn is_multipath(&self) -> bool {
        self.0.is_multipath()
    }

    /// Address that the peer had when the connection opened.
    #[getter]
    fn peer_address(&self) -> Option<(String, u16)> {
        self.0.peer_addr().map(pair)
    }

    /// Local address that the connection had when it opened.
    #[getter]
    fn local_address(&self) -> Option<(String, u16)> {
        self.0.local_addr().map(pair)
    }

    /// The public key of the peer, if the connection is encrypted.
    #[getter]
    fn peer_key(&self) -> Option<String> {
        self.0.peer_key().map(|key| key.to_string())
    }

    /// The Service Code of the connection.
    #[getter]
    fn service(&self) -> Option<String> {
        self.0.service().map(|code| code.to_string())
    }

    /// The text that the peer sent when it ended the connection.
    #[getter]
    fn peer_said(&self) -> Option<String> {
        self.0.peer_said()
    }

    /// Why the connection ended, such as "closed_by_peer"; None until it has ended.
    #[getter]
    fn end(&self) -> Option<&'static str> {
        self.0.end().map(|reason| reason.name())
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let data = self.recv(py, None)?;
        Ok((!data.as_bytes().is_empty()).then_some(data))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Finishes the connection. After an exception, ends it immediately instead.
    #[pyo3(signature = (kind, _value, _trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _value: Option<Py<PyAny>>,
        _trace: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        if kind.is_some() {
            self.abort(None);
            return Ok(());
        }
        if self.0.end().is_some() || self.1.load(Relaxed) {
            return Ok(());
        }
        self.finish(py, None).map(drop)
    }
}

impl Connection {
    pub(crate) fn new(connection: dccp_sockets::Connection) -> Connection {
        Connection(connection, AtomicBool::new(false))
    }

    /// Returns an error in a forked process, for calls whose result does not tell.
    fn here(&self) -> PyResult<()> {
        if self.0.is_forked() { Err(send(SendError::Forked)) } else { Ok(()) }
    }
}

/// Opens connections that share one thread. Connections to the same peer also share one socket.
#[pyclass(module = "mpdccp", frozen)]
pub(crate) struct Connector(dccp_sockets::Connector);

#[pymethods]
impl Connector {
    #[new]
    #[pyo3(signature = (**kwargs))]
    fn new(kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Connector> {
        dccp_sockets::Connector::new(options(kwargs)?).map(Connector).map_err(connect)
    }

    /// Connects to the first of a name's addresses that answers. With encryption, `peer_key` is the public
    /// key of the peer; the default is the first peer in the options.
    #[pyo3(signature = (address, peer_key=None))]
    fn connect(&self, py: Python<'_>, address: Address, peer_key: Option<&str>) -> PyResult<Connection> {
        let key = peer_key.map(public_key).transpose()?;
        let mut last = connect(ConnectError::NoAddress);
        for to in address.resolve(py)? {
            let connection = self.0.start(to, key);
            match wait(py, None, |slice| connection.opened(slice))? {
                Some(Err(e)) => last = connect(e),
                _ => return Ok(Connection::new(connection)),
            }
        }
        Err(last)
    }

    /// Sends the first packet to a numeric address, and returns the connection at once. Its descriptor
    /// becomes readable once `opened` has a result.
    #[pyo3(signature = (host, port, peer_key=None))]
    fn start(&self, host: &str, port: u16, peer_key: Option<&str>) -> PyResult<Connection> {
        let key = peer_key.map(public_key).transpose()?;
        // A link-local address ends with its interface, such as %eth0 or %2. Only the system can convert it.
        let (ip, _) = host.split_once('%').unwrap_or((host, ""));
        ip.parse::<IpAddr>().map_err(|e| PyOSError::new_err(format!("address {host:?}: {e}")))?;
        let to = (host, port).to_socket_addrs()?.next().ok_or_else(|| connect(ConnectError::NoAddress))?;
        Ok(Connection::new(self.0.start(to, key)))
    }
}
