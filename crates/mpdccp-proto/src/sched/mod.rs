//! Schedulers: which path a packet takes. A scheduler reads rows and returns a pick; it never sees a connection.

use crate::names::Named;
#[cfg(feature = "serde")]
use crate::names::by_name;
use crate::{Health, PathId, PathRow, PktInfo, QueueView};
use alloc::boxed::Box;
use alloc::vec::Vec;
use dccp_proto::Gate;
use units::Time;

mod cpf;
mod rr;

pub use cpf::Cpf;
pub use rr::RoundRobin;

/// A scheduler's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This path; its gate must be open.
    One(PathId),
    /// A copy on each of these, with the same MP_SEQ.
    Several(Vec<PathId>),
    /// Keep it queued, at the latest until this time (`None`: until something changes).
    Wait(Option<Time>),
    /// Give the packet up.
    Drop,
}

/// Chooses paths.
pub trait Scheduler: Send + core::fmt::Debug {
    /// Picks for the packet at the head of the queue.
    fn pick(&mut self, now: Time, pkt: &PktInfo, queue: &QueueView, paths: &[PathRow]) -> Pick;
    /// The packet left on this path.
    fn on_sent(&mut self, now: Time, path: PathId, bytes: usize) {
        let _ = (now, path, bytes);
    }
}

/// One scheduler there is.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    about: &'static str,
    new: fn() -> Box<dyn Scheduler>,
}

/// All schedulers, the default first. Files, `--help` texts and error messages follow.
static SCHEDULERS: &[Entry] = &[
    Entry {
        name: "cpf",
        about: "cheapest pipe first: the path of highest priority, ties by lowest RTT; lower ones take what it cannot",
        new: || Box::new(Cpf),
    },
    Entry {
        name: "rr",
        about: "round robin: a packet per path in turn",
        new: || Box::new(RoundRobin::default()),
    },
];

/// A scheduler by name.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerKind(&'static Entry);

impl SchedulerKind {
    /// A fresh scheduler.
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

/// The paths that may take `pkt` now.
fn usable<'a>(pkt: &'a PktInfo, paths: &'a [PathRow]) -> impl Iterator<Item = &'a PathRow> {
    paths.iter().filter(|p| {
        p.health == Health::Up
            && p.prio > 0
            && matches!(p.gate, Gate::Open { .. })
            && pkt.len <= p.max_payload
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dccp_cc::Amount;
    use dccp_proto::Why;
    use units::{Duration, Rate};

    /// An open path.
    pub(super) fn row(id: u32, prio: u8, srtt_ms: u64) -> PathRow {
        PathRow {
            id: PathId(id),
            health: Health::Up,
            prio,
            gate: Gate::Open { burst: 1500 },
            srtt: Some(Duration::from_millis(srtt_ms)),
            rttvar: Duration::ZERO,
            min_rtt: None,
            cwnd: 15_000,
            inflight: Amount::default(),
            pacing: None,
            delivery_rate: Rate::ZERO,
            app_limited: false,
            lost: Amount::default(),
            max_payload: 1444,
            last_sent: None,
        }
    }

    /// A path whose window is full.
    pub(super) fn closed(id: u32, prio: u8) -> PathRow {
        PathRow { gate: Gate::Closed(Why::Window), ..row(id, prio, 10) }
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
    fn a_path_must_be_up_and_wide_enough() {
        let mut stale = row(0, 3, 10);
        stale.health = Health::Stale;
        let narrow = PathRow { max_payload: 100, ..row(1, 3, 10) };
        let pkt = PktInfo { len: 1000, ..PktInfo::default() };
        assert_eq!(usable(&pkt, &[stale, narrow, row(2, 3, 10)]).count(), 1);
    }
}
