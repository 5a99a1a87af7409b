//! `mpdccp lab`.

use std::process::ExitCode;

use clap::Subcommand;
use mpdccp_lab::Scenario;
use mpdccp_lab::scenario::LIBRARY;

#[derive(Subcommand)]
pub(crate) enum Lab {
    /// Name the scenarios that come with the program.
    List,
}

pub(crate) fn main(args: &Lab) -> ExitCode {
    match args {
        Lab::List => list(),
    }
}

fn list() -> ExitCode {
    for named in LIBRARY {
        match Scenario::find(named.name) {
            Ok(scenario) => println!("{:22} {}", named.name, scenario.title),
            Err(e) => {
                eprintln!("{e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
