//! CCID 252 alone at queues that mark early. `cargo test -p dccp-cc --test it prague -- --nocapture` prints
//! how it uses the path and the queue.

use crate::model::scenario::{CFG, at, bulk, link, ms};
use crate::model::{WIRE, full, summary};
use dccp_cc::{CcConfig, Prague};
use mpdccp_linkem::{DualPi2Config, Limit, QueueKind};
use mpdccp_units::Rate;

#[test]
fn most_of_a_path_whose_queue_marks_early_is_used() {
    println!("Mbit/s    RTT | 1 ms step, p95 ms | DualPI2, p95 ms");
    for (mbps, rtt) in [10.0, 40.0, 100.0].into_iter().flat_map(|m| [10.0, 40.0, 80.0].map(|r| (m, r))) {
        let millisecond = Rate::from_mbps(mbps).bytes_in(ms(1.0)).max(2 * u64::from(WIRE));
        let step = QueueKind::MarkAbove(Limit::Bytes(millisecond));
        let [a, b] = [step, QueueKind::DualPi2(DualPi2Config::default())].map(|kind| {
            let mut l = link(mbps, ms(rtt), 2.0);
            l.queue.kind = kind;
            let mut w = bulk(l, vec![(0.0, Box::new(Prague::new(&CcConfig { seed: 3, ..CFG })))]);
            (w.ecn, w.l4s) = (true, true);
            w.run(at(30.0));
            let s = summary(&w.sessions[0].got, at(5.0), at(30.0));
            (100.0 * s.mbps / full(mbps), s.latency[1] - rtt / 2.0)
        });
        println!("{mbps:6} {rtt:6} | {:.1}% {:.1} | {:.1}% {:.1}", a.0, a.1, b.0, b.1);
        assert!(a.0 > 92.0 && b.0 > 92.0, "{mbps} {rtt}: {a:?} {b:?}");
    }
}
