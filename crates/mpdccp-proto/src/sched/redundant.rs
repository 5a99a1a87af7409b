use super::scheduler::{Pick, Scheduler, open};
use crate::{PathRow, PktInfo, QueueView};
use alloc::vec::Vec;
use mpdccp_units::Time;

/// Sends a copy on every path that has room (ATSSS Redundant). All copies have the same MP_SEQ, and the
/// receiver delivers the first one to arrive.
#[derive(Debug, Default)]
pub(super) struct Redundant;

impl Scheduler for Redundant {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, _queue: &QueueView, paths: &[PathRow]) -> Pick {
        let all: Vec<_> = open(paths).map(|path| path.id).collect();
        if all.is_empty() { Pick::Wait(None) } else { Pick::Several(all) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;
    use crate::PathId;

    #[test]
    fn copies_go_wherever_there_is_room() {
        let all = [row(0, 3, 10), closed(1, 3), row(2, 9, 99)];
        assert_eq!(pick(&mut Redundant, 1000, &all), Pick::Several(alloc::vec![PathId(0), PathId(2)]));
    }
}
