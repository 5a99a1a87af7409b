//! The numbers and sources of strangers, that is, of peers that are not configured.

use mpdccp_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The first number that a stranger can have.
pub(crate) const FIRST: u32 = 1 << 31;

/// Returns whether this is the number of a stranger.
pub(crate) fn is_stranger(number: u32) -> bool {
    number >= FIRST
}

#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Maximum number of strangers at a time, in total and from one source.
    pub(crate) most: usize,
    pub(crate) each: usize,
    /// The next number to assign, counted from 0.
    pub(crate) next: u32,
    /// Time at which silent strangers were last removed.
    pub(crate) swept: Option<Time>,
    /// The source of each stranger's first handshake, and the same pairs by source.
    sources: BTreeMap<u32, u128>,
    by_source: BTreeSet<(u128, u32)>,
    /// The strangers that have not confirmed their keys yet. The oldest has the lowest number.
    unconfirmed: BTreeSet<u32>,
}

impl Strangers {
    pub(crate) fn remember(&mut self, number: u32, source: u128) {
        self.sources.insert(number, source);
        self.by_source.insert((source, number));
        self.unconfirmed.insert(number);
    }

    /// Records that a stranger has confirmed its key.
    pub(crate) fn confirm(&mut self, number: u32) {
        self.unconfirmed.remove(&number);
    }

    /// If all places are taken, returns the stranger whose place a stranger of this source may take: the one
    /// that has waited longest to confirm its key.
    pub(crate) fn to_replace(&self, source: u128) -> Option<u32> {
        // The only free place is for a source that has no stranger yet, unless sources have no limit.
        let helps = self.each >= self.most || self.of(source).next().is_none();
        self.unconfirmed.first().copied().filter(|_| helps && self.sources.len() >= self.most)
    }

    /// Removes a peer.
    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(source) = self.sources.remove(&number) {
            self.by_source.remove(&(source, number));
            self.unconfirmed.remove(&number);
        }
    }

    /// Returns the numbers of the strangers of one source.
    pub(crate) fn of(&self, source: u128) -> impl Iterator<Item = u32> {
        self.by_source.range((source, 0)..=(source, u32::MAX)).map(|(_, number)| *number)
    }

    /// Returns whether another stranger of this source would exceed a limit. As for sessions, the limit of a
    /// source is a fraction of the free places, rounded up, so a few sources together cannot take all places.
    pub(crate) fn are_too_many(&self, source: u128) -> bool {
        let (most, free) = (self.most, self.most.saturating_sub(self.sources.len()));
        let share = (free as u128 * self.each.min(most) as u128).div_ceil(most.max(1) as u128);
        free == 0 || self.each < most && self.of(source).count() as u128 >= share
    }
}
