//! One experiment of a set: its runs or its sweep, and what the report says of it.

use std::fmt::Write as _;
use std::path::Path;

use super::options::{Options, Progress};
use super::spec::SectionSpec;
use super::table::of_comparisons;
use super::{ratio, swept};
use crate::bounds::Bounds;
use crate::experiment;
use crate::figures::over_parameter;
use crate::report::{self, escape};
use crate::scenario::Scenario;
use crate::{Backend, LabError, Plan, sweep};

/// Runs of each variant of a quick reproduction in real time; in virtual time one is enough to see that all works.
const QUICK_RUNS: u32 = 3;

/// What stands in the report.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) html: String,
    pub(super) markdown: String,
}

/// Whether `backend` lacks something for every variant of a section.
pub(super) fn lacking(
    spec: &SectionSpec,
    scenario: &Scenario,
    backend: &dyn Backend,
) -> Result<bool, LabError> {
    let variants = experiment::choose_variants(scenario, &spec.variants)?;
    let plan = |variant| Plan { scenario, variant, cell: scenario.headline(), repeat: 0, seed: 0 };
    Ok(variants.into_iter().all(|variant| backend.lacks(&plan(variant)).is_some()))
}

/// Makes what is missing of a section and writes it.
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
        Ok((html, markdown)) => Ok(Section { title, html, markdown }),
        Err(LabError::Failed(why)) => {
            watch(Progress::Failed(&why));
            let html = format!("<p>Failed: {}</p>\n", escape(&why));
            Ok(Section { title, html, markdown: format!("Failed: {why}\n") })
        }
        Err(e) => Err(e),
    }
}

impl SectionSpec {
    /// Its directory.
    pub(super) fn name_for_files(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
        format!("{}_{}", self.scenario, self.name).chars().map(plain).collect()
    }
}

/// Variants over time: the figure as the paper draws it, sentences and a table.
fn runs(
    spec: &SectionSpec,
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    cells: Vec<String>,
    out: &Path,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(String, String), LabError> {
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
    let outcome = experiment::run(scenario, backend, &chosen, &|event| watch(Progress::Run(event)))?;
    let n = outcome.comparisons.iter().map(|c| c.n).min().unwrap_or(0);
    let made = made_by(backend, n, options.seed);
    let mut html = format!("<p>{} {made}</p>\n", escape(scenario.about.trim()));
    let mut markdown = format!("{made}\n\n");
    if !spec.alone.is_empty() {
        let baselines = scenario.variants.iter().filter(|c| c.baseline.is_some());
        let baselines: Vec<&str> = baselines.map(|c| c.label.as_ref().as_str()).collect();
        let least = |min| Bounds { min, max: None };
        let (table, sentences) = ratio::beside_alone(
            &outcome.comparisons,
            (&spec.alone, least(spec.of_best), least(spec.of_sum)),
            &baselines,
        );
        report::list(&mut html, &sentences);
        for sentence in sentences {
            let _ = writeln!(markdown, "- {sentence}");
        }
        html += &table.html();
        let _ = writeln!(markdown, "\n{}", table.markdown());
    }
    let headline = &scenario.headline().name;
    for cell in &outcome.figures {
        let title = if outcome.figures.len() > 1 {
            format!("<h3>{}</h3>\n", escape(&cell.cell))
        } else {
            String::new()
        };
        html += &title;
        // The inner workings are in the experiment's own report.
        let mut cell = cell.clone();
        cell.figures.truncate(1);
        if cell.cell != *headline {
            cell.figures.clear();
        }
        report::cell_html(&mut html, scenario, &outcome.comparisons, &cell);
        if cell.cell == *headline {
            for sentence in crate::sentences::sentences(scenario, &outcome.comparisons, &cell.cell) {
                let _ = writeln!(markdown, "- {sentence}");
            }
            markdown.push('\n');
        }
    }
    for table in of_comparisons(&outcome.comparisons, &spec.metrics) {
        markdown += &table.markdown();
        markdown.push('\n');
    }
    Ok((html, markdown))
}

fn made_by(backend: &dyn Backend, n: u64, seed: u64) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("Backend {}, medians of {n} run{plural}{}, seeds from {seed}.", backend.name(), report::spread(n))
}

/// Variants over parameters.
fn swept(
    spec: &SectionSpec,
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
    cells: Vec<String>,
    out: &Path,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(String, String), LabError> {
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
    let made = made_by(backend, seeds.into(), options.seed);
    let mut html = format!("<p>{} {made}</p>\n", escape(scenario.about.trim()));
    let mut markdown = format!("{made}\n\n");
    let sentences = swept::sentences(scenario, &outcome);
    report::list(&mut html, &sentences);
    for sentence in sentences {
        let _ = writeln!(markdown, "- {sentence}");
    }
    if let Some(sweep) = &scenario.sweep
        && let [parameter] = sweep.parameters.keys().collect::<Vec<_>>()[..]
        && let Some(figure) = over_parameter(parameter, &sweep.show, &outcome.medians)
    {
        let caption = format!("Medians over the seeds{}.", report::spread(seeds.into()));
        html += &report::figure(&figure.save(&out.join("sweep"))?, &caption);
    }
    let table = swept::table(scenario, &outcome);
    html += &table.html();
    let _ = write!(markdown, "\n{}", table.markdown());
    Ok((html, markdown))
}
