//! The interface of the variants.

use std::time::{Duration, Instant};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The size of bulk datagrams in bytes. The server counts bulk datagrams, and answers [`QUESTION`] with the
/// count. It echoes shorter datagrams.
pub(crate) const BULK: usize = 1200;
/// The size of datagrams that the server echoes.
pub(crate) const PING: usize = 64;
/// The datagram that asks the server how many bulk datagrams arrived, and in what time.
pub(crate) const QUESTION: &[u8] = b"how many?";
/// A server's counts of the bulk datagrams.
#[derive(Default)]
pub(crate) struct Swallowed {
    datagrams: u64,
    first: Option<Instant>,
    last: Duration,
}

impl Swallowed {
    pub(crate) fn count(&mut self) {
        let first = *self.first.get_or_insert_with(Instant::now);
        (self.datagrams, self.last) = (self.datagrams + 1, first.elapsed());
    }

    pub(crate) fn answer(&self) -> Vec<u8> {
        [self.datagrams.to_be_bytes(), (self.last.as_nanos() as u64).to_be_bytes()].concat()
    }
}

/// The client's end of a connection to the server.
pub(crate) trait Client: Send + Sync + 'static {
    fn send(&self, data: &[u8]) -> impl Future<Output = Result<(), Failure>> + Send;
    fn recv(&self) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send;

    /// Sends a datagram `n` times, in a single call if the library supports that.
    fn send_many(&self, data: &[u8], n: usize) -> impl Future<Output = Result<(), Failure>> + Send {
        async move {
            for _ in 0..n {
                self.send(data).await?;
            }
            Ok(())
        }
    }
}

/// Opens connections to one server.
pub(crate) trait Connects: Clone + Send + Sync + 'static {
    type Client: Client;
    fn connect(&self) -> impl Future<Output = Result<Self::Client, Failure>> + Send;
}
