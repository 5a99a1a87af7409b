//! `mpdccp demo` bonds two emulated lines and compares two CCIDs over them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpdccp_lab::experiment::{Exports, Options};
use mpdccp_lab::{LabError, Scenario, comparison, sentences};

use crate::lab;

const SCENARIO: &str = "paper/multipath-udp";

#[derive(Args)]
#[command(after_help = "Example, as root: mpdccp demo --out /tmp/demo")]
pub(crate) struct Demo {
    /// Output directory for the report, figures and series.
    #[arg(long, value_name = "DIR", default_value = "lab-out/demo")]
    out: PathBuf,
}

pub(crate) fn main(args: &Demo) -> ExitCode {
    lab::finish(run(args))
}

fn run(args: &Demo) -> Result<(), LabError> {
    let scenario = Scenario::find(SCENARIO).map_err(|e| LabError::Failed(e.to_string()))?;
    let backend = lab::netns()?;
    let options = Options {
        only: vec!["ccid2".to_owned(), "ccid5".to_owned()],
        cells: Vec::new(),
        runs: Some(1),
        seed: 1,
        threads: 1,
        out: args.out.clone(),
        exports: Exports::default(),
    };
    let seconds = 2 * (scenario.duration().as_secs() + 5);
    println!(
        "{}\nCompares CCID 2 and CCID 5 over the real tunnel between two network namespaces. Takes about {seconds} s.\n",
        scenario.title
    );
    let outcome = lab::watched(&scenario, &backend, &options)?;
    println!("{}", comparison::as_text(&outcome.comparisons));
    for sentence in sentences::sentences(&scenario, &outcome.comparisons, &scenario.headline().name) {
        println!("{sentence}");
    }
    println!("\nreport with figures: {}", outcome.report.display());
    Ok(())
}
