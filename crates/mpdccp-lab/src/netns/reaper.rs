//! Cleans up after a lab that was killed, such as by `kill -9`.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::LabError;

/// Waits for the end of its standard input, which comes when the lab ends for any reason. Then it ends the
/// processes in the namespaces that the second and later arguments name, removes these namespaces with all
/// their devices, and removes the directory that the first argument names.
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

/// A shell that cleans up after the lab. Drop it last, so that it finds nothing to clean up after a normal end.
#[derive(Debug)]
pub(crate) struct Reaper(Child);

impl Reaper {
    /// Starts watching namespaces and a directory.
    pub(super) fn of_namespaces(namespaces: &[String], dir: &Path) -> Result<Reaper, LabError> {
        Reaper::start(SCRIPT, [dir.as_os_str()].into_iter().chain(namespaces.iter().map(OsStr::new)))
    }

    /// Starts `script`, which should act when its standard input ends.
    pub(crate) fn start<'a>(script: &str, args: impl Iterator<Item = &'a OsStr>) -> Result<Reaper, LabError> {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "reaper"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals to the terminal's or the lab's process group must not reach it.
            .process_group(0);
        command.spawn().map(Reaper).map_err(|e| LabError::failed("starting the reaper", e))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
