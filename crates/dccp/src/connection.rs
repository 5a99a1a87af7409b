use crate::options::Path;
use crate::runtime::{Runtime, Streams};
use crate::signal::lock;
use crate::stream::Stream;
use crate::{
    CcidError, ConnectError, Delivery, Event, FinishError, Options, RecvError, SendError, Stats, sockets,
};
use dccp_net::Core;
use dccp_proto::ServiceCode;
use dccp_secure::PublicKey;
use mpdccp_proto::{PathId, Reason, SessionId};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes connections that share one data thread: for programs that have many. [`Connection::connect`] starts a thread for each.
#[derive(Clone, Debug)]
pub struct Connector {
    pub(crate) runtime: Arc<Runtime>,
    options: Options,
}

impl Connector {
    /// Starts the thread.
    ///
    /// # Errors
    /// What is wrong with the options, and what the system says.
    pub fn new(options: Options) -> Result<Connector, ConnectError> {
        let (runtime, ()) =
            Runtime::start(options.clone(), None, |core, options| sockets::secure(core, options, false))?;
        Ok(Connector { runtime, options })
    }

    /// Connects to a listener; with keys, to the first peer of the options. Where a name has several addresses, they are tried in turn.
    ///
    /// # Errors
    /// As [`Connection::connect`]; of several addresses, that of the last.
    pub fn connect(&self, addr: impl ToSocketAddrs) -> Result<Connection, ConnectError> {
        let mut last = ConnectError::NoAddress;
        for to in addr.to_socket_addrs()? {
            let tried = self.begin(to).and_then(|connection| {
                let stream = &connection.stream;
                let opened = stream.happened.wait(&stream.state, None, |s| s.opening());
                connection.opened(opened.unwrap_or(Err(Reason::Aborted)))
            });
            match tried {
                Ok(connection) => return Ok(connection),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Sends the first Request.
    pub(crate) fn begin(&self, to: SocketAddr) -> Result<Connection, ConnectError> {
        let stream = Arc::new(Stream::new(&self.options));
        let shared = stream.clone();
        let begun = self.runtime.handle.call(move |core, streams| begin(core, streams, to, shared));
        let id = begun.unwrap_or(Err(ConnectError::Refused(Reason::Aborted)))?;
        Ok(Connection { runtime: self.runtime.clone(), stream, id })
    }
}

/// On the data thread.
fn begin(
    core: &mut Core,
    streams: &mut Streams,
    to: SocketAddr,
    stream: Arc<Stream>,
) -> Result<SessionId, ConnectError> {
    let options = &streams.options;
    let mut paths = Vec::new();
    let result = match options.paths.as_slice() {
        [] => sockets::open_path(core, options, None, to, 3, 0).map(|path| paths.push(path)),
        wanted => wanted.iter().try_for_each(|path| {
            let to = path.remote.unwrap_or(to);
            sockets::open_path(core, options, Some(path.local), to, path.priority, 0)
                .map(|path| paths.push(path))
        }),
    };
    let opened: Vec<u32> = paths.iter().map(|path| path.route.socket).collect();
    if let Err(e) = result {
        opened.iter().for_each(|socket| core.net.remove(*socket));
        return Err(e);
    }
    let now = core.clock.now();
    let session = options.session(options.multipath || paths.len() > 1);
    let id = core.endpoint.connect(now, session, paths[0]);
    for path in &paths[1..] {
        core.endpoint.add_path(now, id, *path);
    }
    streams.insert(now, id, stream, opened);
    Ok(id)
}

/// A connection: datagrams both ways, as fast as congestion control allows. All methods take `&self`; threads share it in an
/// [`Arc`].
///
/// Dropped, it is finished in the background, for as long as the program runs; [`finish`](Self::finish) waits for that.
#[derive(Debug)]
pub struct Connection {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) stream: Arc<Stream>,
    pub(crate) id: SessionId,
}

impl Connection {
    /// Connects to a listener; of several addresses of a name, to the first that answers. With keys, it is the first peer of the options. The
    /// port is a UDP port, or with [`Encapsulation::Raw`](crate::Encapsulation::Raw) the DCCP port.
    ///
    /// # Errors
    /// What is wrong with the options, what the system says, a refusal, or no answer within [`Options::connect_timeout`]; of several
    /// addresses, that of the last.
    pub fn connect(addr: impl ToSocketAddrs, options: Options) -> Result<Connection, ConnectError> {
        Connector::new(options)?.connect(addr)
    }

    pub(crate) fn opened(self, opened: Result<(), Reason>) -> Result<Connection, ConnectError> {
        opened.map(|()| self).map_err(|reason| match reason {
            Reason::NoAnswer => ConnectError::TimedOut,
            reason => ConnectError::Refused(reason),
        })
    }

    /// Queues a datagram; waits while the queue is full, that is for the window.
    ///
    /// # Errors
    /// [`SendError::TooBig`], [`SendError::Empty`], [`SendError::Closed`]. The datagram has not been taken then.
    pub fn send(&self, data: &[u8]) -> Result<(), SendError> {
        self.send_with(data, Delivery::default())
    }

    /// As [`send`](Self::send), with a priority, or a time after which it is dropped if it has not left.
    ///
    /// # Errors
    /// As there.
    pub fn send_with(&self, data: &[u8], delivery: Delivery) -> Result<(), SendError> {
        let sent = self.stream.writable.wait(&self.stream.state, None, |s| s.send(data, delivery));
        self.tell_of(sent.unwrap_or(Err(SendError::Full)))
    }

    /// Queues a datagram if there is room.
    ///
    /// # Errors
    /// [`SendError::Full`], and those of [`send`](Self::send). The datagram has not been taken then.
    pub fn try_send(&self, data: &[u8]) -> Result<(), SendError> {
        self.try_send_with(data, Delivery::default())
    }

    /// As [`try_send`](Self::try_send), with a priority, or a time after which it is dropped if it has not left.
    ///
    /// # Errors
    /// As there.
    pub fn try_send_with(&self, data: &[u8], delivery: Delivery) -> Result<(), SendError> {
        let sent = lock(&self.stream.state).send(data, delivery);
        self.tell_of(sent.unwrap_or(Err(SendError::Full)))
    }

    /// Has the data thread look at the queue, unless it will anyway.
    pub(crate) fn tell_of(&self, sent: Result<(), SendError>) -> Result<(), SendError> {
        if sent.is_ok() && lock(&self.stream.state).tell() {
            self.wake();
        }
        sent
    }

    fn wake(&self) {
        let id = self.id;
        self.runtime.handle.run(move |_, streams| streams.wake(id));
    }

    /// The next datagram.
    ///
    /// # Errors
    /// [`RecvError::Closed`] once everything that arrived has been received.
    pub fn recv(&self) -> Result<Vec<u8>, RecvError> {
        self.recv_until(None)
    }

    /// The next datagram, if there is one in time.
    ///
    /// # Errors
    /// [`RecvError::TimedOut`], and those of [`recv`](Self::recv).
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Vec<u8>, RecvError> {
        self.recv_until(Instant::now().checked_add(timeout))
    }

    fn recv_until(&self, until: Option<Instant>) -> Result<Vec<u8>, RecvError> {
        let received = self.stream.readable.wait(&self.stream.state, until, |s| s.recv());
        received.unwrap_or(Err(RecvError::TimedOut))
    }

    /// Sends what is queued, waits until all that left is acknowledged or given up for lost, and closes; takes no more datagrams
    /// meanwhile. What came in can still be received. Returns the counters; [`Stats::lost`] says how much did not arrive.
    ///
    /// # Errors
    /// The connection ended before that.
    pub fn finish(&self) -> Result<Stats, FinishError> {
        self.begin_finish();
        let finished = self.stream.happened.wait(&self.stream.state, None, |s| s.finished());
        finished.unwrap_or(Err(FinishError(Reason::Aborted)))
    }

    pub(crate) fn begin_finish(&self) {
        lock(&self.stream.state).finish();
        self.stream.writable.notify();
        self.wake();
    }

    /// Ends it at once; what is queued is dropped.
    pub fn abort(&self) {
        let id = self.id;
        self.runtime.handle.run(move |core, _| core.endpoint.abort(core.clock.now(), id));
    }

    /// Ends it at once, and tells the peer why, in at most 255 bytes of text.
    pub fn abort_with(&self, why: &str) {
        let (id, why) = (self.id, why.to_owned());
        self.runtime.handle.run(move |core, _| core.endpoint.abort_with(core.clock.now(), id, &why));
    }

    /// What the peer said when it ended the connection, if it said why.
    pub fn peer_said(&self) -> Option<String> {
        lock(&self.stream.state).peer_said()
    }

    /// The Service Code, of several that a listener takes the one that the client asked for.
    pub fn service(&self) -> Option<ServiceCode> {
        let id = self.id;
        let code = self.runtime.handle.call(move |core, _| {
            core.endpoint.status(core.clock.now(), id).map(|status| ServiceCode(status.service_code))
        });
        code.flatten()
    }

    /// A path leads elsewhere now, as when a mobile host changed networks behind an address that stayed: congestion control begins anew there.
    pub fn path_changed(&self, path: PathId) {
        let id = self.id;
        self.runtime.handle.run(move |core, _| core.endpoint.change_path(core.clock.now(), id, path));
    }

    /// Largest datagram that all of its paths carry at present, bytes.
    pub fn max_datagram_size(&self) -> usize {
        lock(&self.stream.state).max_datagram()
    }

    /// Whether it is a multipath session (RFC 9897).
    pub fn is_multipath(&self) -> bool {
        lock(&self.stream.state).is_multipath()
    }

    /// Why it ended, if it did.
    pub fn end(&self) -> Option<Reason> {
        lock(&self.stream.state).end()
    }

    /// Counters and state.
    pub fn stats(&self) -> Stats {
        let id = self.id;
        self.runtime.handle.call(move |core, streams| streams.refresh(core, id));
        lock(&self.stream.state).stats()
    }

    /// Where the peer is, on the first of its paths; [`PathStats::peer`](crate::PathStats::peer) has that of each. With
    /// [`Encapsulation::Raw`](crate::Encapsulation::Raw) there is no port in it.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.stats().paths.first().map(|path| path.peer)
    }

    /// Adds a path to a client's multipath session; events tell when it is up.
    ///
    /// # Errors
    /// What the system says, and [`ConnectError::Refused`] if the connection is over.
    pub fn add_path(&self, path: Path) -> Result<PathId, ConnectError> {
        let id = self.id;
        let added = self.runtime.handle.call(move |core, streams| {
            let first =
                core.endpoint.status(core.clock.now(), id).and_then(|s| Some(s.paths.first()?.clone()));
            let gone = ConnectError::Refused(Reason::Closed);
            let Some(first) = first else { return Err(gone) };
            let port = if streams.options.encapsulation == crate::Encapsulation::Raw {
                first.ports.remote
            } else {
                first.route.remote.port()
            };
            let to = path.remote.unwrap_or(sockets::with_port(first.route.remote, port));
            let cfg = sockets::open_path(core, &streams.options, Some(path.local), to, path.priority, 0)?;
            let added = core.endpoint.add_path(core.clock.now(), id, cfg);
            match added {
                Some(_) => streams.add_socket(id, cfg.route.socket),
                None => core.net.remove(cfg.route.socket),
            }
            added.ok_or(gone)
        });
        added.unwrap_or(Err(ConnectError::Refused(Reason::Aborted)))
    }

    /// Closes a path in good order; it is not tried again.
    pub fn remove_path(&self, path: PathId) {
        let id = self.id;
        self.runtime.handle.run(move |core, _| core.endpoint.remove_path(core.clock.now(), id, path));
    }

    /// Changes a path's priority, here and at the peer (MP_PRIO); see [`Path::priority`].
    pub fn set_priority(&self, path: PathId, priority: u8) {
        let (id, priority) = (self.id, priority.min(15));
        self.runtime.handle.run(move |core, _| core.endpoint.set_prio(core.clock.now(), id, path, priority));
    }

    /// Changes the congestion control of what this end sends, on all paths, while data flows: window and round-trip time are carried over.
    /// The peer has its say: [`PathStats::ccids`](crate::PathStats::ccids) tells what is in force a round trip later.
    ///
    /// # Errors
    /// There is no such CCID, or no path is open.
    pub fn set_ccid(&self, ccid: u8) -> Result<(), CcidError> {
        if !crate::known_ccids().any(|known| known == ccid) {
            return Err(CcidError::Unknown(ccid));
        }
        let id = self.id;
        let set = self.runtime.handle.call(move |core, _| core.endpoint.set_ccid(core.clock.now(), id, ccid));
        if set == Some(true) { Ok(()) } else { Err(CcidError::NotOpen) }
    }

    /// What happens to it, from its beginning on: waits for the next event, and ends after [`Event::Closed`]. Of events that nobody fetches
    /// the newest 256 are kept.
    pub fn events(&self) -> Events<'_> {
        Events(self)
    }

    /// The next event, if there is one.
    pub fn try_event(&self) -> Option<Event> {
        lock(&self.stream.state).event().flatten()
    }

    /// The peer's key, of a connection that was accepted with keys.
    pub fn peer_key(&self) -> Option<PublicKey> {
        let id = self.id;
        let key = self.runtime.handle.call(move |_, streams| {
            let number = streams.peer(id)?;
            streams.options.peers.get(number as usize).map(|(key, _)| *key)
        });
        key.flatten()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.begin_finish();
    }
}

/// The events of a connection; see [`Connection::events`].
#[derive(Debug)]
pub struct Events<'a>(&'a Connection);

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Connection { stream, .. } = self.0;
        stream.happened.wait(&stream.state, None, |s| s.event()).flatten()
    }
}
