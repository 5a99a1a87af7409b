use super::{Pick, Scheduler};
use crate::{PathRow, PktInfo, QueueView};
use units::Time;

/// Round robin over the open paths, one packet each.
#[derive(Debug, Default)]
pub struct RoundRobin {}

impl Scheduler for RoundRobin {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, _queue: &QueueView, _paths: &[PathRow]) -> Pick {
        todo!()
    }
}
