//! `mpdccp lab packetdrill` plays scripts against the simulator's model of TCP.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use mpdccp_lab::packetdrill::{Failure, Script};

/// For each script, prints the first line at which the model differs. The exit code is 0 if there is no
/// difference, 1 if there is one, and 2 if a script is invalid or unsupported.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Scripts in packetdrill's language.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Congestion control of the model. Default: the one that the script sets, or CUBIC.
    #[arg(long, value_parser = ["cubic", "reno", "bbr"])]
    congestion: Option<String>,
}

pub(super) fn packetdrill(args: &Args) -> ExitCode {
    let worst = args.files.iter().map(|file| play(file, args.congestion.as_deref())).max();
    ExitCode::from(worst.unwrap_or_default())
}

/// Plays a script and returns its exit code.
fn play(file: &Path, congestion: Option<&str>) -> u8 {
    let name = file.display();
    let wrong = |why: String| {
        eprintln!("mpdccp: {why}");
        2
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) => return wrong(format!("cannot read {name}: {e}")),
    };
    match Script::parse(&text).map(|script| script.play(congestion)) {
        Err(why) => wrong(format!("{name}:{why}")),
        Ok(Err(Failure::Script { line, why })) => wrong(format!("{name}:{line}: {why}")),
        Ok(Err(Failure::Differs { line, expected, got })) => {
            println!("{name}:{line}: differs\n    expected {expected}\n    got      {got}");
            1
        }
        Ok(Ok(())) => {
            println!("{name}: passed");
            0
        }
    }
}
