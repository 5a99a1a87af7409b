//! Tests that connections with a shared congestion state together get the share of a single connection, in
//! virtual time over one bottleneck.

use crate::page;
use crate::sim_common::{parse, received, seeded};
use mpdccp_lab::scenario::Scenario;

/// Cells whose queues hold two, one and half a bandwidth-delay product.
const CELLS: [&str; 3] = ["10ms", "20ms", "40ms"];

/// Returns a scenario with a drop-tail queue, the given flows, and one more bulk flow with its own congestion
/// state.
fn scenario(flows: &str) -> Scenario {
    let text = format!(
        r#"
name = "congestion-manager"
title = "t"
mode = "direct"
duration_s = 60
[[path]]
name = "a"
rate = "20 Mbit/s"
owd = "20 ms"
queue = "100000 B"
[[cell]]
name = "10ms"
owd = "10 ms"
[[cell]]
name = "20ms"
owd = "20 ms"
[[cell]]
name = "40ms"
owd = "40 ms"
[[variant]]
label = "ccid2"
ccid = 2
[[variant]]
label = "ccid5"
ccid = 5
[[variant]]
label = "ccid7"
ccid = 7
{flows}
[[flow]]
name = "single"
kind = "udp"
payload = 1400
source = {{ kind = "bulk" }}
"#
    );
    parse(&text)
}

/// Returns a bulk flow with these additional keys.
fn bulk(name: &str, more: &str) -> String {
    format!(
        r#"
[[flow]]
name = "{name}"
kind = "udp"
payload = 1400
source = {{ kind = "bulk" }}
{more}
"#
    )
}

fn jain(parts: &[f64]) -> f64 {
    let sum: f64 = parts.iter().sum();
    sum * sum / (parts.len() as f64 * parts.iter().map(|p| p * p).sum::<f64>())
}

/// Returns the fraction of the link that four flows get alongside a single flow in each cell. If the four
/// flows `share` the congestion state, also checks that their rates are equal.
fn part_of_four(label: &str, share: bool) -> [f64; 3] {
    let scenario = scenario(&bulk("of-four", &format!("count = 4\nshare_congestion = {share}")));
    CELLS.map(|cell| {
        let got = received(&seeded(&scenario, label, cell, 1).0, 20.0, 60.0);
        let all: f64 = got.iter().sum();
        assert!(all * 8.0 / 40.0 > 0.85 * 20e6, "{label} {cell}: the link is not fully used");
        assert!(!share || jain(&got[..4]) > 0.99, "{label} {cell}: {got:?}");
        got[..4].iter().sum::<f64>() / all
    })
}

/// Four flows that share their state count as one, and get half of the link alongside a single flow. Two
/// flows would get two thirds, and half a flow one third, so the result must lie between these limits. With
/// separate states, the four flows get about four fifths. To show that the test can fail, they must then get
/// more than two flows would.
#[test]
fn four_that_share_are_one() {
    let row = |ccid: u8| {
        let label = format!("ccid{ccid}");
        let parts = [true, false].map(|share| part_of_four(&label, share));
        let [shared, own] = parts.map(|parts| parts.iter().sum::<f64>() / 3.0);
        assert!((1.0 / 3.0..2.0 / 3.0).contains(&shared), "{label}: {shared}");
        assert!(own > 0.7, "{label}: {own}");
        let cells = parts.map(|parts| parts.map(|part| format!("{part:.2}")).join(", ")).join(" | ");
        format!("| CCID {ccid} | {cells} |\n")
    };
    let rows = std::thread::scope(|scope| {
        [2, 5, 7].map(|ccid| scope.spawn(move || row(ccid))).map(|thread| thread.join().unwrap())
    });
    let head = "| | one shared state (ideal: 0.5) | each with its own state (ideal: 0.8) |\n|---|---|---|\n";
    page::check("fairness.md", "shared state", &(head.to_owned() + &rows.concat()));
}

#[test]
fn a_late_flow_gets_its_share_and_an_ended_flow_frees_its_share() {
    let share = "share_congestion = true";
    let flows = [
        bulk("all-along", share),
        bulk("until-40", &format!("{share}\nstop_s = 40")),
        bulk("from-20", &format!("{share}\nstart_s = 20")),
    ];
    let scenario = scenario(&flows.concat());
    for label in ["ccid2", "ccid5"] {
        let record = seeded(&scenario, label, "20ms", 1).0;
        let [before, between, after] =
            [(10.0, 20.0), (21.0, 40.0), (41.0, 60.0)].map(|(from, to)| received(&record, from, to));
        println!("{label}: bytes per flow before 20 s {before:?}, to 40 s {between:?}, after 40 s {after:?}");
        assert!(jain(&before[..2]) > 0.99 && before[2] == 0.0, "{label}: {before:?}");
        assert!(jain(&between[..3]) > 0.99, "{label}: {between:?}");
        assert!(jain(&[after[0], after[2]]) > 0.99 && after[1] == 0.0, "{label}: {after:?}");
    }
}
