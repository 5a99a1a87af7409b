//! Policy rules, by which this end treats some packets differently.
//!
//! Each rule has its own queue and scheduler, so that packets waiting for one path do not delay packets that
//! may take another.

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

/// Maximum number of rules. Each rule has its own queue, so this also limits the number of queues.
pub(crate) const MAX_RULES: usize = 16;

/// The rules that one end applies to the packets that it sends. The first matching rule applies. Rules beyond
/// `MAX_RULES` are ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy(pub Vec<Rule>);

/// One rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Name that the status shows.
    pub name: String,
    /// Packets that the rule matches.
    pub criteria: Criteria,
    /// Scheduler for these packets; `None` for the session's scheduler.
    pub scheduler: Option<SchedulerKind>,
    /// Paths that these packets may take; empty for all paths.
    pub paths: Vec<PathName>,
    /// Path priorities for these packets, 0 to 15, which override the paths' own priorities.
    pub priorities: Vec<(PathName, u8)>,
    /// Exclude paths whose round trip is longer than this.
    pub max_rtt: Option<Duration>,
    /// Exclude paths whose recent loss is higher than this, 0 to 1.
    pub max_loss: Option<f32>,
    /// What to do if none of the allowed paths is up.
    pub otherwise: Otherwise,
    /// Send one FEC packet per this many packets, 1 to 16.
    pub fec: Option<u8>,
    /// Drop the packets.
    pub drop: bool,
    /// Carry matching TCP connections as packets instead of streams.
    pub no_streams: bool,
}

/// What to do with a packet if none of the paths that its rule allows is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Otherwise {
    /// Take any path, as if the rule set no paths or limits.
    #[default]
    Any,
    /// Wait in the queue, at most for the sojourn limit.
    Wait,
    /// Drop it.
    Drop,
}

/// Counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleStats {
    /// Packets that matched.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Packets dropped because of the rule.
    pub dropped: u64,
}

impl Policy {
    /// Returns the first rule that matches a packet.
    pub fn rule_for(&self, info: &PktInfo, data: &[u8]) -> Option<usize> {
        self.0.iter().position(|rule| rule.criteria.fit(info, data))
    }
}

impl Rule {
    /// Returns the paths that the rule names.
    pub fn names(&self) -> impl Iterator<Item = PathName> {
        self.paths.iter().copied().chain(self.priorities.iter().map(|(name, _)| *name))
    }

    /// Writes the rows of the paths that the rule's packets may take to `out`, with the priorities that apply
    /// to these packets. Returns false if the packet must be dropped. This happens with [`Otherwise::Drop`]
    /// if none of these paths is up, carries the packet's size and has a priority above 0.
    pub(crate) fn rows(&self, info: &PktInfo, rows: &[PathRow], out: &mut Vec<PathRow>) -> bool {
        out.clear();
        out.extend(rows.iter().filter(|row| self.permits(row)).map(|row| self.ranked(row)));
        let usable = |row: &PathRow| row.state.is_up() && info.len <= row.max_payload && row.prio > 0;
        if !out.iter().any(usable) {
            match self.otherwise {
                Otherwise::Wait => {}
                Otherwise::Drop => return false,
                Otherwise::Any => {
                    out.clear();
                    out.extend(rows.iter().map(|row| self.ranked(row)));
                }
            }
        }
        true
    }

    /// Returns the row with the priority that applies to the rule's packets.
    fn ranked(&self, row: &PathRow) -> PathRow {
        let own = self.priorities.iter().find(|(name, _)| *name == row.name).map(|(_, prio)| *prio);
        let prio = own.map_or(row.prio, |own| match row.peer_prio {
            peer @ ..=OVERFLOW => peer.min(own),
            _ => own,
        });
        PathRow { prio, ..row.clone() }
    }

    fn permits(&self, row: &PathRow) -> bool {
        // On an idle path, the smoothed RTT comes from the last packets sent and is out of date.
        let rtt = if row.idle { row.min_rtt } else { row.srtt };
        (self.paths.is_empty() || self.paths.contains(&row.name))
            && self.max_rtt.is_none_or(|most| rtt.is_none_or(|rtt| rtt <= most))
            && self.max_loss.is_none_or(|most| row.loss <= most)
    }
}

/// The highest priority by which a peer excludes a path from normal use. A rule must not override it with a
/// higher priority (RFC 9897 section 3.2.10).
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
        assert_eq!(left(&rule, &rows), None, "the path's MTU is too small");
    }

    #[test]
    fn a_path_of_priority_0_counts_as_excluded() {
        let mut rule = Rule { paths: alloc::vec![PathName::of("lte")], ..Rule::default() };
        let rows = [named(0, "dsl", 10), PathRow { prio: 0, ..named(1, "lte", 10) }];
        assert_eq!(
            left(&rule, &rows),
            Some(alloc::vec![(0, 3), (1, 0)]),
            "if the rule's only path has priority 0, all paths must be allowed"
        );
        rule.otherwise = Otherwise::Drop;
        assert_eq!(left(&rule, &rows), None);
        rule.priorities = alloc::vec![(PathName::of("lte"), 3)];
        assert_eq!(
            left(&rule, &rows),
            Some(alloc::vec![(1, 3)]),
            "the rule's priority must override that of the path"
        );
    }

    #[test]
    fn thresholds_leave_out_what_is_slow_or_lossy() {
        let rule = Rule { max_rtt: Some(Duration::from_millis(50)), max_loss: Some(0.01), ..Rule::default() };
        let lossy = PathRow { loss: 0.02, ..named(2, "c", 10) };
        let rows = [named(0, "a", 51), named(1, "b", 50), lossy.clone()];
        assert_eq!(left(&rule, &rows), Some(alloc::vec![(1, 3)]));
        assert_eq!(
            left(&rule, &[named(0, "a", 51), lossy]).unwrap().len(),
            2,
            "if no path is left, all are allowed"
        );
        let idle = PathRow { idle: true, min_rtt: Some(Duration::from_millis(20)), ..named(0, "a", 90) };
        assert_eq!(
            left(&rule, &[idle, named(1, "b", 50)]).unwrap().len(),
            2,
            "an idle path's queue has drained"
        );
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
