//! Computes the seeds of all random streams in a run. A seed depends only on the run's seed and the stream's
//! purpose, so that repeats are independent of each other while variants and backends get the same random
//! numbers.

use sha2::{Digest, Sha256};

/// A random stream of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Random {
    /// A link's losses, jitter and queue, by path index and direction (0 forward, 1 reverse).
    Link(usize, usize),
    /// A path's model.
    Model(usize),
    /// A flow's traffic, by its index in the scenario.
    Flow(usize),
    /// A flow's start.
    Start(usize),
    /// Wake-up delays of a simulated host (0 client, 1 server).
    WakeUp(usize),
    /// Sequence numbers, ports and keys of a simulated host (0 client, 1 server).
    Host(usize),
}

impl Random {
    /// Returns the seed of the stream in a run with this `seed`.
    pub(crate) fn seed(self, seed: u64) -> u64 {
        let (kind, index, part) = match self {
            Random::Link(path, direction) => ("link", path, direction),
            Random::Model(path) => ("model", path, 0),
            Random::Flow(flow) => ("flow", flow, 0),
            Random::Start(flow) => ("start", flow, 0),
            Random::WakeUp(side) => ("wake-up", side, 0),
            Random::Host(side) => ("host", side, 0),
        };
        let hash = Sha256::digest(format!("{seed} {kind} {index} {part}"));
        hash.iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_streams_of_any_repeats_are_alike() {
        let streams = (0..20).flat_map(|i| {
            [0, 1].map(|way| Random::Link(i, way)).into_iter().chain([
                Random::Model(i),
                Random::Flow(i),
                Random::Start(i),
                Random::WakeUp(i),
                Random::Host(i),
            ])
        });
        let streams: Vec<Random> = streams.collect();
        let seeds: HashSet<u64> =
            (0..50).flat_map(|seed| streams.iter().map(move |stream| stream.seed(seed))).collect();
        assert_eq!(seeds.len(), 50 * streams.len());
        assert_eq!(Random::Flow(3).seed(7), Random::Flow(3).seed(7));
    }

    /// Neighbouring seeds differ in about half of their bits.
    #[test]
    fn neighbours_share_no_pattern() {
        for (a, b) in [(Random::Link(0, 0), Random::Link(0, 1)), (Random::Link(2, 0), Random::Link(1, 0))] {
            let differ: u32 = (0..100).map(|seed| (a.seed(seed) ^ b.seed(seed + 2)).count_ones()).sum();
            // Each of 6,400 bits differs with probability 1/2, so the mean is 3,200, and five standard
            // deviations are 200.
            assert!((3_000..3_400).contains(&differ), "{differ}");
        }
    }
}
