//! The numbers of strangers, that is, of peers that are not configured.

use mpdccp_units::Time;

/// The first number that a stranger can have.
pub(crate) const FIRST: u32 = 1 << 31;

/// Returns whether this is the number of a stranger.
pub(crate) fn is_stranger(number: u32) -> bool {
    number >= FIRST
}

#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Maximum number of strangers at a time.
    pub(crate) most: usize,
    pub(crate) count: usize,
    /// The next number to assign, counted from 0.
    pub(crate) next: u32,
    /// Time at which silent strangers were last removed.
    pub(crate) swept: Option<Time>,
}

impl Strangers {
    /// Removes a peer.
    pub(crate) fn forget(&mut self, number: u32) {
        if is_stranger(number) {
            self.count = self.count.saturating_sub(1);
        }
    }
}
