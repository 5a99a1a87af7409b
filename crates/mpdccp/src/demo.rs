//! `mpdccp demo`.

use std::process::ExitCode;

use clap::Args;

#[derive(Args)]
pub(crate) struct Demo {}

pub(crate) fn main(_: &Demo) -> ExitCode {
    eprintln!("the demo is not there yet");
    ExitCode::FAILURE
}
