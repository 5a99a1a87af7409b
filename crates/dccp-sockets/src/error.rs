use mpdccp_proto::Reason;
use std::io;
use thiserror::Error;

/// Why a listener or a connection could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name or address given names no address.
    #[error("no address of that name")]
    NoAddress,
    /// The options contradict themselves or are not possible.
    #[error("{0}")]
    Options(&'static str),
    /// Nobody answered in the time given by [`Options::connect_timeout`](crate::Options::connect_timeout).
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
    /// What the system says, and of what: address in use, no such address, no route, no permission.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why a datagram was not taken. It is not lost: the caller still has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Congestion control lets no more leave now, and the queue is full.
    #[error("the queue is full")]
    Full,
    /// Larger than [`max_datagram_size`](crate::Connection::max_datagram_size).
    #[error("{len} bytes are more than the {max} that a packet can carry")]
    TooBig {
        /// Its bytes.
        len: usize,
        /// The most there can be.
        max: usize,
    },
    /// Empty: DCCP gives data packets without data to others' uses (RFC 4340 section 5.4).
    #[error("an empty datagram cannot be sent")]
    Empty,
    /// The connection is over, or being finished.
    #[error("the connection is over: {0}")]
    Closed(Reason),
    /// The process forked: a connection stays with the process that opened it.
    #[error("only the process that opened the connection can use it, not its fork")]
    Forked,
}

/// Why no datagram was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecvError {
    /// None came in the time given.
    #[error("no datagram came in time")]
    TimedOut,
    /// None is there now.
    #[error("no datagram is there")]
    Empty,
    /// The next datagram is larger than the buffer; it is still there.
    #[error("the next datagram has {len} bytes, more than the buffer")]
    BufferTooSmall {
        /// Its bytes.
        len: usize,
    },
    /// The process forked: a connection stays with the process that opened it.
    #[error("only the process that opened the connection can use it, not its fork")]
    Forked,
    /// Everything that arrived has been received, and no more will come. [`Reason::is_orderly`] tells a good end from a failure.
    #[error("the connection is over: {0}")]
    Closed(Reason),
}

/// The connection broke before everything was sent and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the connection ended before all was sent: {0}")]
pub struct FinishError(pub Reason);

/// Why a stream cannot be opened, read or written. An [`io::Error`] made of it has the kind that TCP's would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Nothing happened in the time given; with a time of zero, it would have to wait.
    #[error("nothing happened in time")]
    TimedOut,
    /// The peer gave the stream up, with this number of its application's; what it had sent is not whole.
    #[error("the peer reset the stream: {0}")]
    Reset(u16),
    /// The peer wants no more of what is written.
    #[error("the peer reads no more of the stream: {0}")]
    Stopped(u16),
    /// This end writes no more, or gave the stream up.
    #[error("this end of the stream was ended")]
    Ended,
    /// The connection is over, and the stream was not.
    #[error("the connection is over: {0}")]
    Closed(Reason),
    /// The connection carries no streams.
    #[error("the connection carries no streams: both ends must ask for them (Options::streams)")]
    Unsupported,
    /// The peer allows no more streams until some are over.
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

/// Why the congestion control stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CcidError {
    /// This crate has none of that number: [`known_ccids`](crate::known_ccids) names those there are.
    #[error("there is no CCID {0}; known_ccids() has those there are")]
    Unknown(u8),
    /// No path of the connection is open.
    #[error("no path of the connection is open")]
    NotOpen,
}

/// Why nobody was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// Nobody connected in the time given.
    #[error("nobody connected in time")]
    TimedOut,
    /// Nobody waits to be accepted now.
    #[error("nobody waits to be accepted")]
    Empty,
    /// The process forked: a listener stays with the process that opened it.
    #[error("only the process that opened the listener can use it, not its fork")]
    Forked,
    /// The data thread ended.
    #[error("the listener is over")]
    Closed,
}
