//! Tests of sweeps: every point is run once, sweeps can be resumed, and failures are reported separately.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use mpdccp_lab::sim::Sim;
use mpdccp_lab::sweep::{Options, Outcome, Progress, Shard, merge, run};
use mpdccp_lab::{Backend, LabError, Plan, RunRecord, Sample, Scenario};

const SCENARIO: &str = r#"
name = "s"
title = "t"
mode = "direct"
duration_s = 1
[[path]]
name = "a"
rate = "10 Mbit/s"
queue = "125000 B"
[[variant]]
label = "ccid2"
ccid = 2
[[variant]]
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
    let made = Mutex::new(Vec::new());
    let options = Options {
        out: dir.join("s.csv"),
        seed: 1,
        threads: 2,
        only: Vec::new(),
        cells: vec!["all".to_owned()],
        seeds: None,
        shard: Shard::default(),
    };
    let watch = |p: &Progress<'_>| {
        if !p.found {
            made.lock().unwrap().push(p.what.to_owned());
        }
    };
    let scenario = Scenario::parse("s.toml", text).map_err(|e| e.to_string());
    let outcome =
        scenario.and_then(|s| run(&s, &Sim::default(), &options, &watch).map_err(|e| e.to_string()));
    (outcome, made.into_inner().unwrap())
}

#[test]
fn every_point_is_run_once_and_what_is_there_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (outcome, seen) = sweep(dir.path(), SCENARIO);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.made, outcome.found, outcome.failed.len(), seen.len()), (16, 0, 0, 16));
    let csv = fs::read_to_string(dir.path().join("s.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("variant,cell,seed,flow.f.rate,path.*.owd,rx_mbps,"));
    assert!(lines[1].starts_with("ccid2,base,1,2 Mbit/s,0 ms,"));
    assert_eq!(lines.len(), 17);
    // Packets still on the path at the end are not counted, so the rate is only close to the offered rate.
    let rx: f64 = lines[9].split(',').nth(5).unwrap().parse().unwrap();
    assert!((3.5..4.1).contains(&rx), "{}", lines[9]);
    assert!(outcome.table.lines().count() == 9, "{}", outcome.table);

    // One stored result is truncated, and one is missing. The CSV file is also missing, but a resumed sweep
    // does not need it.
    let mut kept: Vec<_> =
        fs::read_dir(dir.path().join("runs")).unwrap().map(|f| f.unwrap().path()).collect();
    kept.sort();
    fs::write(&kept[3], &fs::read(&kept[3]).unwrap()[..100]).unwrap();
    fs::remove_file(&kept[7]).unwrap();
    fs::remove_file(dir.path().join("s.csv")).unwrap();
    let (outcome, seen) = sweep(dir.path(), SCENARIO);
    assert_eq!(outcome.map(|o| (o.made, o.found)), Ok((2, 14)));
    assert_eq!(seen.len(), 2);
    assert_eq!(
        fs::read_to_string(dir.path().join("s.csv")).unwrap(),
        csv,
        "the resumed sweep writes the same file"
    );
}

#[test]
fn a_changed_scenario_is_run_again_and_its_table_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), SCENARIO).0.unwrap();
    let slow = SCENARIO.replace("10 Mbit/s", "1 Mbit/s");
    let (outcome, seen) = sweep(dir.path(), &slow);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.made, outcome.found, seen.len()), (16, 0, 16));
    let rates = outcome.medians.iter().map(|m| m.shown[0].unwrap().median);
    assert!(rates.clone().all(|rate| rate < 1.0), "{}", outcome.table);
    // No new runs are needed after a change to the title, to the text about the scenario, or to the settings
    // of another variant.
    let words = slow.replace("title = \"t\"", "title = \"other\"");
    assert_eq!(sweep(dir.path(), &words).0.map(|o| o.found), Ok(16));
    let other = slow.replace("tcp = \"cubic\"", "tcp = \"reno\"");
    assert_eq!(sweep(dir.path(), &other).0.map(|o| (o.made, o.found)), Ok((8, 8)));
    // The cell's links are an input of a run.
    let cell = slow.replace("[[flow]]", "[[cell]]\nname = \"base\"\nloss = \"1 %\"\n[[flow]]");
    assert_eq!(sweep(dir.path(), &cell).0.map(|o| o.made), Ok(16));
    let cells = cell.replace("[[flow]]", "[[cell]]\nname = \"clean\"\n[[flow]]");
    let outcome = sweep(dir.path(), &cells).0.unwrap();
    assert_eq!((outcome.made, outcome.found, outcome.medians.len()), (16, 16, 16));
}

#[test]
fn a_trace_that_changed_is_another_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    let text = SCENARIO.replace("rate = \"10 Mbit/s\"", "rate_trace = \"t.trace\"");
    let hash = |trace: &str| {
        fs::write(dir.path().join("t.trace"), trace).unwrap();
        let scenario = Scenario::parse(file.to_str().unwrap(), &text).unwrap();
        scenario.resolved(&scenario.variants[0], &scenario.cells[0])
    };
    assert_ne!(hash("1\n2\n"), hash("1\n3\n"));
}

#[test]
fn every_flow_has_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let two = "[[flow]]\nname = \"g\"\nkind = \"udp\"\npayload = 1000\nrate = \"1 Mbit/s\"\n[[flow]]";
    sweep(dir.path(), &SCENARIO.replace("[[flow]]", two).replace("f.rate\"", "g.rate\"")).0.unwrap();
    let csv = fs::read_to_string(dir.path().join("s.csv")).unwrap();
    let column = |name: &str| csv.lines().next().unwrap().split(',').position(|c| c == name).unwrap();
    let of = |name| csv.lines().nth(1).unwrap().split(',').nth(column(name)).unwrap().parse::<f64>().unwrap();
    assert!((1.7..2.2).contains(&of("g:rx_mbps")) && (4.0..5.2).contains(&of("f:rx_mbps")), "{csv}");
    assert_eq!(csv.lines().nth(1).unwrap().split(',').nth(column("backend")), Some("sim"));
}

#[test]
fn failures_are_told_and_others_finish() {
    let dir = tempfile::tempdir().unwrap();
    // The connection cannot open without a working link.
    let dead = "events = [{ at_s = 0.1, up = false }]\n[[variant]]\nlabel = \"ccid2\"";
    let text = SCENARIO
        .replace("duration_s = 1", "duration_s = 130")
        .replacen("[[variant]]\nlabel = \"ccid2\"", dead, 1)
        .replace("4 Mbit/s\"", "4 Mbit/s\", \"100 kbit/s\"");
    let (outcome, seen) = sweep(dir.path(), &text);
    let outcome = outcome.unwrap();
    assert_eq!(seen.len(), 24);
    assert!(outcome.failed.iter().all(|(what, why)| what.starts_with("ccid2") && why.contains("ended")));
    assert_eq!((outcome.made, outcome.failed.len()), (12, 12), "{:?}", outcome.failed);
}

#[test]
fn variants_that_the_backend_does_not_support_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
name = "s"
title = "t"
duration_s = 1
path = [{ name = "a", rate = "10 Mbit/s", queue = "125000 B" }]
variant = [{ label = "tunnel" }, { label = "mptcp", baseline = { kind = "mptcp" } }]
flow = [{ name = "f", kind = "tcp", cc = "cubic" }]
sweep = { parameters = { "path.a.owd" = ["1 ms", "2 ms"] } }
"#;
    let outcome = sweep(dir.path(), text).0.unwrap();
    assert_eq!((outcome.made, outcome.failed.len(), outcome.medians.len()), (2, 0, 2));
    assert!(outcome.skipped["mptcp"].contains("only namespaces"), "{:?}", outcome.skipped);
    let none = sweep(dir.path(), &text.replace("{ label = \"tunnel\" }, ", "")).0.unwrap_err();
    assert!(none.contains("only namespaces"), "{none}");
}

/// A backend that the user interrupts at once.
struct Interrupted;

impl Backend for Interrupted {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn run(&self, _: &Plan<'_>, _: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        Err(LabError::Interrupted)
    }
}

#[test]
fn an_interruption_before_the_first_run_keeps_the_earlier_file() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), SCENARIO).0.unwrap();
    let files = ["s.csv", "s.runs"].map(|name| dir.path().join(name));
    let before = files.each_ref().map(|file| fs::read(file).unwrap());
    let options = Options {
        out: files[0].clone(),
        seed: 1,
        threads: 1,
        only: Vec::new(),
        cells: Vec::new(),
        seeds: None,
        shard: Shard::default(),
    };
    let scenario = Scenario::parse("s.toml", SCENARIO).unwrap();
    let error = run(&scenario, &Interrupted, &options, &|_| {}).unwrap_err();
    assert!(matches!(error, LabError::Interrupted), "{error}");
    // `s.runs` has the runs of `s.csv`, and would also have those of `s.1`. `runs` is the store.
    for name in ["s.runs", "s.1", "runs"] {
        let options = Options { out: dir.path().join(name), ..options.clone() };
        let error = run(&scenario, &Interrupted, &options, &|_| {}).unwrap_err();
        assert!(matches!(&error, LabError::Wrong(why) if why.contains(&format!("{name}: "))), "{error}");
    }
    assert!(files.each_ref().map(|file| fs::read(file).unwrap()) == before);
}

#[test]
fn a_sweep_that_makes_no_sense_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = |from: &str, to: &str| sweep(dir.path(), &SCENARIO.replace(from, to)).0.unwrap_err();
    assert!(wrong("path.*.owd", "path.b.owd").contains("`b` not found"));
    assert!(wrong("path.*.owd", "path.*.delay").contains("delay"));
    assert!(wrong("30 ms", "30 mm").contains("mm"));
    assert!(wrong("30 ms", "0 ms").contains("has the value \"0 ms\" twice"));
    // A cell may change a key for all paths, for one path, or for a flow.
    let both = "path.a = { forward = { owd = \"1 ms\" }, reverse = { owd = \"2 ms\" } }";
    for cell in ["owd = \"1 ms\"", "path.a.owd = \"1 ms\"", both, "flow.f.rate = \"1 Mbit/s\""] {
        let cell = format!("[[cell]]\nname = \"c\"\n{cell}\n[[flow]]");
        assert!(wrong("[[flow]]", &cell).contains("also sets this key"), "{cell}");
    }
    // `forward` and `reverse` together would hide the path's own key.
    let path = |ways: &str| {
        let text = SCENARIO.replace("queue = \"125000 B\"", &format!("queue = \"125000 B\"\n{ways}"));
        Scenario::parse("s.toml", &text).unwrap().points(&["base"]).map_err(|e| e.message)
    };
    let reverse = "reverse = { owd = \"1 ms\" }";
    path(reverse).unwrap();
    let error = path(&format!("forward = {{ owd = \"2 ms\" }}\n{reverse}")).unwrap_err();
    assert!(error.contains("`path.*.owd`: `forward` and `reverse` of the path"), "{error}");
    // At least one variant must leave a key of [tunnel] to the sweep.
    let hidden = |key: &str, variant: &str| {
        let text = SCENARIO.replace("path.*.owd", key).replace("\"0 ms\", \"30 ms\"", "4, 5");
        let scenario = Scenario::parse("s.toml", &text.replace("tcp = \"cubic\"", variant)).unwrap();
        scenario.points(&["base"]).is_err_and(|e| e.message.contains("all variants set this key"))
    };
    assert!(hidden("tunnel.ccid", "ccid = 7") && !hidden("tunnel.ccid", "tcp = \"cubic\""));
    assert!(!hidden("tunnel.queue_packets", "ccid = 7\ntunnel = { queue_packets = 9 }"));
    // The losses of the cell would replace those of the sweep.
    let cell = "[[cell]]\nname = \"c\"\nburst_loss = { begin = \"1 %\", end = \"30 %\" }\n[[flow]]";
    let text =
        SCENARIO.replace("[[flow]]", cell).replace("path.*.owd", "path.*.loss").replace(" ms\"", " %\"");
    assert!(sweep(dir.path(), &text).0.unwrap_err().contains("replaces it"));
    let other = "[[cell]]\nname = \"c\"\npath.a.forward.loss = \"1 %\"\n[[flow]]";
    for name in ["path.*.owd", "path.a.forward.owd"] {
        let text = SCENARIO.replace("[[flow]]", other).replace("path.*.owd", name);
        Scenario::parse("s.toml", &text).unwrap().points(&["c"]).unwrap();
    }
}

#[test]
fn shards_make_each_run_once_and_merge_into_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, _) = sweep(dir.path(), SCENARIO);
    let total = whole.unwrap().made;
    let scenario = Scenario::parse("s.toml", SCENARIO).unwrap();
    let options = |out: &str, shard: &str| Options {
        out: dir.path().join(out).join("s.csv"),
        seed: 1,
        threads: 2,
        only: Vec::new(),
        cells: vec!["all".to_owned()],
        seeds: None,
        shard: shard.parse().unwrap(),
    };
    let parts = ["1/3", "2/3", "3/3"].map(|shard| options(&shard[..1], shard));
    let made = parts.each_ref().map(|o| run(&scenario, &Sim::default(), o, &|_| {}).unwrap().made);
    assert_eq!(made.iter().sum::<usize>(), total);
    assert!(made.iter().all(|n| n.abs_diff(total / 3) <= 1), "{made:?}");
    let files = parts.map(|o| o.out);
    // Merging must need only the files that the workflow declares as outputs, because the `runs` directories
    // may be on other machines.
    files.iter().for_each(|file| fs::remove_dir_all(file.parent().unwrap().join("runs")).unwrap());
    let all = options("all", "1/1");
    let missing = merge(&scenario, &Sim::default(), &all, &files[1..], &|_| {}).unwrap();
    assert_eq!(missing.failed.len(), made[0]);
    assert!(missing.failed[0].1.contains("no shard made this run"), "{:?}", missing.failed);
    let merged = merge(&scenario, &Sim::default(), &all, &files, &|_| {}).unwrap();
    assert_eq!((merged.found, merged.made, merged.failed.len()), (total, 0, 0));
    assert_eq!(fs::read(&all.out).unwrap(), fs::read(dir.path().join("s.csv")).unwrap());
}

#[test]
fn a_shard_that_is_none_is_refused() {
    for wrong in ["0/3", "4/3", "3", "a/b", "1/0", "-1/2"] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
}

#[test]
fn a_name_that_is_a_number_is_not_an_index() {
    let text = r#"name = "t"
title = "t"
duration_s = 1
path = [{ name = "1", rate = "1 Mbit/s", queue = "9 packets" }, { name = "2", rate = "1 Mbit/s", queue = "9 packets" }]
variant = [{ label = "v" }]
flow = [{ name = "f", kind = "udp", payload = 100, rate = "1 Mbit/s" }]
"#;
    let delays = |place: &str| {
        let scenario = Scenario::parse("t.toml", text).unwrap();
        let scenario = scenario.with(&[(place, toml::Value::from("5 ms"))]).unwrap();
        scenario.paths.iter().map(|path| path.ways[0].delay().as_millis()).collect::<Vec<_>>()
    };
    assert_eq!([delays("path.1.owd"), delays("path.0.owd"), delays("path.*.owd")], [[5, 0], [5, 0], [5, 5]]);
}
