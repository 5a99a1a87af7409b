//! Runs a server in the background: perf starts itself again, detached from the terminal.

use crate::error::Error;
use nix::unistd::{dup2_stderr, dup2_stdout};
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Environment variable that marks the background process.
const MARK: &str = "MPDCCP_PERF_IN_BACKGROUND";
/// Byte that the background process prints when it has started. Its other output never contains this byte.
const STARTED: u8 = 0;

/// Returns whether this is the background process.
pub(crate) fn is_one() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Tells the process that waits in [`start`] that this background process has started. That process then
/// ends, and nobody reads the pipes any more. So from now on, messages on standard error go to the log file,
/// or nowhere if there is none.
pub(crate) fn started(log: Option<&Path>) -> io::Result<()> {
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    match log {
        Some(file) => dup2_stderr(OpenOptions::new().append(true).open(file)?)?,
        None => dup2_stderr(&null)?,
    }
    let mut stdout = io::stdout();
    stdout.write_all(&[STARTED])?;
    stdout.flush()?;
    Ok(dup2_stdout(null)?)
}

/// Starts this command line again in the background, and prints its output until the server is listening. If
/// the server cannot start, returns its error; the output already contains it.
pub(crate) fn start() -> Result<Option<Error>, Error> {
    let cannot = |e: io::Error| Error::runtime(format!("-D: cannot start in the background: {e}"));
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(std::env::args_os().skip(1)).env(MARK, "1").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(cannot)?;
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_until(STARTED, &mut output).map_err(cannot)?;
    }
    let has_started = output.pop_if(|last| *last == STARTED).is_some();
    print!("{}", String::from_utf8_lossy(&output));
    if has_started {
        eprintln!("running in the background as process {}", child.id());
        return Ok(None);
    }
    let mut complaint = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut complaint).map_err(cannot)?;
    }
    let complaint = complaint.trim_end().trim_start_matches("mpdccp: ");
    Ok(Some(match child.wait().map_err(cannot)?.code() {
        Some(2) => Error::usage(complaint),
        _ => Error::runtime(complaint),
    }))
}
