//! Interface of a compared library.

use std::time::{Duration, Instant};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of a datagram that the server swallows; shorter ones it sends back, and an empty question it answers
/// with what it has swallowed.
pub(crate) const BULK: usize = 1200;
/// Datagrams of this length are echoed.
pub(crate) const PING: usize = 64;
/// Asks the server how many bulk datagrams came, and how long that took.
pub(crate) const QUESTION: &[u8] = b"how many?";
/// What a server has swallowed.
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

/// A client's end of one connection.
pub(crate) trait Client: Send + Sync + 'static {
    fn send(&self, data: &[u8]) -> impl Future<Output = Result<(), Failure>> + Send;
    fn recv(&self) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send;
}

/// What makes connections to one server.
pub(crate) trait Connects: Clone + Send + Sync + 'static {
    type Client: Client;
    fn connect(&self) -> impl Future<Output = Result<Self::Client, Failure>> + Send;
}
