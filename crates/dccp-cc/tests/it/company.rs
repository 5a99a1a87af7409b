//! CCID 5 in competition: with itself under random losses, with CUBIC and with BBR.
//!
//! `cargo test -p dccp-cc --test it company -- --nocapture` prints the tables.

use crate::model::scenario::{at, bbr, bulk, link, ms};
use crate::model::{full, summary};
use dccp_cc::{Bbr1, Bbr1Tuning, Controller, Cubic};
use mpdccp_linkem::{CoDelConfig, DualPi2Config, LinkConfig, LossModel, QueueKind};

/// Returns the rates of all flows from 15 s to 45 s, in Mbit/s.
fn rates(link: LinkConfig, flows: Vec<Box<dyn Controller>>) -> Vec<f64> {
    let n = flows.len();
    let mut w = bulk(link, flows.into_iter().map(|cc| (0.0, cc)).collect());
    w.run(at(45.0));
    (0..n).map(|i| summary(&w.sessions[i].got, at(15.0), at(45.0)).mbps).collect()
}

fn own(seed: u64) -> Box<dyn Controller> {
    bbr(Bbr1Tuning::TUNED)(seed)
}

#[test]
fn several_use_what_random_losses_leave() {
    for (n, loss) in [(2u64, 0.0005), (3, 0.001), (3, 0.005), (3, 0.01)] {
        let lossy = LinkConfig { loss: LossModel::Bernoulli(loss), ..link(50.0, ms(40.0), 1.0) };
        let all = rates(lossy, (0..n).map(|i| own(3 + i)).collect());
        let share = all.iter().sum::<f64>() / (full(50.0) * (1.0 - loss));
        println!("{n} at {:.2} %: {:.1} % of the link, {all:.1?}", 100.0 * loss, 100.0 * share);
        assert!(share > 0.9, "{n} at {loss}: {share}");
    }
}

/// Eight flows keep a queue of a BDP full. If a flow took the RTT with this queue for that of the path, its
/// window and its share would grow.
#[test]
fn many_share_a_full_queue() {
    let jain = |group: u64| {
        let flows = (0..8).map(|i| (0.002 * ((7 * i + group) % 8) as f64, own(100 * group + i)));
        let mut w = bulk(link(50.0, ms(20.0), 1.0), flows.collect());
        w.run(at(60.0));
        let all = w.sessions.iter().map(|s| summary(&s.got, at(0.0), at(60.0)).mbps).collect::<Vec<_>>();
        let (sum, squares) = (all.iter().sum::<f64>(), all.iter().map(|rate| rate * rate).sum::<f64>());
        sum * sum / (8.0 * squares)
    };
    let indices: Vec<_> = (0..6).map(jain).collect();
    println!("Jain's index of eight: {indices:.2?}");
    assert!(indices.iter().sum::<f64>() / 6.0 >= 0.9, "{indices:?}");
}

#[test]
fn flows_that_respond_to_losses_keep_their_share_and_others_leave_ours() {
    println!("rate over that of: CUBIC, BBR");
    for (mbps, rtt, bdps) in [(20.0, 50.0, 0.5), (20.0, 50.0, 1.0), (20.0, 50.0, 3.0)] {
        let beside = |other| {
            let r = rates(link(mbps, ms(rtt), bdps), vec![own(3), other]);
            r[0] / r[1]
        };
        let (cubic, bbr) = (beside(Box::new(Cubic::tcp(1500))), beside(Box::new(Bbr1::tcp(1500, 9))));
        println!("{mbps} Mbit/s, {rtt} ms, {bdps} BDP: {cubic:.2}, {bbr:.2}");
        // Next to CUBIC, both flows get at least half of an equal share. Next to BBR, CCID 5 does.
        assert!((1.0 / 3.0..3.0).contains(&cubic) && bbr > 1.0 / 3.0, "{bdps}: {cubic} {bbr}");
    }
}

#[test]
fn cubic_keeps_its_share_of_a_managed_queue() {
    println!("rate over that of CUBIC");
    let codel = |ecn| QueueKind::CoDel(CoDelConfig { ecn, ..CoDelConfig::default() });
    for (name, kind, ecn) in [
        ("CoDel", codel(false), false),
        ("CoDel with ECN", codel(true), true),
        ("DualPI2", QueueKind::DualPi2(DualPi2Config::default()), true),
    ] {
        let mut l = link(40.0, ms(40.0), 4.0);
        l.queue.kind = kind;
        let mut w = bulk(l, vec![(0.0, own(3)), (0.0, Box::new(Cubic::tcp(1500)))]);
        w.ecn = ecn;
        w.run(at(45.0));
        let [ours, cubic] = [0, 1].map(|i: usize| summary(&w.sessions[i].got, at(15.0), at(45.0)).mbps);
        println!("{name}: {:.2}", ours / cubic);
        assert!((1.0 / 3.0..3.0).contains(&(ours / cubic)), "{name}: {ours} {cubic}");
    }
}
