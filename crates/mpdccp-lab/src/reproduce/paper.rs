//! The CCID5 paper: its three experiments, and what lies around them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::swept;
use super::table::Table;
use crate::experiment::{self, Event};
use crate::figures::over_parameter;
use crate::report::{self, escape};
use crate::scenario::Scenario;
use crate::sim::Sim;
use crate::{Backend, LabError, sweep};

/// The set's name.
pub const NAME: &str = "paper";

/// How much to run, and where to write.
#[derive(Clone, Debug)]
pub struct Options {
    /// Headline cells and fewer runs.
    pub quick: bool,
    /// What lies around the paper runs in the simulator even if its own experiments do not.
    pub around_in_sim: bool,
    /// Only these scenarios; all if empty.
    pub only: Vec<String>,
    /// The first seed.
    pub seed: u64,
    /// Runs of sweeps at a time.
    pub threads: usize,
    /// Directory; each experiment has its own below it, beside `report.html` and `report.md`.
    pub out: PathBuf,
}

/// What happens, for those who watch.
#[derive(Debug)]
pub enum Progress<'a> {
    /// An experiment begins: number `index` (from 1) of `total`.
    Experiment {
        /// What it runs.
        scenario: &'a Scenario,
        /// Counted from 1.
        index: usize,
        /// Of all.
        total: usize,
    },
    /// It goes on.
    Run(Event<'a>),
    /// A sweep goes on.
    Sweep(&'a sweep::Progress<'a>),
    /// Something failed; the others go on.
    Failed(&'a str),
}

/// The paper's own figures and tables; the others are what its future work and its matrix add.
const EXPERIMENTS: &[(&str, &str)] = &[
    ("paper/single-path", "A"),
    ("paper/multipath-udp", "B"),
    ("paper/multipath-tcp", "C"),
    ("paper/matrix", "matrix, UDP"),
    ("paper/matrix-tcp", "matrix, TCP"),
    ("paper/mirrored", "mirrored latency"),
    ("paper/fairness", "fairness"),
    ("paper/competition", "competition"),
    ("paper/shared-bottleneck", "shared bottleneck"),
    ("paper/delay", "delay"),
    ("paper/loss", "loss"),
    ("paper/ecn", "ECN"),
];
/// Experiments that are the paper's own.
const OWN: usize = 3;
/// Runs of each contender of a quick reproduction in real time; in virtual time one is like the other.
const QUICK_RUNS: u32 = 3;

/// One experiment in the report.
struct Section {
    title: String,
    html: String,
    markdown: String,
}

/// Runs the experiments one after the other and writes `report.html` and `report.md` after each, so that what was finished before an
/// error is there. Experiments that fail are told in their place.
///
/// # Errors
/// An interruption, a machine that lacks something, an unknown name in `only`, or a report that cannot be written.
pub fn run(
    backend: &mut dyn Backend,
    options: &Options,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<PathBuf, LabError> {
    let known = |name: &String| EXPERIMENTS.iter().any(|(known, _)| known == name);
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|(name, _)| *name).collect();
        return Err(LabError::Failed(format!("no experiment `{unknown}`; there are {}", names.join(", "))));
    }
    let chosen = |(_, (name, _)): &(usize, &(&str, &str))| {
        options.only.is_empty() || options.only.iter().any(|o| o == name)
    };
    let experiments: Vec<_> = EXPERIMENTS.iter().enumerate().filter(chosen).collect();
    let total = experiments.len();
    let report = options.out.join("report.html");
    fs::create_dir_all(&options.out)
        .map_err(|e| LabError::failed(format!("making {}", options.out.display()), e))?;
    let mut sections = Vec::new();
    for (done, (number, (name, letter))) in experiments.into_iter().enumerate() {
        let scenario = Scenario::find(name).map_err(|e| LabError::Failed(e.to_string()))?;
        watch(Progress::Experiment { scenario: &scenario, index: done + 1, total });
        let out = options.out.join(name.replace('/', "-"));
        let mut sim = Sim::default();
        let virtually = scenario.simulator_only().is_some() || (options.around_in_sim && number >= OWN);
        let backend: &mut dyn Backend = if virtually { &mut sim } else { &mut *backend };
        let made = if scenario.sweep.is_some() {
            swept(name, &scenario, options, &out, watch)
        } else {
            runs(&scenario, backend, options, &out, watch)
        };
        let (html, markdown) = match made {
            Ok(made) => made,
            Err(LabError::Failed(why)) => {
                watch(Progress::Failed(&why));
                (format!("<p>Failed: {}</p>\n", escape(&why)), format!("Failed: {why}\n"))
            }
            Err(e) => return Err(e),
        };
        let title = format!("{letter}: {}", scenario.title);
        sections.push(Section { title, html, markdown });
        write(&sections, backend.name(), options, &report)?;
    }
    Ok(report)
}

/// Contenders over time: the figure as the paper draws it, sentences and a table.
fn runs(
    scenario: &Scenario,
    backend: &mut dyn Backend,
    options: &Options,
    out: &Path,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(String, String), LabError> {
    let quick_runs = if backend.name() == "sim" { 1 } else { QUICK_RUNS.min(scenario.runs) };
    let chosen = experiment::Options {
        only: Vec::new(),
        cells: if options.quick { Vec::new() } else { vec!["all".to_owned()] },
        runs: options.quick.then_some(quick_runs),
        seed: options.seed,
        out: out.to_owned(),
    };
    let outcome = experiment::run(scenario, backend, &chosen, &mut |event| watch(Progress::Run(event)))?;
    let n = outcome.comparisons.iter().map(|c| c.n).min().unwrap_or(0);
    let plural = if n == 1 { "" } else { "s" };
    let made =
        format!("Backend {}, medians of {n} run{plural}, seeds from {}.", backend.name(), options.seed);
    let mut html = format!("<p>{} {made}</p>\n", escape(scenario.about.trim()));
    let mut markdown = format!("{made}\n\n");
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
            for sentence in crate::comparison::sentences(scenario, &outcome.comparisons, &cell.cell) {
                let _ = writeln!(markdown, "- {sentence}");
            }
            markdown.push('\n');
        }
    }
    markdown += &Table::of_comparisons(&outcome.comparisons).markdown();
    Ok((html, markdown))
}

/// Contenders over a parameter.
fn swept(
    name: &str,
    scenario: &Scenario,
    options: &Options,
    out: &Path,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(String, String), LabError> {
    let seeds = if options.quick { 1 } else { scenario.sweep.as_ref().map_or(1, |s| s.seeds) };
    let chosen = sweep::Options {
        out: out.join("sweep.csv"),
        seed: options.seed,
        threads: options.threads,
        only: Vec::new(),
        seeds: Some(seeds),
    };
    let outcome = sweep::run(name, &chosen, &|progress| watch(Progress::Sweep(&progress)))?;
    let plural = if seeds == 1 { "" } else { "s" };
    let made = format!("Simulator, medians of {seeds} seed{plural} from {}.", options.seed);
    let mut html = format!("<p>{} {made}</p>\n", escape(scenario.about.trim()));
    let mut markdown = format!("{made}\n\n");
    for sentence in swept::sentences(scenario, &outcome) {
        let _ = writeln!(html, "<p>{}</p>", escape(&sentence));
        let _ = writeln!(markdown, "- {sentence}");
    }
    if let Some(sweep) = &scenario.sweep
        && let [parameter] = sweep.parameters.keys().collect::<Vec<_>>()[..]
        && let Some(figure) = over_parameter(parameter, &sweep.show, &outcome.medians)
    {
        let svg = figure.save(&out.join("sweep"))?;
        let _ = writeln!(html, "<figure>{svg}<figcaption>Medians over the seeds.</figcaption></figure>");
    }
    let table = swept::table(scenario, &outcome);
    html += &table.html();
    let _ = write!(markdown, "\n{}", table.markdown());
    Ok((html, markdown))
}

fn write(sections: &[Section], backend: &str, options: &Options, report: &Path) -> Result<(), LabError> {
    let quick = if options.quick { " --quick" } else { "" };
    let command = format!("mpdccp lab reproduce paper --backend {backend}{quick} --seed {}", options.seed);
    let commit = option_env!("MPDCCP_COMMIT").unwrap_or("unknown");
    let title = "The CCID5 paper, reproduced";
    let mut html =
        format!("<p><code>{command}</code>, version {}, commit {commit}.</p>\n", env!("CARGO_PKG_VERSION"));
    let mut markdown = format!("# {title}\n\n`{command}`, commit {commit}\n");
    for section in sections {
        let _ = write!(html, "<h2>{}</h2>\n{}", escape(&section.title), section.html);
        let _ = write!(markdown, "\n## {}\n\n{}", section.title, section.markdown);
    }
    let failed = |e| LabError::failed(format!("writing {}", report.display()), e);
    fs::write(report, report::page(title, &html)).map_err(failed)?;
    fs::write(report.with_extension("md"), markdown).map_err(failed)
}
