//! Tests of sets of experiments, with synthetic runs.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use mpdccp_lab::reproduce::{Options, Progress, run};
use mpdccp_lab::scenario::FlowSpec;
use mpdccp_lab::{Backend, FlowRecord, LabError, Plan, RunRecord, Sample};

/// A backend that returns the same run for every plan and is interrupted after a given number of runs.
struct MadeUp {
    made: AtomicUsize,
    patience: usize,
    /// The runs that fail, by number.
    broken: Range<usize>,
}

impl Backend for MadeUp {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn run(&self, plan: &Plan<'_>, _: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        if self.made.load(Ordering::Relaxed) == self.patience {
            return Err(LabError::Interrupted);
        }
        if self.broken.contains(&self.made.fetch_add(1, Ordering::Relaxed)) {
            return Err(LabError::Failed("broken".to_owned()));
        }
        let mut record = crate::common::run(plan.variant.label.as_ref());
        // Each TCP flow has as many packets as the first flow.
        let first = record.flows[0].clone();
        let named = |flow: &FlowSpec| FlowRecord { name: flow.name.as_ref().clone(), ..first.clone() };
        record.flows = plan.scenario.flows.iter().map(named).collect();
        Ok(record)
    }
}

fn quick(out: &Path) -> Options {
    Options {
        out: out.to_owned(),
        quick: true,
        duration_s: None,
        seed: 1,
        around_in_sim: false,
        only: Vec::new(),
        threads: 1,
    }
}

#[test]
fn finished_runs_are_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options { threads: 2, ..quick(dir.path()) };
    let attempt = |patience, options: &Options| {
        let backend = MadeUp { made: AtomicUsize::new(0), patience, broken: 0..0 };
        let found = AtomicUsize::new(0);
        let result = run("dcp", &backend, options, &|p| {
            if let Progress::Sweep(p) = p {
                found.fetch_add(usize::from(p.found), Ordering::Relaxed);
            }
        });
        (backend.made.into_inner(), found.into_inner(), result.is_ok())
    };
    assert_eq!(attempt(3, &options), (3, 0, false));
    // The set has 22 runs: one of a single flow, nine with three numbers of TCP flows in three variants, and
    // twelve of six echo variants with and without loss.
    assert_eq!(attempt(99, &options), (19, 3, true));
    assert_eq!(attempt(0, &options), (0, 22, true));
    // If the stored file of a run is truncated or lacks the series, the run is made again. With a different
    // seed, all runs are made again.
    let mut files: Vec<_> =
        std::fs::read_dir(dir.path().join("runs")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    std::fs::write(&files[0], "{\"name\": \"one-f").unwrap();
    assert_eq!(attempt(99, &options), (1, 21, true));
    let mut kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap();
    kept["series"] = serde_json::json!({});
    std::fs::write(&files[0], kept.to_string()).unwrap();
    assert_eq!(attempt(99, &options), (1, 21, true));
    options.seed = 2;
    assert_eq!(attempt(99, &options), (22, 0, true));
    let report = std::fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(
        report.contains("| F, n = 4, TCP Reno, derivative random drop | – | 1.00 | 0.8 to 1.25 | met |"),
        "{report}"
    );
    for figure in ["figure2.svg", "figure3.svg", "figure4.svg", "figure5.svg"] {
        assert!(dir.path().join("figures").join(figure).is_file(), "{figure}");
    }
    let none = MadeUp { made: AtomicUsize::new(0), patience: 0, broken: 0..0 };
    let only = Options { only: vec!["dcp/one-flow".to_owned()], ..options.clone() };
    let error = run("dcp", &none, &only, &|_| {}).unwrap_err();
    assert!(matches!(&error, LabError::Wrong(why) if why.contains("--only")), "{error}");
    let error = run("no such", &none, &options, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("paper") && error.contains("dcp"), "{error}");
}

#[test]
fn a_failed_run_does_not_withhold_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let attempt = |set: &str, broken| {
        let failed = AtomicUsize::new(0);
        let backend = MadeUp { made: AtomicUsize::new(0), patience: 99, broken };
        let result = run(set, &backend, &quick(dir.path()), &|p| {
            failed.fetch_add(usize::from(matches!(p, Progress::Failed(_))), Ordering::Relaxed);
        });
        (failed.into_inner(), result.map_err(|e| e.to_string()))
    };
    let (failed, none) = attempt("dcp", 0..22);
    assert!(failed == 22 && none.unwrap_err().contains("failed: broken"));
    // All runs among Reno flows fail.
    let (failed, report) = attempt("dcp", 1..4);
    assert_eq!(failed, 3);
    let report = std::fs::read_to_string(report.unwrap().with_extension("md")).unwrap();
    for part in ["`with-tcp-reno-9` with seed 1 failed: broken", "between – and –", "F, n = 4, TCP CUBIC"]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    let set = dir.path().join("set.toml");
    let text = r#"name = "set"
title = "Set"
[[section]]
name = "short"
scenario = "dcp/one-flow"
sweep = { "path.*.owd" = ["5 ms", "10 ms"] }
"#;
    std::fs::write(&set, text).unwrap();
    let (failed, report) = attempt(set.to_str().unwrap(), 0..1);
    assert_eq!(failed, 1);
    let report = std::fs::read_to_string(report.unwrap().with_extension("md")).unwrap();
    assert!(report.contains(",5 ms failed: broken") && report.contains("| 10 ms |"), "{report}");
    let (before, _) = text.split_once("sweep =").unwrap();
    std::fs::write(&set, format!("{before}runs = 2\n")).unwrap();
    let (failed, report) = attempt(set.to_str().unwrap(), 0..1);
    assert_eq!(failed, 1);
    let report = std::fs::read_to_string(report.unwrap().with_extension("md")).unwrap();
    assert!(report.contains("run failed: broken.") && report.contains("medians of 1 run,"), "{report}");
}
