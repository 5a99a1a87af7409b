//! Processes of the program inside a namespace.

use core::time::Duration;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::priority::{Urgency, hurry};
use super::world::Namespace;
use crate::LabError;

/// A process that is ended when dropped.
#[derive(Debug)]
pub(super) struct Process {
    what: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` inside `namespace` with its output going to `log`.
    pub(super) fn start(
        namespace: &Namespace,
        what: &str,
        program: &Path,
        args: &[&str],
        log: &Path,
    ) -> Result<Process, LabError> {
        let failed = |e| LabError::failed(format!("starting the {what}"), e);
        let out = File::create(log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        // `ip netns exec` becomes the program: the process id stays.
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &namespace.name])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            // Ctrl-C is for us; we tell it in our own time.
            .process_group(0);
        // Urgency is inherited, so a thread that has it starts the process.
        let child = std::thread::scope(|scope| {
            let spawn = || {
                hurry(Urgency::Contender);
                command.spawn()
            };
            scope.spawn(spawn).join().unwrap_or_else(|_| Err(std::io::Error::other("a panic")))
        });
        let child = child.map_err(failed)?;
        Ok(Process { what: what.to_owned(), child, log: log.to_owned() })
    }

    /// An error if it has ended, with the last lines it wrote.
    pub(super) fn check(&mut self) -> Result<(), LabError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(LabError::Failed(format!("the {} ended early ({status}):\n{}", self.what, self.tail())))
            }
            Err(e) => Err(LabError::failed(&self.what, e)),
        }
    }

    /// The last lines it wrote.
    pub(super) fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].iter().map(|line| format!("    {line}\n")).collect()
    }

    /// Asks it to end, and makes it end when it has not after a while.
    pub(super) fn end(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(3);
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _ = kill_process(pid, Signal::INT);
        }
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
