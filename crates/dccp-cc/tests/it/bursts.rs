//! Application-limited senders that send in bursts.

use crate::model::scenario::{at, bbr, link, ms};
use crate::model::{Session, Source, World, summary};
use dccp_cc::Bbr1Tuning;
use mpdccp_units::{Rate, Time};

/// Between bursts, the bursts of a TCP in a tunnel leave the path idle. The sender is application-limited, but each
/// burst fills the queue, which holds five BDPs.
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
