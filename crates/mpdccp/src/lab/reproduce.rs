//! `mpdccp lab reproduce` runs a whole set of experiments.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args as ClapArgs;
use mpdccp_lab::LabError;
use mpdccp_lab::reproduce::{self, Options, Progress};

use super::machine::{Where, cores, sweep_line, threads};
use crate::watch::Watch;

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The set of experiments. `paper`: the CCID5 paper of 2021. `dcp`: the DCP paper of 2002. `multipath`:
    /// several unequal paths, compared with each path alone. `calibration`: the TCP model, compared with the
    /// kernel's TCP. Any other value names a file in the format of scenarios/sets.
    set: String,
    /// Backend. Default: network namespaces for the set's own experiments, and the simulator for its
    /// additional experiments.
    #[arg(long, value_enum)]
    backend: Option<Where>,
    /// Run headline cells only, with fewer and shorter runs.
    #[arg(long)]
    quick: bool,
    /// Duration of each run in seconds; overrides the set's duration (not for `dcp`).
    #[arg(long, value_name = "S", value_parser = seconds)]
    duration: Option<f64>,
    /// Run only the experiments with this name or scenario (repeatable; not for `dcp`).
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of parallel runs with the backends `sim` and `uml`. Default: one per core.
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Output directory. Default: lab-out/reproduce-SET-BACKEND. Finished runs there are not repeated.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let s: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if (1.0..=86_400.0).contains(&s) { Ok(s) } else { Err("expected 1 to 86400 seconds".to_owned()) }
}

pub(super) fn reproduce(args: &Args) -> Result<(), LabError> {
    let backend = args.backend.unwrap_or(Where::Netns).backend()?;
    let set = Path::new(&args.set).file_stem().map_or_else(|| args.set.clone(), |s| s.display().to_string());
    let usual = || PathBuf::from("lab-out").join(format!("reproduce-{set}-{}", backend.name()));
    let options = Options {
        quick: args.quick,
        duration_s: args.duration,
        around_in_sim: args.backend.is_none(),
        only: args.only.clone(),
        seed: args.seed,
        threads: args.threads.unwrap_or_else(cores),
        out: args.out.clone().unwrap_or_else(usual),
    };
    let watching = Mutex::new(None);
    let failed = AtomicBool::new(false);
    let watch = |progress: Progress<'_>| {
        let Ok(mut watching) = watching.lock() else { return };
        match progress {
            Progress::Experiment { scenario, index, total } => {
                // Dropping the view ends the live line of the previous experiment, so drop it before the next
                // text is printed.
                *watching = None;
                eprintln!("\n[{index} of {total}] {}: {}", scenario.name, scenario.title);
                *watching = Some(Watch::new(scenario));
            }
            Progress::Run(event) => {
                if let Some(watching) = watching.as_mut() {
                    watching.on(event);
                }
            }
            Progress::Sweep(progress) => sweep_line(progress),
            Progress::Failed(why) => {
                failed.store(true, Ordering::Relaxed);
                eprintln!("failed: {why}");
            }
        }
    };
    let report = reproduce::run(&args.set, backend.as_ref(), &options, &watch)?;
    println!("report: {}", report.display());
    if failed.into_inner() {
        return Err(LabError::Failed("some experiments failed; the report says which".into()));
    }
    Ok(())
}
