//! `mpdccp lab judge` compares congestion controls on random links.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use mpdccp_lab::LabError;
use mpdccp_lab::judge::{self, Options};

use super::machine::Where;

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Number of points to draw. A point is a randomly drawn link with traffic.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    draws: u64,
    /// Seed of the random points. Use a number during development, and `release`, which is a hash of the
    /// congestion controls' sources, for published results.
    #[arg(long, default_value = "1", value_parser = seed)]
    seed: u64,
    /// Judge only the point with this number.
    #[arg(long, value_name = "N")]
    point: Option<u64>,
    /// Judge only the points of this class, such as `policed`. `--draws` still counts the points of all
    /// classes, so fewer are judged.
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Judge only this variant (repeatable).
    #[arg(long, value_name = "LABEL")]
    only: Vec<String>,
    /// Number of points to run in parallel.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Output directory for judge.json and judge.md.
    #[arg(long, default_value = "lab-out/judge", value_name = "DIR")]
    out: PathBuf,
    /// Directory that stores the results of the reference flows (TCP), so that later judgements can reuse
    /// them.
    #[arg(long, default_value = "lab-out/judge-references", value_name = "DIR")]
    references: PathBuf,
    /// Compare with this output directory, which another build wrote for the same seed.
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Also run each point of up to 200 Mbit/s five times with the kernel's TCP, both for the reference flows
    /// and for the competing flows, and compare the medians with the simulator's. Needs root. `uml` runs
    /// Linux in virtual time, so the machine need not be idle.
    #[arg(long, value_name = "BACKEND", num_args = 0..=1, require_equals = true, default_missing_value = "netns")]
    kernel: Option<Where>,
}

fn seed(text: &str) -> Result<u64, String> {
    if text == "release" {
        return Ok(judge::release_seed());
    }
    text.parse().map_err(|_| "expected a number or `release`".to_owned())
}

pub(super) fn judge(args: &Args) -> Result<(), LabError> {
    let kernel = match args.kernel {
        Some(Where::Sim) => {
            return Err(LabError::Wrong("`--kernel=sim` has no kernel; use netns or uml".to_owned()));
        }
        backend => backend.map(Where::backend).transpose()?,
    };
    let options = Options {
        draws: args.draws,
        seed: args.seed,
        point: args.point,
        class: args.class.clone(),
        only: args.only.clone(),
        jobs: args.jobs.into(),
        out: args.out.clone(),
        references: args.references.clone(),
        against: args.against.clone(),
        kernel,
    };
    let text = judge::run(&options, &|done, of| eprintln!("{done}/{of}"))?;
    println!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::flags;

    #[test]
    fn numbers_that_no_machine_can_handle_are_refused() {
        for wrong in ["--draws=0", "--draws=18446744073709551615", "--jobs=0", "--jobs=1025"] {
            assert!(flags::<Args>([wrong]).is_err(), "{wrong}");
        }
        let args: Args = flags(["--draws=200", "--jobs=2"]).unwrap();
        assert_eq!((args.draws, args.jobs), (200, 2));
    }
}
