use crate::Burst;
use dccp_proto::{Ecn, Route, Sink};

/// Most packets in one run (the kernel's UDP_MAX_SEGMENTS) and most bytes.
const MAX_SEGMENTS: usize = 64;
const MAX_BYTES: usize = 65_000;

/// Equal-sized packets for one route with one ECN field; the last may be shorter.
#[derive(Debug)]
pub struct Run {
    route: Route,
    ecn: Ecn,
    segment: usize,
    /// A shorter packet ended it.
    closed: bool,
    bytes: Vec<u8>,
}

impl Run {
    /// Where it goes.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// For a carrier.
    pub fn burst(&self) -> Burst<'_> {
        Burst {
            local: self.route.local,
            remote: self.route.remote,
            ecn: self.ecn,
            segment: self.segment,
            bytes: &self.bytes,
        }
    }

    fn takes(&self, ecn: Ecn, len: usize) -> bool {
        !self.closed
            && self.ecn == ecn
            && len <= self.segment
            && self.bytes.len() + len <= MAX_BYTES.min(MAX_SEGMENTS * self.segment)
    }
}

/// Packets of one turn of the loop, gathered into runs that leave in one system call each. Order is kept within a route.
#[derive(Debug, Default)]
pub struct Batch {
    runs: Vec<Run>,
    /// Emptied buffers, to be used again.
    spare: Vec<Vec<u8>>,
}

impl Batch {
    /// The runs, oldest first.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Forgets all runs, keeps their memory.
    pub fn clear(&mut self) {
        for mut run in self.runs.drain(..) {
            run.bytes.clear();
            self.spare.push(run.bytes);
        }
    }
}

impl Sink for Batch {
    fn reserve(&mut self, route: &Route, ecn: Ecn, len: usize) -> &mut [u8] {
        // Only the newest run of a route may grow, or packets of one path would overtake each other.
        let newest = self.runs.iter().rposition(|run| run.route == *route);
        let at = match newest.filter(|&i| self.runs[i].takes(ecn, len)) {
            Some(i) => i,
            None => {
                let bytes = self.spare.pop().unwrap_or_default();
                self.runs.push(Run { route: *route, ecn, segment: len, closed: false, bytes });
                self.runs.len() - 1
            }
        };
        let run = &mut self.runs[at];
        run.closed = len < run.segment;
        let start = run.bytes.len();
        run.bytes.resize(start + len, 0);
        &mut run.bytes[start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(socket: u32) -> Route {
        Route { socket, local: None, remote: ([127, 0, 0, 1], 6511).into() }
    }

    fn shape(batch: &Batch) -> Vec<(u32, Ecn, usize, usize)> {
        batch.runs().iter().map(|r| (r.route.socket, r.ecn, r.segment, r.bytes.len())).collect()
    }

    #[test]
    fn equal_neighbours_share_a_run_and_a_shorter_one_ends_it() {
        let mut batch = Batch::default();
        for len in [100, 100, 60, 100] {
            batch.reserve(&route(0), Ecn::Ect0, len).fill(1);
        }
        assert_eq!(shape(&batch), [(0, Ecn::Ect0, 100, 260), (0, Ecn::Ect0, 100, 100)]);
    }

    #[test]
    fn interleaved_routes_keep_their_runs() {
        let mut batch = Batch::default();
        for i in 0..6 {
            batch.reserve(&route(i % 2), Ecn::Ect0, 100).fill(1);
        }
        assert_eq!(shape(&batch), [(0, Ecn::Ect0, 100, 300), (1, Ecn::Ect0, 100, 300)]);
    }

    #[test]
    fn order_within_a_route_survives_other_ecn_fields() {
        let mut batch = Batch::default();
        for (n, ecn) in [(1, Ecn::Ect0), (2, Ecn::NotEct), (3, Ecn::Ect0)] {
            batch.reserve(&route(0), ecn, 10).fill(n);
        }
        let order: Vec<u8> = batch.runs().iter().flat_map(|r| r.bytes.chunks(10).map(|c| c[0])).collect();
        assert_eq!(order, [1, 2, 3]);
    }

    #[test]
    fn runs_stay_within_what_one_call_may_carry() {
        let mut batch = Batch::default();
        for _ in 0..100 {
            batch.reserve(&route(0), Ecn::Ect0, 1400).fill(1);
            batch.reserve(&route(1), Ecn::Ect0, 40).fill(1);
        }
        assert!(batch.runs().iter().all(|r| r.bytes.len() <= MAX_BYTES));
        assert!(batch.runs().iter().all(|r| r.bytes.len().div_ceil(r.segment) <= MAX_SEGMENTS));
        assert_eq!(batch.runs().iter().map(|r| r.bytes.len()).sum::<usize>(), 100 * 1440);
        batch.clear();
        assert!(batch.runs().is_empty());
    }
}
