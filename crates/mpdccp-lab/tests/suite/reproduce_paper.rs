//! Tests that one command makes the report of a paper.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use mpdccp_lab::reproduce::{Options, Progress, run};
use mpdccp_lab::sim::Sim;

fn options(out: &Path, only: &str) -> Options {
    let only = vec![only.to_owned()];
    Options {
        quick: true,
        duration_s: None,
        around_in_sim: true,
        only,
        seed: 1,
        threads: 2,
        out: out.to_owned(),
    }
}

#[test]
fn the_report_has_figure_table_and_sentences() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Mutex::new(Vec::new());
    let watch = |progress: Progress<'_>| {
        if let Progress::Experiment { scenario, .. } = progress {
            begun.lock().unwrap().push(scenario.name.clone());
        }
    };
    let report = run("paper", &Sim::default(), &options(dir.path(), "paper/mirrored"), &watch).unwrap();
    assert_eq!(begun.into_inner().unwrap(), ["paper/mirrored"]);
    let html = fs::read_to_string(&report).unwrap();
    for part in ["<svg", "ccid2</t", ">runs</t", "At p50, p95 and p99, this time and the latency differ"] {
        assert!(html.contains(part), "{part}");
    }
    let markdown = fs::read_to_string(report.with_extension("md")).unwrap();
    let command = "mpdccp lab reproduce paper --backend sim --quick --only \"paper/mirrored\" --seed 1";
    assert!(markdown.contains(command), "{markdown}");
    let offset = "| largest difference between mirrored and app latency at p50, p95, p99, ms | ≤ 1 |";
    let rows: Vec<&str> = markdown.lines().filter(|line| line.contains(offset)).collect();
    assert_eq!(rows.len(), 2, "{markdown}");
    assert!(rows.iter().all(|row| row.ends_with("| met |")), "{markdown}");
    assert!(dir.path().join("paper-mirrored-mirrored-latency/summary.json").is_file());
}

#[test]
fn an_unknown_experiment_names_those_that_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let error = run("paper", &Sim::default(), &options(dir.path(), "paper/mirror"), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("mirrored latency"), "{error}");
}

#[test]
fn a_set_is_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let set = r#"
name = "mine"
title = "Mine"
[[section]]
name = "short"
scenario = "paper/delay"
variants = ["ccid5"]
metrics = ["rx_mbps", "wire_p95_ms"]
runs = 1
change = { duration_s = 2 }
sweep = { "path.*.owd" = ["5 ms", "10 ms"] }
[[section]]
name = "one run"
scenario = "paper/single-path"
variants = ["ccid5"]
cells = []
metrics = ["wire_p95_ms"]
runs = 1
"#;
    std::fs::write(&file, set).unwrap();
    let mut chosen = options(dir.path(), "short");
    let file = file.to_str().unwrap();
    let report = run(file, &Sim::default(), &chosen, &|_| {}).unwrap();
    let markdown = fs::read_to_string(report.with_extension("md")).unwrap();
    assert!(markdown.contains("over path.*.owd | 5 ms | 10 ms |"), "{markdown}");
    assert!(markdown.contains(&format!("mpdccp lab reproduce {file} --backend sim")), "{markdown}");
    assert!(markdown.contains("wire latency p95, ms") && !markdown.contains("app latency"), "{markdown}");
    chosen.only = vec!["one run".to_owned()];
    let report = run(file, &Sim::default(), &chosen, &|_| {}).unwrap();
    let markdown = fs::read_to_string(report.with_extension("md")).unwrap();
    assert!(markdown.contains("| variant | runs | wire latency p95, ms |"), "{markdown}");
    for (from, to, why) in [
        ("wire_p95_ms", "wire_p95", "wire_p95"),
        ("\"ccid5\"", "\"ccid9\"", "ccid9"),
        ("paper/delay", "paper/dilay", "paper/dilay"),
        ("path.*.owd", "path.nine.owd", "nine"),
        ("runs = 1", "runs = 0", "at least 1"),
        ("one run\"\nscenario = \"paper/single-path", "short\"\nscenario = \"paper/delay", "two sections"),
    ] {
        std::fs::write(file, set.replace(from, to)).unwrap();
        let error = run(file, &Sim::default(), &chosen, &|_| {}).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("mine.toml"), "{error}");
    }
}
