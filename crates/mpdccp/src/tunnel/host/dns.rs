//! Sets this host's name servers while a session is open. Uses systemd-resolved or resolvconf if this host
//! has one of them. Otherwise writes /etc/resolv.conf and keeps the original text in the state directory.
//! Restores the original settings when the session or the tunnel ends or, after a crash, at the next start.

use crate::tunnel::host::hooks::{self, TIMEOUT};
use crate::tunnel::host::state_files;
use mpdccp_tunnel::config::Config;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const FILE: &str = "/etc/resolv.conf";
/// Start of an /etc/resolv.conf that a tunnel has written.
const MARK: &str = "# mpdccp ";
const KEPT_IN: &str = ": the previous content is in ";
/// The file INTERFACE.resolvconf of the state directory contains the name of a tunnel's entry in resolvconf.
const ENTRY: &str = ".resolvconf";

/// How this host manages its name servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Resolved,
    Resolvconf,
    File,
}

impl Way {
    fn here() -> Way {
        let program = |name: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
        };
        if Path::new("/run/systemd/resolve").is_dir() && program("resolvectl") {
            Way::Resolved
        } else if program("resolvconf") {
            Way::Resolvconf
        } else {
            Way::File
        }
    }
}

/// Changes the name servers on a separate thread, because the resolver tools may be slow. Dropping this value
/// restores the original settings.
pub(crate) struct Dns {
    idle: Option<Changes>,
    thread: Option<(Sender<Vec<IpAddr>>, JoinHandle<()>)>,
}

impl Dns {
    /// Removes what a killed tunnel has left behind. Sets no name servers yet.
    pub(crate) fn new(cfg: &Config) -> Dns {
        Dns { idle: Some(Changes::new(cfg)), thread: None }
    }

    /// Sets the name servers. An empty list restores the original settings.
    pub(crate) fn set(&mut self, servers: Vec<IpAddr>) {
        // Start the thread only now, because a thread inherits the capabilities that its creator has at that
        // time.
        if let Some(mut changes) = self.idle.take() {
            let (tell, told) = channel::<Vec<IpAddr>>();
            let serve = move || told.into_iter().for_each(|servers| changes.set(&servers));
            match std::thread::Builder::new().name("dns".into()).spawn(serve) {
                Ok(thread) => self.thread = Some((tell, thread)),
                Err(e) => tracing::error!(
                    "dns: cannot start the thread that sets the name servers: {e}; they stay unchanged"
                ),
            }
        }
        if let Some((tell, _)) = &self.thread {
            // Ignore the error: if the thread has ended, it has logged the reason.
            let _ = tell.send(servers);
        }
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        if let Some((tell, thread)) = self.thread.take() {
            drop(tell);
            let _ = thread.join();
        }
    }
}

/// The changes that are in force. Dropping this value reverts them.
struct Changes {
    interface: String,
    file: PathBuf,
    kept: PathBuf,
    resolvconf: String,
    way: Option<Way>,
    /// Lock of the file in the state directory that says what to revert.
    _lock: Option<File>,
}

impl Changes {
    fn new(cfg: &Config) -> Changes {
        let kept = cfg.state.join(format!("{}.resolv.conf", cfg.interface));
        let (interface, resolvconf) = (cfg.interface.clone(), "resolvconf".into());
        let dns = Changes { interface, file: FILE.into(), kept, resolvconf, way: None, _lock: None };
        if cfg.is_client() && lock(&dns.kept).is_some() {
            tracing::info!("restoring {FILE}, because the last run ended without restoring it");
            dns.restore_file();
        }
        dns.revert_leftovers();
        dns
    }

    fn set(&mut self, servers: &[IpAddr]) {
        match servers.is_empty() {
            true => self.restore(),
            false => self.set_by(Way::here(), servers),
        }
    }

    fn set_by(&mut self, way: Way, servers: &[IpAddr]) {
        // Even if a later step fails, an earlier one may have changed something.
        self.way = Some(way);
        let done = match way {
            Way::Resolved => self.resolved(servers),
            Way::Resolvconf => self.add_entry(servers),
            Way::File => self.write_file(servers).map_err(|e| format!("{}: {e}", self.file.display())),
        };
        let names: Vec<String> = servers.iter().map(IpAddr::to_string).collect();
        match done {
            Ok(()) => tracing::info!("using the name servers {} through the tunnel", names.join(", ")),
            Err(e) => tracing::warn!("dns: cannot use the name servers {}: {e}", names.join(", ")),
        }
    }

    fn restore(&mut self) {
        match self.way.take() {
            None => {}
            // Ignore the error: the settings may have been deleted along with the interface.
            Some(Way::Resolved) => drop(run("resolvectl", &["revert", &self.interface], "")),
            Some(Way::Resolvconf) => {
                if let Err(e) = self.delete_entry() {
                    tracing::warn!(
                        "dns: cannot remove the name servers of the tunnel, so they stay in use: {e}"
                    );
                }
            }
            Some(Way::File) => self.restore_file(),
        }
    }

    fn resolved(&self, servers: &[IpAddr]) -> Result<(), String> {
        let names: Vec<String> = servers.iter().map(IpAddr::to_string).collect();
        let mut args = vec!["dns", &self.interface];
        args.extend(names.iter().map(String::as_str));
        run("resolvectl", &args, "")?;
        // The domain `~.` directs the queries for all domains to these servers.
        run("resolvectl", &["domain", &self.interface, "~."], "")
    }

    fn entry(&self) -> PathBuf {
        self.kept.with_file_name(format!("{}{ENTRY}", self.interface))
    }

    fn add_entry(&mut self, servers: &[IpAddr]) -> Result<(), String> {
        let name = interface_name(&self.interface);
        // Ignore the error: only the next start after a crash needs the file.
        let _ = state_files::write_whole(&self.entry(), &name);
        self._lock = lock(&self.entry());
        run(&self.resolvconf, &["-a", &name, "-m", "0", "-x"], &lines(servers))
    }

    fn delete_entry(&self) -> Result<(), String> {
        run(&self.resolvconf, &["-d", &interface_name(&self.interface)], "")?;
        let _ = std::fs::remove_file(self.entry());
        Ok(())
    }

    /// Reverts the changes that killed tunnels have left behind, also those of tunnels with another interface
    /// or without `dns` in their current file.
    fn revert_leftovers(&self) {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let mark = text.lines().next().and_then(|line| line.strip_prefix(MARK)?.split_once(KEPT_IN));
        if let Some((interface, kept)) = mark
            && let Some(held) = lock(kept.as_ref())
        {
            tracing::info!("restoring {}, because the last run of {interface} did not", self.file.display());
            let (file, kept) = (self.file.clone(), kept.into());
            let resolvconf = self.resolvconf.clone();
            let (interface, _lock) = (interface.into(), Some(held));
            Changes { interface, file, kept, resolvconf, way: None, _lock }.restore_file();
        }
        let files = self.kept.parent().into_iter().flat_map(std::fs::read_dir).flatten().flatten();
        for file in files.map(|file| file.path()) {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(interface) = name.strip_suffix(ENTRY) else { continue };
            if let (Some(_lock), Ok(entry)) = (lock(&file), std::fs::read_to_string(&file)) {
                tracing::info!("removing the name servers of {interface}, because its last run did not");
                // Ignore the errors: after a restart of the host, there is no such entry.
                let _ = run(&self.resolvconf, &["-d", entry.trim()], "");
                let _ = std::fs::remove_file(&file);
            }
        }
    }

    fn mark(&self) -> String {
        format!("{MARK}{}{KEPT_IN}{}\n", self.interface, self.kept.display())
    }

    /// Writes the file in place rather than replacing it, because the file may be a mount point.
    fn write_file(&mut self, servers: &[IpAddr]) -> std::io::Result<()> {
        let before = match std::fs::read_to_string(&self.file) {
            Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
            other => other?,
        };
        if !before.starts_with(&self.mark()) {
            if let Some(mark) = before.lines().next().filter(|line| line.starts_with(MARK)) {
                return Err(std::io::Error::other(format!(
                    "another tunnel wrote this file and would later restore it (`{mark}`); \
                     set `dns` for only one tunnel, or restore the file if that tunnel is not running"
                )));
            }
            state_files::write_whole(&self.kept, &before)?;
            self._lock = lock(&self.kept);
        }
        let options = before.lines().filter(|line| line.starts_with("search") || line.starts_with("options"));
        let options: String = options.map(|line| format!("{line}\n")).collect();
        let text = format!("{}{}{options}", self.mark(), lines(servers));
        std::fs::write(&self.file, text).inspect_err(|_| {
            // If the disk is full, the file is empty now, but its previous text fits again.
            let _ = std::fs::write(&self.file, &before);
        })
    }

    fn restore_file(&self) {
        // A full disk or a power failure may have cut off the text.
        let mark = self.mark();
        let is_ours = |text: String| text.starts_with(&mark) || mark.starts_with(&text);
        let ours = std::fs::read_to_string(&self.file).is_ok_and(is_ours);
        let done = match (ours, std::fs::read(&self.kept)) {
            (true, Ok(before)) => {
                // Sync the text to the disk before the saved text is removed.
                File::create(&self.file).and_then(|mut file| {
                    file.write_all(&before)?;
                    file.sync_all()
                })
            }
            // Another program has changed the file in the meantime, so leave it as it is.
            (false, _) => Ok(()),
            (true, Err(e)) => Err(e),
        };
        match done.and_then(|()| std::fs::remove_file(&self.kept)) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                tracing::warn!("dns: cannot restore {}: {e}", self.file.display());
            }
            _ => {}
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Locks a file until this process ends. Returns `None` if the file does not exist, or if the tunnel that
/// wrote it is running. That tunnel may be in another network namespace, where its interface is not visible.
fn lock(file: &Path) -> Option<File> {
    let file = File::open(file).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}

/// Returns the name under which resolvconf knows the tunnel. Debian's resolvconf sorts name servers by the
/// names of their interfaces, in the order of a list of patterns. The tunnel's own name would come last, so
/// the name begins with the first prefix in the list.
fn interface_name(interface: &str) -> String {
    let order = std::fs::read_to_string("/etc/resolvconf/interface-order").unwrap_or_default();
    format!("{}{interface}.mpdccp", first_prefix(&order))
}

fn first_prefix(order: &str) -> String {
    let mut prefixes = order.lines().filter_map(|line| line.trim().strip_suffix('*'));
    let is_plain =
        |prefix: &&str| !prefix.is_empty() && prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    prefixes.find(is_plain).map_or_else(String::new, |prefix| format!("{prefix}."))
}

fn lines(servers: &[IpAddr]) -> String {
    servers.iter().map(|server| format!("nameserver {server}\n")).collect()
}

fn run(program: &str, args: &[&str], input: &str) -> Result<(), String> {
    let since = Instant::now();
    run_while(program, args, input, || TIMEOUT.saturating_sub(since.elapsed()))
}

/// Runs a program, and kills it once no time is left.
fn run_while(
    program: &str,
    args: &[&str],
    input: &str,
    left: impl FnMut() -> Duration,
) -> Result<(), String> {
    let start = || -> std::io::Result<_> {
        let mut command = Command::new(program);
        command.args(args).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // Ignore the error: a program that does not read its input reports an error of its own.
            let _ = stdin.write_all(input.as_bytes());
        }
        Ok((hooks::wait(&mut child, left)?, child.stderr.take()))
    };
    let (status, stderr) = start().map_err(|e| format!("cannot run {program}: {e}"))?;
    let why = match status {
        Some(status) if status.success() => return Ok(()),
        Some(_) => stderr.map(said).unwrap_or_default(),
        None => format!("the program ran for more than {} s and was killed", TIMEOUT.as_secs()),
    };
    Err(format!("`{program} {}`: {}", args.join(" "), why.trim()))
}

/// Returns what a program has written so far. Does not wait for more, because a daemon that the program has
/// started may keep the pipe open.
fn said(mut pipe: ChildStderr) -> String {
    let mut text = Vec::new();
    if rustix::io::ioctl_fionbio(&pipe, true).is_ok() {
        let _ = pipe.read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "search example.org\nnameserver 192.0.2.53\noptions edns0\n";

    fn dns(directory: &Path) -> Changes {
        let [file, kept] = ["resolv.conf", "state/tun.resolv.conf"].map(|name| directory.join(name));
        let (interface, resolvconf) = ("tun".into(), "resolvconf".into());
        Changes { interface, file, kept, resolvconf, way: Some(Way::File), _lock: None }
    }

    /// Returns a directory, and a tunnel that has written its name server into a file there.
    fn written() -> (tempfile::TempDir, Changes) {
        let directory = tempfile::tempdir().unwrap();
        let mut one = dns(directory.path());
        std::fs::write(&one.file, BEFORE).unwrap();
        one.write_file(&[[10, 0, 0, 1].into()]).unwrap();
        (directory, one)
    }

    #[test]
    fn the_file_comes_back_as_it_was() {
        let (directory, mut one) = written();
        let text = || std::fs::read_to_string(directory.path().join("resolv.conf")).unwrap();
        assert!(text().contains("nameserver 10.0.0.1\nsearch example.org\noptions edns0\n"), "{}", text());
        assert!(!text().contains("192.0.2.53"));
        // The saved text must still be the original one after another change, and after a crash and restart.
        one.write_file(&[[10, 0, 0, 2].into()]).unwrap();
        one.way = None;
        drop(one);
        assert!(text().contains("10.0.0.2"), "the second tunnel takes over");
        let mut again = dns(directory.path());
        again.restore();
        assert_eq!((text().as_str(), again.kept.exists()), (BEFORE, false));
    }

    #[test]
    fn a_second_tunnel_leaves_the_file_to_the_first() {
        let (directory, mut one) = written();
        let mut other = dns(directory.path());
        (other.interface, other.kept) = ("other".into(), directory.path().join("kept"));
        assert!(
            other.write_file(&[[10, 0, 0, 2].into()]).unwrap_err().to_string().contains("another tunnel")
        );
        drop(other);
        one.restore();
        assert_eq!(std::fs::read_to_string(&one.file).unwrap(), BEFORE);
    }

    #[test]
    fn changes_by_another_program_stay() {
        let (_directory, mut one) = written();
        std::fs::write(&one.file, "nameserver 192.0.2.99\n").unwrap();
        one.restore();
        assert_eq!(std::fs::read_to_string(&one.file).unwrap(), "nameserver 192.0.2.99\n");
        assert!(!one.kept.exists());
    }

    #[test]
    fn a_file_that_a_full_disk_has_emptied_is_restored() {
        let (_directory, mut one) = written();
        std::fs::write(&one.file, "").unwrap();
        one.restore();
        assert_eq!(std::fs::read_to_string(&one.file).unwrap(), BEFORE);
    }

    #[test]
    fn the_name_servers_of_a_killed_tunnel_go_even_if_its_interface_is_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("resolvconf");
        let script =
            format!("#!/bin/sh\ncat > /dev/null\necho \"$@\" >> {}/log\n", directory.path().display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let tunnel = |interface: &str| {
            let mut tunnel = dns(directory.path());
            (tunnel.interface, tunnel.way) = (interface.into(), None);
            tunnel.resolvconf = program.to_str().unwrap().into();
            tunnel
        };
        let calls = || std::fs::read_to_string(directory.path().join("log")).unwrap_or_default();
        // Closing is not enough, because a child of another test may hold a copy of the descriptor.
        let kill = |tunnel: &mut Changes| tunnel._lock.take().unwrap().unlock().unwrap();
        // The running tunnel may be in another network namespace.
        let [mut gone, mut running] = ["gone", "running"].map(tunnel);
        for tunnel in [&mut gone, &mut running] {
            tunnel.add_entry(&[[10, 0, 0, 1].into()]).unwrap();
        }
        kill(&mut gone);
        let before = calls();
        tunnel("renamed").revert_leftovers();
        let name = interface_name("gone");
        assert_eq!(calls(), format!("{before}-d {name}\n"));
        tunnel("renamed").revert_leftovers();
        running.delete_entry().unwrap();
        assert_eq!(calls(), format!("{before}-d {name}\n-d {}\n", interface_name("running")), "once each");
        assert!(!running.entry().exists());
        // The same holds for a file that the tunnel has written.
        let text = || std::fs::read_to_string(directory.path().join("resolv.conf")).unwrap();
        std::fs::write(&running.file, BEFORE).unwrap();
        running.write_file(&[[10, 0, 0, 1].into()]).unwrap();
        tunnel("renamed").revert_leftovers();
        assert!(text().contains("nameserver 10.0.0.1"), "{}", text());
        kill(&mut running);
        tunnel("renamed").revert_leftovers();
        assert_eq!(text(), BEFORE);
    }

    #[test]
    fn a_change_that_fails_halfway_is_undone() {
        let directory = tempfile::tempdir().unwrap();
        let mut one = dns(directory.path());
        // This file can be read, but not written.
        (one.file, one.way) = ("/proc/version".into(), None);
        one.set_by(Way::File, &[[10, 0, 0, 1].into()]);
        assert!(one.kept.exists());
        one.restore();
        assert!(!one.kept.exists());
    }

    #[test]
    fn resolvconf_sorts_the_tunnel_first() {
        let order = "# comment*\nlo.inet6\nlo.!(pdns|pdns-recursor)\nlo\n\ntun*\ntap*\n@(br|eth)*\neth*\n*\n";
        assert_eq!(first_prefix(order), "tun.");
        assert_eq!(first_prefix("lo\n*\n"), "");
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let run = |script, left| run_while("sh", &["-c", script], "", || left).unwrap_err();
        assert!(run("sleep 1000", Duration::ZERO).contains("was killed"));
        // A daemon that the program has started does not delay the result, although it keeps the pipe open.
        let why = run("echo wrong >&2; sleep 20 & exit 1", TIMEOUT);
        assert!(why.ends_with(": wrong"), "{why}");
    }
}
