use crate::turns::Turns;
use alloc::collections::VecDeque;

/// Streams that are sent alike, and share turns.
#[derive(Debug, Default)]
pub(crate) struct Class {
    pub(crate) turns: Turns,
    /// Streams with control frames.
    pub(crate) control: VecDeque<u64>,
    /// Bytes written but not sent yet.
    pub(crate) unsent: u64,
}
