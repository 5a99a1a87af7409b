use super::Connection;
use crate::reliable::ChannelError;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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
