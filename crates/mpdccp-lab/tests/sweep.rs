//! Sweeps: every point once, resumed where they stopped, failures apart.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use mpdccp_lab::sweep::{Options, Outcome, run};

const SCENARIO: &str = r#"
name = "s"
title = "t"
mode = "direct"
duration_s = 1
[[path]]
name = "a"
rate = "10 Mbit/s"
queue = "125000 B"
[[contender]]
label = "ccid2"
ccid = 2
[[contender]]
label = "tcp"
tcp = "cubic"
[[flow]]
name = "f"
kind = "udp"
payload = 1300
rate = "5 Mbit/s"
[sweep]
seeds = 2
parameters = { "path.*.owd" = ["0 ms", "30 ms"], "flow.f.rate" = ["2 Mbit/s", "4 Mbit/s"] }
"#;

fn sweep(dir: &Path, text: &str) -> (Result<Outcome, String>, Vec<String>) {
    let file = dir.join("s.toml");
    fs::write(&file, text).unwrap();
    let seen = Mutex::new(Vec::new());
    let options = Options { out: dir.join("s.csv"), seed: 1, threads: 2, only: Vec::new(), seeds: None };
    let outcome = run(file.to_str().unwrap(), &options, &|p| seen.lock().unwrap().push(p.what.to_owned()));
    (outcome.map_err(|e| e.to_string()), seen.into_inner().unwrap())
}

#[test]
fn every_point_is_run_once_and_what_is_there_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (outcome, seen) = sweep(dir.path(), SCENARIO);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.made, outcome.found, outcome.failed.len(), seen.len()), (16, 0, 0, 16));
    let csv = fs::read_to_string(dir.path().join("s.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("contender,seed,flow.f.rate,path.*.owd,rx_mbps,"));
    assert!(lines[1].starts_with("ccid2,1,2 Mbit/s,0 ms,"));
    assert_eq!(lines.len(), 17);
    // Later packets than the delay allows are missing at the end, so the rate is near the one offered.
    let rx: f64 = lines[9].split(',').nth(4).unwrap().parse().unwrap();
    assert!((3.5..4.1).contains(&rx), "{}", lines[9]);
    assert!(outcome.table.lines().count() == 9, "{}", outcome.table);

    // A run that was cut off, and one that is missing.
    let cut = format!("{}\n{}", lines[..15].join("\n"), &lines[15][..20]);
    fs::write(dir.path().join("s.csv"), cut).unwrap();
    let (outcome, seen) = sweep(dir.path(), SCENARIO);
    assert_eq!(outcome.map(|o| (o.made, o.found)), Ok((2, 14)));
    assert_eq!(seen.len(), 2);
    assert_eq!(fs::read_to_string(dir.path().join("s.csv")).unwrap(), csv, "the same again");
}

#[test]
fn failures_are_told_and_others_finish() {
    let dir = tempfile::tempdir().unwrap();
    // Without the link no connection is opened.
    let dead = "events = [{ at_s = 0.1, up = false }]\n[[contender]]\nlabel = \"ccid2\"";
    let text = SCENARIO
        .replace("duration_s = 1", "duration_s = 130")
        .replacen("[[contender]]\nlabel = \"ccid2\"", dead, 1)
        .replace("4 Mbit/s\"", "4 Mbit/s\", \"100 kbit/s\"");
    let (outcome, seen) = sweep(dir.path(), &text);
    let outcome = outcome.unwrap();
    assert_eq!(seen.len(), 24);
    assert!(outcome.failed.iter().all(|(what, why)| what.starts_with("ccid2") && why.contains("ended")));
    assert_eq!((outcome.made, outcome.failed.len()), (12, 12), "{:?}", outcome.failed);
}

#[test]
fn a_sweep_that_makes_no_sense_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = |from: &str, to: &str| sweep(dir.path(), &SCENARIO.replace(from, to)).0.unwrap_err();
    assert!(wrong("path.*.owd", "path.b.owd").contains("no `b`"));
    assert!(wrong("path.*.owd", "path.*.delay").contains("delay"));
    assert!(wrong("30 ms", "30 mm").contains("mm"));
    assert!(wrong("[[flow]]", "[[cell]]\nname = \"c\"\nowd = \"1 ms\"\n[[flow]]").contains("replaces"));
    fs::write(dir.path().join("s.csv"), "a,b\n").unwrap();
    assert!(sweep(dir.path(), SCENARIO).0.unwrap_err().contains("columns"));
}
