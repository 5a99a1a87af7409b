//! Numbers of peers that are not configured (strangers).

use mpdccp_units::Time;

/// First number of a stranger.
pub(crate) const FIRST: u32 = 1 << 31;

/// Whether this is the number of a stranger.
pub(crate) fn is_stranger(number: u32) -> bool {
    number >= FIRST
}

#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Maximum number of strangers at a time.
    pub(crate) most: usize,
    pub(crate) count: usize,
    /// Counts from 0.
    pub(crate) next: u32,
    /// When silent strangers were last removed.
    pub(crate) swept: Option<Time>,
}

impl Strangers {
    /// A peer was removed.
    pub(crate) fn forget(&mut self, number: u32) {
        if is_stranger(number) {
            self.count = self.count.saturating_sub(1);
        }
    }
}
