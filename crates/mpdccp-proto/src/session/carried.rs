//! The streams of a session, and what picks their paths.

use crate::QueueView;
use crate::sched::{Scheduler, SchedulerKind};
use alloc::boxed::Box;
use dccp_streams::{Config, Role, Streams};
use mpdccp_units::{Duration, Time};

/// The streams of a session whose peer has them too.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) streams: Streams,
    pub(super) scheduler: Box<dyn Scheduler>,
    /// Since when bytes wait that were not sent once.
    standing: Option<Time>,
}

impl Carried {
    pub(super) fn new(role: Role, scheduler: SchedulerKind) -> Box<Carried> {
        let streams = Streams::new(role, Config::default());
        Box::new(Carried { streams, scheduler: scheduler.scheduler(), standing: None })
    }

    /// What waits, as schedulers want to know it of a queue.
    pub(super) fn view(&self, now: Time) -> QueueView {
        let bytes = self.streams.backlog();
        QueueView {
            packets: u32::try_from(bytes.div_ceil(1_000)).unwrap_or(u32::MAX),
            bytes,
            oldest: self.standing.map_or(Duration::ZERO, |since| now.since(since)),
            flow_bytes: bytes,
        }
    }

    pub(super) fn follow_backlog(&mut self, now: Time) {
        self.standing = match self.streams.backlog() {
            0 => None,
            _ => self.standing.or(Some(now)),
        };
    }
}
