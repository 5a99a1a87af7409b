//! Loss-based controllers in the model. They fill a link with a queue of a BDP, and CUBIC is fair to Reno
//! where the RFC requires it.

use crate::model::scenario::{CFG, at, bulk, link, ms};
use crate::model::{WIRE, full, summary};
use dccp_cc::{Controller, Cubic, Reno};

fn reno() -> Box<dyn Controller> {
    Box::new(Reno::new(&CFG))
}

fn cubic() -> Box<dyn Controller> {
    Box::new(Cubic::new(&CFG))
}

#[test]
fn cubic_fills_a_link() {
    for mbps in [2.0, 10.0, 100.0] {
        for rtt in [10.0, 40.0, 100.0] {
            let mut w = bulk(link(mbps, ms(rtt), 1.0), vec![(0.0, cubic())]);
            w.run(at(40.0));
            let tx = w.sessions[0].sender(0);
            let share = 100.0 * summary(&w.sessions[0].got, at(10.0), at(40.0)).mbps / full(mbps);
            println!("{mbps:5} Mbit/s {rtt:3} ms: {share:5.1}%, lost {}, timeouts {}", tx.lost, tx.rtos);
            assert!(share > 95.0, "{mbps} {rtt}: {share}");
            assert_eq!(tx.rtos, 0);
        }
    }
}

#[test]
fn cubic_and_reno_share() {
    for (mbps, rtt) in [(10.0, 10.0), (20.0, 40.0)] {
        let mut w = bulk(link(mbps, ms(rtt), 1.0), vec![(0.0, reno()), (1.0, cubic())]);
        w.run(at(120.0));
        let [r, c] =
            [0, 1].map(|i| 100.0 * summary(&w.sessions[i].got, at(20.0), at(120.0)).mbps / full(mbps));
        println!("{mbps} Mbit/s {rtt} ms: reno {r:.1}%, cubic {c:.1}%");
        assert!(r > 20.0 && c > 20.0 && r + c > 95.0, "{mbps} {rtt}: {r} {c}");
    }
}

/// HyStart++ detects the queue before it is full, and does not spend five more rounds in conservative slow
/// start.
#[test]
fn a_long_path_is_not_flooded_in_slow_start() {
    for rtt in [100.0, 400.0, 800.0] {
        let mut w = bulk(link(50.0, ms(rtt), 1.0), vec![(0.0, Box::new(Cubic::new(&CFG)))]);
        w.run(at(15.0 * rtt / 1e3));
        let bdp = 50e6 * rtt / 8e3 / f64::from(WIRE);
        let lost = w.sessions[0].sender(0).lost as f64;
        println!("50 Mbit/s, {rtt} ms: {:.3} BDP lost in 15 round trips", lost / bdp);
        assert!(lost < 0.5 * bdp, "{rtt} ms: {lost} of {bdp}");
    }
}
