//! The set `robustness`: every CCID on typical access links, judged point by point; and the set `switches`: the effect of each deviation of
//! CCID 5 from its draft.

mod judge;
mod matrix;

use std::collections::BTreeMap;
use std::path::PathBuf;

use judge::Aim;
use matrix::{Class, Point};

use dccp_cc::BBR1_WITHOUT;
use toml::Spanned;

use super::options::{Options, Progress};
use crate::document::{Document, Section, Table};
use crate::estimate::{Estimate, Verdict};
use crate::runs::{Keep, Runs};
use crate::scenario::{Scenario, Variant};
use crate::sim::Sim;
use crate::store::{AllSeries, Kept, Store};
use crate::{LabError, Plan, sweep};

/// The sets' names.
pub(super) const NAMES: [&str; 2] = [CCIDS, SWITCHES];
const CCIDS: &str = "robustness";
const SWITCHES: &str = "switches";

/// The variant whose switches are varied.
const TUNED: &str = "ccid5";

/// Columns of a set's report.
fn variants(set: &str) -> Vec<&'static str> {
    match set {
        SWITCHES => core::iter::once(TUNED).chain(BBR1_WITHOUT.iter().map(|(name, _)| *name)).collect(),
        _ => vec!["ccid2", TUNED, "ccid5-draft", "ccid7", "ccid250"],
    }
}

/// The variant whose aims apply.
fn judged_as(label: &'static str) -> &'static str {
    if BBR1_WITHOUT.iter().any(|(name, _)| *name == label) { TUNED } else { label }
}

/// Adds the variants that each lack one switch.
fn add_switches(scenario: &mut Scenario) {
    let Some(tuned) = scenario.variant(TUNED).cloned() else { return };
    for (name, _) in BBR1_WITHOUT {
        let label = Spanned::new(tuned.label.span(), (*name).to_owned());
        scenario.variants.push(Variant { label, without: Some(name), ..tuned.clone() });
    }
}

/// The variant that measures the path's own latency.
const THIN: &str = "udp";

struct Job<'a> {
    class: &'a Class,
    point: &'a Point,
    scenario: &'a Scenario,
    label: &'static str,
}

impl<'a> Job<'a> {
    fn plan(&self, seed: u64) -> Result<Plan<'a>, LabError> {
        let scenario = self.scenario;
        let variant = scenario.variant(self.label);
        let variant = variant.ok_or_else(|| LabError::Failed(format!("unknown variant `{}`", self.label)))?;
        Ok(Plan { scenario, variant, cell: scenario.headline(), repeat: 0, seed })
    }
}

/// Makes the missing runs and writes the report; always in the simulator.
pub(super) fn run(
    set: &str,
    options: &Options,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<PathBuf, LabError> {
    let matrix = matrix::read()?;
    let known = |name: &String| matrix.classes.iter().any(|class| class.name == *name);
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = matrix.classes.iter().map(|class| class.name.as_str()).collect();
        return Err(LabError::Wrong(format!(
            "unknown class `{unknown}`; expected one of: {}",
            names.join(", ")
        )));
    }
    let wanted = |class: &&Class| options.only.is_empty() || options.only.contains(&class.name);
    let classes: Vec<(&Class, Vec<Point>)> = matrix
        .classes
        .iter()
        .filter(wanted)
        .map(|class| Ok((class, matrix.points(class, options.quick)?)))
        .collect::<Result<_, LabError>>()?;
    let variants = variants(set);
    let mut classes = classes;
    if set == SWITCHES {
        classes.iter_mut().flat_map(|(_, points)| points).for_each(|p| add_switches(&mut p.scenario));
    }
    let results = make(&classes, &variants, options, watch)?;
    let title = match set {
        SWITCHES => "CCID 5 on access links, with all its switches and without each of them",
        _ => &matrix.title,
    };
    let quick = if options.quick { " --quick" } else { "" };
    let command = format!("mpdccp lab reproduce {set}{quick} --seed {}", options.seed);
    let mut document = Document::new(title, &command);
    let mut sums = Vec::new();
    for (class, points) in &classes {
        let Some(first) = points.first() else { continue };
        let (table, met) = table(class, points, &variants, &results);
        sums.push((class.name.clone(), met));
        let aims: Vec<String> = first.aims.iter().map(Aim::text).collect();
        document.sections.push(Section {
            title: class.name.clone(),
            about: format!("{}; ✗: missed.", aims.join("; ")),
            tables: vec![table],
            ..Section::default()
        });
    }
    let summary = Section { tables: vec![summary(&variants, &sums)], ..Section::default() };
    document.sections.insert(0, summary);
    let path = options.out.join("report.html");
    document.write(&path)?;
    Ok(path)
}

/// Figures of all runs by class, point and variant.
type Results = BTreeMap<(String, String, &'static str), Result<AllSeries, String>>;

fn make(
    classes: &[(&Class, Vec<Point>)],
    variants: &[&'static str],
    options: &Options,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Results, LabError> {
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (class, points) in classes {
        for point in points {
            let thin = point.thin.as_ref().map(|scenario| (scenario, THIN));
            for (scenario, label) in variants.iter().map(|label| (&point.scenario, *label)).chain(thin) {
                jobs.push(Job { class, point, scenario, label });
            }
        }
    }
    let plans: Vec<Plan<'_>> =
        jobs.iter().map(|job| job.plan(options.seed)).collect::<Result<_, LabError>>()?;
    let sim = Sim::default();
    let skips: Vec<(&Scenario, f64)> = jobs.iter().map(|job| (job.scenario, job.point.skip_s)).collect();
    let skip = |plan: &Plan<'_>| {
        skips.iter().find(|(scenario, _)| core::ptr::eq(*scenario, plan.scenario)).map_or(0.0, |(_, s)| *s)
    };
    let runs = Runs {
        backend: &sim,
        store: Store::open(&options.out.join("runs"))?,
        threads: options.threads,
        keep: Keep::Series(&|plan, run| judge::series(plan, run, skip(plan))),
    };
    let made = runs.make(&plans, &|event| {
        let job = &jobs[event.index];
        let what = format!("{}: {}: {}", job.class.name, job.point.name, job.label);
        sweep::Progress::tell(&event, &what, |progress| watch(Progress::Sweep(progress)));
    });
    let mut results = Results::new();
    for (job, made) in jobs.iter().zip(made) {
        let series = match made {
            Ok(Kept { series, .. }) => Ok(series),
            Err(LabError::Failed(why)) => Err(why),
            Err(e) => return Err(e),
        };
        results.insert((job.class.name.clone(), job.point.name.clone(), job.label), series);
    }
    Ok(results)
}

/// Number of aims met and judged, by variant.
type Sums = BTreeMap<&'static str, (u32, u32)>;

/// A class's table, and its sums.
fn table(class: &Class, points: &[Point], variants: &[&'static str], results: &Results) -> (Table, Sums) {
    let mut sums = Sums::new();
    let mut row = |point: &Point| {
        let cells = variants.iter().map(|&label| {
            let (text, met) = cell(class, point, label, results);
            let sum = sums.entry(label).or_default();
            sum.0 += u32::from(met == Some(true));
            sum.1 += u32::from(met.is_some());
            text
        });
        std::iter::once(point.name.clone()).chain(cells).collect()
    };
    let rows = points.iter().map(&mut row).collect();
    let head = std::iter::once("").chain(variants.iter().copied()).map(str::to_owned).collect();
    (Table { head, rows, ..Table::default() }, sums)
}

/// Points that meet their aims, of those with an aim, by class.
fn summary(variants: &[&'static str], classes: &[(String, Sums)]) -> Table {
    let sum = |label: &str| {
        let of_class = classes.iter().filter_map(|(_, sums)| sums.get(label));
        of_class.fold((0, 0), |sum, (met, of)| (sum.0 + met, sum.1 + of))
    };
    let all: Sums =
        variants.iter().map(|label| (*label, sum(label))).filter(|(_, (_, of))| *of > 0).collect();
    let judged: Vec<&str> = variants.iter().copied().filter(|label| all.contains_key(label)).collect();
    let row = |name: &str, sums: &Sums| {
        let text = |label: &&str| match sums.get(label) {
            Some((met, of)) if *of > 0 => format!("{met} of {of}"),
            _ => String::new(),
        };
        std::iter::once(name.to_owned()).chain(judged.iter().map(text)).collect::<Vec<_>>()
    };
    let head =
        std::iter::once("points that meet their aims").chain(judged.iter().copied()).map(str::to_owned);
    let rows = classes.iter().map(|(name, sums)| row(name, sums)).chain([row("all", &all)]);
    Table { head: head.collect(), rows: rows.collect(), ..Table::default() }
}

/// Text of a cell, and whether all aims for the variant are met there.
fn cell(class: &Class, point: &Point, label: &'static str, results: &Results) -> (String, Option<bool>) {
    let found = |label| results.get(&(class.name.clone(), point.name.clone(), label));
    let series = match found(label) {
        Some(Ok(series)) => series,
        Some(Err(why)) => return (format!("failed: {why}"), Some(false)),
        None => return (String::new(), None),
    };
    let own = found(THIN).and_then(|thin| thin.as_ref().ok()?.get("p95_ms")?.first().map(|(_, v)| *v));
    let figures = judge::figures(series, point.skip_s, own);
    let like = judged_as(label);
    let judged = point.judged.iter().any(|name| name == like);
    let mut texts = Vec::new();
    let mut verdict = None;
    for aim in point.aims.iter().filter(|aim| aim.concerns(like)) {
        let Some(value) = figures.get(aim.figure.as_str()) else { continue };
        let aimed = judged && aim.bounds().any();
        let met = aim.bounds().judge(Estimate::single(*value)) == Verdict::Met;
        if aimed {
            verdict = Some(verdict.unwrap_or(true) && met);
        }
        let mark = if aimed && !met { "✗" } else { "" };
        texts.push(format!("{}{mark}", number(*value)));
    }
    (texts.join(" / "), verdict)
}

fn number(value: f64) -> String {
    if value >= 20.0 {
        format!("{value:.0}")
    } else if value >= 2.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
