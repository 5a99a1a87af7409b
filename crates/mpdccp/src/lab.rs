//! `mpdccp lab` runs experiments over emulated links.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::{Args, Subcommand, ValueEnum};
use mpdccp_lab::experiment::{self, Exports, Options};
use mpdccp_lab::scenario::LIBRARY;
use mpdccp_lab::sweep::Shard;
use mpdccp_lab::{Backend, LabError, Scenario, agreement, comparison, sweep};

use crate::watch::Watch;
pub(crate) use machine::netns;
use machine::{Where, cores, sweep_line, threads};

mod judge;
mod machine;
mod packetdrill;
mod reproduce;

pub(crate) const EXAMPLES: &str = "Examples (docs/scenarios.md has the format of scenario files):
  mpdccp lab list
  mpdccp lab run paper/multipath-udp --only ccid5 --runs 5    in network namespaces, as root
  mpdccp lab run paper/single-path --backend sim              in virtual time
  mpdccp lab run my.toml --backend sim --out results
  mpdccp lab reproduce paper --backend sim                    every experiment of the CCID5 paper
  mpdccp lab sweep paper/delay --shard 1/4 --out part1/sweep.csv    the first of four parts
  mpdccp lab sweep paper/delay --out all/sweep.csv --merge part*/sweep.csv
  mpdccp lab compare SIM-DIR NETNS-DIR
  mpdccp lab packetdrill rto.pkt --congestion reno            a packetdrill script against the model of TCP";

#[derive(Subcommand)]
pub(crate) enum Lab {
    /// List the built-in scenarios, with their variants (such as congestion controls) and cells (network
    /// conditions).
    List,
    /// Run a scenario and write summary.json, CSV series, figures and report.html.
    Run(Run),
    /// Run every variant at every point of a scenario's sweep, and write one CSV row per run. An interrupted
    /// sweep can be resumed.
    Sweep(Sweep),
    /// Run a set of experiments, such as those of a paper, and write one report.html and report.md.
    Reproduce(reproduce::Args),
    /// Run every congestion control on randomly drawn links, and judge it against TCP CUBIC and BBR.
    Judge(judge::Args),
    /// Run packetdrill scripts against the simulator's model of TCP.
    Packetdrill(packetdrill::Args),
    /// Compare two result directories, for example one from the simulator and one from network
    /// namespaces.
    Compare(Compare),
    /// The init process of the kernel started by the uml backend.
    #[command(hide = true)]
    Guest {
        /// Directory of the job.
        dir: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Compare {
    /// Output directory of `lab run` or `lab reproduce`.
    first: PathBuf,
    /// Output directory to compare with.
    second: PathBuf,
}

#[derive(Args)]
pub(crate) struct Sweep {
    /// Name of a scenario, or a TOML file.
    scenario: String,
    /// Backend. `sim`: the simulator. `netns`: network namespaces with the real kernel and program. `uml`:
    /// network namespaces inside a kernel with virtual time.
    #[arg(long, value_enum, default_value_t = Where::Sim)]
    backend: Where,
    /// Output file, whose name ends with `.csv`; finished runs are stored next to it in `runs`. Default:
    /// lab-out/SCENARIO/sweep.csv.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Run in this cell, which is a set of network conditions (repeatable), or in every cell with `all`.
    /// Default: the scenario's `headline` cell.
    #[arg(long, value_name = "CELL")]
    cell: Vec<String>,
    /// Run only this variant (repeatable).
    #[arg(long, value_name = "LABEL")]
    only: Vec<String>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of parallel runs with the backends `sim` and `uml`. Default: one per core.
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Do only every Nth run, starting with run I. Needs `--out`, with another file for each part. `--merge`
    /// merges the N parts.
    #[arg(long, value_name = "I/N", default_value = "1/1", conflicts_with = "merge", requires = "out")]
    shard: Shard,
    /// Run nothing; merge these CSV files written with `--shard`. For each x.csv, the file x.runs must be in
    /// the same directory.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    merge: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Run {
    /// Name of a scenario (`mpdccp lab list`), or a TOML file.
    scenario: String,
    /// Backend. `sim`: the simulator. `netns`: network namespaces with the real kernel and program. `uml`:
    /// network namespaces inside a kernel with virtual time.
    #[arg(long, value_enum, default_value_t = Where::Netns)]
    backend: Where,
    /// Run only this variant (repeatable).
    #[arg(long, value_name = "LABEL")]
    only: Vec<String>,
    /// Run in this cell, which is a set of network conditions (repeatable), or in every cell with `all`.
    /// Default: the scenario's `headline` cell.
    #[arg(long, value_name = "CELL")]
    cell: Vec<String>,
    /// Number of runs of each variant in each cell. Default: the number in the scenario.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Seed of the first run; each further run adds one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of parallel runs with the backends `sim` and `uml`. Default: one per core.
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Output directory. Default: lab-out/SCENARIO.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write each run's series in these formats of other programs (docs/exchange.md). Separate several
    /// formats by commas.
    #[arg(long, value_enum, value_name = "FORMAT", value_delimiter = ',')]
    export: Vec<Format>,
    /// Print summary.json to standard output; progress always goes to standard error.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// PATH.pcap for Wireshark: times and lengths of all packets at the client, without contents.
    Pcap,
    /// run.qlog for qvis: packets on the links, losses, congestion control.
    Qlog,
    /// PATH.up and PATH.down for mm-link: the rates of the links.
    Mahimahi,
}

pub(crate) fn main(args: &Lab) -> ExitCode {
    let result = match args {
        Lab::List => list(),
        Lab::Run(run) => self::run(run),
        Lab::Sweep(args) => self::sweep(args),
        Lab::Reproduce(args) => reproduce::reproduce(args),
        Lab::Judge(args) => judge::judge(args),
        Lab::Packetdrill(args) => return packetdrill::packetdrill(args),
        Lab::Compare(args) => compare(args),
        Lab::Guest { dir } => mpdccp_lab::uml::guest(dir),
    };
    finish(result)
}

/// Prints an error, if there is one, and returns the exit code: 0 for success, 1 for a failure, 2 for wrong
/// arguments or a missing prerequisite, 130 for an interruption.
pub(crate) fn finish(result: Result<(), LabError>) -> ExitCode {
    let Err(e) = result else { return ExitCode::SUCCESS };
    eprintln!("mpdccp: {e}");
    match e {
        LabError::Missing(_) | LabError::Wrong(_) => ExitCode::from(2),
        LabError::Interrupted => ExitCode::from(130),
        LabError::Command(_) | LabError::Failed(_) => ExitCode::FAILURE,
    }
}

fn load(name: &str) -> Result<Scenario, LabError> {
    Scenario::find(name).map_err(|e| LabError::Wrong(e.to_string()))
}

fn list() -> Result<(), LabError> {
    for named in LIBRARY {
        let scenario = load(named.name)?;
        let labels: Vec<&str> = scenario.variants.iter().map(|c| c.label.as_ref().as_str()).collect();
        let cells: Vec<&str> = scenario.cells.iter().map(|c| c.name.as_str()).collect();
        println!("{}\n    {}", named.name, scenario.title);
        println!("    variants: {}; cells: {}", labels.join(", "), cells.join(", "));
    }
    Ok(())
}

/// Returns the default output directory of a scenario.
pub(crate) fn default_out(scenario: &Scenario) -> PathBuf {
    Path::new("lab-out").join(scenario.name.replace('/', "-"))
}

fn run(args: &Run) -> Result<(), LabError> {
    let scenario = load(&args.scenario)?;
    let backend = args.backend.backend()?;
    let has = |format| args.export.contains(&format);
    let options = Options {
        only: args.only.clone(),
        cells: args.cell.clone(),
        runs: args.runs,
        seed: args.seed,
        threads: args.threads.unwrap_or_else(cores),
        out: args.out.clone().unwrap_or_else(|| default_out(&scenario)),
        exports: Exports {
            pcap: has(Format::Pcap),
            qlog: has(Format::Qlog),
            mahimahi: has(Format::Mahimahi),
        },
    };
    let outcome = watched(&scenario, backend.as_ref(), &options)?;
    if let Some(speed) = backend.speed() {
        eprintln!("simulated {speed:.1} times as fast as real time");
    }
    if args.json {
        let json = serde_json::to_string_pretty(&outcome.summary)
            .map_err(|e| LabError::failed("cannot write JSON", e))?;
        println!("{json}");
    } else {
        println!("{}", comparison::as_text(&outcome.comparisons));
        println!("report: {}", outcome.report.display());
    }
    Ok(())
}

/// Runs an experiment with a live view.
pub(crate) fn watched(
    scenario: &Scenario,
    backend: &dyn Backend,
    options: &Options,
) -> Result<experiment::Outcome, LabError> {
    let watch = Mutex::new(Watch::new(scenario));
    experiment::run(scenario, backend, options, &|event| {
        if let Ok(mut watch) = watch.lock() {
            watch.on(event);
        }
    })
}

fn compare(args: &Compare) -> Result<(), LabError> {
    print!("{}", agreement::as_text(&agreement::pairs(&args.first, &args.second)?));
    Ok(())
}

/// Runs a sweep, or merges the parts of a sweep.
fn sweep(args: &Sweep) -> Result<(), LabError> {
    let scenario = load(&args.scenario)?;
    let backend = args.backend.backend()?;
    let options = sweep::Options {
        out: args.out.clone().unwrap_or_else(|| default_out(&scenario).join("sweep.csv")),
        seed: args.seed,
        threads: args.threads.unwrap_or_else(cores),
        only: args.only.clone(),
        cells: args.cell.clone(),
        seeds: None,
        shard: args.shard,
    };
    let watch = |progress: &sweep::Progress<'_>| sweep_line(progress);
    let outcome = if args.merge.is_empty() {
        sweep::run(&scenario, backend.as_ref(), &options, &watch)?
    } else {
        sweep::merge(&scenario, backend.as_ref(), &options, &args.merge, &watch)?
    };
    for (label, why) in &outcome.skipped {
        eprintln!("skipped: {label}: {why}");
    }
    println!("{}", outcome.table);
    println!("{} new runs, {} stored runs: {}", outcome.made, outcome.found, options.out.display());
    match outcome.failed.len() {
        0 => Ok(()),
        n => {
            for (what, why) in &outcome.failed {
                eprintln!("failed: {what}: {why}");
            }
            Err(LabError::Failed(format!(
                "{n} runs failed; run the command again to repeat only the failed runs"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::flags;

    #[test]
    fn a_part_of_a_sweep_needs_a_file_of_its_own() {
        assert!(flags::<Sweep>(["s"]).is_ok() && flags::<Sweep>(["s", "--shard=1/2"]).is_err());
        let args: Sweep = flags(["s", "--shard=1/2", "--out=part1/s.csv"]).unwrap();
        assert_eq!(args.shard, "1/2".parse::<Shard>().unwrap());
    }
}
