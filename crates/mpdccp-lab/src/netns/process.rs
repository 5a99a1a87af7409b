//! Starts and stops processes inside a namespace.

use core::time::Duration;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::namespaces::Namespace;
use crate::LabError;
use linkem_net::{Urgency, hurry};

/// Ticks per second of the CPU time in the kernel's process statistics.
const USER_HZ: f64 = 100.0;

/// A process. Dropping the value ends it.
#[derive(Debug)]
pub(super) struct Process {
    what: String,
    child: Child,
    log: PathBuf,
    /// A channel to the thread that started the child. Dropping the channel ends the thread.
    _keeper: mpsc::Sender<()>,
}

/// Returns the command `ip`. If the program `setpriv` exists, the kernel kills the command's process when the
/// thread that started it ends for any reason. Otherwise, only the reaper cleans up (see `reaper.rs`).
fn ip_that_dies_with_us() -> Command {
    let Some(setpriv) = find("setpriv") else { return Command::new("ip") };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "ip"]);
    command
}

impl Process {
    /// Starts `program` inside `namespace`, with its output going to `log`.
    pub(super) fn start(
        namespace: &Namespace,
        what: &str,
        program: &Path,
        args: &[&str],
        log: &Path,
    ) -> Result<Process, LabError> {
        let failed = |e| LabError::failed(format!("cannot start the {what}"), e);
        let out = File::create(log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        // `setpriv` and `ip` replace themselves with the program that they start, so the process ID stays the
        // same.
        let mut command = ip_that_dies_with_us();
        command
            .args(["netns", "exec", &namespace.name])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            // Use a separate process group, so that Ctrl-C reaches only the lab, which then ends the child.
            .process_group(0);
        let (keeper, over) = mpsc::channel::<()>();
        let (told, child) = mpsc::channel();
        // The process inherits its priority from the thread that starts it, and ends when this thread ends.
        let spawn = move || {
            hurry(Urgency::Tunnel);
            let _ = told.send(command.spawn());
            let _ = over.recv();
        };
        std::thread::Builder::new().name("keeper".to_owned()).spawn(spawn).map_err(failed)?;
        let child = child.recv().unwrap_or_else(|e| Err(std::io::Error::other(e))).map_err(failed)?;
        Ok(Process { what: what.to_owned(), child, log: log.to_owned(), _keeper: keeper })
    }

    /// If the process has exited, returns an error with the last lines of its output.
    pub(super) fn check(&mut self) -> Result<(), LabError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(LabError::Failed(format!("the {} ended early ({status}):\n{}", self.what, self.tail())))
            }
            Err(e) => Err(LabError::failed(&self.what, e)),
        }
    }

    /// Returns whether the process exited successfully, or `None` while it is running.
    pub(super) fn ended(&mut self) -> Option<bool> {
        self.child.try_wait().ok().flatten().map(|status| status.success())
    }

    /// Returns the whole output of the process.
    pub(super) fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns the last lines of the process's output.
    pub(super) fn tail(&self) -> String {
        let text = self.output();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].iter().map(|line| format!("    {line}\n")).collect()
    }

    /// Returns the CPU time in seconds that the process has used so far, or `None` once it has exited.
    pub(super) fn cpu_s(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        Some(cpu_ticks(&stat)? as f64 / USER_HZ)
    }

    /// Asks the process and those that it started to end, and kills them if the process does not end in time.
    pub(super) fn end(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(3);
        // Signal the whole group, because a shell does not pass the signal on to the programs that it runs.
        let group = Pid::from_child(&self.child);
        let asks = matches!(self.child.try_wait(), Ok(None));
        if asks {
            let _ = kill_process_group(group, Signal::INT);
        }
        let asked = Instant::now();
        // Wait for the whole group: a program that the shell started with `&` ignores SIGINT, and others may
        // still write their last lines.
        while matches!(self.child.try_wait(), Ok(None)) || asks && test_kill_process_group(group).is_ok() {
            if asked.elapsed() > PATIENCE {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns user and system time: fields 14 and 15 of a line from `/proc/PID/stat`. The second field is a name
/// in parentheses, which may contain any characters.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Finds a program by its path, or by its name in the directories of PATH.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let named = PathBuf::from(program);
    if program.contains('/') {
        return named.is_file().then_some(named);
    }
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_may_contain_any_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, b"caf\xe9\nno route\n").unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let process = Process { what: "program".to_owned(), child, log, _keeper: mpsc::channel().0 };
        assert!(process.tail().ends_with("    no route\n"), "{}", process.tail());
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 90 0 0 0 12 34 5 6 20 0 3 0 100 0";
        assert_eq!(cpu_ticks(stat), Some(46));
        assert_eq!(cpu_ticks("7 (x) S 1"), None);
    }
}
