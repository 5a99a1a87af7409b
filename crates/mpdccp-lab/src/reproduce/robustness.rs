//! The set `robustness`: every CCID on access links as people have them, judged point by point; and the set `switches`: what each deviation of
//! CCID 5 from its draft is worth on them.

mod judge;
mod matrix;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use judge::Aim;
use matrix::{Class, Point};

use dccp_cc::BBR1_WITHOUT;
use toml::Spanned;

use super::options::{Options, Progress};
use crate::estimate::{Estimate, Verdict};
use crate::report::{self, escape};
use crate::runs::{Keep, Runs};
use crate::scenario::{Scenario, Variant};
use crate::sim::Sim;
use crate::store::{AllSeries, Kept, Store};
use crate::{LabError, Plan, code, sweep};

/// The sets' names.
pub(super) const NAMES: [&str; 2] = [CCIDS, SWITCHES];
const CCIDS: &str = "robustness";
const SWITCHES: &str = "switches";

/// What is varied.
const TUNED: &str = "ccid5";

/// Columns of a set's report.
fn variants(set: &str) -> Vec<&'static str> {
    match set {
        SWITCHES => core::iter::once(TUNED).chain(BBR1_WITHOUT.iter().map(|(name, _)| *name)).collect(),
        _ => vec!["ccid2", TUNED, "ccid5-draft", "ccid7", "ccid250"],
    }
}

/// Whose aims a variant has.
fn judged_as(label: &'static str) -> &'static str {
    if BBR1_WITHOUT.iter().any(|(name, _)| *name == label) { TUNED } else { label }
}

/// Adds the variants that lack one switch each.
fn add_switches(scenario: &mut Scenario) {
    let Some(tuned) = scenario.variant(TUNED).cloned() else { return };
    for (name, _) in BBR1_WITHOUT {
        let label = Spanned::new(tuned.label.span(), (*name).to_owned());
        scenario.variants.push(Variant { label, without: Some(name), ..tuned.clone() });
    }
}

/// What shows the path's own latency.
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
        let variant = variant.ok_or_else(|| LabError::Failed(format!("no variant `{}`", self.label)))?;
        Ok(Plan { scenario, variant, cell: scenario.headline(), repeat: 0, seed })
    }
}

/// Makes what is missing and writes the report; always in the simulator.
pub(super) fn run(
    set: &str,
    options: &Options,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<PathBuf, LabError> {
    let matrix = matrix::read()?;
    let known = |name: &String| matrix.classes.iter().any(|class| class.name == *name);
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = matrix.classes.iter().map(|class| class.name.as_str()).collect();
        return Err(LabError::Wrong(format!("no class `{unknown}`; there are {}", names.join(", "))));
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
        SWITCHES => "CCID 5, and without each of its switches, on access links",
        _ => &matrix.title,
    };
    let mut report = Report::new(set, title, variants, options);
    for (class, points) in &classes {
        report.class(class, points, &results);
    }
    report.write(options)
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

/// Aims met and judged, by variant.
type Sums = BTreeMap<&'static str, (u32, u32)>;

/// Both forms of the report, as far as it is.
struct Report {
    variants: Vec<&'static str>,
    title: String,
    head: String,
    markdown: String,
    html: String,
    /// A row for each class.
    sums: Vec<(String, Sums)>,
}

impl Report {
    fn new(set: &str, title: &str, variants: Vec<&'static str>, options: &Options) -> Report {
        let quick = if options.quick { " --quick" } else { "" };
        let command = format!("mpdccp lab reproduce {set}{quick} --seed {}", options.seed);
        let head = format!("{command}, version {}, {}", env!("CARGO_PKG_VERSION"), code::words());
        Report {
            variants,
            title: title.to_owned(),
            head,
            markdown: String::new(),
            html: String::new(),
            sums: Vec::new(),
        }
    }

    fn class(&mut self, class: &Class, points: &[Point], results: &Results) {
        let Some(first) = points.first() else { return };
        let words: Vec<String> = first.aims.iter().map(Aim::text).collect();
        let words = words.join("; ");
        let _ = write!(
            self.markdown,
            "\n## {}\n\n{words}; ✗: missed.\n\n| | {} |\n|---|{}\n",
            class.name,
            self.variants.join(" | "),
            "---|".repeat(self.variants.len())
        );
        let head: String = self.variants.iter().map(|label| format!("<th>{label}</th>")).collect();
        let _ = write!(
            self.html,
            "<h2>{}</h2>\n<p>{}; ✗: missed.</p>\n<div class=\"wide\"><table><tr><th></th>{head}</tr>\n",
            escape(&class.name),
            escape(&words)
        );
        let mut sums = Sums::new();
        for point in points {
            let _ = write!(self.markdown, "| {}", point.name);
            let _ = write!(self.html, "<tr><td>{}</td>", escape(&point.name));
            for &label in &self.variants {
                let (text, met) = cell(class, point, label, results);
                let verdict = match met {
                    Some(true) => " class=\"met\"",
                    Some(false) => " class=\"missed\"",
                    None => "",
                };
                let sum = sums.entry(label).or_default();
                sum.0 += u32::from(met == Some(true));
                sum.1 += u32::from(met.is_some());
                let _ = write!(self.markdown, " | {text}");
                let _ = write!(self.html, "<td{verdict}>{}</td>", escape(&text));
            }
            self.markdown.push_str(" |\n");
            self.html.push_str("</tr>\n");
        }
        self.html.push_str("</table></div>\n");
        self.sums.push((class.name.clone(), sums));
    }

    /// Points that meet their aims, of those that have one.
    fn summary(&self) -> (String, String) {
        let judged: Vec<&str> = self
            .variants
            .iter()
            .copied()
            .filter(|label| self.sums.iter().any(|(_, sums)| sums.get(label).is_some_and(|(_, n)| *n > 0)))
            .collect();
        let mut markdown = format!(
            "| points that meet their aims | {} |\n|---|{}\n",
            judged.join(" | "),
            "---|".repeat(judged.len())
        );
        let head: String = judged.iter().map(|label| format!("<th>{label}</th>")).collect();
        let mut html =
            format!("<div class=\"wide\"><table><tr><th>points that meet their aims</th>{head}</tr>\n");
        let mut all = Sums::new();
        for (_, sums) in &self.sums {
            for (label, (met, of)) in sums {
                let sum = all.entry(label).or_default();
                *sum = (sum.0 + met, sum.1 + of);
            }
        }
        let rows = self.sums.iter().map(|(name, sums)| {
            (
                name.as_str(),
                judged.iter().map(|l| sums.get(l).copied().unwrap_or_default()).collect::<Vec<_>>(),
            )
        });
        let last = ("all", judged.iter().map(|l| all.get(l).copied().unwrap_or_default()).collect());
        for (name, row) in rows.chain([last]) {
            let text =
                |(met, of): &(u32, u32)| if *of == 0 { String::new() } else { format!("{met} of {of}") };
            let texts: Vec<String> = row.iter().map(text).collect();
            let _ = writeln!(markdown, "| {name} | {} |", texts.join(" | "));
            let cells: String = texts.iter().map(|t| format!("<td>{t}</td>")).collect();
            let _ = writeln!(html, "<tr><td>{}</td>{cells}</tr>", escape(name));
        }
        html.push_str("</table></div>\n");
        (markdown, html)
    }

    fn write(&self, options: &Options) -> Result<PathBuf, LabError> {
        let (markdown, html) = self.summary();
        let path = options.out.join("report.html");
        let write = |path: &PathBuf, text: String| {
            fs::write(path, text).map_err(|e| LabError::failed(format!("writing {}", path.display()), e))
        };
        let page = format!("<p>{}.</p>\n{html}{}", escape(&self.head), self.html);
        write(&path, report::page(&self.title, &page))?;
        let all = format!("# {}\n\n{}.\n\n{markdown}{}", self.title, self.head, self.markdown);
        write(&path.with_extension("md"), all)?;
        Ok(path)
    }
}

/// What stands in a cell, and whether all aims that concern the variant are met there.
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
