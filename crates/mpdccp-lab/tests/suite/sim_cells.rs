//! Tests of cells that change only some paths and flows, and of variants that use only some of them.

use core::time::Duration;

use crate::sim_common::{parse, run};
use mpdccp_lab::scenario::PathSpec;
use mpdccp_lab::{Plan, RunRecord, Scenario};

const TWO_PATHS: &str = r#"
name = "t"
title = "t"
duration_s = 4
[[path]]
name = "a"
rate = "10 Mbit/s"
owd = "10 ms"
queue = "50 packets"
[[path]]
name = "b"
rate = "4 Mbit/s"
owd = "10 ms"
queue = "50 packets"
[[cell]]
name = "base"
[[cell]]
name = "slow-b"
owd = "30 ms"
path.b = { rate = "2 Mbit/s", owd = "80 ms", loss = "1 %", jitter = { by = "3 ms", reorder = true } }
flow.udp.rate = "3 Mbit/s"
[[variant]]
label = "all"
flows = ["udp"]
[[variant]]
label = "second"
paths = ["b"]
flows = ["udp"]
[[variant]]
label = "tcp"
flows = ["tcp"]
[[variant]]
label = "as-told"
ccid = 5
tunnel = { scheduler = "auto", reordering = "adaptive" }
flows = ["udp"]
[[flow]]
name = "tcp"
count = 2
kind = "tcp"
cc = "cubic"
[[flow]]
name = "udp"
kind = "udp"
payload = 1000
rate = "6 Mbit/s"
"#;

fn packets(record: &RunRecord) -> [usize; 2] {
    [0, 1].map(|path: usize| record.paths[path].forward.packets.len())
}

#[test]
fn a_variant_uses_its_paths_only() {
    let scenario = parse(TWO_PATHS);
    let (both, stats) = run(&scenario, "all", "base");
    assert!(packets(&both)[0] > 1_000);
    assert!((stats.metrics["rx_mbps"] / (6.0 * 1028.0 / 1000.0) - 1.0).abs() < 0.02);
    let (second, stats) = run(&scenario, "second", "base");
    assert_eq!(packets(&second)[0], 0);
    let rate = stats.metrics["rx_mbps"];
    assert!((3.2..4.0).contains(&rate), "rate of the second path: {rate}");
}

#[test]
fn a_variant_carries_its_flows_only() {
    let scenario = parse(TWO_PATHS);
    let names =
        |label| run(&scenario, label, "base").0.flows.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    assert_eq!(names("all"), ["udp"]);
    assert_eq!(names("tcp"), ["tcp-1", "tcp-2"]);
}

#[test]
fn a_cell_changes_one_path_and_one_flow() {
    let scenario = parse(TWO_PATHS);
    let plan = |cell| {
        let variant = scenario.variant("all").unwrap();
        Plan { scenario: &scenario, variant, cell: scenario.cell(cell).unwrap(), repeat: 0, seed: 1 }
    };
    let slow = plan("slow-b").paths();
    let [a, b] = [0, 1].map(|i: usize| slow[i].ways[0].clone());
    assert_eq!((a.delay(), a.rate), (Duration::from_millis(30), scenario.paths[0].rate));
    assert_eq!((b.delay(), b.mean_rate().mbps(), b.loss), (Duration::from_millis(80), 2.0, Some(0.01)));
    assert!(b.config().jitter.reorder && !a.config().jitter.reorder);
    let rate = |cell| plan(cell).flows()[0].rate.map(|r| r.mbps());
    assert_eq!((rate("base"), rate("slow-b")), (Some(6.0), Some(3.0)));
}

#[test]
fn by_default_variants_use_all_paths_of_the_tunnel() {
    let scenario = parse(TWO_PATHS);
    let bytes =
        |label| format!("{:?}", RunRecord { label: String::new(), ..run(&scenario, label, "slow-b").0 });
    assert!(bytes("all") == bytes("as-told"));
}

#[test]
fn wrong_names_say_which_there_are() {
    let cases = [
        ("path.b =", "path.c =", "t.toml:20: c: unknown path `c`; expected one of: a, b"),
        ("flow.udp.", "flow.udq.", "t.toml:21: udq: unknown flow `udq`; expected one of: tcp-1, tcp-2, udp"),
        ("paths = [\"b\"]", "paths = [\"c\"]", "t.toml:27: paths: unknown path `c`; expected one of: a, b"),
        ("flows = [\"tcp\"]", "flows = [\"x\"]", "t.toml:31: flows: unknown flow `x`"),
        ("paths = [\"b\"]", "paths = []", "t.toml:26: label: `paths` needs mode"),
        ("rate = \"2 Mbit/s\"", "rate = \"2 Mb\"", "t.toml:20: rate: "),
        ("rate = \"2 Mbit/s\"", "rat = \"2 Mbit/s\"", "t.toml:20: rat: "),
    ];
    for (from, to, begins) in cases {
        assert!(TWO_PATHS.contains(from), "{from}");
        let error = Scenario::parse("t.toml", &TWO_PATHS.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(begins), "{to}: {error}");
    }
}

#[test]
fn the_profiles_are_what_they_were_measured_on() {
    let scenario = Scenario::find("multipath/profiles").unwrap();
    assert_eq!(scenario.cells.len(), 16);
    let cell = scenario.cell("lte_starlink").unwrap();
    let plan = Plan { scenario: &scenario, variant: &scenario.variants[0], cell, repeat: 0, seed: 1 };
    let [a, b] = &plan.paths()[..] else { panic!() };
    let facts = |path: &PathSpec| {
        let keys = &path.ways[0];
        let jitter = keys.jitter.map_or(0, |j| j.by.as_millis());
        (keys.delay().as_millis(), jitter, keys.mean_rate().mbps(), keys.loss.unwrap_or(0.0))
    };
    assert_eq!((facts(a), facts(b)), ((35, 8, 40.0, 0.0), (50, 25, 100.0, 0.01)));
}
