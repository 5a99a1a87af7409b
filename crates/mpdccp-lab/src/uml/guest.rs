//! The first process of the User Mode Linux kernel.

use std::fs;
use std::path::Path;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use super::{Job, left};
use crate::netns::Netns;
use crate::{Backend, LabError, Plan, RunRecord, Sample, Scenario};

/// Makes the run described by the job in `dir`, then powers the kernel off.
///
/// # Errors
/// Fails if this process is not the first process of a kernel; powering off would otherwise affect the
/// machine itself.
pub fn guest(dir: &Path) -> Result<(), LabError> {
    if std::process::id() != 1 {
        let what = "`lab guest` is only for the first process of the kernel of --backend uml";
        return Err(LabError::Missing(what.to_owned()));
    }
    // Read the job before `prepare` hides the files below /tmp, which the scenario may name.
    let ended = job(dir).and_then(|job| prepare().and_then(|()| run(dir, &job))).and_then(|record| {
        let bytes = postcard::to_stdvec(&record).map_err(|e| LabError::failed("cannot write the run", e))?;
        whole(&dir.join(left::RECORD), &bytes)
    });
    if let Err(why) = ended {
        let _ = leave_error(dir, &why);
    }
    // The kernel would panic if its first process exited.
    let _ = reboot(RebootCommand::PowerOff);
    Ok(())
}

/// Mounts the guest's own file systems on top of the host's. The kernel has already mounted /dev.
fn prepare() -> Result<(), LabError> {
    for (kind, at) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/dev/shm"), ("tmpfs", "/run"), ("tmpfs", "/tmp")]
    {
        let _ = fs::create_dir(at);
        mount(kind, at, kind, MountFlags::empty(), None)
            .map_err(|e| LabError::failed(format!("cannot mount {at} in User Mode Linux"), e))?;
    }
    Ok(())
}

fn failed(e: &dyn core::fmt::Display) -> LabError {
    LabError::failed("cannot read the run", e)
}

fn job(dir: &Path) -> Result<(Job, Scenario), LabError> {
    let job = fs::read(dir.join(left::JOB)).map_err(|e| failed(&e))?;
    let job: Job = serde_json::from_slice(&job).map_err(|e| failed(&e))?;
    let scenario = Scenario::parse(&job.file.to_string_lossy(), &job.text).map_err(|e| failed(&e))?;
    Ok((job, scenario))
}

fn run(dir: &Path, (job, scenario): &(Job, Scenario)) -> Result<RunRecord, LabError> {
    let (Some(variant), Some(cell)) = (scenario.variant(&job.label), scenario.cell(&job.cell)) else {
        return Err(failed(&"no such variant or cell"));
    };
    let plan = Plan { scenario, variant, cell, repeat: job.repeat, seed: job.seed };
    let program = std::env::current_exe().map_err(|e| failed(&e))?;
    let sample = dir.join(left::SAMPLE);
    let mut watch = |now: &Sample| {
        let _ = serde_json::to_vec(now).map(|bytes| whole(&sample, &bytes));
    };
    Netns::new(program).run(&plan, &mut watch)
}

/// Writes the error of the run for the lab outside the kernel.
pub(super) fn leave_error(dir: &Path, why: &LabError) -> Result<(), LabError> {
    let bytes = serde_json::to_vec(why).map_err(|e| LabError::failed("cannot write the error", e))?;
    whole(&dir.join(left::ERROR), &bytes)
}

/// Writes a file in such a way that a reader sees either the whole file or none.
fn whole(file: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let part = file.with_extension("part");
    fs::write(&part, bytes)
        .and_then(|()| fs::rename(&part, file))
        .map_err(|e| LabError::failed(format!("cannot write {}", file.display()), e))
}
