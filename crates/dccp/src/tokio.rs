//! The same sockets for tokio. All futures can be dropped at any time without loss: a datagram is taken or it is not.
//!
//! ```
//! use dccp::{Options, tokio::{Connection, Listener}};
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

use crate::listener::accept;
use crate::reliable::ChannelError;
use crate::{AcceptError, ConnectError, Delivery, Event, FinishError, Options, RecvError, SendError, Stats};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Names are looked up and sockets opened where waiting does not hurt.
async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConnectError> + Send + 'static,
) -> Result<T, ConnectError> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Waits for connections; see [`crate::Listener`].
#[derive(Debug)]
pub struct Listener(crate::Listener);

impl Listener {
    /// As [`crate::Listener::bind`].
    ///
    /// # Errors
    /// As there.
    pub async fn bind(
        addr: impl ToSocketAddrs + Send + 'static,
        options: Options,
    ) -> Result<Listener, ConnectError> {
        elsewhere(|| crate::Listener::bind(addr, options)).await.map(Listener)
    }

    /// The next connection.
    ///
    /// # Errors
    /// [`AcceptError::Closed`] if the data thread had to end.
    pub async fn accept(&self) -> Result<Connection, AcceptError> {
        let crate::Listener { runtime, backlog, .. } = &self.0;
        let accepted = backlog.arrived.wait_async(&backlog.state, |s| accept(runtime, s)).await;
        accepted.map(Connection)
    }

    /// As [`crate::Listener::invite`].
    ///
    /// # Errors
    /// As there.
    pub fn invite(&self, client: SocketAddr, dccp_port: u16) -> Result<(), ConnectError> {
        self.0.invite(client, dccp_port)
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

/// Makes connections that share one data thread; see [`crate::Connector`].
#[derive(Clone, Debug)]
pub struct Connector(crate::Connector);

impl Connector {
    /// As [`crate::Connector::new`].
    ///
    /// # Errors
    /// As there.
    pub async fn new(options: Options) -> Result<Connector, ConnectError> {
        elsewhere(|| crate::Connector::new(options)).await.map(Connector)
    }

    /// As [`crate::Connector::connect`].
    ///
    /// # Errors
    /// As there.
    pub async fn connect(
        &self,
        addr: impl ToSocketAddrs + Send + 'static,
    ) -> Result<Connection, ConnectError> {
        let mut last = ConnectError::NoAddress;
        for to in elsewhere(move || Ok(addr.to_socket_addrs()?.collect::<Vec<_>>())).await? {
            let connector = self.0.clone();
            let tried = match elsewhere(move || connector.begin(to)).await {
                Ok(connection) => {
                    let stream = &connection.stream;
                    let opened = stream.happened.wait_async(&stream.state, |s| s.opening()).await;
                    connection.opened(opened)
                }
                Err(e) => Err(e),
            };
            match tried {
                Ok(connection) => return Ok(Connection(connection)),
                Err(e) => last = e,
            }
        }
        Err(last)
    }
}

/// A connection. What does not wait is as in [`crate::Connection`], to which it dereferences.
#[derive(Debug)]
pub struct Connection(crate::Connection);

impl Deref for Connection {
    type Target = crate::Connection;

    fn deref(&self) -> &crate::Connection {
        &self.0
    }
}

impl Connection {
    /// As [`crate::Connection::connect`].
    ///
    /// # Errors
    /// As there.
    pub async fn connect(
        addr: impl ToSocketAddrs + Send + 'static,
        options: Options,
    ) -> Result<Connection, ConnectError> {
        Connector::new(options).await?.connect(addr).await
    }

    /// Queues a datagram; waits while the queue is full.
    ///
    /// # Errors
    /// As [`crate::Connection::send`].
    pub async fn send(&self, data: &[u8]) -> Result<(), SendError> {
        self.send_with(data, Delivery::default()).await
    }

    /// As [`crate::Connection::send_with`].
    ///
    /// # Errors
    /// As [`crate::Connection::send`].
    pub async fn send_with(&self, data: &[u8], delivery: Delivery) -> Result<(), SendError> {
        let stream = &self.0.stream;
        let sent = stream.writable.wait_async(&stream.state, |s| s.send(data, delivery)).await;
        self.0.tell_of(sent)
    }

    /// The next datagram.
    ///
    /// # Errors
    /// As [`crate::Connection::recv`].
    pub async fn recv(&self) -> Result<Vec<u8>, RecvError> {
        let stream = &self.0.stream;
        stream.readable.wait_async(&stream.state, |s| s.recv()).await
    }

    /// As [`crate::Connection::finish`].
    ///
    /// # Errors
    /// As there.
    pub async fn finish(&self) -> Result<Stats, FinishError> {
        self.0.begin_finish();
        let stream = &self.0.stream;
        stream.happened.wait_async(&stream.state, |s| s.finished()).await
    }

    /// The next event; `None` after [`Event::Closed`].
    pub async fn event(&self) -> Option<Event> {
        let stream = &self.0.stream;
        stream.happened.wait_async(&stream.state, |s| s.event()).await
    }
}

/// Reliable messages, or bytes ([`AsyncWrite`], [`AsyncRead`], both of `&Channel`); see [`crate::reliable::Channel`].
#[derive(Debug)]
pub struct Channel(crate::reliable::Channel);

impl Channel {
    /// As [`crate::reliable::Channel::new`].
    pub fn new(connection: Connection) -> Channel {
        Channel(crate::reliable::Channel::new(connection.0))
    }

    /// As [`crate::reliable::Channel::with_window`].
    pub fn with_window(connection: Connection, bytes: usize) -> Channel {
        Channel(crate::reliable::Channel::with_window(connection.0, bytes))
    }

    /// As [`crate::reliable::Channel::send`].
    ///
    /// # Errors
    /// As there.
    pub async fn send(&self, message: &[u8]) -> Result<(), ChannelError> {
        let shared = &self.0.0;
        let sent = shared.writable.wait_async(&shared.state, |s| s.send(message)).await;
        shared.notify();
        sent
    }

    /// As [`crate::reliable::Channel::recv`].
    ///
    /// # Errors
    /// As there.
    pub async fn recv(&self) -> Result<Option<Vec<u8>>, ChannelError> {
        let shared = &self.0.0;
        let received = shared.readable.wait_async(&shared.state, |s| s.recv()).await;
        shared.notify();
        received
    }

    /// As [`crate::reliable::Channel::finish`].
    ///
    /// # Errors
    /// As there.
    pub async fn finish(&self) -> Result<(), ChannelError> {
        let shared = &self.0.0;
        shared.begin_finish();
        shared.finished.wait_async(&shared.state, |s| s.finished()).await?;
        shared.closed().await;
        Ok(())
    }

    /// As [`crate::reliable::Channel::end`].
    pub fn end(&self) {
        self.0.end();
    }

    /// As [`crate::reliable::Channel::resent`].
    pub fn resent(&self) -> u64 {
        self.0.resent()
    }

    /// As [`crate::reliable::Channel::connection`].
    pub fn connection(&self) -> &crate::Connection {
        self.0.connection()
    }
}

impl AsyncWrite for &Channel {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let shared = &self.0.0;
        let written = ready!(shared.writable.poll(&shared.state, cx, |s| s.write(bytes)));
        shared.notify();
        Poll::Ready(Ok(written?))
    }

    /// What was written leaves by itself.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// As [`Channel::end`]: [`Channel::finish`] waits until all has arrived.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for &Channel {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let shared = &self.0.0;
        let read = ready!(shared.readable.poll(&shared.state, cx, |s| s.read(into.remaining())));
        shared.notify();
        into.put_slice(&read?);
        Poll::Ready(Ok(()))
    }
}
