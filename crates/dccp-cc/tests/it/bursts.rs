//! Application-limited senders that send in bursts.

use crate::model::scenario::{at, bbr, link, ms};
use crate::model::{Session, Source, World, full, summary};
use dccp_cc::Bbr1Tuning;
use mpdccp_units::{Rate, Time};

/// A TCP in a tunnel sends in bursts, and the path is idle between them. The sender is application-limited,
/// but each burst fills the queue, which holds five BDPs.
#[test]
fn startup_ends_when_bursts_fill_the_pipe() {
    for (burst, period) in [(0.05, 0.3), (0.1, 0.4), (0.3, 0.8)] {
        let cc = bbr(Bbr1Tuning::TUNED)(3);
        let session = Session::new(Source::Bulk, Time::ZERO, vec![(0, ms(45.0), cc)]);
        let mut w = World::new(vec![link(25.0, ms(90.0), 5.0)], 1, vec![session]);
        let mut now = 0.0;
        while now < 10.0 {
            w.set_source(0, Source::Bulk);
            w.run(at(now + burst));
            w.set_source(0, Source::Cbr { rate: Rate::from_mbps(0.1), queue: 1 });
            now += period;
            w.run(at(now));
        }
        let p95 = |from, to| summary(&w.sessions[0].got, at(from), at(to)).latency[1];
        let (during, after) = (p95(2.0, 4.0), p95(4.0, 10.0));
        println!("{burst} of {period} s: p95 {during:.0} ms in Startup, then {after:.0} ms");
        assert!(during < 400.0 && after < 100.0, "{burst} of {period} s: {during} ms, then {after} ms");
    }
}

/// When a wireless link pauses, a call or a video has more in flight than a BDP of its own rate. This must
/// not count as a full pipe, or a later download would start slowly.
#[test]
fn a_link_that_pauses_does_not_end_startup() {
    for mbps in [0.2, 2.0] {
        let source = Source::Cbr { rate: Rate::from_mbps(mbps), queue: 20 };
        let session = Session::new(source, Time::ZERO, vec![(0, ms(20.0), bbr(Bbr1Tuning::TUNED)(3))]);
        let mut w = World::new(vec![link(25.0, ms(40.0), 5.0)], 1, vec![session]);
        for n in 1..=8 {
            w.run(at(f64::from(n)));
            w.set_rate(0, 0.01);
            w.run(at(f64::from(n) + 0.1));
            w.set_rate(0, 25.0);
        }
        w.set_source(0, Source::Bulk);
        w.run(at(10.0));
        let download = summary(&w.sessions[0].got, at(8.3), at(9.3)).mbps;
        println!("after {mbps} Mbit/s: {download:.1} Mbit/s in the first second of a download");
        assert!(download > 0.8 * full(25.0), "after {mbps} Mbit/s: {download}");
    }
}
