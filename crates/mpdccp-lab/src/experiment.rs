//! A whole experiment: every chosen contender in every chosen cell, and what is written about it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::comparison::{Comparison, compare};
use crate::figures::{Column, delivery, inner_workings};
use crate::metrics::{lateness_us_p99, run_stats};
use crate::report::{self, CellFigures};
use crate::scenario::{Cell, Contender, Scenario};
use crate::summary::{Environment, Run, SCHEMA, Summary, medians};
use crate::{Backend, LabError, Plan, RunRecord, Sample, netns, series};

/// What of a scenario to run, and where to write.
#[derive(Clone, Debug)]
pub struct Options {
    /// Labels; all contenders if empty.
    pub only: Vec<String>,
    /// Cells; the headline if empty, every cell if it holds `all`.
    pub cells: Vec<String>,
    /// Runs of each contender in each cell; the scenario's number if absent.
    pub runs: Option<u32>,
    /// The first run's seed; repeats count on from it.
    pub seed: u64,
    /// Directory for everything written; made if need be.
    pub out: PathBuf,
}

/// What happens, for those who watch.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run begins: number `index` (from 1) of `total`.
    Begin {
        /// The run.
        plan: Plan<'a>,
        /// Counted from 1.
        index: usize,
        /// Of the experiment.
        total: usize,
    },
    /// It goes on.
    Sample(&'a Sample),
    /// It is over.
    Done(&'a Run),
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// As written to `summary.json`.
    pub summary: Summary,
    /// Beside references and aims.
    pub comparisons: Vec<Comparison>,
    /// For each cell.
    pub figures: Vec<CellFigures>,
    /// Where the report is.
    pub report: PathBuf,
}

impl Options {
    fn contenders<'a>(&self, scenario: &'a Scenario) -> Result<Vec<&'a Contender>, LabError> {
        if self.only.is_empty() {
            return Ok(scenario.contenders.iter().collect());
        }
        let known =
            || scenario.contenders.iter().map(|c| c.label.as_ref().as_str()).collect::<Vec<_>>().join(", ");
        let find = |label: &String| {
            let found = scenario.contender(label);
            found.ok_or_else(|| {
                LabError::Failed(format!("{}: no contender `{label}`; there are {}", scenario.name, known()))
            })
        };
        self.only.iter().map(find).collect()
    }

    fn cells<'a>(&self, scenario: &'a Scenario) -> Result<Vec<&'a Cell>, LabError> {
        if self.cells.is_empty() {
            return Ok(vec![scenario.headline()]);
        }
        if self.cells.iter().any(|cell| cell == "all") {
            return Ok(scenario.cells.iter().collect());
        }
        let known = || scenario.cells.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
        let find = |name: &String| {
            let found = scenario.cell(name);
            found.ok_or_else(|| {
                LabError::Failed(format!("{}: no cell `{name}`; there are all, {}", scenario.name, known()))
            })
        };
        self.cells.iter().map(find).collect()
    }
}

fn write(path: &Path, what: &str) -> Result<(), LabError> {
    fs::write(path, what).map_err(|e| LabError::failed(format!("writing {}", path.display()), e))
}

/// Runs everything and writes `summary.json`, CSV series, figures and `report.html`. What was finished before an error or an
/// interruption is written too.
///
/// # Errors
/// The first run that failed, or what could not be written.
pub fn run(
    scenario: &Scenario,
    backend: &mut dyn Backend,
    options: &Options,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, LabError> {
    let (contenders, cells) = (options.contenders(scenario)?, options.cells(scenario)?);
    fs::create_dir_all(&options.out)
        .map_err(|e| LabError::failed(format!("making {}", options.out.display()), e))?;
    let repeats = options.runs.unwrap_or(scenario.runs);
    let total = cells.len() * contenders.len() * repeats as usize;
    let mut runs: Vec<Run> = Vec::new();
    let mut figures = Vec::new();
    let mut failure = None;
    'cells: for cell in cells {
        let mut shown: Vec<RunRecord> = Vec::new();
        for contender in &contenders {
            let mut records = Vec::new();
            let mut stats = Vec::new();
            for repeat in 0..repeats {
                let plan = Plan {
                    scenario,
                    contender,
                    cell,
                    repeat,
                    seed: options.seed.wrapping_add(u64::from(repeat)),
                };
                watch(Event::Begin { plan, index: runs.len() + stats.len() + 1, total });
                let record = match backend.run(&plan, &mut |sample| watch(Event::Sample(sample))) {
                    Ok(record) => record,
                    Err(e) => {
                        failure = Some(e);
                        break;
                    }
                };
                let run = run_stats(&plan, &record);
                let dir = options.out.join("series").join(format!("{}_{}_{repeat}", cell.name, run.label));
                series::write_csv(&record, *scenario.duration_s.as_ref(), &dir)
                    .map_err(|e| LabError::failed("writing series", e))?;
                watch(Event::Done(&run));
                records.push(record);
                stats.push(run);
            }
            shown.extend(typical(records, &stats));
            runs.extend(stats);
            if failure.is_some() {
                figures.extend(draw(scenario, cell, &shown, &options.out)?);
                break 'cells;
            }
        }
        figures.extend(draw(scenario, cell, &shown, &options.out)?);
    }
    let outcome = conclude(scenario, backend.name(), options, runs, figures)?;
    failure.map_or(Ok(outcome), Err)
}

/// The run to show in figures: the one in the middle by latency.
fn typical(records: Vec<RunRecord>, stats: &[Run]) -> Option<RunRecord> {
    let latency = |run: &Run| run.metrics.get("app_p95_ms").copied().unwrap_or(0.0);
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by(|a, b| latency(&stats[*a]).total_cmp(&latency(&stats[*b])));
    let middle = *order.get(order.len() / 2)?;
    records.into_iter().nth(middle)
}

fn draw(
    scenario: &Scenario,
    cell: &Cell,
    shown: &[RunRecord],
    out: &Path,
) -> Result<Option<CellFigures>, LabError> {
    if shown.is_empty() {
        return Ok(None);
    }
    let dir = out.join("figures");
    fs::create_dir_all(&dir).map_err(|e| LabError::failed("making the figures' directory", e))?;
    let columns: Vec<Column<'_>> = shown.iter().map(|run| Column { label: &run.label, run }).collect();
    let file = |kind: &str| dir.join(format!("{}_{kind}", cell.name));
    let mut figures = vec![(
        "Latency of each packet from application to application, what was received, and what was sent on each path (100 ms bins).".to_owned(),
        delivery(scenario, &columns).save(&file("delivery"))?,
    )];
    let workings = inner_workings(scenario, &columns);
    figures.push((
        "What lies behind it: congestion window, rates, the queue at the bottleneck, round-trip times."
            .to_owned(),
        workings.save(&file("workings"))?,
    ));
    let lateness_us_p99 = lateness_us_p99(shown.iter().flat_map(|run| &run.paths));
    Ok(Some(CellFigures { cell: cell.name.clone(), figures, lateness_us_p99 }))
}

fn conclude(
    scenario: &Scenario,
    backend: &'static str,
    options: &Options,
    runs: Vec<Run>,
    figures: Vec<CellFigures>,
) -> Result<Outcome, LabError> {
    let summary = Summary {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("MPDCCP_COMMIT"),
        seed: options.seed,
        scenario: scenario.name.clone(),
        backend,
        environment: Environment {
            kernel: netns::kernel(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            link_lateness_us_p99: runs.iter().filter_map(|r| r.link_lateness_us_p99).max_by(f64::total_cmp),
        },
        medians: medians(&runs),
        runs,
    };
    let json =
        serde_json::to_string_pretty(&summary).map_err(|e| LabError::failed("writing summary.json", e))?;
    write(&options.out.join("summary.json"), &(json + "\n"))?;
    let comparisons = compare(scenario, &summary.medians);
    let report = options.out.join("report.html");
    write(&report, &report::html(scenario, &summary, &comparisons, &figures))?;
    Ok(Outcome { summary, comparisons, figures, report })
}
