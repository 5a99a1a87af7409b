//! Loss-based senders after idle periods (RFC 7661).
//!
//! `cargo test -p dccp-cc --test it idle -- --nocapture` prints the figures.

use crate::model::scenario::{at, bulk, ccid, link, ms};
use crate::model::{Source, World};
use dccp_cc::{Controller, Cubic};
use mpdccp_units::Rate;

/// Returns a bulk flow that is 10 s old.
fn flow(cc: Box<dyn Controller>) -> World {
    let mut w = bulk(link(20.0, ms(40.0), 1.0), vec![(0.0, cc)]);
    w.run(at(10.0));
    w
}

/// Returns how much of its window the flow sends after an idle period, as shares: in the first quarter of a
/// round trip, and in the first whole round trip.
fn after(n: u8, idle: f64) -> [f64; 2] {
    let mut w = flow(ccid(n, 3));
    let tx = w.sessions[0].sender(0);
    let (window, rtt) = (tx.cc.limits().cwnd.packets(1500) as f64, tx.est.srtt().unwrap());
    w.set_source(0, Source::Cbr { rate: Rate::from_bps(1), queue: 1 });
    let again = w.now + ms(1e3 * idle);
    w.run(again);
    w.set_source(0, Source::Bulk);
    w.run(again + rtt * 4);
    [rtt / 4, rtt].map(|within| {
        let sent = w.sessions[0].got.iter().filter(|got| (again..again + within).contains(&got.born));
        sent.count() as f64 / window
    })
}

#[test]
fn a_window_outlasts_an_idle_second_but_not_five_minutes() {
    for n in [2, 7] {
        let [second, minutes] = [1.0, 301.0].map(|idle| after(n, idle));
        println!("CCID {n}: {second:.2?} of the window after a second, {minutes:.2?} after five minutes");
        assert!(second[1] > 0.8, "CCID {n}: {second:?}");
        assert!(second[0] < 0.5 * second[1], "paced: {second:?}");
        assert!(minutes[1] < 0.6 * second[1], "halved: {minutes:?}");
    }
}

/// The application sends 15 Mbit/s for 100 ms in each second. Returns the share of packets dropped by a
/// sender queue of 20 packets.
fn dropped(cc: Box<dyn Controller>) -> f64 {
    let mut w = flow(cc);
    for second in 10..20 {
        w.run(at(f64::from(second)));
        w.set_source(0, Source::Cbr { rate: Rate::from_mbps(15.0), queue: 20 });
        w.run(at(f64::from(second) + 0.1));
        w.set_source(0, Source::Cbr { rate: Rate::from_bps(1), queue: 1 });
    }
    let dropped = w.sessions[0].queue_drops as f64;
    dropped / (dropped + w.sessions[0].got.iter().filter(|got| got.born > at(10.0)).count() as f64)
}

#[test]
fn bursts_of_a_source_are_sent() {
    let [reno, cubic] = [2, 7].map(|n| dropped(ccid(n, 3)));
    let tcp = dropped(Box::new(Cubic::tcp(1500)));
    println!("dropped at the sender: CCID 2 {reno:.2}, CCID 7 {cubic:.2}, TCP {tcp:.2}");
    assert!(reno < 0.1 && cubic < 0.1 && tcp > 0.1, "{reno} {cubic} {tcp}");
}
