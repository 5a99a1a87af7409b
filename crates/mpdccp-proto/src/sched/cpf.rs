use super::scheduler::{Pick, Scheduler, congested, open};
use crate::{PathRow, PktInfo, QueueView};
use core::cmp::Reverse;
use mpdccp_units::{Duration, Time};

/// Cheapest Pipe First: uses the path of highest priority, and among equals the one with the lowest smoothed
/// RTT. Paths of lower priority take the overflow.
#[derive(Debug, Default)]
pub(super) struct Cpf;

/// Returns the sort key: more expensive paths come later.
fn cost(path: &PathRow) -> impl Ord + use<> {
    (Reverse(path.prio), path.srtt.unwrap_or(Duration::MAX), path.id)
}

impl Scheduler for Cpf {
    fn pick(&mut self, now: Time, _pkt: &PktInfo, queue: &QueueView, paths: &[PathRow]) -> Pick {
        let Some(free) = open(paths).min_by_key(|path| cost(path)) else { return Pick::Wait(None) };
        // Wait for a cheaper path if it serves the backlog sooner than this path would.
        let cheaper = paths.iter().filter(|path| cost(path) < cost(free));
        match cheaper.into_iter().any(|path| !congested(now, path, queue, free)) {
            true => Pick::Wait(None),
            false => Pick::One(free.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;
    use crate::PathId;
    use dccp_proto::{Gate, Why};

    #[test]
    fn prefers_priority_then_rtt_then_the_first() {
        assert_eq!(pick(&mut Cpf, 1000, &[row(0, 2, 10), row(1, 3, 50)]), Pick::One(PathId(1)));
        assert_eq!(pick(&mut Cpf, 1000, &[row(0, 3, 50), row(1, 3, 10)]), Pick::One(PathId(1)));
        assert_eq!(pick(&mut Cpf, 1000, &[row(0, 3, 10), row(1, 3, 10)]), Pick::One(PathId(0)));
    }

    #[test]
    fn overflows_to_the_next_and_waits_for_the_last() {
        assert_eq!(pick(&mut Cpf, 1000, &[closed(0, 3), row(1, 2, 10)]), Pick::One(PathId(1)));
        assert_eq!(pick(&mut Cpf, 1000, &[closed(0, 3), closed(1, 2)]), Pick::Wait(None));
    }

    #[test]
    fn waits_for_a_pacer_that_is_sooner_than_the_other_path() {
        let gate = Gate::At(Time::from_millis(2), Why::Pacing);
        let paced = PathRow { gate, ..row(0, 4, 10) };
        assert_eq!(pick(&mut Cpf, 1000, &[paced.clone(), row(1, 3, 30)]), Pick::Wait(None));
        assert_eq!(
            pick(&mut Cpf, 50_000, &[paced.clone(), row(1, 3, 30)]),
            Pick::One(PathId(1)),
            "a backlog of 40 ms must bring in the other path"
        );
        assert_eq!(pick(&mut Cpf, 1000, &[paced.clone(), row(1, 3, 10)]), Pick::One(PathId(1)));
        let cold = PathRow { app_limited: true, ..paced };
        assert_eq!(
            pick(&mut Cpf, 6_000, &[cold, row(1, 3, 10)]),
            Pick::Wait(None),
            "a burst on an idle path must not bring in the other path"
        );
    }
}
