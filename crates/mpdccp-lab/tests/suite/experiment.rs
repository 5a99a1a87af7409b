//! Tests of an experiment's output, using a backend with synthetic runs in place of a real one.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;

use mpdccp_lab::experiment::{self, Event, Options, What};
use mpdccp_lab::{Backend, LabError, Plan, RunRecord, Sample, Scenario};

/// A backend that returns the synthetic run or, for one variant, fails if requested.
#[derive(Default)]
struct Pretend {
    fails_at: Option<&'static str>,
    /// Whether to report the failure as that of a command.
    command: bool,
}

impl Backend for Pretend {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(&self, plan: &Plan<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        let label = plan.variant.label.as_ref();
        if self.fails_at == Some(label) {
            let error = if self.command { LabError::Command } else { LabError::Failed };
            return Err(error("pretended".to_owned()));
        }
        watch(&Sample::default());
        Ok(RunRecord { repeat: plan.repeat, seed: plan.seed, ..crate::common::run(label) })
    }
}

fn options(out: &std::path::Path) -> Options {
    Options {
        only: Vec::new(),
        cells: Vec::new(),
        runs: Some(2),
        seed: 5,
        threads: 2,
        out: out.to_owned(),
        exports: experiment::Exports::default(),
    }
}

#[test]
fn everything_is_written_and_the_summary_keeps_its_contract() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let events = Mutex::new(Vec::new());
    let watch = |event: Event<'_>| {
        let at = format!("{} of {}", event.index + 1, event.total);
        events.lock().unwrap().push(match event.what {
            What::Begin => format!("begin {at}"),
            What::Sample(_) => "sample".to_owned(),
            What::Done { run, found } => format!("done {}, found {found}", run.label),
            What::Failed(e) => format!("failed {e}"),
            What::Skipped(why) | What::LeavesOut(why) => format!("skipped {why}"),
        });
    };
    let once = || {
        let outcome = experiment::run(&scenario, &Pretend::default(), &options(dir.path()), &watch);
        (outcome.unwrap(), std::mem::take(&mut *events.lock().unwrap()))
    };
    let (outcome, events) = once();
    assert_eq!(events[..4], ["begin 1 of 4", "sample", "done ccid2, found false", "begin 2 of 4"]);
    let summary = fs::read_to_string(dir.path().join("summary.json")).unwrap();
    // The second call makes no runs but rewrites the whole output.
    fs::remove_dir_all(dir.path().join("series")).unwrap();
    let (_, events) = once();
    assert!(events.iter().all(|e| e.ends_with("found true")) && events.len() == 4, "{events:?}");
    assert_eq!(fs::read_to_string(dir.path().join("summary.json")).unwrap(), summary);

    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("summary.json")).unwrap()).unwrap();
    assert_eq!(
        (json["schema"].as_u64(), json["seed"].as_u64(), json["backend"].as_str()),
        (Some(2), Some(5), Some("sim"))
    );
    assert_eq!((json["runs"].as_array().unwrap().len(), json["medians"].as_array().unwrap().len()), (4, 2));
    let run = &json["runs"][1];
    assert_eq!(
        (run["label"].as_str(), run["cell"].as_str(), run["repeat"].as_u64()),
        (Some("ccid2"), Some("a"), Some(1))
    );
    for pointer in [
        "/version",
        "/commit",
        "/dirty",
        "/scenario_text",
        "/scenario_hash",
        "/runs/0/seed",
        "/runs/0/resolved_hash",
        "/scenario",
        "/environment/made_by",
        "/environment/cpus",
        "/environment/link_lateness_us_p99",
        "/runs/0/params/ccid",
        "/runs/0/flows/0/name",
        "/runs/0/flows/0/kind",
        "/runs/0/flows/0/offered_mbps",
        "/runs/0/flows/0/sent",
        "/runs/0/flows/0/dropped_at_sender",
        "/runs/0/flows/0/received",
        "/runs/0/flows/0/lost",
        "/runs/0/flows/0/lost_pct",
        "/runs/0/flows/0/reordered",
        "/runs/0/flows/0/duplicates",
        "/runs/0/flows/0/tcp",
        "/runs/0/flows/0/phases/1/from_s",
        "/runs/0/flows/0/phases/1/to_s",
        "/runs/0/flows/0/phases/1/rx_mbps",
        "/runs/0/flows/0/phases/1/app_latency_ms/p99",
        "/runs/0/flows/0/phases/1/wire_latency_ms/max",
        "/runs/0/paths/1/name",
        "/runs/0/paths/1/phases/1/tx_mbps",
        "/runs/0/paths/1/phases/1/rx_mbps",
        "/runs/0/paths/1/phases/1/latency_ms/p50",
        "/runs/0/paths/1/phases/1/lost",
        "/runs/0/paths/1/phases/1/queue_drops",
        "/runs/0/paths/1/phases/1/ce",
        "/medians/0/label",
        "/medians/0/n",
        "/medians/0/intervals",
        "/runs/0/link_read_lateness_us_p99",
        "/runs/0/send_lateness_us_p99",
        "/runs/0/device_drops",
        "/medians/0/flows/0/phases/1/rx_mbps",
        "/medians/0/paths/0/name",
    ] {
        assert!(json.pointer(pointer).is_some(), "{pointer}");
    }

    let report = fs::read_to_string(&outcome.report).unwrap();
    assert_eq!(report.matches("<figure>").count(), 3);
    assert_eq!(json["environment"]["cpus"], serde_json::Value::Null);
    assert!(!report.contains("kernel") && !report.contains(" CPUs"), "virtual time depends on no machine");
    let table = fs::read_to_string(dir.path().join("summary.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 1 + json["runs"].as_array().unwrap().len(), "{table}");
    let phase = &json["runs"][0]["flows"][0]["phases"][1];
    let figures =
        [&phase["rx_mbps"], &phase["app_latency_ms"]["p95"]].map(|v| format!("{:.3}", v.as_f64().unwrap()));
    assert!(lines[1].contains(&format!(",udp,{},", figures.join(","))), "{table}");
    assert!(!report.contains("src=") && !report.contains("href="), "self-contained");
    let cc = fs::read_to_string(dir.path().join("series/a_ccid5_0/cc.csv")).unwrap();
    assert!(cc.starts_with("t_s,path,phase,cwnd_bytes,inflight_bytes,pacing_mbps,delivery_mbps,btlbw_mbps,srtt_ms,min_rtt_ms,lost,queue_packets,queue_ms,app_limited\n0.000000,path1,probe-bw,30000,"));
    let packets = fs::read_to_string(dir.path().join("series/a_ccid5_0/packets-udp.csv")).unwrap();
    assert_eq!(packets.lines().nth(1), Some("0,0.000000,0.010100,path1,10.100000,10.000000"));
}

#[test]
fn runs_finished_before_a_failure_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let backend = Pretend { fails_at: Some("ccid5"), ..Pretend::default() };
    let error = experiment::run(&scenario, &backend, &options(dir.path()), &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), "pretended");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("summary.json")).unwrap()).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
    assert!(dir.path().join("report.html").is_file());
    // No run finishes in this experiment.
    let mut again = options(dir.path());
    again.only.push("ccid5".to_owned());
    let summary = fs::read(dir.path().join("summary.json")).unwrap();
    experiment::run(&scenario, &backend, &again, &|_| {}).unwrap_err();
    assert_eq!(fs::read(dir.path().join("summary.json")).unwrap(), summary);
    let mut wrong = options(dir.path());
    wrong.only.push("ccid9".to_owned());
    let error = experiment::run(&scenario, &backend, &wrong, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("ccid9") && error.contains("ccid2, ccid5"), "{error}");
}

#[test]
fn a_variant_or_cell_named_twice_runs_once() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let mut twice = options(dir.path());
    twice.only = ["ccid5", "ccid2", "ccid5"].map(str::to_owned).into();
    twice.cells = ["a", "a"].map(str::to_owned).into();
    let outcome = experiment::run(&scenario, &Pretend::default(), &twice, &|_| {}).unwrap();
    let runs: Vec<(&str, u32)> =
        outcome.summary.runs.iter().map(|run| (run.label.as_str(), run.repeat)).collect();
    assert_eq!(runs, [("ccid5", 0), ("ccid5", 1), ("ccid2", 0), ("ccid2", 1)]);
}

#[test]
fn a_failing_command_ends_the_experiment() {
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    for (command, expected) in [(true, 1), (false, 4)] {
        let dir = tempfile::tempdir().unwrap();
        let begun = Mutex::new(0);
        let watch = |event: Event<'_>| *begun.lock().unwrap() += u32::from(matches!(event.what, What::Begin));
        let backend = Pretend { fails_at: Some("ccid2"), command };
        let error = experiment::run(&scenario, &backend, &options(dir.path()), &watch).unwrap_err();
        assert_eq!((error.to_string().as_str(), begun.into_inner().unwrap()), ("pretended", expected));
    }
}

/// A backend that removes the store, so that no run can be stored.
struct Unstored<'a>(&'a std::path::Path);

impl Backend for Unstored<'_> {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(&self, plan: &Plan<'_>, _: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        fs::remove_dir(self.0.join("runs")).unwrap();
        Ok(crate::common::run(plan.variant.label.as_ref()))
    }
}

#[test]
fn an_experiment_ends_if_its_runs_cannot_be_stored() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let error = experiment::run(&scenario, &Unstored(dir.path()), &options(dir.path()), &|_| {}).unwrap_err();
    assert!(matches!(&error, LabError::Missing(why) if why.contains("/runs: No such file")), "{error}");
}

#[test]
fn tshark_reads_an_exported_capture() {
    let tshark = || std::process::Command::new("tshark");
    if tshark().arg("--version").output().is_err() {
        println!("SKIPPED there is no tshark");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let mut options = options(dir.path());
    options.exports.pcap = true;
    experiment::run(&scenario, &Pretend::default(), &options, &|_| {}).unwrap();
    let capture = dir.path().join("series/a_ccid5_0/path1.pcap");
    let fields =
        ["frame.time_epoch", "ip.src", "ip.len", "udp.length"].iter().flat_map(|field| ["-e", field]);
    let out = tshark().arg("-r").arg(capture).args(["-T", "fields"]).args(fields).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let packets: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    // The first path carries all packets of the first five seconds, and two thirds of the packets after that.
    assert_eq!(packets.len(), 5_000 + 3_333);
    assert_eq!(packets[0], ["3600.000000000", "10.0.0.1", "1310", "1290"]);
    assert!(packets.iter().all(|packet| packet[1..] == packets[0][1..]));
}

/// A backend whose runs depend on an external program.
struct With(&'static str);

impl Backend for With {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn made_by(&self, _: &Plan<'_>) -> BTreeMap<String, String> {
        BTreeMap::from([("kernel".to_owned(), "6.1".to_owned()), ("vpn".to_owned(), self.0.to_owned())])
    }

    fn run(&self, plan: &Plan<'_>, _: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        Ok(crate::common::run(plan.variant.label.as_ref()))
    }
}

#[test]
fn a_run_is_found_again_only_with_the_same_programs() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let found = |version| {
        let found = Mutex::new(Vec::new());
        let watch = |event: Event<'_>| {
            if let What::Done { found: earlier, .. } = event.what {
                found.lock().unwrap().push(earlier);
            }
        };
        let outcome = experiment::run(&scenario, &With(version), &options(dir.path()), &watch).unwrap();
        (found.into_inner().unwrap().iter().all(|f| *f), outcome.summary.environment.made_by)
    };
    assert!(!found("1.0").0);
    let (again, made_by) = found("1.0");
    assert!(again);
    assert_eq!((made_by["kernel"].as_str(), made_by["vpn"].as_str()), ("6.1", "1.0"));
    assert!(!found("1.1").0, "a new version of the program needs new runs");
    let report = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(report.contains("kernel 6.1") && report.contains(" CPUs") && report.contains("vpn 1.1"));
}
