use crate::turns::Turns;
use alloc::collections::VecDeque;

/// The streams of one class, which are scheduled together.
#[derive(Debug, Default)]
pub(crate) struct Class {
    pub(crate) turns: Turns,
    /// Streams with control frames to send.
    pub(crate) control: VecDeque<u64>,
    /// Number of bytes written but not sent yet.
    pub(crate) unsent: u64,
    /// The part of these bytes that may be sent, as far as the peer's windows are concerned.
    pub(crate) ready: u64,
}
