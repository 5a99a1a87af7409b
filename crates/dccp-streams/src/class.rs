use crate::turns::Turns;
use alloc::collections::VecDeque;

/// Streams that travel alike, and take turns.
#[derive(Debug, Default)]
pub(crate) struct Class {
    pub(crate) turns: Turns,
    /// Those with control frames.
    pub(crate) control: VecDeque<u64>,
    /// Bytes written and not sent once.
    pub(crate) unsent: u64,
}
