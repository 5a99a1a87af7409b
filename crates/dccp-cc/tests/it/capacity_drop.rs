//! Experiments A and B in the model. The rate falls from 1 Gbit/s to 10 Mbit/s while the application sends 15
//! Mbit/s. Experiment A has one path, and experiment B has two.
//!
//! `cargo test -p dccp-cc --test it capacity_drop -- --nocapture` prints the tables.

use crate::model::scenario::{CFG, at, bbr, ms, one_path_drops, two_paths_drop};
use crate::model::{Summary, World, bins, summary};
use dccp_cc::{Bbr1Tuning, Controller, Reno};

fn make(name: &str) -> Box<dyn Fn(u64) -> Box<dyn Controller>> {
    match name {
        "ccid2" => Box::new(|_| Box::new(Reno::new(&CFG))),
        "draft" => Box::new(bbr(Bbr1Tuning::DRAFT)),
        "tuned" => Box::new(bbr(Bbr1Tuning::TUNED)),
        other => panic!("{other}"),
    }
}

fn row(s: &Summary) -> String {
    let [p50, p95, p99, max] = s.latency;
    format!("{:6.2} {p50:6.1} {p95:6.1} {p99:6.1} {max:6.1}", s.mbps)
}

fn left_startup(w: &World) -> f64 {
    w.sessions[0].phases.iter().find(|p| p.1 == "probe_bw").map_or(f64::NAN, |p| p.0.as_secs_f64())
}

#[test]
fn one_path() {
    println!("variant    queue owd  Mbit/s   p50    p95    p99    max ms   lost  left startup");
    for name in ["ccid2", "draft", "tuned"] {
        for (queue, owd) in [(125_000, 0.0), (125_000, 10.0), (500_000, 0.0), (500_000, 10.0)] {
            let mut w = one_path_drops(&*make(name), owd, queue);
            w.run(at(10.0));
            let s = summary(&w.sessions[0].got, at(5.0), at(10.0));
            let (lost, left) = (w.sessions[0].sender(0).lost, left_startup(&w));
            println!("{name:8} {queue:7} {owd:3}  {}  {lost:5}  {left:.3} s", row(&s));
            // These are the targets of experiment A.
            if name != "ccid2" {
                assert!(left < 6.0, "{name} {queue} {owd}: left Startup at {left}");
            }
            if name == "tuned" {
                assert!(s.mbps >= 9.5, "{queue} {owd}: {}", s.mbps);
                assert!(s.latency[0] <= 20.0 && s.latency[1] <= 30.0, "{queue} {owd}: {:?}", s.latency);
                assert_eq!(lost, 0);
            }
            if name == "draft" && owd > 0.0 {
                assert!(s.latency[0] <= 35.0, "{queue} {owd}: {:?}", s.latency);
            }
        }
    }
}

#[test]
fn two_paths() {
    println!(
        "variant    queue owd  Mbit/s   p50    p95    p99    max ms   lost  worst 200 ms  path 2 in 100 ms bins from the drop on"
    );
    for name in ["ccid2", "draft", "tuned"] {
        for (queue, owd) in [(125_000, 0.0), (125_000, 10.0), (500_000, 10.0)] {
            let mut w = two_paths_drop(&*make(name), owd, queue);
            w.run(at(20.0));
            let session = &w.sessions[0];
            let s = summary(&session.got, at(5.0), at(20.0));
            let worst =
                bins(&session.got, None, at(5.3), at(20.0), ms(200.0)).into_iter().fold(f64::MAX, f64::min);
            let second = bins(&session.got, Some(1), at(5.0), at(5.4), ms(100.0));
            let lost = session.sender(0).lost + session.sender(1).lost;
            println!("{name:8} {queue:7} {owd:3}  {}  {lost:5}  {worst:12.2}  {second:.1?}", row(&s));
            // These are the targets of experiment B.
            if name == "tuned" {
                let [p50, p95, p99, _] = s.latency;
                assert!(p50 <= 18.0 && p95 <= 25.0 && p99 <= 45.0, "{queue} {owd}: {:?}", s.latency);
                assert!(worst >= 14.5, "{queue} {owd}: {worst}");
                assert!(second[0].max(second[1]) > 3.0, "{queue} {owd}: {second:?}");
                assert_eq!((lost, session.queue_drops), (0, 0));
                // The preferred path stays full.
                let first = summary(
                    &session.got.iter().filter(|g| g.path == 0).copied().collect::<Vec<_>>(),
                    at(6.0),
                    at(20.0),
                );
                assert!(first.mbps > 9.0, "{queue} {owd}: {}", first.mbps);
            }
        }
    }
}
