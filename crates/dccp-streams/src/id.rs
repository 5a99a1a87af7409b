use core::fmt;

/// Identifier of a stream within a session. Streams opened by the client have even numbers, those opened by
/// the server odd numbers. Each end counts up in steps of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// Error of a call on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// There is no such stream, or it has ended.
    Unknown,
    /// Nothing can be read, written or opened now. An event reports when reading or writing becomes possible
    /// again, but not when opening does.
    Blocked,
    /// The header is longer than [`MAX_HEADER`](crate::MAX_HEADER).
    HeaderTooLong,
    /// The peer opened the stream, and this end has not accepted it yet. If `accept` returns this error, this
    /// end has already opened or accepted the stream.
    NotAccepted,
    /// This end has finished writing.
    Finished,
    /// One of the ends reset the stream.
    Reset,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamError::Unknown => "no such stream",
            StreamError::Blocked => "nothing can be read, written or opened now",
            StreamError::HeaderTooLong => "the header is too long",
            StreamError::NotAccepted => "the stream must be accepted once, before its first use",
            StreamError::Finished => "the stream was finished",
            StreamError::Reset => "the stream was reset",
        })
    }
}

impl core::error::Error for StreamError {}
