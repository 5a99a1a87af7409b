use mpdccp_proto::Reason;
use std::io;
use thiserror::Error;

/// Error when making a listener or a connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name or address resolves to no address.
    #[error("no address of that name")]
    NoAddress,
    /// The options contradict each other or are invalid.
    #[error("{0}")]
    Options(&'static str),
    /// No answer within [`Options::connect_timeout`](crate::Options::connect_timeout).
    #[error(
        "no answer from the peer: does it listen there, and does every firewall on the way let it through?"
    )]
    TimedOut,
    /// The peer refused, or the connection ended before it was open.
    #[error("not connected: {0}")]
    Refused(Reason),
    /// The process forked: a connection stays with the process that opened it.
    #[error("only the process that opened the connection can use it, not its fork")]
    Forked,
    /// The system's error, and the operation that failed: address in use, no such address, no route, no
    /// permission.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Error when sending a datagram. The caller keeps the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Congestion control allows no more now, and the queue is full.
    #[error("the queue is full")]
    Full,
    /// Larger than [`max_datagram_size`](crate::Connection::max_datagram_size).
    #[error("{len} bytes are more than the {max} that a packet can carry")]
    TooBig {
        /// Length of the datagram, bytes.
        len: usize,
        /// Largest length allowed, bytes.
        max: usize,
    },
    /// Empty: DCCP reserves data packets without data for other uses (RFC 4340 section 5.4).
    #[error("an empty datagram cannot be sent")]
    Empty,
    /// The connection is over, or finishing.
    #[error("the connection is over: {0}")]
    Closed(Reason),
    /// The process forked: a connection stays with the process that opened it.
    #[error("only the process that opened the connection can use it, not its fork")]
    Forked,
}

/// Error when receiving a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecvError {
    /// No datagram came in time.
    #[error("no datagram came in time")]
    TimedOut,
    /// No datagram is waiting.
    #[error("no datagram is there")]
    Empty,
    /// The next datagram is larger than the buffer; it stays in the queue.
    #[error("the next datagram has {len} bytes, more than the buffer")]
    BufferTooSmall {
        /// Length of the datagram, bytes.
        len: usize,
    },
    /// The process forked: a connection stays with the process that opened it.
    #[error("only the process that opened the connection can use it, not its fork")]
    Forked,
    /// Everything that arrived has been received, and no more will come. [`Reason::is_orderly`] distinguishes
    /// an orderly end from a failure.
    #[error("the connection is over: {0}")]
    Closed(Reason),
}

/// The connection broke before everything was sent and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the connection ended before all was sent: {0}")]
pub struct FinishError(pub Reason);

/// Error when opening, reading or writing a stream. An [`io::Error`] made of it has the kind that TCP would
/// give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Timed out; with a timeout of zero, the call would block.
    #[error("nothing happened in time")]
    TimedOut,
    /// The peer reset the stream with this application error code; its data is incomplete.
    #[error("the peer reset the stream: {0}")]
    Reset(u16),
    /// The peer stopped reading the stream, with this application error code.
    #[error("the peer reads no more of the stream: {0}")]
    Stopped(u16),
    /// This end finished writing, or reset the stream.
    #[error("this end of the stream was ended")]
    Ended,
    /// The connection ended before the stream did.
    #[error("the connection is over: {0}")]
    Closed(Reason),
    /// The connection carries no streams.
    #[error("the connection carries no streams: both ends must ask for them (Options::streams)")]
    Unsupported,
    /// The peer allows no more streams until some end.
    #[error("the peer allows no more streams until some end")]
    TooMany,
    /// The process forked: a connection stays with the process that opened it.
    #[error("only the process that opened the connection can use it, not its fork")]
    Forked,
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno()).kind(), error)
    }
}

/// Error when changing the congestion control, which stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CcidError {
    /// This crate does not know this number: [`known_ccids`](crate::known_ccids) lists those it knows.
    #[error("there is no CCID {0}; known_ccids() has those there are")]
    Unknown(u8),
    /// No path of the connection is open.
    #[error("no path of the connection is open")]
    NotOpen,
}

/// Error when accepting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// No connection came in time.
    #[error("nobody connected in time")]
    TimedOut,
    /// No connection is waiting.
    #[error("nobody waits to be accepted")]
    Empty,
    /// The process forked: a listener stays with the process that opened it.
    #[error("only the process that opened the listener can use it, not its fork")]
    Forked,
    /// The data thread ended.
    #[error("the listener is over")]
    Closed,
}
