//! Subflows of one session act as one flow over one bottleneck, and as two flows over two bottlenecks.

use crate::model::scenario::{CFG, at, ccid, drop_tail, link, ms};
use crate::model::{Session, Source, World, full, summary};
use dccp_cc::{Coupling, Cubic};
use mpdccp_linkem::LinkConfig;
use mpdccp_units::Time;

fn bottleneck(mbps: f64, rtt: f64, bdps: f64) -> LinkConfig {
    let bytes = mbps * 125.0 * rtt * bdps;
    LinkConfig { queue: drop_tail(bytes as u64), ..link(mbps, ms(rtt), bdps) }
}

/// Creates a session of two bulk subflows over these links. If `competitor` is true, a CUBIC flow uses the
/// first link.
fn two(n: u8, links: Vec<LinkConfig>, coupled: bool, competitor: bool, seed: u64) -> World {
    let reverse = links[0].delay;
    let last = links.len() - 1;
    let paths = vec![(0, reverse, ccid(n, seed)), (last, links[last].delay, ccid(n, seed + 10))];
    let mut session = Session::new(Source::Bulk, Time::ZERO, paths);
    session.coupling = coupled.then(Coupling::default);
    let mut sessions = vec![session];
    if competitor {
        sessions.push(Session::new(
            Source::Bulk,
            Time::ZERO,
            vec![(0, reverse, Box::new(Cubic::new(&CFG)) as _)],
        ));
    }
    World::new(links, seed, sessions)
}

/// Runs both subflows and one competing CUBIC flow over a link of 10 Mbit/s and 40 ms with a queue of `bdps`
/// BDPs. Returns the sum of the subflows' rates divided by the rate of CUBIC, from 20 s to 60 s, over four
/// runs.
fn share(n: u8, bdps: f64, coupled: bool) -> f64 {
    let rates = [3, 4, 5, 6].map(|seed| {
        let mut w = two(n, vec![bottleneck(10.0, 40.0, bdps)], coupled, true, seed);
        w.run(at(60.0));
        assert_eq!(together(&w), coupled, "CCID {n}");
        [0, 1].map(|s: usize| summary(&w.sessions[s].got, at(20.0), at(60.0)).mbps)
    });
    rates.iter().map(|run| run[0]).sum::<f64>() / rates.iter().map(|run| run[1]).sum::<f64>()
}

fn together(w: &World) -> bool {
    w.sessions[0].coupling.as_ref().is_some_and(|c| c.share(0, 1))
}

#[test]
fn two_at_one_bottleneck_take_the_part_of_one() {
    for n in [2, 5, 7] {
        for bdps in [1.0, 4.0] {
            let (with, without) = (share(n, bdps, true), share(n, bdps, false));
            println!("CCID {n}, {bdps} BDP: {with:.2} coupled, {without:.2} without");
            // Reno gets less than CUBIC on a long queue, whether it is coupled or not.
            let least = if n == 2 { 0.25 } else { 0.5 };
            assert!((least..2.0).contains(&with) && with < without, "{with}, {without}");
        }
    }
}

#[test]
fn two_at_two_bottlenecks_lose_nothing() {
    for n in [2, 5, 7] {
        let [with, without] = [true, false].map(|coupled| {
            let links = vec![bottleneck(10.0, 40.0, 1.0), bottleneck(8.0, 52.0, 1.0)];
            let mut w = two(n, links, coupled, false, 3);
            w.run(at(40.0));
            summary(&w.sessions[0].got, at(5.0), at(40.0)).mbps
        });
        println!("CCID {n}: {with:.2} of {without:.2} Mbit/s, {:.2} possible", full(18.0));
        assert!(with > 0.97 * without, "{with}, {without}");
    }
}

#[test]
fn a_path_that_leaves_the_bottleneck_is_uncoupled_within_ten_seconds() {
    for n in [2, 5, 7] {
        // The result of a single run varies by a second, so the test uses the median of five.
        let mut alone = [1, 2, 3, 4, 5].map(|seed| {
            let links = vec![bottleneck(10.0, 40.0, 1.0), bottleneck(8.0, 52.0, 1.0)];
            let mut w = two(n, links, true, true, seed);
            w.sessions[0].move_path(1, 0);
            w.run(at(20.0));
            assert!(together(&w), "CCID {n}, seed {seed}");
            w.sessions[0].move_path(1, 1);
            let tenths = (0..150).find(|i| {
                w.run(at(20.0 + f64::from(*i) / 10.0));
                !together(&w)
            });
            tenths.expect("the paths must be uncoupled within 15 s")
        });
        alone.sort_unstable();
        println!("CCID {n}: uncoupled after {alone:?} tenths of a second");
        assert!(alone[2] <= 100, "CCID {n}");
    }
}
