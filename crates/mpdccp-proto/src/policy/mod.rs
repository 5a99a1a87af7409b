//! Policy rules: which of this end's packets go otherwise than the rest, and how.
//!
//! Each rule has a queue and a scheduler of its own, so what waits for one path does not hold up what may take another.

mod criteria;
#[cfg(feature = "serde")]
mod file;

pub use criteria::{Criteria, Network};
#[cfg(feature = "serde")]
pub use file::Dscp;

use crate::sched::SchedulerKind;
use crate::{PathName, PathRow, PktInfo};
use alloc::string::String;
use alloc::vec::Vec;
use mpdccp_units::Duration;

/// Most rules; each has a queue.
pub(crate) const MAX_RULES: usize = 16;

/// The rules of one end for what it sends; the first that fits a packet counts. What is beyond `MAX_RULES` is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy(pub Vec<Rule>);

/// One rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// What status calls it.
    pub name: String,
    /// Which packets it is for.
    pub criteria: Criteria,
    /// Their scheduler; that of the session if none.
    pub scheduler: Option<SchedulerKind>,
    /// The paths they may take; all if empty.
    pub paths: Vec<PathName>,
    /// Priorities that count for them in place of the paths' own, 0 to 15.
    pub priorities: Vec<(PathName, u8)>,
    /// They leave out paths whose round trip takes longer.
    pub max_rtt: Option<Duration>,
    /// They leave out paths that lose more of late, 0 to 1.
    pub max_loss: Option<f32>,
    /// What becomes of them while no path is left.
    pub otherwise: Otherwise,
    /// After every so many of them follows their FEC packet, 1 to 16.
    pub fec: Option<u8>,
    /// They are not sent at all.
    pub drop: bool,
    /// TCP connections that it fits are not to become streams.
    pub no_streams: bool,
}

/// What becomes of a packet while its rule leaves it no path that is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Otherwise {
    /// It takes any path, as if the rule said nothing of paths and thresholds.
    #[default]
    Any,
    /// It waits in its queue, as long as packets may.
    Wait,
    /// It is dropped.
    Drop,
}

/// Counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleStats {
    /// Packets that it fitted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of them, those that were not sent because the rule says so.
    pub dropped: u64,
}

impl Policy {
    /// The rule for a packet.
    pub fn rule_for(&self, info: &PktInfo, data: &[u8]) -> Option<usize> {
        self.0.iter().position(|rule| rule.criteria.fit(info, data))
    }
}

impl Rule {
    /// The paths it names.
    pub fn names(&self) -> impl Iterator<Item = PathName> {
        self.paths.iter().copied().chain(self.priorities.iter().map(|(name, _)| *name))
    }

    /// Puts into `out` the rows of the paths that its packets may take, with the priorities that count for them. False if none of
    /// those is up and wide enough, and the packet is neither to wait nor to take another.
    pub(crate) fn rows(&self, info: &PktInfo, rows: &[PathRow], out: &mut Vec<PathRow>) -> bool {
        out.clear();
        out.extend(rows.iter().filter(|row| self.permits(row)).cloned());
        let usable = |row: &PathRow| row.state.is_up() && info.len <= row.max_payload;
        if !out.iter().any(usable) {
            match self.otherwise {
                Otherwise::Wait => {}
                Otherwise::Drop => return false,
                Otherwise::Any => {
                    out.clear();
                    out.extend_from_slice(rows);
                }
            }
        }
        for row in out.iter_mut() {
            if let Some((_, prio)) = self.priorities.iter().find(|(name, _)| *name == row.name) {
                row.prio = if row.peer_prio <= OVERFLOW { row.peer_prio.min(*prio) } else { *prio };
            }
        }
        true
    }

    fn permits(&self, row: &PathRow) -> bool {
        // Of an idle path what its last packets met says nothing any more.
        let rtt = if row.idle { row.min_rtt } else { row.srtt };
        (self.paths.is_empty() || self.paths.contains(&row.name))
            && self.max_rtt.is_none_or(|most| rtt.is_none_or(|rtt| rtt <= most))
            && self.max_loss.is_none_or(|most| row.loss <= most)
    }
}

/// Up to this priority the peer says that a path is not one like others, and that holds (RFC 9897 section 3.2.10).
pub(crate) const OVERFLOW: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathState;
    use crate::sched::tests::row;

    fn named(id: u32, name: &str, srtt: u64) -> PathRow {
        PathRow { name: PathName::of(name), ..row(id, 3, srtt) }
    }

    fn left(rule: &Rule, rows: &[PathRow]) -> Option<Vec<(u32, u8)>> {
        let mut out = Vec::new();
        let info = PktInfo { len: 1000, ..PktInfo::default() };
        rule.rows(&info, rows, &mut out).then(|| out.iter().map(|row| (row.id.0, row.prio)).collect())
    }

    #[test]
    fn a_rule_names_its_paths_and_says_what_else() {
        let mut rule = Rule { paths: alloc::vec![PathName::of("dsl")], ..Rule::default() };
        let mut rows = [named(0, "dsl", 10), named(1, "lte", 10), row(2, 3, 10)];
        assert_eq!(left(&rule, &rows), Some(alloc::vec![(0, 3)]));
        rows[0].state = PathState::Suspect;
        assert_eq!(left(&rule, &rows), Some(alloc::vec![(0, 3), (1, 3), (2, 3)]));
        rule.otherwise = Otherwise::Wait;
        assert_eq!(left(&rule, &rows), Some(alloc::vec![(0, 3)]));
        rule.otherwise = Otherwise::Drop;
        assert_eq!(left(&rule, &rows), None);
        rows[0] = PathRow { max_payload: 999, ..named(0, "dsl", 10) };
        assert_eq!(left(&rule, &rows), None, "too narrow");
    }

    #[test]
    fn thresholds_leave_out_what_is_slow_or_lossy() {
        let rule = Rule { max_rtt: Some(Duration::from_millis(50)), max_loss: Some(0.01), ..Rule::default() };
        let lossy = PathRow { loss: 0.02, ..named(2, "c", 10) };
        let rows = [named(0, "a", 51), named(1, "b", 50), lossy.clone()];
        assert_eq!(left(&rule, &rows), Some(alloc::vec![(1, 3)]));
        assert_eq!(left(&rule, &[named(0, "a", 51), lossy]).unwrap().len(), 2, "none is left: all");
        let idle = PathRow { idle: true, min_rtt: Some(Duration::from_millis(20)), ..named(0, "a", 90) };
        assert_eq!(left(&rule, &[idle, named(1, "b", 50)]).unwrap().len(), 2, "its queue has drained");
    }

    #[test]
    fn priorities_are_the_rules_but_the_peer_has_its_say() {
        let priorities = alloc::vec![(PathName::of("a"), 12), (PathName::of("b"), 5), (PathName::of("c"), 1)];
        let rule = Rule { priorities, ..Rule::default() };
        let standby = PathRow { peer_prio: 1, prio: 1, ..named(1, "b", 10) };
        let rows = [named(0, "a", 10), standby, named(2, "c", 10), named(3, "d", 10)];
        assert_eq!(left(&rule, &rows), Some(alloc::vec![(0, 12), (1, 1), (2, 1), (3, 3)]));
    }
}
