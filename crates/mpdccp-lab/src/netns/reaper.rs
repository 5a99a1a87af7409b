//! Cleans up after a lab that was killed, for example by `kill -9`.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::LabError;

/// A script that waits until its standard input ends, which happens when the lab ends for any reason. Its
/// first argument is a directory, and its other arguments are namespaces. It kills the processes in the
/// namespaces, removes the namespaces with all their devices, and finally removes the directory.
const SCRIPT: &str = r#"
while read -r _; do :; done
dir=$1
shift
for name; do
    for pid in $(ip netns pids "$name"); do kill -9 "$pid"; done
    ip netns del "$name"
done
rm -rf "$dir"
"#;

/// A shell that cleans up after the lab. Drop it last, so that after a normal end there is nothing left to
/// clean up.
#[derive(Debug)]
pub(crate) struct Reaper(Child);

impl Reaper {
    /// Starts a reaper that removes these namespaces and this directory when the lab ends.
    pub(super) fn of_namespaces(namespaces: &[String], dir: &Path) -> Result<Reaper, LabError> {
        Reaper::start(SCRIPT, [dir.as_os_str()].into_iter().chain(namespaces.iter().map(OsStr::new)))
    }

    /// Starts a reaper that runs `script` to clean up when its standard input ends.
    pub(crate) fn start<'a>(script: &str, args: impl Iterator<Item = &'a OsStr>) -> Result<Reaper, LabError> {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "reaper"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Use a separate process group, so that signals to the process group of the terminal or of the
            // lab do not reach the reaper.
            .process_group(0);
        command.spawn().map(Reaper).map_err(|e| LabError::failed("cannot start the reaper", e))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
