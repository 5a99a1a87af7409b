//! Runs a server in the background: perf starts itself again, detached from the terminal.

use crate::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Environment variable that marks the background process.
const MARK: &str = "MPDCCP_PERF_IN_BACKGROUND";

/// Returns whether this is the background process.
pub(crate) fn is_one() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts this command line again in the background. Returns once the server is listening, or returns the
/// server's error.
pub(crate) fn start() -> Result<(), Error> {
    let cannot = |e: std::io::Error| Error::runtime(format!("-D: cannot start in the background: {e}"));
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(std::env::args_os().skip(1)).env(MARK, "1").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(cannot)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(cannot)?;
    }
    if !line.is_empty() {
        print!("{line}");
        eprintln!("running in the background as process {}", child.id());
        return Ok(());
    }
    let mut complaint = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut complaint).map_err(cannot)?;
    }
    let complaint = complaint.trim_end().trim_start_matches("mpdccp: ");
    Err(match child.wait().map_err(cannot)?.code() {
        Some(2) => Error::usage(complaint),
        _ => Error::runtime(complaint),
    })
}
