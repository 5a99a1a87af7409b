//! Writes and reads the files in the state directory, which outlive the tunnel.

use crate::tunnel::face::control;
use mpdccp_tunnel::config::Config;
use mpdccp_tunnel::{Saved, StateFile, line_start};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest interval between attempts to write a file.
const AGAIN: Duration = Duration::from_secs(60);

/// The files of one shard of a tunnel.
pub(crate) struct StateFiles {
    directory: PathBuf,
    interface: String,
    /// File that lists the TCP connections carried as streams. It is next to the control socket in /run, so
    /// that a reboot removes it and its frequent writes do not wear out flash memory.
    connections: PathBuf,
    lines: Option<File>,
    /// Files whose last write failed.
    failing: BTreeSet<StateFile>,
}

impl StateFiles {
    pub(crate) fn new(cfg: &Config, shard: u8) -> StateFiles {
        let (directory, interface) = (cfg.state.clone(), cfg.interface.clone());
        StateFiles {
            directory,
            interface,
            connections: connections(cfg, shard),
            lines: None,
            failing: BTreeSet::new(),
        }
    }

    fn path(&self, file: StateFile) -> PathBuf {
        match file {
            StateFile::Connections => self.connections.clone(),
            _ => self.directory.join(format!("{}.{}", self.interface, file.name())),
        }
    }

    /// Reads the files written by the last run.
    pub(crate) fn load(&mut self) -> Saved {
        StateFile::ALL
            .into_iter()
            .filter_map(|file| Some((file, std::fs::read_to_string(self.path(file)).ok()?)))
            .collect()
    }

    /// Writes a file. Returns false if this fails, and logs the error unless the last attempt failed, too.
    pub(crate) fn save(&mut self, file: StateFile, text: &str) -> bool {
        let path = self.path(file);
        let Err(e) = write_whole(&path, text) else {
            self.failing.remove(&file);
            return true;
        };
        if !self.failing.insert(file) {
            return false;
        }
        let what = match file {
            StateFile::Volumes => "the data volumes counted this month will be lost at a restart",
            StateFile::Leases => "the addresses assigned to clients will be lost at a restart",
            StateFile::Connections => "the list of streamed connections will be lost at a restart",
            StateFile::Capacities => "the measured capacities of the paths will be lost at a restart",
            // Log this only as a debug message: the file is written after every handshake, and losing it
            // matters only if the clock is set back.
            StateFile::Timestamp => {
                tracing::debug!("{}: {e}", path.display());
                return false;
            }
        };
        tracing::warn!("{what}: cannot write {}: {e}", path.display());
        false
    }

    /// Writes files, and keeps those that cannot be written.
    fn save_all(&mut self, unsaved: &mut BTreeMap<StateFile, String>) {
        unsaved.retain(|file, text| !self.save(*file, text));
    }

    /// Creates the file for [`save_line`](Self::save_line). Call this while the process may still create
    /// files.
    pub(crate) fn open_lines(&mut self) {
        let open =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.connections);
        // Do not warn: without this file, hosts merely take longer to notice that this end has lost their
        // connections in a crash.
        self.lines = open.map_err(|e| tracing::debug!("{}: {e}", self.connections.display())).ok();
    }

    /// Writes one line of a file in which all lines have the same length.
    pub(crate) fn save_line(&mut self, line: u32, text: &str) {
        let Some(lines) = &self.lines else { return };
        if let Err(e) = lines.write_all_at(text.as_bytes(), line_start(line)) {
            tracing::debug!("{}: {e}", self.connections.display());
            self.lines = None;
        }
    }
}

/// Saves files on a separate thread, because the tunnel's data thread waits for the helper process, and a
/// disk may take seconds. Files that cannot be written, for example on a full disk, are tried again. Dropping
/// this value waits until all files have been tried.
pub(crate) struct Saver {
    queue: Option<Sender<(StateFile, String)>>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    pub(crate) fn start(mut files: StateFiles) -> io::Result<Saver> {
        let (queue, waiting) = channel::<(StateFile, String)>();
        let serve = move || {
            let mut unsaved = BTreeMap::new();
            loop {
                let wait = if unsaved.is_empty() { Duration::MAX } else { AGAIN };
                let first = waiting.recv_timeout(wait);
                let ended = first == Err(RecvTimeoutError::Disconnected);
                // If the disk is slow, write only the newest text of each file.
                unsaved.extend(first.into_iter().chain(waiting.try_iter()));
                files.save_all(&mut unsaved);
                if ended {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("state".into()).spawn(serve)?;
        Ok(Saver { queue: Some(queue), thread: Some(thread) })
    }

    pub(crate) fn save(&self, file: StateFile, text: String) {
        if let Some(queue) = &self.queue {
            // Ignore the error: the thread ends only if it panics.
            let _ = queue.send((file, text));
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the path of the connections file, which is next to the control socket.
fn connections(cfg: &Config, shard: u8) -> PathBuf {
    control::path(cfg).with_extension(format!("{}-{shard}", StateFile::Connections.name()))
}

/// Removes the connections files of all shards. A tunnel that ends cleanly has reset all connections.
pub(crate) fn forget_connections(cfg: &Config) {
    for shard in 0..cfg.shards.0 {
        let _ = std::fs::remove_file(connections(cfg, shard));
    }
}

/// Writes a file atomically. A power failure leaves either the old or the new text.
pub(super) fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    write(file, text, 0o666)
}

/// Writes a file like `write_whole`, but makes it readable only by this user.
pub(crate) fn write_secret(file: &Path, text: &str) -> io::Result<()> {
    write(file, text, 0o600)
}

fn write(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let new = file.with_extension("new");
    // Remove the file first, because `mode` only affects a new file.
    let _ = std::fs::remove_file(&new);
    let replace = || {
        let mut open = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new)?;
        open.write_all(text.as_bytes())?;
        // Without this, the name could reach the disk before the text.
        open.sync_all()?;
        std::fs::rename(&new, file)
    };
    // On a full disk, a part of the text would take the room that the other files need.
    replace().inspect_err(|_| drop(std::fs::remove_file(&new)))?;
    // Ignore errors: some file systems cannot sync a directory, and the file is complete in any case.
    let _ = file.parent().map(|directory| File::open(directory)?.sync_all());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::face::events::Events;
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::layer::{Layer, SubscriberExt};

    fn files(directory: &Path) -> StateFiles {
        StateFiles {
            directory: directory.join("state"),
            interface: "tun".into(),
            connections: directory.join("tun.connections-0"),
            lines: None,
            failing: BTreeSet::new(),
        }
    }

    #[test]
    fn saved_state_is_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = files(directory.path());
        assert!(files.load().is_empty());
        assert!(files.save(StateFile::Volumes, "{}") && files.save(StateFile::Timestamp, "5"));
        assert_eq!(
            files.load(),
            [(StateFile::Volumes, "{}".into()), (StateFile::Timestamp, "5".into())].into()
        );
        files.open_lines();
        for (line, letter) in [(1, "b"), (0, "a")] {
            files.save_line(line, &letter.repeat(line_start(1) as usize));
        }
        assert_eq!(files.load()[&StateFile::Connections], "a".repeat(96) + &"b".repeat(96));
        assert!(files.path(StateFile::Leases).ends_with("state/tun.leases.json"));
        let volumes = files.path(StateFile::Volumes);
        let saver = Saver::start(files).unwrap();
        for text in ["1", "2"] {
            saver.save(StateFile::Volumes, text.into());
        }
        drop(saver);
        assert_eq!(std::fs::read_to_string(volumes).unwrap(), "2", "the drop waits for the newest text");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let mut files = files(directory.path());
        let mut unsaved = BTreeMap::from([(StateFile::Leases, "1".to_owned())]);
        std::fs::write(&state, "in the way of the directory").unwrap();
        let events = Events::default();
        let log = tracing_subscriber::registry().with(events.clone().with_filter(LevelFilter::WARN));
        tracing::subscriber::with_default(log, || {
            for _ in 0..3 {
                files.save_all(&mut unsaved);
            }
        });
        assert_eq!((unsaved.len(), events.newest(9).len()), (1, 1), "one warning is enough");
        std::fs::remove_file(&state).unwrap();
        files.save_all(&mut unsaved);
        assert!(unsaved.is_empty());
        assert_eq!(std::fs::read_to_string(files.path(StateFile::Leases)).unwrap(), "1");
        // The new file cannot get the name of a directory.
        std::fs::create_dir(files.path(StateFile::Volumes)).unwrap();
        assert!(!files.save(StateFile::Volumes, "2"));
        let mut names = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.all(|name| !name.to_string_lossy().ends_with(".new")), "a part stays");
    }
}
