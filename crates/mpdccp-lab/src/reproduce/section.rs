//! Makes one experiment of a set (runs or a sweep), and writes its section of the report.

use std::path::Path;

use super::options::{Options, Progress};
use super::spec::SectionSpec;
use super::table::of_comparisons;
use super::{ratio, swept};
use crate::bounds::Bounds;
use crate::document::{Section, Shown};
use crate::experiment;
use crate::figures::over_parameter;
use crate::report;
use crate::scenario::Scenario;
use crate::{Backend, LabError, Plan, sweep};

/// Number of runs of each variant in a quick reproduction in real time. In virtual time, a quick reproduction
/// makes one run.
const QUICK_RUNS: u32 = 3;

/// If `backend` supports none of a section's variants, returns the missing prerequisite.
pub(super) fn lacking(
    spec: &SectionSpec,
    scenario: &Scenario,
    backend: &dyn Backend,
) -> Result<bool, LabError> {
    let variants = experiment::choose_variants(scenario, &spec.variants)?;
    let plan = |variant| Plan { scenario, variant, cell: scenario.headline(), repeat: 0, seed: 0 };
    Ok(variants.into_iter().all(|variant| backend.lacks(&plan(variant)).is_some()))
}

/// Makes the missing runs of a section and returns the section.
pub(super) fn make(
    spec: &SectionSpec,
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Section, LabError> {
    let out = options.out.join(spec.name_for_files());
    let title = format!("{}: {}", spec.name, scenario.title);
    let cells = if options.quick { spec.quick_cells.clone() } else { spec.cells.clone() };
    let made = if scenario.sweep.is_some() {
        swept(spec, scenario, backend, options, cells, &out, watch)
    } else {
        runs(spec, scenario, backend, options, cells, &out, watch)
    };
    match made {
        Ok(section) => Ok(Section { title, ..section }),
        Err(LabError::Failed(why) | LabError::Command(why)) => {
            watch(Progress::Failed(&why));
            Ok(Section { title, about: format!("Failed: {why}"), ..Section::default() })
        }
        Err(e) => Err(e),
    }
}

impl SectionSpec {
    /// Returns the name of the section's directory.
    pub(super) fn name_for_files(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
        format!("{}_{}", self.scenario, self.name).chars().map(plain).collect()
    }
}

/// Runs the experiment and returns its section of the report: the first figure and the sentences of the
/// headline cell, and the tables of all cells.
fn runs(
    spec: &SectionSpec,
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    cells: Vec<String>,
    out: &Path,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Section, LabError> {
    let wanted = spec.runs.unwrap_or(scenario.runs);
    let quick_runs = if backend.parallel() { 1 } else { QUICK_RUNS.min(wanted) };
    let chosen = experiment::Options {
        only: spec.variants.clone(),
        cells,
        runs: Some(if options.quick { quick_runs } else { wanted }),
        seed: options.seed,
        threads: options.threads,
        out: out.to_owned(),
        exports: experiment::Exports::default(),
    };
    let (outcome, failure) =
        experiment::partly(scenario, backend, &chosen, &|event| watch(Progress::Run(event)))?;
    let failed = match failure {
        Some(LabError::Failed(why)) => Some(why),
        Some(e) => return Err(e),
        None => None,
    };
    let n = outcome.comparisons.iter().map(|c| c.n).min().unwrap_or(0);
    let mut section = Section { about: about(scenario, backend, n, options.seed), ..Section::default() };
    if !spec.alone.is_empty() {
        let baselines = scenario.variants.iter().filter(|c| c.baseline.is_some());
        let baselines: Vec<&str> = baselines.map(|c| c.label.as_ref().as_str()).collect();
        let least = |min| Bounds { min, max: None };
        let (table, sentences) = ratio::beside_alone(
            &outcome.comparisons,
            (&spec.alone, least(spec.of_best), least(spec.of_sum)),
            &baselines,
        );
        section.sentences = sentences;
        section.tables.push(table);
    }
    // The report of the set shows only the headline cell. The experiment's own report has the other cells and
    // the figures of the inner workings.
    let headline = &scenario.headline().name;
    for cell in outcome.figures.iter().filter(|cell| cell.cell == *headline) {
        let own = report::section(scenario, &outcome.comparisons, cell);
        section.figures.extend(own.figures.into_iter().take(1));
        section.sentences.extend(own.sentences);
    }
    section.tables.extend(of_comparisons(&outcome.comparisons, &spec.metrics));
    if let Some(why) = failed {
        watch(Progress::Failed(&why));
        section.sentences.push(format!("At least one run failed: {why}."));
    }
    Ok(section)
}

fn about(scenario: &Scenario, backend: &dyn Backend, n: u64, seed: u64) -> String {
    let (about, plural) = (scenario.about.trim(), if n == 1 { "" } else { "s" });
    let (backend, spread) = (backend.name(), report::spread(n));
    format!("{about} Backend {backend}, medians of {n} run{plural}{spread}, seeds from {seed}.")
        .trim()
        .to_owned()
}

/// Makes a section of a sweep.
fn swept(
    spec: &SectionSpec,
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    cells: Vec<String>,
    out: &Path,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Section, LabError> {
    let wanted = spec.runs.or(scenario.sweep.as_ref().map(|s| s.seeds)).unwrap_or(1);
    let seeds = if options.quick { 1 } else { wanted };
    let chosen = sweep::Options {
        out: out.join("sweep.csv"),
        seed: options.seed,
        threads: options.threads,
        only: spec.variants.clone(),
        cells,
        seeds: Some(seeds),
        shard: sweep::Shard::default(),
    };
    let outcome = sweep::run(scenario, backend, &chosen, &|progress| watch(Progress::Sweep(progress)))?;
    outcome.failed.iter().for_each(|(_, why)| watch(Progress::Failed(why)));
    let mut figures = Vec::new();
    if let Some(sweep) = &scenario.sweep
        && let [parameter] = sweep.parameters.keys().collect::<Vec<_>>()[..]
        && let Some(figure) = over_parameter(parameter, &sweep.show, &scenario.labels(), &outcome.medians)
    {
        let caption = format!("Medians over the seeds{}.", report::spread(seeds.into()));
        figures.push(Shown { caption, html: figure.save(&out.join("sweep"))? });
    }
    Ok(Section {
        title: String::new(),
        about: about(scenario, backend, seeds.into(), options.seed),
        figures,
        tables: vec![swept::table(scenario, &outcome)],
        sentences: swept::sentences(scenario, &outcome),
    })
}
