//! Schedulers: which path a packet takes. A scheduler reads rows and returns a pick; it never sees a connection.

use crate::{PathId, PathRow, PktInfo, QueueView};
use alloc::boxed::Box;
use alloc::vec::Vec;
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

/// Schedulers by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Cheapest Pipe First.
    #[default]
    Cpf,
    /// Round robin.
    RoundRobin,
}

impl SchedulerKind {
    /// Every kind with its name in configuration files.
    pub const NAMES: &[(&str, SchedulerKind)] =
        &[("cpf", SchedulerKind::Cpf), ("rr", SchedulerKind::RoundRobin)];

    /// By name.
    pub fn from_name(name: &str) -> Option<SchedulerKind> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, k)| *k)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, k)| *k == self).map_or("", |(n, _)| n)
    }

    /// A fresh scheduler.
    pub fn scheduler(self) -> Box<dyn Scheduler> {
        match self {
            SchedulerKind::Cpf => Box::new(Cpf::default()),
            SchedulerKind::RoundRobin => Box::new(RoundRobin::default()),
        }
    }
}
