//! Selects the backend and the number of parallel runs, and prints the progress of sweeps.

use std::path::PathBuf;

use clap::ValueEnum;
use mpdccp_lab::netns::{self, Netns};
use mpdccp_lab::sim::Sim;
use mpdccp_lab::uml::Uml;
use mpdccp_lab::{Backend, LabError, sweep};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Where {
    Sim,
    Netns,
    Uml,
}

/// Parses a number of threads. The number must be at least 1.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    let n: usize = text.parse().map_err(|e| format!("{e}"))?;
    if n == 0 { Err("expected at least 1".to_owned()) } else { Ok(n) }
}

impl Where {
    pub(super) fn backend(self) -> Result<Box<dyn Backend>, LabError> {
        Ok(match self {
            Where::Netns => Box::new(netns()?),
            Where::Sim => Box::new(Sim::default()),
            Where::Uml => {
                netns::install_handler()?;
                Box::new(Uml::new(this_program()?)?)
            }
        })
    }
}

/// Creates the namespace backend, if the machine supports it.
pub(crate) fn netns() -> Result<Netns, LabError> {
    netns::check_environment()?;
    netns::install_handler()?;
    Ok(Netns::new(this_program()?))
}

fn this_program() -> Result<PathBuf, LabError> {
    std::env::current_exe().map_err(|e| LabError::failed("cannot find the file of this program", e))
}

/// Returns the default number of parallel runs.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(super) fn sweep_line(progress: &sweep::Progress<'_>) {
    let how = match (progress.error, progress.found) {
        (Some(why), _) => format!(": failed: {why}"),
        (None, true) => " (stored)".to_owned(),
        (None, false) => String::new(),
    };
    eprintln!("{}/{} {}{how}", progress.done, progress.total, progress.what);
}
