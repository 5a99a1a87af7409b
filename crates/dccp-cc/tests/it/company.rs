//! Competing flows: CCID 5 with itself under random losses, with CUBIC and with BBR, and every CCID with
//! CUBIC at queues with active queue management.
//!
//! `cargo test -p dccp-cc --test it company -- --nocapture` prints the tables.

use crate::model::scenario::{at, bulk, ccid, link, ms};
use crate::model::{full, jain, summary};
use dccp_cc::{Bbr1, Controller, Cubic};
use mpdccp_linkem::{CoDelConfig, DualPi2Config, LinkConfig, LossModel, QueueKind};

/// Returns the rates of all flows from 15 s to 45 s, in Mbit/s. The flows start at these times, in seconds.
fn rates(link: LinkConfig, ecn: bool, flows: Vec<(f64, Box<dyn Controller>)>) -> Vec<f64> {
    let mut w = bulk(link, flows);
    w.ecn = ecn;
    w.run(at(45.0));
    w.sessions.iter().map(|s| summary(&s.got, at(15.0), at(45.0)).mbps).collect()
}

/// Creates flows of CCID 5. Each `group` starts them in another order.
fn own(n: u64, group: u64) -> Vec<(f64, Box<dyn Controller>)> {
    (0..n).map(|i| (0.002 * ((7 * i + group) % n) as f64, ccid(5, 100 * group + i))).collect()
}

#[test]
fn several_use_what_random_losses_leave() {
    for (n, loss) in [(2u64, 0.0), (3, 0.0), (2, 0.0005), (3, 0.001), (3, 0.005), (3, 0.01)] {
        let lossy = LinkConfig { loss: LossModel::Bernoulli(loss), ..link(50.0, ms(40.0), 1.0) };
        let runs = [0, 1, 2].map(|group| rates(lossy.clone(), false, own(n, group)));
        let used = runs.each_ref().map(|all| all.iter().sum::<f64>() / (full(50.0) * (1.0 - loss)));
        let index = runs.iter().map(|all| jain(all)).sum::<f64>() / 3.0;
        println!("{n} at {:.2} %: {used:.2?} of the link, Jain's index {index:.2}, {runs:.1?}", 100.0 * loss);
        assert!(used.iter().all(|used| *used > 0.9), "{n} at {loss}: {used:?}");
        // With losses, the rates may be unequal, but not as unequal as if one flow got nothing.
        let least = if loss == 0.0 { 0.9 } else { (n - 1) as f64 / n as f64 };
        assert!(index > least, "{n} at {loss}: {index}");
    }
}

/// Eight flows keep a queue of a BDP full. If a flow took the RTT with this queue for the path's own RTT, its
/// window and its share would grow.
#[test]
fn many_share_a_full_queue() {
    let jain = |group: u64| {
        let mut w = bulk(link(50.0, ms(20.0), 1.0), own(8, group));
        w.run(at(60.0));
        jain(&w.sessions.iter().map(|s| summary(&s.got, at(0.0), at(60.0)).mbps).collect::<Vec<_>>())
    };
    let indices: Vec<_> = (0..16).map(jain).collect();
    println!("Jain's index of eight: {indices:.2?}");
    assert!(indices.iter().sum::<f64>() / 16.0 >= 0.9, "{indices:?}");
}

#[test]
fn flows_that_respond_to_losses_keep_their_share_and_others_leave_ours() {
    println!("rate over that of: CUBIC, BBR; mean of six runs");
    for (mbps, rtt, bdps) in [(20.0, 50.0, 0.5), (20.0, 50.0, 1.0), (20.0, 50.0, 3.0)] {
        let mean = |other: fn(u64) -> Box<dyn Controller>| {
            let share = |seed| {
                let flows = vec![(0.0, ccid(5, seed)), (0.0, other(seed))];
                let r = rates(link(mbps, ms(rtt), bdps), false, flows);
                r[0] / r[1]
            };
            (0..6).map(share).sum::<f64>() / 6.0
        };
        let cubic = mean(|_| Box::new(Cubic::tcp(1500)));
        let bbr = mean(|seed| Box::new(Bbr1::tcp(1500, 100 + seed)));
        println!("{mbps} Mbit/s, {rtt} ms, {bdps} BDP: {cubic:.2}, {bbr:.2}");
        // Against CUBIC, each of the two flows gets at least half of an equal share. BBR does not respond to
        // losses: with a queue of a BDP, it gets six times CCID 5's rate.
        assert!((1.0 / 3.0..3.0).contains(&cubic) && bbr > 1.0 / 8.0, "{bdps}: {cubic} {bbr}");
    }
}

#[test]
fn cubic_keeps_its_share_of_a_managed_queue() {
    println!("rate over that of CUBIC, twelve runs: CCID 5, CCID 7, CCID 250");
    let codel = |ecn| QueueKind::CoDel(CoDelConfig { ecn, ..CoDelConfig::default() });
    let pi2 = || QueueKind::DualPi2(DualPi2Config::default());
    for (name, kind, ecn, most) in [
        ("CoDel", codel(false), false, 3.0),
        ("CoDel with ECN", codel(true), true, 3.0),
        ("DualPI2", pi2(), false, 4.0),
        ("DualPI2 with ECN", pi2(), true, 3.0),
    ] {
        let mut l = link(40.0, ms(40.0), 4.0);
        l.queue.kind = kind;
        // CCID 250 leaves a tenth of the link unused.
        let ratios = [(5, most), (7, 2.0), (250, 9.0)].map(|(n, most)| {
            let (mut ours, mut cubic) = (0.0, 0.0);
            for seed in 0..12 {
                let flows = vec![(0.0, ccid(n, seed)), (0.01 * seed as f64, Box::new(Cubic::tcp(1500)) as _)];
                let all = rates(l.clone(), ecn, flows);
                (ours, cubic) = (ours + all[0], cubic + all[1]);
            }
            (ours / cubic, most)
        });
        println!("{name}: {:.2?}", ratios.map(|(ratio, _)| ratio));
        for (ratio, most) in ratios {
            assert!((1.0 / most..most).contains(&ratio), "{name}: {ratios:?}");
        }
    }
}
