//! `mpdccp lab reproduce`: a whole paper.

use std::path::PathBuf;
use std::sync::Mutex;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use mpdccp_lab::reproduce::paper::{self, Options, Progress};
use mpdccp_lab::{LabError, reproduce};

use super::Where;
use crate::watch::Watch;

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Which paper: `paper` is that of CCID5 of 2021, `dcp` that of DCP of 2002.
    #[arg(value_parser = PossibleValuesParser::new(reproduce::SETS.iter().chain([&paper::NAME])))]
    set: String,
    /// Where the experiments run; absent: on network namespaces, but what lies around `paper` in the simulator.
    #[arg(long, value_enum)]
    backend: Option<Where>,
    /// Headline cells, fewer and shorter runs: under 20 minutes.
    #[arg(long)]
    quick: bool,
    /// Of `paper` run this experiment only, by the name of its scenario; may be given several times.
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Of `paper`, runs of sweeps at a time; as many as there are cores if absent.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Directory for what is written; lab-out/reproduce-SET-BACKEND if absent. What sweeps and `dcp` left there is not run again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn reproduce(args: &Args) -> Result<(), LabError> {
    let mut backend = args.backend.unwrap_or(Where::Netns).backend()?;
    let usual = || PathBuf::from("lab-out").join(format!("reproduce-{}-{}", args.set, backend.name()));
    let out = args.out.clone().unwrap_or_else(usual);
    if args.set != paper::NAME {
        let options = reproduce::Options { out, quick: args.quick, seed: args.seed };
        let report = reproduce::run(&args.set, backend.as_mut(), &options, &mut |progress| {
            let found = if progress.found { " (found)" } else { "" };
            eprintln!("{} of {}: {}{found}", progress.index, progress.total, progress.what);
        })?;
        println!("report: {}", report.display());
        return Ok(());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        quick: args.quick,
        around_in_sim: args.backend.is_none(),
        only: args.only.clone(),
        seed: args.seed,
        threads: args.threads.unwrap_or(cores),
        out,
    };
    let watching = Mutex::new(None);
    let watch = |progress: Progress<'_>| {
        let Ok(mut watching) = watching.lock() else { return };
        match progress {
            Progress::Experiment { scenario, index, total } => {
                // The line of the one before ends first.
                *watching = None;
                eprintln!("\n[{index} of {total}] {}: {}", scenario.name, scenario.title);
                *watching = Some(Watch::new(scenario));
            }
            Progress::Run(event) => {
                if let Some(watching) = watching.as_mut() {
                    watching.on(event);
                }
            }
            Progress::Sweep(progress) => match progress.error {
                None => eprintln!("{}/{} {}", progress.done, progress.total, progress.what),
                Some(why) => {
                    eprintln!("{}/{} {}: failed: {why}", progress.done, progress.total, progress.what)
                }
            },
            Progress::Failed(why) => eprintln!("failed: {why}"),
        }
    };
    let report = paper::run(backend.as_mut(), &options, &watch)?;
    println!("report: {}", report.display());
    Ok(())
}
