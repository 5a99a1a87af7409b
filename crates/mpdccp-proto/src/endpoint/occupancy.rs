//! Counts the sessions of a listener, in total and per source.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

/// Numbers of half-open and of open sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) half_open: usize,
    pub(super) open: usize,
}

/// Sessions of one listener, in total and for each source.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    pub(super) all: Count,
    sources: BTreeMap<IpAddr, Count>,
}

impl Occupancy {
    pub(super) fn of(&self, source: IpAddr) -> Count {
        self.sources.get(&source).copied().unwrap_or_default()
    }

    /// Counts a session of this source as begun or ended.
    pub(super) fn change(&mut self, source: IpAddr, opened: bool, begins: bool) {
        let here = self.sources.entry(source).or_default();
        for count in [&mut self.all, here] {
            let number = if opened { &mut count.open } else { &mut count.half_open };
            *number = if begins { *number + 1 } else { number.saturating_sub(1) };
        }
        if self.of(source).open + self.of(source).half_open == 0 {
            self.sources.remove(&source);
        }
    }
}
