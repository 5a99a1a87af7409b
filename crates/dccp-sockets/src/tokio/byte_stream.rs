use crate::StreamError;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A reliable stream for tokio; see [`crate::ByteStream`]. It implements [`AsyncWrite`] and [`AsyncRead`],
/// also for `&ByteStream`.
#[derive(Debug)]
pub struct ByteStream(pub(super) crate::ByteStream);

impl ByteStream {
    /// See [`crate::ByteStream::finish`].
    ///
    /// # Errors
    /// As for [`crate::ByteStream::finish`].
    pub async fn finish(&self) -> Result<(), StreamError> {
        std::future::poll_fn(|cx| self.0.poll_finish(cx)).await
    }

    same_as! { "ByteStream":
        id() -> u64;
        end();
        reset(code: u16);
    }
}

impl AsyncWrite for &ByteStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(ready!(self.0.poll_write_bytes(cx, bytes))?))
    }

    /// Does nothing, because written bytes are sent without a flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// See [`ByteStream::finish`].
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(ready!(self.0.poll_finish(cx))?))
    }
}

impl AsyncRead for &ByteStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = ready!(self.0.poll_read_bytes(cx, into.initialize_unfilled()));
        let read = read.map_err(StreamError::of_read)?;
        into.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_shutdown(cx)
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_read(cx, into)
    }
}
