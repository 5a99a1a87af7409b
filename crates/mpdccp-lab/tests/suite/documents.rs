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
    /// New values for places in the scenario, as in a set.
    change: BTreeMap<String, toml::Value>,
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

    /// The scenario of today, with the changes of the runs.
    fn scenario(&self) -> Scenario {
        let change: Vec<_> = self.change.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        Scenario::find(&self.scenario).unwrap().with(&change).unwrap()
    }

    /// The value of a column: the median of a label, or the ratio of the median to that of another label, to
    /// the rate of the best link (`best`) or to the sum of all links' rates (`sum`).
    fn value(&self, cell: &str, column: &str, metric: &str) -> Option<f64> {
        let Some((label, other)) = column.split_once('/') else { return self.median(cell, column, metric) };
        let scenario = self.scenario();
        let (variant, cell_of) = (scenario.variant(label).unwrap(), scenario.cell(cell).unwrap());
        let paths = scenario.paths_of(variant, cell_of);
        let links = paths.iter().map(|path| path.ways[0].mean_rate().bps() as f64 / 1e6);
        let other = match other {
            "best" => links.fold(0.0, f64::max),
            "sum" => links.sum(),
            other => self.median(cell, other, metric)?,
        };
        Some(self.median(cell, label, metric)? / other)
    }

    fn median(&self, cell: &str, label: &str, metric: &str) -> Option<f64> {
        let here = self.runs.iter().filter(|run| run.cell == cell && run.label == label);
        let values: Vec<f64> = here.filter_map(|run| run.metrics.get(metric).copied()).collect();
        Estimate::of(&values).map(|estimate| estimate.median)
    }

    /// The runs whose scenario has changed since they were made.
    fn stale(&self) -> Vec<String> {
        let scenario = self.scenario();
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

/// The table for a directive `NAME METRIC; COLUMN; ...`, with a row for each cell. A column is `LABEL`,
/// `LABEL/LABEL`, `LABEL/best` or `LABEL/sum`, and may end with `: TITLE`.
fn generated(directive: &str) -> String {
    let (name, metric, columns) = parts(directive);
    let stored = stored(name);
    let columns: Vec<_> = columns.iter().map(|c| c.split_once(": ").unwrap_or((c, c))).collect();
    let titles: Vec<&str> = columns.iter().map(|(_, title)| *title).collect();
    let Stored { command, commit, date, .. } = &stored;
    let mut text = format!("`{command}`, commit {commit}, {date}.\n\n| | {} |\n", titles.join(" | "));
    writeln!(text, "|---|{}", "--:|".repeat(columns.len())).unwrap();
    for cell in stored.cells() {
        let value = |(column, _): &(&str, &str)| {
            stored.value(cell, column, metric).map_or("–".to_owned(), three_digits)
        };
        let values: Vec<String> = columns.iter().map(value).collect();
        writeln!(text, "| {cell} | {} |", values.join(" | ")).unwrap();
    }
    text
}

/// The table for a directive `count NAME METRIC; TITLE, ...; WORDS: MINIMUM: COLUMN ...: AIM; ...`: the number
/// of cells where each column has at least the minimum. If `: CELL ...` follows the aim, only these cells count.
fn counted(directive: &str) -> String {
    let (name, metric, rows) = parts(directive);
    let stored = stored(name);
    let mut text = String::new();
    let [title, rows @ ..] = &rows[..] else { panic!("invalid directive `{directive}`") };
    writeln!(text, "| {} |", title.split(", ").collect::<Vec<_>>().join(" | ")).unwrap();
    writeln!(text, "|---|{}", "--:|".repeat(title.matches(", ").count())).unwrap();
    for row in rows {
        let words: Vec<&str> = row.split(": ").collect();
        let [words, minimum, columns, aim, cells @ ..] = &words[..] else { panic!("invalid row `{row}`") };
        let minimum: f64 = minimum.parse().unwrap();
        let cells: Vec<&str> = cells.first().map_or(stored.cells(), |cells| cells.split(' ').collect());
        write!(text, "| {words} | {aim} |").unwrap();
        for column in columns.split(' ') {
            let reaches = |cell: &&&str| stored.value(cell, column, metric) >= Some(minimum);
            write!(text, " {} of {} |", cells.iter().filter(reaches).count(), cells.len()).unwrap();
        }
        text.push('\n');
    }
    text
}

/// Name, metric and the other parts of a directive.
fn parts(directive: &str) -> (&str, &str, Vec<&str>) {
    let mut parts = directive.split(';').map(str::trim);
    let (name, metric) = parts.next().and_then(|first| first.split_once(' ')).expect("a name and a metric");
    (name, metric, parts.collect())
}

const BEGIN: &str = "<!-- runs: ";
const END: &str = "<!-- end of runs -->";

/// The document with newly generated tables.
fn made_again(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (directive, after) = after.split_once(" -->\n").unwrap();
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("`{directive}` has no end"));
        let table = directive.strip_prefix("count ").map_or_else(|| generated(directive), counted);
        write!(out, "{before}{BEGIN}{directive} -->\n\n{table}\n{END}").unwrap();
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
        change: BTreeMap::new(),
        runs,
    };
    std::fs::create_dir_all(docs().join("runs")).unwrap();
    // One run per line.
    let text = serde_json::to_string(&made).unwrap().replace("{\"label\"", "\n{\"label\"") + "\n";
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
fn columns_are_medians_and_ratios_and_counts_have_a_minimum() {
    let mut stored = stored("streams-packets");
    stored.runs.retain(|run| run.cell == "bw_4to1" && run.label.starts_with("cubic"));
    for run in &mut stored.runs {
        run.metrics.insert("rx_mbps".to_owned(), if run.label == "cubic-streams" { 31.0 } else { 10.0 });
    }
    let value = |column| stored.value("bw_4to1", column, "rx_mbps");
    // The links have 50 and 12 Mbit/s.
    assert_eq!(value("cubic-streams"), Some(31.0));
    let ratios = ["cubic-streams/sum", "cubic-streams/best", "cubic-streams/cubic-mptcp"].map(value);
    assert_eq!(ratios, [Some(0.5), Some(0.62), Some(3.1)]);
    let counted =
        |minimum| counted(&format!("streams-packets rx_mbps; a, b, c; w: {minimum}: cubic-streams: x"));
    assert!(counted(0).ends_with("| w | x | 16 of 16 |\n") && counted(1_000).ends_with("| 0 of 16 |\n"));
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
    changed.change.insert("duration_s".to_owned(), toml::Value::from(11.0));
    assert_eq!(changed.stale().len(), changed.runs.len());
    changed.change.clear();
    changed.runs[0].cell = "none".to_owned();
    assert_eq!(changed.stale().len(), 1);
}
