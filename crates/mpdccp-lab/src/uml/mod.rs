//! The third backend, which runs Linux itself in virtual time.
//!
//! A User Mode Linux kernel, built by `tools/uml/build`, runs as a process of this machine. Its root is the
//! host's file system, and the namespace backend runs inside it. Its clock advances only while all its
//! processes sleep (time travel, `inf-cpu`), so results depend neither on the machine nor on its load: for
//! the same seed, kernel TCP, MPTCP, the tunnel and any other program give the same result. A program that
//! busy-waits for some time never finishes, because the clock does not advance while it is running.

mod guest;

use core::time::Duration;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub use guest::guest;

use crate::backend::Spent;
use crate::netns::{self, Netns, Reaper};
use crate::{Backend, LabError, Plan, RunRecord, Sample, code};

/// Environment variable with the path of a kernel to use instead of the one that `tools/uml/build` makes.
const KERNEL: &str = "MPDCCP_UML";
/// Directory of the jobs, over which the guest must not mount a file system.
const JOBS: &str = "/var/tmp";
/// Prefix of the job directories' names, followed by the lab's process ID.
const PREFIX: &str = "mpdccp-uml-";
/// How often the lab checks whether a kernel is still running.
const NAP: Duration = Duration::from_millis(20);
/// Memory of a kernel. It must hold both tunnel ends, the links and the packets of a run. The host provides
/// only the memory that the kernel uses.
const MEMORY: &str = "mem=1G";
/// Number of console lines that the error contains if the kernel fails.
const LAST_LINES: usize = 12;

/// Describes a run to the kernel's first process.
#[derive(Serialize, Deserialize)]
struct Job {
    /// The scenario file's name in errors. Paths of other files are relative to its directory.
    file: PathBuf,
    text: String,
    label: String,
    cell: String,
    repeat: u32,
    seed: u64,
}

/// Names of the files in a job's directory.
mod left {
    pub(super) const JOB: &str = "job.json";
    pub(super) const SAMPLE: &str = "sample.json";
    pub(super) const RECORD: &str = "record";
    pub(super) const ERROR: &str = "error";
    pub(super) const CONSOLE: &str = "console";
}

/// The backend that runs User Mode Linux.
#[derive(Debug)]
pub struct Uml {
    kernel: PathBuf,
    netns: Netns,
    /// The `mpdccp` program.
    program: PathBuf,
    spent: Spent,
}

impl Uml {
    /// Creates a backend that runs `program` as both ends of the tunnel and as the kernel's first process.
    ///
    /// # Errors
    /// Fails if there is no kernel (the error says how to build one), or if the kernel cannot start the
    /// program.
    pub fn new(program: PathBuf) -> Result<Uml, LabError> {
        if program.starts_with("/tmp") || program.to_string_lossy().contains(char::is_whitespace) {
            return Err(LabError::Missing(format!(
                "User Mode Linux cannot start {}: move the program to a path without spaces outside /tmp",
                program.display()
            )));
        }
        let named = std::env::var_os(KERNEL).map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_default();
        let kernel = named.unwrap_or_else(|| cache.join("mpdccp/uml/linux"));
        if !kernel.is_file() {
            return Err(LabError::Missing(format!(
                "no User Mode Linux kernel at {}: build it with tools/uml/build (10 minutes), or name one in {KERNEL}",
                kernel.display()
            )));
        }
        sweep();
        Ok(Uml { kernel, netns: Netns::new(program.clone()), program, spent: Spent::default() })
    }

    /// Starts the kernel for the job in `dir`.
    fn boot(&self, dir: &Path, seed: u64) -> Result<Running, LabError> {
        let console = File::create(dir.join(left::CONSOLE))
            .map_err(|e| LabError::failed("cannot create a file for the kernel's output", e))?;
        let child = Command::new(&self.kernel)
            .args([MEMORY, "root=/dev/root", "rootfstype=hostfs", "rw", "time-travel=inf-cpu", "quiet"])
            // Start the clock at the same time in each run, so that results do not depend on the date.
            .args(["time-travel-start=1000000000000000000", "panic=-1"])
            // Unless a console is named here, User Mode Linux appends one to the arguments of the first
            // process.
            .args(["con=null", "con0=null,fd:1", "console=tty0"])
            .arg(format!("uml_dir={}/", dir.display()))
            .arg(format!("init={}", self.program.display()))
            .args(["--", "lab", "guest"])
            .arg(dir)
            .env("UML_SEED", seed.to_string())
            .env("TMPDIR", netns::scratch())
            // Put all of the kernel's processes into a separate group, so that terminal signals do not reach
            // them. A stop signal would break the kernel.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(
                console
                    .try_clone()
                    .map_err(|e| LabError::failed("cannot create a file for the kernel's output", e))?,
            )
            .stderr(console)
            .spawn()
            .map_err(|e| LabError::failed(format!("cannot start {}", self.kernel.display()), e))?;
        let group = child.id().to_string();
        let args = [OsStr::new(&group), dir.as_os_str()];
        let mut kernel = Running { child, reaper: None };
        kernel.reaper = Some(Reaper::start(SCRIPT, args.into_iter())?);
        Ok(kernel)
    }
}

/// A script that waits until its standard input ends, which happens when the lab ends for any reason. It then
/// kills the kernel's process group (first argument), and removes the job's directory (second argument). The
/// `kill` of dash does not accept `--` after `-9`.
const SCRIPT: &str = r#"
while read -r _; do :; done
kill -9 "-$1"
rm -rf "$2"
"#;

/// A running kernel. Dropping the value kills the kernel with all its processes.
struct Running {
    child: Child,
    reaper: Option<Reaper>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.reaper.take().is_none() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Backend for Uml {
    fn name(&self) -> &'static str {
        "uml"
    }

    fn lacks(&self, plan: &Plan<'_>) -> Option<String> {
        self.netns.lacks(plan)
    }

    fn made_by(&self, plan: &Plan<'_>) -> BTreeMap<String, String> {
        let kernel = code::hash_of_file(&self.kernel).unwrap_or_else(|e| format!("unreadable ({e})"));
        let mut all = self.netns.made_by(plan);
        all.insert("kernel".to_owned(), format!("User Mode Linux, {kernel}"));
        all
    }

    fn run(&self, plan: &Plan<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        if let Some(text) = self.lacks(plan) {
            return Err(LabError::Missing(text));
        }
        let failed = |e: &dyn core::fmt::Display| LabError::failed("the run in User Mode Linux failed", e);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let dir = TempDir::with_prefix_in(prefix, JOBS).map_err(|e| failed(&e))?;
        let file = std::path::absolute(plan.scenario.file()).map_err(|e| failed(&e))?;
        let job = Job {
            file,
            text: plan.scenario.source_text(),
            label: plan.variant.label.as_ref().clone(),
            cell: plan.cell.name.clone(),
            repeat: plan.repeat,
            seed: plan.seed,
        };
        let job = serde_json::to_vec(&job).map_err(|e| failed(&e))?;
        fs::write(dir.path().join(left::JOB), job).map_err(|e| failed(&e))?;
        let began = Instant::now();
        let mut kernel = self.boot(dir.path(), plan.seed)?;
        let mut shown = None;
        while kernel.child.try_wait().map_err(|e| failed(&e))?.is_none() {
            netns::check_stop()?;
            sleep(NAP);
            let sample = fs::read(dir.path().join(left::SAMPLE)).ok();
            let sample: Option<Sample> = sample.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            if let Some(sample) = sample.filter(|sample| shown != Some(sample.t)) {
                shown = Some(sample.t);
                watch(&sample);
            }
        }
        if let Some(why) = error_in(dir.path()) {
            return Err(why);
        }
        let record = fs::read(dir.path().join(left::RECORD)).map_err(|_| {
            LabError::failed("the kernel ended without a result; its last output", last_words(dir.path()))
        })?;
        self.spent.add(plan.scenario.duration(), began.elapsed());
        postcard::from_bytes(&record).map_err(|e| failed(&e))
    }

    fn parallel(&self) -> bool {
        true
    }

    fn speed(&self) -> Option<f64> {
        self.spent.speed()
    }
}

/// Removes job directories left behind by labs that were killed.
fn sweep() {
    netns::orphans(Path::new(JOBS), PREFIX).for_each(|name| {
        let _ = fs::remove_dir_all(Path::new(JOBS).join(name));
    });
}

/// Returns the error that the guest wrote. Its kind decides whether the other runs continue.
fn error_in(dir: &Path) -> Option<LabError> {
    let text = fs::read_to_string(dir.join(left::ERROR)).ok()?;
    Some(serde_json::from_str(&text).unwrap_or(LabError::Failed(text)))
}

fn last_words(dir: &Path) -> String {
    let bytes = fs::read(dir.join(left::CONSOLE)).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guest mounts a file system over /tmp, and the kernel splits its arguments at spaces.
    #[test]
    fn a_program_that_the_kernel_cannot_start_is_refused() {
        for program in ["/tmp/target/mpdccp", "/home/my programs/mpdccp"] {
            let error = Uml::new(program.into()).unwrap_err().to_string();
            assert!(error.contains(program) && error.contains("outside /tmp"), "{error}");
        }
    }

    #[test]
    fn an_error_keeps_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        assert!(error_in(dir.path()).is_none());
        guest::leave_error(dir.path(), &LabError::Command("no such file".to_owned())).unwrap();
        let error = error_in(dir.path()).unwrap();
        assert!(matches!(&error, LabError::Command(why) if why == "no such file"), "{error}");
    }
}
