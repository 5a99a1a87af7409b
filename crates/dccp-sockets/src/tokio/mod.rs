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

/// Defines methods that do not wait, so they only call the method of the same name of the blocking type.
macro_rules! same_as {
    ($of:literal: $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)+) => {$(
        #[doc = concat!("See [`crate::", $of, "::", stringify!($name), "`].")]
        pub fn $name(&self, $($argument: $type),*) $(-> $result)? {
            self.0.$name($($argument),*)
        }
    )+};
}

mod byte_stream;
mod task;

pub use byte_stream::ByteStream;

use crate::connector::add_path;
use crate::runtime::Streams;
use crate::{
    AcceptError, CcidError, ConnectError, Delivery, Event, FinishError, Options, Path, PathId, PresharedKey,
    PublicKey, Rate, Reason, RecvError, SchedulerKind, SendError, ServiceCode, Stats, StreamError,
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

    same_as! { "Listener":
        send_listen(client: SocketAddr, dccp_port: u16) -> Result<(), ConnectError>;
        add_peer(key: PublicKey, preshared: PresharedKey) -> Result<(), ConnectError>;
        remove_peer(key: PublicKey) -> Result<(), ConnectError>;
        local_addr() -> SocketAddr;
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

    /// Waits for the next event. Returns `None` after [`Event::Closed`].
    pub async fn event(&self) -> Option<Event> {
        self.0.here(()).ok()?;
        let stream = &self.0.stream;
        stream.happened.wait_async(&stream.state, |s| s.event()).await
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

    same_as! { "Connection":
        try_send(data: &[u8]) -> Result<(), SendError>;
        try_send_bytes(data: Bytes) -> Result<(), SendError>;
        try_recv() -> Result<Vec<u8>, RecvError>;
        poll_recv(cx: &mut Context<'_>) -> Poll<Result<Bytes, RecvError>>;
        poll_send_ready(cx: &mut Context<'_>) -> Poll<Result<(), SendError>>;
        abort();
        abort_with(why: &str);
        try_event() -> Option<Event>;
        remove_path(path: PathId);
        set_priority(path: PathId, priority: u8);
        set_scheduler(scheduler: SchedulerKind);
        path_changed(path: PathId);
        probe(rate: Rate, duration: Duration);
        max_datagram_size() -> usize;
        is_multipath() -> bool;
        end() -> Option<Reason>;
        peer_said() -> Option<String>;
        service() -> Option<ServiceCode>;
        peer_addr() -> Option<SocketAddr>;
        local_addr() -> Option<SocketAddr>;
        peer_key() -> Option<PublicKey>;
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
