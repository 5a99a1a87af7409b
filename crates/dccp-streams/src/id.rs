use core::fmt;

/// Identifier of a stream in a session. The client opens even ones, the server odd ones; each end counts up
/// by two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// Error of a call on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// There is no such stream, or it is over.
    Unknown,
    /// Nothing can be read, written or opened now. An event reports when reading or writing becomes possible;
    /// there is no event for opening.
    Blocked,
    /// The header is longer than [`MAX_HEADER`](crate::MAX_HEADER).
    HeaderTooLong,
    /// The stream was opened by the peer and not yet accepted, or was already accepted.
    NotAccepted,
    /// This end finished the stream.
    Finished,
    /// The stream was reset, by either end.
    Reset,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamError::Unknown => "no such stream",
            StreamError::Blocked => "not possible at the moment",
            StreamError::HeaderTooLong => "the header is too long",
            StreamError::NotAccepted => "the stream waits to be accepted, or was accepted before",
            StreamError::Finished => "the stream was finished",
            StreamError::Reset => "the stream was reset",
        })
    }
}

impl core::error::Error for StreamError {}
