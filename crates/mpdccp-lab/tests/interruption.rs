//! Tests that an interruption also ends runs in the simulator. It affects the whole process, so this test has
//! its own.

use mpdccp_lab::netns;
use mpdccp_lab::sim::Sim;
use mpdccp_lab::{Backend, LabError, Plan, Sample, Scenario};

const SCENARIO: &str = r#"
name = "long"
title = "A day"
mode = "direct"
duration_s = 86400
[[path]]
name = "path1"
rate = "1 Mbit/s"
queue = "50000 B"
[[variant]]
label = "ccid2"
ccid = 2
[[flow]]
name = "udp"
kind = "udp"
payload = 1000
rate = "100 kbit/s"
"#;

#[test]
fn an_interruption_ends_a_run_in_the_simulator() {
    let scenario = Scenario::parse("long", SCENARIO).unwrap();
    let (variant, cell) = (&scenario.variants[0], scenario.headline());
    let plan = Plan { scenario: &scenario, variant, cell, repeat: 0, seed: 1 };
    let mut samples = 0;
    let stopped = Sim::default().run(&plan, &mut |_: &Sample| {
        samples += 1;
        // The run takes too long for a test, so panic if the interruption has no effect.
        assert_eq!(samples, 1, "the run goes on after the interruption");
        netns::interrupt();
    });
    netns::resume();
    assert!(matches!(stopped, Err(LabError::Interrupted)), "{:?}", stopped.err());
}
