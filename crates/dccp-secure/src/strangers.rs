//! The numbers and sources of strangers, that is, of peers that are not configured.

use core::net::IpAddr;
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
    sources: BTreeMap<u32, IpAddr>,
    by_source: BTreeSet<(IpAddr, u32)>,
    /// The strangers that have not confirmed their keys yet. The oldest has the lowest number.
    unconfirmed: BTreeSet<u32>,
}

impl Strangers {
    pub(crate) fn remember(&mut self, number: u32, source: IpAddr) {
        self.sources.insert(number, source);
        self.by_source.insert((source, number));
        self.unconfirmed.insert(number);
    }

    /// Records that a stranger has confirmed its key.
    pub(crate) fn confirm(&mut self, number: u32) {
        self.unconfirmed.remove(&number);
    }

    /// If a stranger of this source lacks a place, returns the stranger whose place it may take: the one that
    /// has waited longest to confirm its key, be it of the same source or, if all places are taken, of any.
    pub(crate) fn to_replace(&self, source: IpAddr) -> Option<u32> {
        if self.share().is_some_and(|share| self.of(source).count() as u128 >= share) {
            return self.of(source).find(|number| self.unconfirmed.contains(number));
        }
        self.unconfirmed.first().copied().filter(|_| self.sources.len() >= self.most)
    }

    /// Removes a peer.
    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(source) = self.sources.remove(&number) {
            self.by_source.remove(&(source, number));
            self.unconfirmed.remove(&number);
        }
    }

    /// Returns the numbers of the strangers of one source.
    fn of(&self, source: IpAddr) -> impl Iterator<Item = u32> {
        self.by_source.range((source, 0)..=(source, u32::MAX)).map(|(_, number)| *number)
    }

    /// Returns the number of places that no confirmed stranger has.
    fn free(&self) -> usize {
        self.most.saturating_sub(self.sources.len() - self.unconfirmed.len())
    }

    /// Returns the limit of a source, if there is one. As for sessions, it is a fraction of the free places,
    /// rounded up, so a few sources together cannot take all places.
    fn share(&self) -> Option<u128> {
        let share = (self.free() as u128 * self.each as u128).div_ceil(self.most.max(1) as u128);
        (self.each < self.most).then_some(share)
    }

    /// Returns whether another stranger of this source would exceed a limit. Only confirmed strangers count,
    /// because the first message of a handshake may have a forged source.
    pub(crate) fn are_too_many(&self, source: IpAddr) -> bool {
        let confirmed =
            || self.of(source).filter(|number| !self.unconfirmed.contains(number)).count() as u128;
        self.free() == 0 || self.share().is_some_and(|share| confirmed() >= share)
    }
}
