use mpdccp_proto::Reason;
use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::LazyLock;
use std::{fmt, io};

/// Error when making a listener or a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name or address resolves to no address.
    NoAddress,
    /// The options contradict each other or are invalid.
    Options(&'static str),
    /// No answer within [`Options::connect_timeout`](crate::Options::connect_timeout).
    TimedOut,
    /// The peer refused, or the connection ended before it was open.
    Refused(Reason),
    /// The process forked: a connection stays with the process that opened it.
    Forked,
    /// The system's error, and the operation that failed: address in use, no such address, no route, no
    /// permission.
    Io(io::Error),
}

/// Error when sending a datagram. The caller keeps the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// Congestion control allows no more now, and the queue is full.
    Full,
    /// Larger than [`max_datagram_size`](crate::Connection::max_datagram_size).
    TooBig {
        /// Length of the datagram, bytes.
        len: usize,
        /// Largest length allowed, bytes.
        max: usize,
    },
    /// Empty: DCCP reserves data packets without data for other uses (RFC 4340 section 5.4).
    Empty,
    /// The connection is over, or finishing.
    Closed(Reason),
    /// The process forked: a connection stays with the process that opened it.
    Forked,
}

/// Error when receiving a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// No datagram came in time.
    TimedOut,
    /// No datagram is waiting.
    Empty,
    /// The next datagram is larger than the buffer; it stays in the queue.
    BufferTooSmall {
        /// Length of the datagram, bytes.
        len: usize,
    },
    /// The process forked: a connection stays with the process that opened it.
    Forked,
    /// Everything that arrived has been received, and no more will come. [`Reason::is_orderly`] distinguishes
    /// an orderly end from a failure.
    Closed(Reason),
}

/// The connection broke before everything was sent and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishError(pub Reason);

/// Error when opening, reading or writing a stream. An [`io::Error`] made of it has the kind that TCP would
/// give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// Timed out; with a timeout of zero, the call would block.
    TimedOut,
    /// The peer reset the stream with this application error code; its data is incomplete.
    Reset(u16),
    /// The peer stopped reading the stream, with this application error code.
    Stopped(u16),
    /// This end finished writing, or reset the stream.
    Ended,
    /// The connection ended before the stream did.
    Closed(Reason),
    /// The connection carries no streams.
    Unsupported,
    /// The peer allows no more streams until some end.
    TooMany,
    /// The process forked: a connection stays with the process that opened it.
    Forked,
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno()).kind(), error)
    }
}

/// Error when changing the congestion control, which stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CcidError {
    /// This crate does not know this number: [`known_ccids`](crate::known_ccids) lists those it knows.
    Unknown(u8),
    /// No path of the connection is open.
    NotOpen,
}

/// Error when accepting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcceptError {
    /// No connection came in time.
    TimedOut,
    /// No connection is waiting.
    Empty,
    /// The process forked: a listener stays with the process that opened it.
    Forked,
    /// The data thread ended.
    Closed,
}

/// The texts of errors.
macro_rules! texts {
    ($($error:ident { $($case:pat => ($($text:tt)+),)+ })+) => { $(
        impl fmt::Display for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($case => write!(f, $($text)+),)+
                }
            }
        }
    )+ };
}

/// Error in a forked process, which has no data thread.
const FORKED: &str = "a forked process cannot use the connection; only the process that opened it can";

/// The numbers of the known CCIDs, in words: callers in C and Python see the text too.
fn known() -> String {
    crate::known_ccids().map(|ccid| ccid.to_string()).collect::<Vec<_>>().join(", ")
}

pub(crate) static UNKNOWN_CCID: LazyLock<String> =
    LazyLock::new(|| format!("unknown CCID, expected one of: {}", known()));

texts! {
    ConnectError {
        Self::NoAddress => ("the name has no address"),
        Self::Options(why) => ("{why}"),
        Self::TimedOut => ("no answer from the peer; check its address and port, and all firewalls on the way"),
        Self::Refused(reason) => ("not connected: {reason}"),
        Self::Forked => ("{FORKED}"),
        Self::Io(error) => ("{error}"),
    }
    SendError {
        Self::Full => ("the send queue is full"),
        Self::TooBig { len, max } => ("datagram of {len} bytes is too large; a packet carries at most {max} bytes"),
        Self::Empty => ("an empty datagram cannot be sent"),
        Self::Closed(reason) => ("the connection has ended: {reason}"),
        Self::Forked => ("{FORKED}"),
    }
    RecvError {
        Self::TimedOut => ("no datagram arrived in time"),
        Self::Empty => ("no datagram is available"),
        Self::BufferTooSmall { len } => ("the next datagram has {len} bytes; the buffer is smaller"),
        Self::Forked => ("{FORKED}"),
        Self::Closed(reason) => ("the connection has ended: {reason}"),
    }
    FinishError {
        Self(reason) => ("the connection ended before all datagrams were sent: {reason}"),
    }
    StreamError {
        Self::TimedOut => ("timed out"),
        Self::Reset(code) => ("the peer reset the stream: {code}"),
        Self::Stopped(code) => ("the peer stopped reading the stream: {code}"),
        Self::Ended => ("this end has closed the stream for sending"),
        Self::Closed(reason) => ("the connection has ended: {reason}"),
        Self::Unsupported => ("the connection has no streams; both ends must set the option `streams`"),
        Self::TooMany => ("too many open streams; the peer allows more when some end"),
        Self::Forked => ("{FORKED}"),
    }
    CcidError {
        Self::Unknown(ccid) => ("unknown CCID {ccid}, expected one of: {}", known()),
        Self::NotOpen => ("no path of the connection is open"),
    }
    AcceptError {
        Self::TimedOut => ("no connection arrived in time"),
        Self::Empty => ("no connection is waiting"),
        Self::Forked => ("a forked process cannot use the listener; only the process that opened it can"),
        Self::Closed => ("the listener has ended"),
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ConnectError::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl Error for SendError {}
impl Error for RecvError {}
impl Error for FinishError {}
impl Error for StreamError {}
impl Error for CcidError {}
impl Error for AcceptError {}

/// The addresses of a name.
pub(crate) fn addresses(of: impl ToSocketAddrs) -> Result<impl Iterator<Item = SocketAddr>, ConnectError> {
    of.to_socket_addrs().map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput => ConnectError::Options(
            "invalid address; expected HOST:PORT, such as example.org:6511, 192.0.2.1:6511 or [2001:db8::1]:6511",
        ),
        _ => e.into(),
    })
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> ConnectError {
        ConnectError::Io(error)
    }
}
