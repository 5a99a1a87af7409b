//! The streams of a session.

use super::class_queues::CLASSES;
use crate::QueueView;
use alloc::boxed::Box;
use dccp_streams::{Config, Role, Streams};
use mpdccp_units::{Duration, Time};

/// The streams of a session whose peer supports streams too.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) streams: Streams,
    /// For each class, the time since which bytes that the peer admits have been waiting for their first
    /// transmission.
    standing: [Option<Time>; CLASSES],
}

impl Carried {
    pub(super) fn new(role: Role) -> Box<Carried> {
        Box::new(Carried { streams: Streams::new(role, Config::default()), standing: [None; CLASSES] })
    }

    /// Returns the backlog of a class of streams in the same form as a queue's backlog, for schedulers to
    /// read.
    pub(super) fn view(&self, now: Time, class: usize) -> QueueView {
        let bytes = self.streams.backlog_of(class as u8);
        QueueView {
            packets: u32::try_from(bytes.div_ceil(1_000)).unwrap_or(u32::MAX),
            bytes,
            oldest: self.standing[class].map_or(Duration::ZERO, |since| now.since(since)),
            flow_bytes: bytes,
            streams: true,
        }
    }

    pub(super) fn follow_backlog(&mut self, now: Time) {
        for (class, standing) in (0u8..).zip(&mut self.standing) {
            *standing = match self.streams.backlog_of(class) {
                0 => None,
                _ => standing.or(Some(now)),
            };
        }
    }
}
