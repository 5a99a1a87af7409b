//! Schedulers choose the path of each packet. A scheduler reads rows, each of which describes a path, and
//! returns a pick. It never sees a connection.
//!
//! Priorities filter the rows before any scheduler sees them (`priorities`), so they mean the same for all
//! schedulers. The gate of a row may be closed, and a scheduler may wait for it to open.

use crate::names::Named;
#[cfg(feature = "serde")]
use crate::names::by_name;
use alloc::boxed::Box;

mod acpf;
mod auto;
mod blest;
mod cpf;
mod distant;
mod ecf;
mod extra;
mod handover;
mod otias;
pub(crate) mod priorities;
mod redundant;
mod rr;
mod scheduler;
mod srtt;
mod trial;
mod weighted;

pub use scheduler::{Pick, Scheduler};

/// One scheduler.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    about: &'static str,
    new: fn() -> Box<dyn Scheduler>,
}

/// All schedulers. The first is the default. File parsing, `--help` texts and error messages use this table.
static SCHEDULERS: &[Entry] = &[
    Entry {
        name: "auto",
        about: "earliest in-order delivery: waits for a better path, avoids paths that only add delay or loss",
        new: || Box::new(auto::Auto::default()),
    },
    Entry {
        name: "cpf",
        about: "cheapest pipe first: the path of highest priority, then lowest RTT; other paths when it is full",
        new: || Box::new(cpf::Cpf),
    },
    Entry {
        name: "acpf",
        about: "adaptive CPF: leaves the cheapest path as soon as its RTT grows",
        new: || Box::new(acpf::Acpf::default()),
    },
    Entry {
        name: "rr",
        about: "round robin: one packet on each path in turn",
        new: || Box::new(rr::RoundRobin::default()),
    },
    Entry {
        name: "weighted-rr",
        about: "bytes in proportion to the paths' priorities",
        new: || Box::new(weighted::Weighted::default()),
    },
    Entry {
        name: "srtt",
        about: "the path with the lowest round-trip time among those that can send now",
        new: || Box::new(srtt::LowestRtt),
    },
    Entry {
        name: "otias",
        about: "the path with the earliest estimated arrival; waits if that path is full",
        new: || Box::new(otias::Otias),
    },
    Entry {
        name: "ecf",
        about: "earliest completion first: waits for the fast path if the backlog then finishes sooner",
        new: || Box::new(ecf::Ecf::default()),
    },
    Entry {
        name: "blest",
        about: "blocking estimation: skips a slow path that would block the fast path",
        new: || Box::new(blest::Blest),
    },
    Entry {
        name: "redundant",
        about: "sends a copy on every path that has room",
        new: || Box::new(redundant::Redundant),
    },
    Entry {
        name: "handover",
        about: "one path at a time: the one with the highest priority; among equals, it switches only on failure",
        new: || Box::new(handover::Handover::default()),
    },
];

/// A scheduler by name.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerKind(&'static Entry);

impl SchedulerKind {
    /// Creates a scheduler.
    pub fn scheduler(self) -> Box<dyn Scheduler> {
        (self.0.new)()
    }
}

impl Default for SchedulerKind {
    fn default() -> SchedulerKind {
        SchedulerKind(&SCHEDULERS[0])
    }
}

impl PartialEq for SchedulerKind {
    fn eq(&self, other: &SchedulerKind) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for SchedulerKind {}

impl Named for SchedulerKind {
    const WHAT: &'static str = "scheduler";
    fn all() -> impl Iterator<Item = SchedulerKind> {
        SCHEDULERS.iter().map(SchedulerKind)
    }
    fn name(self) -> &'static str {
        self.0.name
    }
    fn about(self) -> &'static str {
        self.0.about
    }
}

#[cfg(feature = "serde")]
by_name!(SchedulerKind);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::PathName;
    use crate::{PathId, PathRow, PathState, PktInfo, QueueView};
    use dccp_cc::Amount;
    use dccp_proto::ccid::Late;
    use dccp_proto::{Gate, Why};
    use mpdccp_units::{Duration, Rate, Time};

    /// Returns an open path.
    pub(crate) fn row(id: u32, prio: u8, srtt_ms: u64) -> PathRow {
        PathRow {
            id: PathId(id),
            state: PathState::Up,
            name: PathName::default(),
            prio,
            peer_prio: 3,
            gate: Gate::Open { burst: 1500 },
            srtt: Some(Duration::from_millis(srtt_ms)),
            rttvar: Duration::ZERO,
            min_rtt: Some(Duration::from_millis(srtt_ms)),
            late: Late::default(),
            cwnd: 15_000,
            inflight: Amount::default(),
            pacing: None,
            rate: Rate::from_mbps(10.0),
            app_limited: false,
            seen: Rate::from_mbps(10.0),
            loss: 0.0,
            max_payload: 1444,
            last_sent: None,
            up_since: Time::ZERO,
            idle: false,
        }
    }

    /// Returns a path whose window is full.
    pub(crate) fn closed(id: u32, prio: u8) -> PathRow {
        PathRow { gate: Gate::Closed(Why::Window), ..row(id, prio, 10) }
    }

    /// Picks a path for a packet of a long backlog.
    pub(crate) fn pick(scheduler: &mut dyn Scheduler, backlog: u64, paths: &[PathRow]) -> Pick {
        let queue = QueueView {
            packets: backlog as u32 / 1000,
            bytes: backlog,
            flow_bytes: backlog,
            ..QueueView::default()
        };
        scheduler.pick(Time::ZERO, &PktInfo { len: 1000, ..PktInfo::default() }, &queue, paths)
    }

    #[test]
    fn names_round_trip() {
        for kind in SchedulerKind::all() {
            assert_eq!(SchedulerKind::named(kind.name()), Ok(kind));
            assert!(!kind.about().is_empty());
        }
        assert!(SchedulerKind::named("fastest").unwrap_err().contains("rr"));
    }

    #[test]
    fn every_scheduler_uses_what_is_offered_and_waits_for_what_is_shut() {
        for kind in SchedulerKind::all() {
            let mut scheduler = kind.scheduler();
            for prio in [0, 1, 2, 3, 15] {
                // The rows have already been filtered by priority, so the scheduler may use every path
                // offered.
                let picked = pick(&mut *scheduler, 2_000, &[row(7, prio, 10)]);
                assert!(
                    matches!(&picked, Pick::One(PathId(7)))
                        || picked == Pick::Several(alloc::vec![PathId(7)]),
                    "{}: {picked:?}",
                    kind.name()
                );
            }
            assert!(
                matches!(pick(&mut *scheduler, 2_000, &[closed(0, 3), closed(1, 3)]), Pick::Wait(_)),
                "{}",
                kind.name()
            );
            assert!(matches!(pick(&mut *scheduler, 2_000, &[]), Pick::Wait(_)), "{}", kind.name());
        }
    }
}
