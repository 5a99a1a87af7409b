//! The sockets of this crate, for tokio. All futures are cancel-safe: a future that is dropped has sent or
//! received either a whole datagram or none.
//!
//! The protocol runs as a task in the runtime that calls [`Listener::bind`], [`Connector::new`] or
//! [`Connection::connect`], and lives as long as that runtime. These calls panic if the runtime has no I/O
//! driver (`enable_io`). In a single-threaded runtime, a task that blocks also delays acknowledgements.
//! Outside a runtime, [`Connector::new`] starts a thread instead.
//!
//! ```
//! use dccp_sockets::{Options, tokio::{Connection, Listener}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Listener::bind("127.0.0.1:0", Options::ccid(5)).await?;
//! let addr = listener.local_addr();
//! tokio::spawn(async move {
//!     let connection = listener.accept().await?;
//!     while let Ok(datagram) = connection.recv().await {
//!         connection.send(&datagram).await?;
//!     }
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! let connection = Connection::connect(addr, Options::ccid(5)).await?;
//! connection.send(b"hello").await?;
//! assert_eq!(connection.recv().await?, b"hello");
//! connection.finish().await?;
//! # Ok(())
//! # }
//! ```

mod byte_stream;
mod task;

pub use byte_stream::ByteStream;

use crate::connector::add_path;
use crate::runtime::Streams;
use crate::{
    AcceptError, CcidError, ConnectError, Delivery, Event, FinishError, Options, Path, PathId, PresharedKey,
    PublicKey, Rate, Reason, RecvError, SendError, ServiceCode, Stats, StreamError,
};
use bytes::Bytes;
use dccp_net::Core;
use futures_core::Stream;
use futures_sink::Sink;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{ToSocketAddrs, lookup_host};
use tokio::sync::oneshot;

/// Waits for connections; see [`crate::Listener`].
#[derive(Debug)]
pub struct Listener(crate::Listener);

impl Listener {
    /// See [`crate::Listener::bind`].
    ///
    /// # Errors
    /// As for [`crate::Listener::bind`].
    pub async fn bind(addr: impl ToSocketAddrs, options: Options) -> Result<Listener, ConnectError> {
        let mut last = ConnectError::NoAddress;
        for addr in lookup_host(addr).await? {
            match crate::Listener::bind_one(addr, options.clone(), task::run) {
                Ok(listener) => return Ok(Listener(listener)),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// [`AcceptError::Closed`] if the data thread has ended.
    pub async fn accept(&self) -> Result<Connection, AcceptError> {
        let crate::Listener { runtime, backlog, .. } = &self.0;
        if runtime.is_forked() {
            return Err(AcceptError::Forked);
        }
        let accepted = backlog.arrived.wait_async(&backlog.state, |s| crate::listener::accept(runtime, s));
        accepted.await.map(Connection)
    }

    /// See [`crate::Listener::send_listen`].
    ///
    /// # Errors
    /// As for [`crate::Listener::send_listen`].
    pub fn send_listen(&self, client: SocketAddr, dccp_port: u16) -> Result<(), ConnectError> {
        self.0.send_listen(client, dccp_port)
    }

    /// See [`crate::Listener::add_peer`].
    ///
    /// # Errors
    /// As for [`crate::Listener::add_peer`].
    pub fn add_peer(&self, key: PublicKey, preshared: PresharedKey) -> Result<(), ConnectError> {
        self.0.add_peer(key, preshared)
    }

    /// See [`crate::Listener::remove_peer`].
    ///
    /// # Errors
    /// As for [`crate::Listener::remove_peer`].
    pub fn remove_peer(&self, key: PublicKey) -> Result<(), ConnectError> {
        self.0.remove_peer(key)
    }

    /// See [`crate::Listener::local_addr`].
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

/// Opens connections that share sockets; see [`crate::Connector`].
#[derive(Clone, Debug)]
pub struct Connector(crate::Connector);

impl Connector {
    /// See [`crate::Connector::new`].
    ///
    /// # Errors
    /// As for [`crate::Connector::new`].
    pub fn new(options: Options) -> Result<Connector, ConnectError> {
        crate::Connector::running(options, task::run).map(Connector)
    }

    /// Connects like [`crate::Connector::connect`]. A numeric address needs no lookup, and no thread is
    /// blocked while the connection opens.
    ///
    /// # Errors
    /// As for [`crate::Connector::connect`].
    pub async fn connect(&self, addr: impl ToSocketAddrs) -> Result<Connection, ConnectError> {
        self.connect_with(addr, None).await
    }

    /// See [`crate::Connector::connect_peer`].
    ///
    /// # Errors
    /// As for [`crate::Connector::connect_peer`].
    pub async fn connect_peer(
        &self,
        addr: impl ToSocketAddrs,
        peer: PublicKey,
    ) -> Result<Connection, ConnectError> {
        self.connect_with(addr, Some(peer)).await
    }

    async fn connect_with(
        &self,
        addr: impl ToSocketAddrs,
        peer: Option<PublicKey>,
    ) -> Result<Connection, ConnectError> {
        let mut last = ConnectError::NoAddress;
        for to in lookup_host(addr).await? {
            let connection = self.0.start(to, peer);
            let stream = &connection.stream;
            match stream.happened.wait_async(&stream.state, |s| s.opening()).await {
                Ok(()) => return Ok(Connection(connection)),
                Err(e) => last = e,
            }
        }
        Err(last)
    }
}

/// A connection for tokio, whose methods do not block the thread. It is a [`Stream`] of received datagrams,
/// which ends when the peer closes the connection in an orderly way, and a [`Sink`] for datagrams.
#[derive(Debug)]
pub struct Connection(crate::Connection);

impl Connection {
    /// See [`crate::Connection::connect`].
    ///
    /// # Errors
    /// As for [`crate::Connection::connect`].
    pub async fn connect(addr: impl ToSocketAddrs, options: Options) -> Result<Connection, ConnectError> {
        Connector::new(options)?.connect(addr).await
    }

    /// Queues a datagram. Waits while the queue is full.
    ///
    /// # Errors
    /// See [`crate::Connection::send`].
    pub async fn send(&self, data: &[u8]) -> Result<(), SendError> {
        self.send_with(data, Delivery::default()).await
    }

    /// See [`crate::Connection::send_with`].
    ///
    /// # Errors
    /// See [`crate::Connection::send`].
    pub async fn send_with(&self, data: &[u8], delivery: Delivery) -> Result<(), SendError> {
        self.0.here(SendError::Forked)?;
        let stream = &self.0.stream;
        let sent = stream.writable.wait_async(&stream.state, |s| s.send(data, delivery)).await;
        self.0.tell_of(sent)
    }

    /// See [`crate::Connection::try_send`].
    ///
    /// # Errors
    /// As for [`crate::Connection::try_send`].
    pub fn try_send(&self, data: &[u8]) -> Result<(), SendError> {
        self.0.try_send(data)
    }

    /// See [`crate::Connection::try_send_bytes`].
    ///
    /// # Errors
    /// As for [`crate::Connection::try_send_bytes`].
    pub fn try_send_bytes(&self, data: Bytes) -> Result<(), SendError> {
        self.0.try_send_bytes(data)
    }

    /// See [`crate::Connection::try_send_many`].
    ///
    /// # Errors
    /// As for [`crate::Connection::try_send_many`].
    pub fn try_send_many<'a>(
        &self,
        datagrams: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<usize, SendError> {
        self.0.try_send_many(datagrams)
    }

    /// Waits for the next datagram.
    ///
    /// # Errors
    /// See [`crate::Connection::recv`].
    pub async fn recv(&self) -> Result<Vec<u8>, RecvError> {
        self.0.here(RecvError::Forked)?;
        let stream = &self.0.stream;
        stream.readable.wait_async(&stream.state, |s| s.recv()).await
    }

    /// See [`crate::Connection::recv_many`].
    ///
    /// # Errors
    /// As for [`crate::Connection::recv_many`].
    pub async fn recv_many(&self, into: &mut Vec<Vec<u8>>, most: usize) -> Result<usize, RecvError> {
        self.0.here(RecvError::Forked)?;
        let stream = &self.0.stream;
        stream.readable.wait_async(&stream.state, |s| s.recv_many(into, most)).await
    }

    /// See [`crate::Connection::try_recv`].
    ///
    /// # Errors
    /// As for [`crate::Connection::try_recv`].
    pub fn try_recv(&self) -> Result<Vec<u8>, RecvError> {
        self.0.try_recv()
    }

    /// See [`crate::Connection::poll_recv`].
    ///
    /// # Errors
    /// As for [`crate::Connection::poll_recv`].
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<Bytes, RecvError>> {
        self.0.poll_recv(cx)
    }

    /// See [`crate::Connection::poll_send_ready`].
    ///
    /// # Errors
    /// As for [`crate::Connection::poll_send_ready`].
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.0.poll_send_ready(cx)
    }

    /// See [`crate::Connection::open_stream`].
    ///
    /// # Errors
    /// As for [`crate::Connection::open_stream`].
    pub async fn open_stream(&self) -> Result<ByteStream, StreamError> {
        let (id, runtime) = (self.0.id(), self.0.runtime.clone());
        // If the caller no longer waits, the stream is dropped with the answer, which closes it.
        let opened = self.ask(move |core, streams| {
            streams.open_stream(core, id).map(|pipe| crate::ByteStream::new(&runtime, pipe))
        });
        let opened = opened.await;
        let over = StreamError::Closed(self.end().unwrap_or(Reason::Aborted));
        opened.unwrap_or(Err(over)).map(ByteStream)
    }

    /// See [`crate::Connection::accept_stream`].
    ///
    /// # Errors
    /// As for [`crate::Connection::accept_stream`].
    pub async fn accept_stream(&self) -> Result<ByteStream, StreamError> {
        self.0.here(StreamError::Forked)?;
        let stream = &self.0.stream;
        let pipe = stream.streamed.wait_async(&stream.state, |s| s.accept_stream()).await?;
        Ok(ByteStream(crate::ByteStream::new(&self.0.runtime, pipe)))
    }

    /// See [`crate::Connection::finish`].
    ///
    /// # Errors
    /// As for [`crate::Connection::finish`].
    pub async fn finish(&self) -> Result<Stats, FinishError> {
        self.0.here(FinishError(Reason::Aborted))?;
        self.0.begin_finish();
        let stream = &self.0.stream;
        stream.happened.wait_async(&stream.state, |s| s.finished()).await
    }

    /// See [`crate::Connection::abort`].
    pub fn abort(&self) {
        self.0.abort();
    }

    /// See [`crate::Connection::abort_with`].
    pub fn abort_with(&self, why: &str) {
        self.0.abort_with(why);
    }

    /// Waits for the next event. Returns `None` after [`Event::Closed`].
    pub async fn event(&self) -> Option<Event> {
        self.0.here(()).ok()?;
        let stream = &self.0.stream;
        stream.happened.wait_async(&stream.state, |s| s.event()).await
    }

    /// See [`crate::Connection::try_event`].
    pub fn try_event(&self) -> Option<Event> {
        self.0.try_event()
    }

    /// See [`crate::Connection::stats`].
    pub async fn stats(&self) -> Stats {
        let id = self.0.id();
        self.ask(move |core, streams| streams.refresh(core, id)).await;
        self.0.last_stats()
    }

    /// See [`crate::Connection::add_path`].
    ///
    /// # Errors
    /// As for [`crate::Connection::add_path`].
    pub async fn add_path(&self, path: Path) -> Result<PathId, ConnectError> {
        let id = self.0.id();
        let added = self.ask(move |core, streams| add_path(core, streams, id, path)).await;
        added.unwrap_or(Err(ConnectError::Refused(Reason::Aborted)))
    }

    /// See [`crate::Connection::remove_path`].
    pub fn remove_path(&self, path: PathId) {
        self.0.remove_path(path);
    }

    /// See [`crate::Connection::set_priority`].
    pub fn set_priority(&self, path: PathId, priority: u8) {
        self.0.set_priority(path, priority);
    }

    /// See [`crate::Connection::path_changed`].
    pub fn path_changed(&self, path: PathId) {
        self.0.path_changed(path);
    }

    /// See [`crate::Connection::set_ccid`].
    ///
    /// # Errors
    /// As for [`crate::Connection::set_ccid`].
    pub async fn set_ccid(&self, ccid: u8) -> Result<(), CcidError> {
        if !crate::known_ccids().any(|known| known == ccid) {
            return Err(CcidError::Unknown(ccid));
        }
        let id = self.0.id();
        let set = self.ask(move |core, _| core.endpoint.set_ccid(core.clock.now(), id, ccid)).await;
        if set == Some(true) { Ok(()) } else { Err(CcidError::NotOpen) }
    }

    /// See [`crate::Connection::probe`].
    pub fn probe(&self, rate: Rate, duration: Duration) {
        self.0.probe(rate, duration);
    }

    /// See [`crate::Connection::max_datagram_size`].
    pub fn max_datagram_size(&self) -> usize {
        self.0.max_datagram_size()
    }

    /// See [`crate::Connection::is_multipath`].
    pub fn is_multipath(&self) -> bool {
        self.0.is_multipath()
    }

    /// See [`crate::Connection::end`].
    pub fn end(&self) -> Option<Reason> {
        self.0.end()
    }

    /// See [`crate::Connection::peer_said`].
    pub fn peer_said(&self) -> Option<String> {
        self.0.peer_said()
    }

    /// See [`crate::Connection::service`].
    pub fn service(&self) -> Option<ServiceCode> {
        self.0.service()
    }

    /// See [`crate::Connection::peer_addr`].
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.peer_addr()
    }

    /// See [`crate::Connection::local_addr`].
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr()
    }

    /// See [`crate::Connection::peer_key`].
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.0.peer_key()
    }

    /// Runs `job` on the data thread. Returns `None` if the thread has ended.
    async fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core, &mut Streams) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = oneshot::channel();
        self.0.runtime.run(move |core, streams| {
            // Ignore the error: the caller may have stopped waiting.
            let _ = answer.send(job(core, streams));
        });
        answered.await.ok()
    }
}

impl Stream for Connection {
    type Item = Result<Bytes, RecvError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|received| match received {
            Err(RecvError::Closed(reason)) if reason.is_orderly() => None,
            received => Some(received),
        })
    }
}

impl Sink<Bytes> for Connection {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.0.poll_send_ready(cx)
    }

    fn start_send(self: Pin<&mut Self>, data: Bytes) -> Result<(), SendError> {
        self.0.try_send_bytes(data)
    }

    /// Does nothing, because queued datagrams are sent without a flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    /// See [`Connection::finish`].
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.0.here(SendError::Forked)?;
        self.0.begin_finish();
        let stream = &self.0.stream;
        let finished = stream.happened.poll(&stream.state, cx, |s| s.finished());
        finished.map_ok(|_| ()).map_err(|e| SendError::Closed(e.0))
    }
}
