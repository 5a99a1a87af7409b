use super::{Pick, Scheduler};
use crate::{PathRow, PktInfo, QueueView};
use units::Time;

/// Cheapest Pipe First: the open path of highest priority, ties by lowest smoothed RTT.
#[derive(Debug, Default)]
pub struct Cpf {}

impl Scheduler for Cpf {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, _queue: &QueueView, _paths: &[PathRow]) -> Pick {
        todo!()
    }
}
