//! Tables in documents that are made from stored runs (`docs/runs`, see `tools/tables`). A test fails if a table
//! differs from its runs, or if the scenario of the runs has changed. `MPDCCP_BLESS=1` writes the tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mpdccp_lab::scenario::Scenario;
use mpdccp_lab::sim::Sim;
use mpdccp_lab::store::Key;
use mpdccp_lab::{Plan, estimate::Estimate};
use serde::{Deserialize, Serialize};

/// Metrics that stored runs contain.
const KEPT: [&str; 3] = ["rx_mbps", "app_p50_ms", "app_p95_ms"];

/// Content of `docs/runs/NAME.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stored {
    command: String,
    commit: String,
    date: String,
    scenario: String,
    duration_s: f64,
    runs: Vec<StoredRun>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredRun {
    label: String,
    cell: String,
    seed: u64,
    resolved_hash: String,
    metrics: BTreeMap<String, f64>,
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn stored(name: &str) -> Stored {
    let file = docs().join("runs").join(name).with_extension("json");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

impl Stored {
    fn cells(&self) -> Vec<&str> {
        let mut cells = Vec::new();
        for run in &self.runs {
            if !cells.contains(&run.cell.as_str()) {
                cells.push(&run.cell);
            }
        }
        cells
    }

    fn median(&self, cell: &str, label: &str, metric: &str) -> Option<f64> {
        let here = self.runs.iter().filter(|run| run.cell == cell && run.label == label);
        let values: Vec<f64> = here.filter_map(|run| run.metrics.get(metric).copied()).collect();
        Estimate::of(&values).map(|estimate| estimate.median)
    }

    /// The runs whose scenario has changed since they were made.
    fn stale(&self) -> Vec<String> {
        let scenario = Scenario::find(&self.scenario).unwrap();
        let scenario = if scenario.duration().as_secs_f64() == self.duration_s {
            scenario
        } else {
            scenario.with(&[("duration_s", toml::Value::from(self.duration_s))]).unwrap()
        };
        let changed = |run: &&StoredRun| {
            let (variant, cell) = (scenario.variant(&run.label), scenario.cell(&run.cell));
            let today = variant.zip(cell).map(|(variant, cell)| {
                let plan = Plan { scenario: &scenario, variant, cell, repeat: 0, seed: 1 };
                Key::of(&plan, &Sim::default()).scenario
            });
            today.as_ref() != Some(&run.resolved_hash)
        };
        self.runs.iter().filter(changed).map(|run| format!("{}, {}", run.cell, run.label)).collect()
    }
}

fn three_digits(value: f64) -> String {
    let digits = if value.abs() >= 100.0 { 0 } else { 2 - (value.abs().max(1.0).log10() as usize) };
    format!("{value:.digits$}")
}

/// The table for a directive `NAME METRIC LABEL...`: the medians of the metric, with a row for each cell and
/// a column for each label.
fn generated(directive: &str) -> String {
    let words: Vec<&str> = directive.split_whitespace().collect();
    let [name, metric, labels @ ..] = &words[..] else { panic!("invalid directive `{directive}`") };
    let stored = stored(name);
    let Stored { command, commit, date, .. } = &stored;
    let mut text = format!("`{command}`, commit {commit}, {date}.\n\n| | {} |\n", labels.join(" | "));
    writeln!(text, "|---|{}", "--:|".repeat(labels.len())).unwrap();
    for cell in stored.cells() {
        let value = |label: &&str| stored.median(cell, label, metric).map_or("–".to_owned(), three_digits);
        let values: Vec<String> = labels.iter().map(value).collect();
        writeln!(text, "| {cell} | {} |", values.join(" | ")).unwrap();
    }
    text
}

const BEGIN: &str = "<!-- runs: ";
const END: &str = "<!-- end of runs -->";

/// The document with newly generated tables.
fn made_again(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (directive, after) = after.split_once(" -->\n").unwrap();
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("`{directive}` has no end"));
        write!(out, "{before}{BEGIN}{directive} -->\n\n{}\n{END}", generated(directive)).unwrap();
        rest = after;
    }
    out + rest
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![docs().join("../README.md")];
    let files = std::fs::read_dir(docs()).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(files.filter(|file| file.extension().is_some_and(|e| e == "md")));
    pages
}

/// Makes `docs/runs/calibration-sim.json`. `tools/tables calibration-sim` calls this test.
#[test]
#[ignore = "makes the stored runs again"]
fn calibration_in_the_simulator() {
    let scenario = Scenario::find("calibration").unwrap();
    let mut runs = Vec::new();
    for cell in &scenario.cells {
        let random =
            cell.name.contains("loss") || cell.name.contains("jitter") || cell.name.contains("reorder");
        for variant in &scenario.variants {
            for seed in 1..=if random { 5 } else { 1 } {
                let run = crate::sim_common::seeded(&scenario, variant.label.as_ref(), &cell.name, seed).1;
                let metrics =
                    run.metrics.into_iter().filter(|(name, _)| KEPT.contains(&name.as_str())).collect();
                runs.push(StoredRun {
                    label: run.label,
                    cell: run.cell,
                    seed,
                    resolved_hash: run.resolved_hash,
                    metrics,
                });
            }
        }
    }
    let made = Stored {
        command: "tools/tables calibration-sim".to_owned(),
        commit: std::env::var("COMMIT").unwrap(),
        date: std::env::var("DATE").unwrap(),
        scenario: "calibration".to_owned(),
        duration_s: scenario.duration().as_secs_f64(),
        runs,
    };
    std::fs::create_dir_all(docs().join("runs")).unwrap();
    let text = serde_json::to_string_pretty(&made).unwrap() + "\n";
    std::fs::write(docs().join("runs/calibration-sim.json"), text).unwrap();
}

#[test]
fn tables_say_what_the_stored_runs_say() {
    let mut tables = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        tables += text.matches(BEGIN).count();
        let again = made_again(&text);
        if std::env::var_os("MPDCCP_BLESS").is_some() && again != text {
            std::fs::write(&page, &again).unwrap();
        }
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(again == text, "{}: a table differs from its runs; run tools/tables", page.display());
    }
    assert!(tables > 0);
}

#[test]
fn stored_runs_are_of_the_scenarios_of_today() {
    for entry in std::fs::read_dir(docs().join("runs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stored = stored(name.trim_end_matches(".json"));
        assert!(!stored.runs.is_empty(), "{name}");
        let stale = stored.stale();
        assert!(stale.is_empty(), "docs/runs/{name}: run `{}` again; changed: {stale:?}", stored.command);
    }
}

#[test]
fn a_changed_number_and_a_changed_scenario_are_found() {
    let page = std::fs::read_to_string(docs().join("calibration.md")).unwrap();
    let begin = page.find(BEGIN).unwrap();
    let row = begin + page[begin..].find("| 10m-20ms-1bdp |").unwrap();
    let value = row + page[row..].find('.').unwrap() + 1;
    let mut planted = page.clone();
    let other = if &page[value..=value] == "7" { "3" } else { "7" };
    planted.replace_range(value..=value, other);
    assert!(planted != page && made_again(&planted) == page);
    let mut changed = stored("calibration-sim");
    assert!(changed.stale().is_empty());
    changed.duration_s += 1.0;
    assert_eq!(changed.stale().len(), changed.runs.len());
    changed.duration_s -= 1.0;
    changed.runs[0].cell = "none".to_owned();
    assert_eq!(changed.stale().len(), 1);
}
