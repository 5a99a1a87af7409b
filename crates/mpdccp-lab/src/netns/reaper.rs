//! Cleans up after a lab that dies without a chance to do so itself, such as by `kill -9`.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::LabError;

/// Waits for the end of its standard input, which comes when the lab ends in whatever way; then ends the processes of the namespaces that
/// its arguments name after the first, removes them with all devices in them, and removes the directory that the first names.
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

/// A shell that outlives the lab. Dropped last, it finds nothing left to do.
#[derive(Debug)]
pub(super) struct Reaper(Child);

impl Reaper {
    /// Starts watching over namespaces and a directory.
    pub(super) fn start(namespaces: &[String], dir: &Path) -> Result<Reaper, LabError> {
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "reaper"])
            .arg(dir)
            .args(namespaces)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to the terminal's processes, or to the lab's, is not for it.
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
