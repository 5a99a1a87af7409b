//! The numbers of peers that nobody named.

use mpdccp_units::Time;

/// They begin here.
pub(crate) const FIRST: u32 = 1 << 31;

/// Whether nobody named the peer with this number.
pub(crate) fn is_stranger(number: u32) -> bool {
    number >= FIRST
}

#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// How many there may be.
    pub(crate) most: usize,
    pub(crate) count: usize,
    /// Counts from 0 on.
    pub(crate) next: u32,
    /// When those that are silent were forgotten last.
    pub(crate) swept: Option<Time>,
}

impl Strangers {
    /// A peer is none any more.
    pub(crate) fn forget(&mut self, number: u32) {
        if is_stranger(number) {
            self.count = self.count.saturating_sub(1);
        }
    }
}
