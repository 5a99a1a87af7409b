//! Runs every variant at every point of a scenario's `[sweep]`, and writes a CSV file with one row per run.
//! An interrupted sweep can be resumed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::comparison::aligned;
use crate::estimate::Estimate;
use crate::experiment::{choose_cells, choose_variants};
use crate::metrics::NAMES;
use crate::runs::{Event, Keep, Runs, What};
use crate::scenario::{Point, Scenario};
use crate::store::{self, Kept, Store};
use crate::summary::{Flow, distinct};
use crate::{Backend, LabError, Plan, RunRecord, Sample, files};

/// Options of a sweep.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CSV file. The directory `runs` next to it stores finished runs, which are not repeated. A file of
    /// the same name with the extension `.runs` contains all runs of this sweep, for [`merge`].
    pub out: PathBuf,
    /// The first seed.
    pub seed: u64,
    /// Maximum number of parallel runs, used only by backends in virtual time.
    pub threads: usize,
    /// Labels of the variants to run; if empty, all variants run.
    pub only: Vec<String>,
    /// Names of the cells to run. If empty, only the headline cell runs; if one name is `all`, every cell
    /// runs.
    pub cells: Vec<String>,
    /// Number of seeds for each point; if absent, the scenario's number.
    pub seeds: Option<u32>,
    /// The part of the runs to make.
    pub shard: Shard,
}

/// One part of a sweep: every `of`th run, starting with run `nth` (counted from 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    nth: usize,
    of: usize,
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { nth: 1, of: 1 }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(nth, of)| Some((nth.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((nth, of)) if 1 <= nth && nth <= of => Ok(Shard { nth, of }),
            _ => Err("expected a shard i/n with i from 1 to n, such as 2/8".to_owned()),
        }
    }
}

/// Progress of a sweep, reported whenever a run ends.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Number of ended runs.
    pub done: usize,
    /// Total number of runs.
    pub total: usize,
    /// The run's variant, cell, seed and parameter values.
    pub what: &'a str,
    /// Whether the run was found in the store.
    pub found: bool,
    /// The error, if the run failed.
    pub error: Option<&'a str>,
}

impl Progress<'_> {
    /// Reports the end of a run to `watch`. `what` describes the run.
    pub(crate) fn tell(event: &Event<'_>, what: &str, watch: impl FnOnce(&Progress<'_>)) {
        let told = |found, error| {
            watch(&Progress { done: event.ended, total: event.total, what, found, error });
        };
        match &event.what {
            What::Begin | What::Sample(_) | What::Skipped(_) | What::LeavesOut(_) => {}
            What::Done { found, .. } => told(*found, None),
            What::Failed(e) => told(false, Some(&e.to_string())),
        }
    }
}

/// Result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of runs found in the store.
    pub found: usize,
    /// Number of runs made now.
    pub made: usize,
    /// Failed runs with their errors.
    pub failed: Vec<(String, String)>,
    /// Labels of the variants that the backend does not support, with the missing prerequisite.
    pub skipped: BTreeMap<String, String>,
    /// Text with the medians over the seeds of the metrics in `show`.
    pub table: String,
    /// The same medians as numbers, in sweep order.
    pub medians: Vec<Median>,
}

/// Medians of one variant at one point in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Median {
    /// Label of the variant.
    pub label: String,
    /// Name of the cell.
    pub cell: String,
    /// Values of the parameters, in the order of their names.
    pub values: Vec<String>,
    /// Number of runs.
    pub runs: usize,
    /// Estimates over the seeds for the metrics in `show`, in order.
    pub shown: Vec<Option<Estimate>>,
}

impl Median {
    /// Returns the estimate of the metric at index `at` of `show` as text for a table.
    pub(crate) fn text(&self, at: usize) -> String {
        self.shown.get(at).copied().flatten().map_or("–".to_owned(), |value| value.text_of(self.runs))
    }
}

/// A run to be made, with its values for the first columns of the CSV file.
struct Job<'a> {
    key: Vec<String>,
    values: &'a [String],
    plan: Plan<'a>,
}

/// Quotes a CSV field (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn line(fields: &[String]) -> String {
    fields.iter().map(|f| field(f)).collect::<Vec<_>>().join(",")
}

/// Makes the missing runs, and writes the CSV file in the order of the sweep.
///
/// # Errors
/// Fails if the scenario has no sweep or an invalid point, if the name of the CSV file does not end with
/// `.csv`, if the backend supports none of the variants, if the user interrupts the sweep, or if a file
/// cannot be read or written. If a run fails, the function continues, and lists the run in
/// [`Outcome::failed`].
pub fn run(
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    watch: &(dyn Fn(&Progress<'_>) + Sync),
) -> Result<Outcome, LabError> {
    // Other names could be those of the stored runs, or of the runs of another CSV file.
    if options.out.extension().is_none_or(|extension| extension != "csv") {
        let what = "the name of the CSV file must end with .csv";
        return Err(LabError::Wrong(format!("--out {}: {what}", options.out.display())));
    }
    let wrong = |e: crate::scenario::ScenarioError| LabError::Wrong(e.to_string());
    let cells: Vec<&str> =
        choose_cells(scenario, &options.cells)?.into_iter().map(|cell| cell.name.as_str()).collect();
    let points = scenario.points(&cells).map_err(wrong)?;
    let seeds = options.seeds.or(scenario.sweep.as_ref().map(|s| s.seeds)).unwrap_or(1);
    let mut jobs = jobs(&points, &cells, seeds, options)?;
    // Divide before leaving anything out, so that all machines divide the same list.
    let Shard { nth, of } = options.shard;
    jobs = jobs.into_iter().skip(nth - 1).step_by(of).collect();
    let skipped = leave_out(backend, &mut jobs);
    if let (true, 1, Some(why)) = (jobs.is_empty(), of, skipped.values().next()) {
        return Err(LabError::Missing(why.clone()));
    }
    let runs = Runs {
        backend,
        store: Store::open(&beside(&options.out))?,
        threads: options.threads,
        keep: Keep::Figures,
    };
    let plans: Vec<Plan<'_>> = jobs.iter().map(|job| job.plan).collect();
    let results = runs.make(&plans, &|event| {
        Progress::tell(&event, &line(&jobs[event.index].key), watch);
    });
    let mut outcome = Outcome { skipped, ..Outcome::default() };
    let mut made: Vec<(&Job<'_>, Kept)> = Vec::new();
    // Report the finished runs even if something stopped the sweep.
    let mut stopped = None;
    for (job, result) in jobs.iter().zip(results) {
        match result {
            Ok(kept) => made.push((job, kept)),
            Err(LabError::Failed(why)) => outcome.failed.push((line(&job.key), why)),
            Err(e) => stopped = stopped.or(Some(e)),
        }
    }
    // If no run was made, keep the output of an earlier sweep.
    if made.is_empty()
        && let Some(e) = stopped.take()
    {
        return Err(e);
    }
    outcome.found = made.iter().filter(|(_, kept)| kept.found).count();
    outcome.made = made.len() - outcome.found;
    let Some(sweep) = &scenario.sweep else { return stopped.map_or(Ok(outcome), Err) };
    let parameters: Vec<String> = sweep.parameters.keys().cloned().collect();
    files::write(&options.out, csv(&parameters, &made))?;
    store::pack(&packed(&options.out), made.iter().map(|(_, kept)| kept))?;
    outcome.medians = medians(&made, &sweep.show);
    outcome.table = table(&parameters, &sweep.show, &outcome.medians);
    stopped.map_or(Ok(outcome), Err)
}

/// Merges shards. It imports the runs from the `.runs` files next to the shards' CSV files `parts`, and
/// writes the complete CSV file.
///
/// # Errors
/// Fails in the same cases as [`run`], and if a shard's runs cannot be read. [`Outcome::failed`] lists runs
/// that no shard made.
pub fn merge(
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    parts: &[PathBuf],
    watch: &(dyn Fn(&Progress<'_>) + Sync),
) -> Result<Outcome, LabError> {
    let store = Store::open(&beside(&options.out))?;
    for part in parts {
        store.gather(&packed(part))?;
    }
    run(scenario, &Nowhere(backend), options, watch)
}

/// Returns the path of the `.runs` file that belongs to a CSV file.
fn packed(csv: &Path) -> PathBuf {
    csv.with_extension("runs")
}

/// Returns the directory of the store that belongs to a CSV file.
fn beside(csv: &Path) -> PathBuf {
    csv.parent().unwrap_or(Path::new("")).join("runs")
}

/// A backend for merging shards. It has the properties of the shards' backend, but makes no runs.
struct Nowhere<'a>(&'a dyn Backend);

impl Backend for Nowhere<'_> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn lacks(&self, plan: &Plan<'_>) -> Option<String> {
        self.0.lacks(plan)
    }

    fn made_by(&self, plan: &Plan<'_>) -> BTreeMap<String, String> {
        self.0.made_by(plan)
    }

    fn run(&self, _: &Plan<'_>, _: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        let why = "no shard made this run with the same program and scenario (and, on namespaces, the same kernel and external programs)";
        Err(LabError::Failed(why.to_owned()))
    }
}

fn jobs<'a>(
    points: &'a [Point],
    cells: &[&str],
    seeds: u32,
    options: &Options,
) -> Result<Vec<Job<'a>>, LabError> {
    let mut jobs = Vec::new();
    for cell in cells {
        for at in points {
            let scenario = &at.scenario;
            let cell =
                scenario.cell(cell).ok_or_else(|| LabError::Failed(format!("unknown cell `{cell}`")))?;
            for variant in choose_variants(scenario, &options.only)? {
                for repeat in 0..seeds {
                    let seed = options.seed.wrapping_add(u64::from(repeat));
                    let first = [variant.label.as_ref().clone(), cell.name.clone(), seed.to_string()];
                    let key = [&first[..], &at.values].concat();
                    let plan = Plan { scenario, variant, cell, repeat, seed };
                    jobs.push(Job { key, values: &at.values, plan });
                }
            }
        }
    }
    Ok(jobs)
}

/// Removes the runs of variants that the backend does not support. Returns the labels of these variants, with
/// the missing prerequisite.
fn leave_out(backend: &dyn Backend, jobs: &mut Vec<Job<'_>>) -> BTreeMap<String, String> {
    let mut skipped = BTreeMap::new();
    jobs.retain(|job| match backend.lacks(&job.plan) {
        Some(why) => {
            skipped.insert(job.plan.variant.label.as_ref().clone(), why);
            false
        }
        None => true,
    });
    skipped
}

/// A column's name, and each flow's value in it (from the last phase).
type Column = (&'static str, fn(&Flow) -> Option<f64>);
const OF_FLOWS: [Column; 4] = [
    ("rx_mbps", |flow| Some(flow.phases.last()?.rx_mbps)),
    ("app_p50_ms", |flow| Some(flow.phases.last()?.app_latency_ms?.p50)),
    ("app_p95_ms", |flow| Some(flow.phases.last()?.app_latency_ms?.p95)),
    ("lost_pct", |flow| flow.lost_pct),
];

/// Returns the content of the CSV file. Each row has the parameters, all metrics, the metrics of each flow if
/// there are several flows, and the run's inputs.
fn csv(parameters: &[String], made: &[(&Job<'_>, Kept)]) -> String {
    let several = made.iter().map(|(_, kept)| &kept.run.flows).filter(|flows| flows.len() > 1);
    let flows: Vec<&str> = distinct(several.flatten().map(|flow| flow.name.as_str()));
    let of_flows = || flows.iter().flat_map(|flow| OF_FLOWS.iter().map(move |column| (*flow, column)));
    let mut header: Vec<String> = ["variant", "cell", "seed"].map(str::to_owned).into();
    header.extend(parameters.iter().cloned());
    header.extend(NAMES.iter().map(|(name, _)| (*name).to_owned()));
    header.extend(of_flows().map(|(flow, (metric, _))| format!("{flow}:{metric}")));
    header.extend(["backend", "program", "resolved_hash"].map(str::to_owned));
    let number = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.4}"));
    let row = |(job, kept): &(&Job<'_>, Kept)| {
        let mut row = job.key.clone();
        row.extend(NAMES.iter().map(|(name, _)| number(kept.run.metrics.get(*name).copied())));
        row.extend(of_flows().map(|(flow, (_, value))| {
            number(kept.run.flows.iter().find(|f| f.name == flow).and_then(value))
        }));
        row.extend([&kept.key.backend, &kept.key.code, &kept.key.scenario].map(Clone::clone));
        line(&row) + "\n"
    };
    line(&header) + "\n" + &made.iter().map(row).collect::<String>()
}

/// Returns the medians over the seeds of the metrics in `show`, for each variant at each point.
fn medians(made: &[(&Job<'_>, Kept)], show: &[String]) -> Vec<Median> {
    let mut groups: Vec<(&Job<'_>, Vec<&Kept>)> = Vec::new();
    let mut place = BTreeMap::new();
    for (job, kept) in made {
        let at = *place.entry((&kept.key.cell, &kept.key.label, job.values)).or_insert(groups.len());
        if at == groups.len() {
            groups.push((job, Vec::new()));
        }
        groups[at].1.push(kept);
    }
    let summarise = |(job, kept): (&Job<'_>, Vec<&Kept>)| {
        let of = |metric: &String| {
            let values: Vec<f64> = kept.iter().filter_map(|k| k.run.metrics.get(metric).copied()).collect();
            Estimate::of(&values)
        };
        Median {
            label: job.key[0].clone(),
            cell: job.key[1].clone(),
            values: job.values.to_vec(),
            runs: kept.len(),
            shown: show.iter().map(of).collect(),
        }
    };
    groups.into_iter().map(summarise).collect()
}

/// Formats medians as text, with a line for each variant at each point.
fn table(parameters: &[String], show: &[String], medians: &[Median]) -> String {
    let titles = [&["variant".to_owned(), "cell".to_owned()], parameters, show].concat();
    let line = |m: &Median| {
        let shown = (0..m.shown.len()).map(|at| m.text(at)).collect();
        [vec![m.label.clone(), m.cell.clone()], m.values.clone(), shown].concat()
    };
    let lines: Vec<Vec<String>> = std::iter::once(titles).chain(medians.iter().map(line)).collect();
    aligned("", &lines)
}
