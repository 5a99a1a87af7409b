//! Runs an experiment: makes all runs for each chosen variant in each chosen cell, then writes the output
//! files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::comparison::{Comparison, compare};
use crate::figures::{Column, delivery, distribution, inner_workings};
use crate::metrics::lateness_us_p99;
use crate::report::{self, CellFigures};
pub use crate::runs::{Event, What};
use crate::runs::{Keep, Runs};
use crate::scenario::{Cell, Scenario, Variant};
use crate::store::{Kept, Store};
use crate::summary::{Environment, Run, SCHEMA, Summary, distinct, medians};
use crate::{Backend, LabError, Plan, RunRecord, code, export, files, series};

/// The parts of a scenario to run, and the output directory.
#[derive(Clone, Debug)]
pub struct Options {
    /// Labels of the variants to run; if empty, all variants run.
    pub only: Vec<String>,
    /// Names of the cells to run. If empty, only the headline cell runs; if one name is `all`, every cell
    /// runs.
    pub cells: Vec<String>,
    /// Number of runs for each variant in each cell. If absent, the scenario's number applies.
    pub runs: Option<u32>,
    /// Seed of the first run. Each further run uses the next higher seed.
    pub seed: u64,
    /// Maximum number of parallel runs, used only by backends in virtual time.
    pub threads: usize,
    /// Output directory, created if needed. Runs that it already contains are not repeated.
    pub out: PathBuf,
    /// Formats in which to export runs, next to the series.
    pub exports: Exports,
}

/// Files for other tools, written next to the series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exports {
    /// `PATH.pcap` for each path, for Wireshark.
    pub pcap: bool,
    /// `run.qlog`, for qvis.
    pub qlog: bool,
    /// `PATH.up` and `PATH.down` for each path, for Mahimahi.
    pub mahimahi: bool,
}

impl Exports {
    fn write(self, plan: &Plan<'_>, run: &RunRecord, dir: &Path) -> Result<(), LabError> {
        let put = |name: String, bytes: &[u8]| files::write(&dir.join(name), bytes);
        if self.qlog {
            put("run.qlog".to_owned(), export::qlog(run).as_bytes())?;
        }
        for (i, path) in run.paths.iter().enumerate().filter(|_| self.pcap) {
            put(format!("{}.pcap", path.name), &export::pcap(run, i))?;
        }
        for path in plan.paths().iter().filter(|_| self.mahimahi) {
            let [up, down] = export::mahimahi(path, plan.scenario.duration());
            put(format!("{}.up", path.name.as_ref()), up.as_bytes())?;
            put(format!("{}.down", path.name.as_ref()), down.as_bytes())?;
        }
        Ok(())
    }
}

/// Result of an experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The content of `summary.json`.
    pub summary: Summary,
    /// Comparison with references and aims.
    pub comparisons: Vec<Comparison>,
    /// Figures of each cell.
    pub figures: Vec<CellFigures>,
    /// Path of the report.
    pub report: PathBuf,
}

/// Returns the variants with these labels, or all variants if `only` is empty.
pub(crate) fn choose_variants<'a>(
    scenario: &'a Scenario,
    only: &[String],
) -> Result<Vec<&'a Variant>, LabError> {
    if only.is_empty() {
        return Ok(scenario.variants.iter().collect());
    }
    let known = || scenario.variants.iter().map(|c| c.label.as_ref().as_str()).collect::<Vec<_>>().join(", ");
    let find = |label: &String| {
        let unknown =
            || format!("{}: unknown variant `{label}`; expected one of: {}", scenario.name, known());
        scenario.variant(label).ok_or_else(|| LabError::Wrong(unknown()))
    };
    // Otherwise, a run would count twice.
    distinct(only).into_iter().map(find).collect()
}

/// Returns the cells with these names. Returns every cell if one name is `all`, and the headline cell if
/// there are no names.
pub(crate) fn choose_cells<'a>(scenario: &'a Scenario, cells: &[String]) -> Result<Vec<&'a Cell>, LabError> {
    if cells.is_empty() {
        return Ok(vec![scenario.headline()]);
    }
    if cells.iter().any(|cell| cell == "all") {
        return Ok(scenario.cells.iter().collect());
    }
    let known = || scenario.cells.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let unknown =
            || format!("{}: unknown cell `{name}`; expected one of: all, {}", scenario.name, known());
        scenario.cell(name).ok_or_else(|| LabError::Wrong(unknown()))
    };
    distinct(cells).into_iter().map(find).collect()
}

/// Makes the missing runs and writes `summary.json`, CSV series, figures and `report.html`. If an error or an
/// interruption stops the experiment, the output covers the runs that have finished.
///
/// # Errors
/// Returns the error of the first run that failed, or an output error. If the backend supports none of the
/// variants, returns the missing prerequisite.
pub fn run(
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Outcome, LabError> {
    let (outcome, failure) = partly(scenario, backend, options, watch)?;
    failure.map_or(Ok(outcome), Err)
}

/// Like [`run`], but if some runs have finished, returns the error with their outcome.
pub(crate) fn partly(
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(Outcome, Option<LabError>), LabError> {
    let mut variants = choose_variants(scenario, &options.only)?;
    let cells = choose_cells(scenario, &options.cells)?;
    let lacking = leave_out(scenario, backend, &mut variants, watch);
    if let (true, Some(why)) = (variants.is_empty(), lacking) {
        return Err(LabError::Missing(why));
    }
    let store = Store::open(&options.out.join("runs"))?;
    let repeats = options.runs.unwrap_or(scenario.runs);
    let mut plans = Vec::new();
    for cell in &cells {
        for variant in &variants {
            plans.extend((0..repeats).map(|repeat| {
                let seed = options.seed.wrapping_add(u64::from(repeat));
                Plan { scenario, variant, cell, repeat, seed }
            }));
        }
    }
    let runs = Runs { backend, store, threads: options.threads, keep: Keep::Packets };
    let (mut made, mut failure) = (Vec::new(), None);
    for result in runs.make(&plans, watch) {
        match result {
            Ok(kept) => made.push(kept),
            Err(e) => failure = failure.or(Some(e)),
        }
    }
    // If no run was made, keep the output of an earlier experiment.
    if made.is_empty()
        && let Some(e) = failure.take()
    {
        return Err(e);
    }
    let mut figures = Vec::new();
    for cell in cells {
        let here: Vec<&Kept> = made.iter().filter(|kept| kept.key.cell == cell.name).collect();
        let mut shown = Vec::new();
        for variant in &variants {
            let label = variant.label.as_ref();
            let theirs: Vec<&&Kept> = here.iter().filter(|kept| kept.key.label == *label).collect();
            let typical = typical(&theirs);
            for (i, kept) in theirs.iter().enumerate() {
                let Some(record) = runs.store.packets(&kept.key) else { continue };
                let name = format!("{}_{label}_{}", cell.name, kept.run.repeat);
                let dir = options.out.join("series").join(name);
                series::write_csv(&record, *scenario.duration_s.as_ref(), &dir)?;
                let plan = Plan { scenario, variant, cell, repeat: kept.run.repeat, seed: kept.key.seed };
                options.exports.write(&plan, &record, &dir)?;
                shown.extend(Some(record).filter(|_| Some(i) == typical));
            }
        }
        figures.extend(draw(scenario, cell, &shown, &options.out)?);
    }
    let made_by = made.iter().flat_map(|kept| kept.key.made_by.clone()).collect();
    let all = made.into_iter().map(|kept| kept.run).collect();
    Ok((conclude(scenario, (backend.name(), made_by), options, all, figures)?, failure))
}

/// Removes the variants that the backend does not support. Returns the missing prerequisite of the last
/// variant removed, if any.
fn leave_out(
    scenario: &Scenario,
    backend: &dyn Backend,
    variants: &mut Vec<&Variant>,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Option<String> {
    let (mut lacking, mut without) = (None, Vec::new());
    variants.retain(|&variant| {
        let plan = Plan { scenario, variant, cell: scenario.headline(), repeat: 0, seed: 0 };
        let tell = |what| watch(Event { plan, index: 0, ended: 0, total: 0, what });
        let Some(why) = backend.lacks(&plan) else {
            if let Some(flows) = backend.leaves_out(&plan).filter(|flows| !without.contains(flows)) {
                tell(What::LeavesOut(&flows));
                without.push(flows);
            }
            return true;
        };
        tell(What::Skipped(&why));
        lacking = Some(why);
        false
    });
    lacking
}

/// Returns the index of the run to show in figures, which is the run with the median latency.
fn typical(runs: &[&&Kept]) -> Option<usize> {
    let latency = |i: &usize| runs[*i].run.metrics.get("app_p95_ms").copied().unwrap_or(0.0);
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|a, b| latency(a).total_cmp(&latency(b)));
    order.get(order.len() / 2).copied()
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
    let labels: Vec<String> = shown.iter().map(|run| run.shown()).collect();
    let columns = shown.iter().zip(&labels).map(|(run, label)| Column { label, run });
    let columns: Vec<Column<'_>> = columns.collect();
    let file = |kind: &str| dir.join(format!("{}_{kind}", cell.name));
    let published = |shape: &str| match scenario.references.is_empty() {
        true => String::new(),
        false => format!(" {shape}: published figures."),
    };
    let mut figures = vec![(
        "Latency of each packet, between applications and on the wire; rates received, and rates sent on each path (100 ms bins)."
            .to_owned()
            + &published("Dashed lines"),
        delivery(scenario, &columns).save(&file("delivery"))?,
    )];
    if let Some(figure) = distribution(scenario, &columns) {
        figures.push((
            "Cumulative distribution of packet latency.".to_owned() + &published("Rings"),
            figure.save(&file("distribution"))?,
        ));
    }
    figures.push((
        "State of congestion control: window, rates, the queue at the bottleneck, round-trip times."
            .to_owned(),
        inner_workings(scenario, &columns).save(&file("workings"))?,
    ));
    let lateness_us_p99 = lateness_us_p99(shown.iter().flat_map(|run| &run.paths));
    Ok(Some(CellFigures { cell: cell.name.clone(), figures, lateness_us_p99 }))
}

fn conclude(
    scenario: &Scenario,
    (backend, made_by): (&'static str, BTreeMap<String, String>),
    options: &Options,
    runs: Vec<Run>,
    figures: Vec<CellFigures>,
) -> Result<Outcome, LabError> {
    let summary = Summary {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        commit: code::COMMIT,
        dirty: code::dirty(),
        seed: options.seed,
        scenario: scenario.name.clone(),
        scenario_text: scenario.document_text(),
        scenario_hash: scenario.document_hash(),
        backend,
        environment: Environment {
            cpus: (!made_by.is_empty()).then(|| std::thread::available_parallelism().map_or(1, usize::from)),
            made_by,
            link_lateness_us_p99: runs.iter().filter_map(|r| r.link_lateness_us_p99).max_by(f64::total_cmp),
        },
        medians: medians(&runs),
        runs,
    };
    let json = serde_json::to_string_pretty(&summary)
        .map_err(|e| LabError::failed("cannot write summary.json", e))?;
    files::write(&options.out.join("summary.json"), json + "\n")?;
    files::write(&options.out.join("summary.csv"), summary.csv())?;
    let comparisons = compare(scenario, &summary.runs);
    let report = options.out.join("report.html");
    files::write(&report, report::document(scenario, &summary, &comparisons, &figures).html()?)?;
    Ok(Outcome { summary, comparisons, figures, report })
}
