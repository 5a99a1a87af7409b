use crate::context;
use crate::errno::{of_end, of_io, of_reason, of_refusal};
use mpdccp_proto::Reason;
use rustix::io::Errno;
use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::LazyLock;
use std::{fmt, io};

/// Error while creating a listener or a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name resolves to no address.
    NoAddress,
    /// The options are invalid or contradict each other.
    Options(&'static str),
    /// The peer did not answer within [`Options::connect_timeout`](crate::Options::connect_timeout).
    TimedOut,
    /// The peer refused, or the connection ended before it was open.
    Refused(Reason),
    /// The process has forked. Only the process that opened a connection can use it.
    Forked,
    /// A system error, with the operation that failed: for example, the address is in use or does not exist,
    /// there is no route, or permission is denied.
    Io(io::Error),
}

impl ConnectError {
    /// Returns the same error for another caller.
    pub(crate) fn again(&self) -> ConnectError {
        match self {
            ConnectError::NoAddress => ConnectError::NoAddress,
            ConnectError::Options(why) => ConnectError::Options(why),
            ConnectError::TimedOut => ConnectError::TimedOut,
            ConnectError::Refused(reason) => ConnectError::Refused(*reason),
            ConnectError::Forked => ConnectError::Forked,
            ConnectError::Io(error) => ConnectError::Io(context::again(error)),
        }
    }
}

/// Error while sending a datagram. The caller still has the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The queue is full, because congestion control currently allows no more.
    Full,
    /// The datagram is larger than [`max_datagram_size`](crate::Connection::max_datagram_size).
    TooBig {
        /// Length of the datagram in bytes.
        len: usize,
        /// Largest allowed length in bytes.
        max: usize,
    },
    /// The datagram is empty. DCCP reserves data packets without data for other uses (RFC 4340 section 5.4).
    Empty,
    /// The connection has ended or is finishing.
    Closed(Reason),
    /// The process has forked. Only the process that opened a connection can use it.
    Forked,
}

/// Error while receiving a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// No datagram arrived in time.
    TimedOut,
    /// No datagram is waiting.
    Empty,
    /// The next datagram is larger than the buffer. It stays in the queue.
    BufferTooSmall {
        /// Length of the datagram in bytes.
        len: usize,
    },
    /// The process has forked. Only the process that opened a connection can use it.
    Forked,
    /// Everything that arrived has been received, and no more will arrive. [`Reason::is_orderly`] tells an
    /// orderly end from a failure.
    Closed(Reason),
}

/// Error: the connection failed before everything had been sent and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishError(pub Reason);

/// Error while opening, reading or writing a stream. An [`io::Error`] created from it has the kind that TCP
/// would report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// The time limit has passed or, if it is zero, the call would have to wait.
    TimedOut,
    /// The peer has reset the stream with this application error code. The data is incomplete.
    Reset(u16),
    /// The peer has stopped reading the stream, with this application error code.
    Stopped(u16),
    /// This end has finished writing, or has reset the stream.
    Ended,
    /// The connection ended before the stream was complete.
    Closed(Reason),
    /// The connection does not support streams.
    Unsupported,
    /// The peer allows no more streams until some of the existing ones end.
    TooMany,
    /// The process has forked. Only the process that opened a connection can use it.
    Forked,
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno()).kind(), error)
    }
}

impl StreamError {
    /// Converts the error of a read.
    pub(crate) fn of_read(self) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(self.read_errno()).kind(), self)
    }
}

/// Error while changing the congestion control. The old congestion control stays in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CcidError {
    /// This crate has no CCID with this number; [`known_ccids`](crate::known_ccids) lists those it has.
    Unknown(u8),
    /// No path of the connection is open.
    NotOpen,
    /// The process has forked. Only the process that opened a connection can use it.
    Forked,
}

/// Error while accepting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcceptError {
    /// No connection arrived in time.
    TimedOut,
    /// No connection is waiting.
    Empty,
    /// The process has forked. Only the process that opened a listener can use it.
    Forked,
    /// The data thread has ended.
    Closed,
}

/// Implements the texts of errors and their errno values. Comments describe the errno value further.
macro_rules! texts {
    ($($(#[$note:meta])* $error:ident { $($case:pat => $errno:expr, ($($text:tt)+),)+ })+) => { $(
        impl fmt::Display for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($case => write!(f, $($text)+),)+
                }
            }
        }

        impl $error {
            /// Returns the errno value that is closest to this error.
            $(#[$note])*
            #[allow(unused_variables, reason = "a value may appear only in the text")]
            pub fn errno(&self) -> i32 {
                let errno = match self {
                    $($case => $errno,)+
                };
                errno.raw_os_error()
            }
        }
    )+ };
}

/// Error text in a forked process, which has no data thread.
const FORKED: &str = "a forked process cannot use the connection; only the process that opened it can";

/// Returns the known CCID numbers as text, which callers in C and Python also see.
fn known() -> String {
    crate::known_ccids().map(|ccid| ccid.to_string()).collect::<Vec<_>>().join(", ")
}

pub(crate) static UNKNOWN_CCID: LazyLock<String> =
    LazyLock::new(|| format!("unknown CCID, expected one of: {}", known()));

texts! {
    ConnectError {
        Self::NoAddress => Errno::HOSTUNREACH, ("the name has no address"),
        Self::Options(why) => Errno::INVAL, ("{why}"),
        Self::TimedOut => Errno::TIMEDOUT, ("no answer from the peer; check its address and port, and all firewalls on the way"),
        Self::Refused(reason) => of_refusal(*reason), ("not connected: {reason}"),
        Self::Forked => Errno::PERM, ("{FORKED}"),
        Self::Io(error) => of_io(error), ("{error}"),
    }
    /// After an orderly end, this is EPIPE.
    SendError {
        Self::Full => Errno::AGAIN, ("the send queue is full"),
        Self::TooBig { len, max } => Errno::MSGSIZE, ("datagram of {len} bytes is too large; a packet carries at most {max} bytes"),
        Self::Empty => Errno::INVAL, ("an empty datagram cannot be sent"),
        Self::Closed(reason) => of_end(*reason), ("the connection has ended: {reason}"),
        Self::Forked => Errno::PERM, ("{FORKED}"),
    }
    /// Calls that return 0 at an orderly end, the end of the data, do not use the value then.
    RecvError {
        Self::TimedOut => Errno::TIMEDOUT, ("no datagram arrived in time"),
        Self::Empty => Errno::AGAIN, ("no datagram is available"),
        Self::BufferTooSmall { len } => Errno::MSGSIZE, ("the next datagram has {len} bytes; the buffer is smaller"),
        Self::Forked => Errno::PERM, ("{FORKED}"),
        Self::Closed(reason) => of_reason(*reason), ("the connection has ended: {reason}"),
    }
    FinishError {
        Self(reason) => of_reason(*reason), ("the connection ended before all datagrams were sent: {reason}"),
    }
    /// After an orderly end, this is EPIPE.
    StreamError {
        Self::TimedOut => Errno::TIMEDOUT, ("timed out"),
        Self::Reset(code) => Errno::CONNRESET, ("the peer reset the stream: {code}"),
        Self::Stopped(code) => Errno::PIPE, ("the peer stopped reading the stream: {code}"),
        Self::Ended => Errno::PIPE, ("this end has closed the stream for sending"),
        Self::Closed(reason) => of_end(*reason), ("the connection has ended: {reason}"),
        Self::Unsupported => Errno::OPNOTSUPP, ("the connection has no streams; both ends must set the option `streams`"),
        Self::TooMany => Errno::AGAIN, ("too many open streams; the peer allows more when some end"),
        Self::Forked => Errno::PERM, ("{FORKED}"),
    }
    CcidError {
        Self::Unknown(ccid) => Errno::INVAL, ("unknown CCID {ccid}, expected one of: {}", known()),
        Self::NotOpen => Errno::NOTCONN, ("no path of the connection is open"),
        Self::Forked => Errno::PERM, ("{FORKED}"),
    }
    AcceptError {
        Self::TimedOut => Errno::TIMEDOUT, ("no connection arrived in time"),
        Self::Empty => Errno::AGAIN, ("no connection is waiting"),
        Self::Forked => Errno::PERM, ("a forked process cannot use the listener; only the process that opened it can"),
        Self::Closed => Errno::CONNABORTED, ("the listener has ended"),
    }
}

impl StreamError {
    /// Returns the errno value that is closest to this error of a read. After an orderly end of the
    /// connection, this is not EPIPE, because the stream's data is incomplete.
    pub fn read_errno(&self) -> i32 {
        match self {
            StreamError::Closed(reason) => of_reason(*reason).raw_os_error(),
            _ => self.errno(),
        }
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

/// Resolves a name to its addresses.
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
