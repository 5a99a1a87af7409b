//! Files of the state directory: what must outlive the tunnel.

use mpdccp_tunnel::config::Config;
use mpdccp_tunnel::{Saved, StateFile};
use std::io;
use std::path::{Path, PathBuf};

const ALL: [StateFile; 3] = [StateFile::Volumes, StateFile::Leases, StateFile::Timestamp];

/// The files of one tunnel.
pub(crate) struct StateFiles {
    directory: PathBuf,
    interface: String,
}

impl StateFiles {
    pub(crate) fn new(cfg: &Config) -> StateFiles {
        StateFiles { directory: cfg.state.clone(), interface: cfg.interface.clone() }
    }

    fn path(&self, file: StateFile) -> PathBuf {
        self.directory.join(format!("{}.{}", self.interface, file.suffix()))
    }

    /// What the last run left.
    pub(crate) fn load(&mut self) -> Saved {
        ALL.into_iter()
            .filter_map(|file| Some((file, std::fs::read_to_string(self.path(file)).ok()?)))
            .collect()
    }

    pub(crate) fn save(&self, file: StateFile, text: &str) {
        let path = self.path(file);
        let Err(e) = write_whole(&path, text) else { return };
        let what = match file {
            StateFile::Volumes => "volumes are forgotten at a restart",
            StateFile::Leases => "leases are forgotten at a restart",
            // Each second, and only a clock that is set back makes it matter.
            StateFile::Timestamp => return tracing::debug!("{}: {e}", path.display()),
        };
        tracing::warn!("{what}: {}: {e}", path.display());
    }
}

/// Writes a file whole or not at all, should the power go.
fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = StateFiles { directory: directory.path().join("state"), interface: "tun".into() };
        assert!(files.load().is_empty());
        files.save(StateFile::Volumes, "{}");
        files.save(StateFile::Timestamp, "5");
        assert_eq!(
            files.load(),
            [(StateFile::Volumes, "{}".into()), (StateFile::Timestamp, "5".into())].into()
        );
        assert!(files.path(StateFile::Leases).ends_with("state/tun.leases.json"));
    }
}
