//! Tests of coupled paths with the whole stack in virtual time. Coupled, two paths over one link together get
//! the share of one flow, and two paths over two links lose no capacity.

use crate::sim_common::{parse, received, run, seeded};
use mpdccp_lab::RunRecord;
use mpdccp_lab::scenario::Scenario;

/// Returns a scenario with a tunnel over two paths. `second` has the keys of the second path, and `more`
/// further entries.
fn scenario(second: &str, coupling: bool, more: &str) -> Scenario {
    let text = format!(
        r#"
name = "t"
title = "t"
mode = "tunnel"
duration_s = 40
[tunnel]
scheduler = "rr"
coupling = {coupling}
[[path]]
name = "a"
rate = "10 Mbit/s"
owd = "20 ms"
queue = "50000 B"
[[path]]
name = "b"
{second}
[[variant]]
label = "ccid2"
ccid = 2
[[variant]]
label = "ccid5"
ccid = 5
[[flow]]
name = "bulk"
kind = "udp"
payload = 1300
source = {{ kind = "bulk" }}
{more}
"#
    );
    parse(&text)
}

/// Returns how many bytes each flow received from 15 s on.
fn late(record: &RunRecord) -> Vec<f64> {
    received(record, 15.0, f64::INFINITY)
}

#[test]
fn two_paths_over_one_link_take_the_part_of_one_flow() {
    let tcp = "[[flow]]\nname = \"cubic\"\nkind = \"tcp\"\ncc = \"cubic\"\nvia = \"a\"";
    for label in ["ccid2", "ccid5"] {
        // Random losses decide which flow backs off, so in a single run CCID 5 may get anything from half to
        // one and a half times the rate of the other flow.
        let [with, without] = [true, false].map(|coupling| {
            let runs = [1, 2, 3].map(|seed| {
                let got = late(&seeded(&scenario("shares = \"a\"", coupling, tcp), label, "base", seed).0);
                got[0] / got[1]
            });
            runs.iter().product::<f64>().cbrt()
        });
        println!("{label}: {with:.2} of CUBIC's rate with coupling, {without:.2} without");
        assert!((0.5..2.5).contains(&with) && without > 1.2 * with, "{label}: {with}, {without}");
    }
}

#[test]
fn two_paths_over_two_links_lose_nothing() {
    let second = "rate = \"8 Mbit/s\"\nowd = \"26 ms\"\nqueue = \"50000 B\"";
    for label in ["ccid2", "ccid5"] {
        let [with, without] =
            [true, false].map(|coupling| late(&run(&scenario(second, coupling, ""), label, "base").0)[0]);
        println!("{label}: {:.3} of the rate without coupling", with / without);
        assert!(with > 0.97 * without, "{label}: {with}, {without}");
    }
}
