//! Runs the hook program of the configuration on a separate thread, for one event at a time. The program is
//! started without a shell and gets its data in environment variables, so a name chosen by a peer cannot
//! become a command.

use mpdccp_tunnel::Hook;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit for one run. When the tunnel ends, the same limit applies to all pending runs together.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of events waiting for their run.
const WAITING: usize = 64;
/// Shortest interval between log lines about skipped events, and between those about the same failure.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The events that wait for their run, of each peer that has any. The first peer's turn is next.
#[derive(Default)]
struct Waiting(VecDeque<VecDeque<Hook>>);

impl Waiting {
    /// Adds an event. If `most` events are already waiting, removes and returns the newest event of the peer
    /// that has the most, so that a peer with many events does not take the places of others.
    fn put(&mut self, hook: Hook, most: usize) -> Option<Hook> {
        let full = self.0.iter().map(VecDeque::len).sum::<usize>() >= most;
        match self.0.iter_mut().find(|its| its.front().is_some_and(|first| first.peer == hook.peer)) {
            Some(its) => its.push_back(hook),
            None => self.0.push_back(VecDeque::from([hook])),
        }
        let longest = self.0.iter_mut().max_by_key(|its| its.len()).filter(|_| full);
        let skipped = longest.and_then(VecDeque::pop_back);
        self.0.retain(|its| !its.is_empty());
        skipped
    }

    /// Removes the next event. The peers take turns.
    fn take(&mut self) -> Option<Hook> {
        let mut its = self.0.pop_front()?;
        let hook = its.pop_front();
        if !its.is_empty() {
            self.0.push_back(its);
        }
        hook
    }
}

/// Runs the hook program for each event.
pub(crate) struct Hooks {
    program: PathBuf,
    interface: String,
    waiting: Arc<Mutex<Waiting>>,
    /// The thread, and a channel with one message for each waiting event.
    thread: Option<(Sender<()>, JoinHandle<()>)>,
    closing: Arc<AtomicBool>,
    /// Number of events that were skipped since the last log line about them, and when that line was written.
    skipped: u64,
    told: Option<Instant>,
}

impl Hooks {
    pub(crate) fn new(program: PathBuf, interface: String) -> Hooks {
        let (waiting, closing) = (Arc::default(), Arc::default());
        Hooks { program, interface, waiting, thread: None, closing, skipped: 0, told: None }
    }

    /// Queues an event for a run of the hook program.
    pub(crate) fn run(&mut self, hook: Hook) {
        if let Some(Hook { event, peer, .. }) = self.put(hook, WAITING) {
            self.skipped += 1;
            // A peer whose paths keep changing causes many events, but must not fill the log.
            if self.told.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
                let (skipped, event) = (std::mem::take(&mut self.skipped), event.name());
                tracing::warn!(
                    "hook: {skipped} event(s) skipped, because {WAITING} events are waiting; the last is {event} of peer {peer}"
                );
                self.told = Some(Instant::now());
            }
        }
    }

    /// Queues an event after the tunnel has died. From now on, the time limit applies to all remaining runs
    /// together, as in [`drop`].
    pub(crate) fn run_last(&mut self, hook: Hook) {
        self.closing.store(true, Ordering::Relaxed);
        self.put(hook, usize::MAX);
    }

    /// Queues an event. Returns the event that was skipped because too many are waiting. Starts the thread
    /// only now, because a thread inherits the capabilities that its creator has at that time.
    fn put(&mut self, hook: Hook, most: usize) -> Option<Hook> {
        self.thread = self.thread.take().or_else(|| self.start());
        let (wake, _) = self.thread.as_ref()?;
        let skipped = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).put(hook, most);
        if skipped.is_none() {
            // Ignore the error: if the thread has ended, it has logged the reason.
            let _ = wake.send(());
        }
        skipped
    }

    fn start(&self) -> Option<(Sender<()>, JoinHandle<()>)> {
        let (wake, wakes) = channel();
        let (program, interface) = (self.program.clone(), self.interface.clone());
        let (waiting, closing) = (self.waiting.clone(), self.closing.clone());
        let serve = move || serve(&wakes, &waiting, &program, &interface, &closing);
        match std::thread::Builder::new().name("hooks".into()).spawn(serve) {
            Ok(thread) => Some((wake, thread)),
            Err(e) => {
                tracing::error!("hook: cannot start a thread: {e}");
                None
            }
        }
    }
}

impl Drop for Hooks {
    /// Waits for pending runs up to the time limit.
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Some((wake, thread)) = self.thread.take() {
            drop(wake);
            let _ = thread.join();
        }
    }
}

/// Computes how long runs may continue.
struct Limit<'a> {
    closing: &'a AtomicBool,
    /// When all runs must have ended, once the tunnel ends.
    end: Option<Instant>,
}

impl Limit<'_> {
    /// Returns how long a run that began at `since` may continue.
    fn left(&mut self, since: Instant, now: Instant) -> Duration {
        if self.closing.load(Ordering::Relaxed) {
            self.end.get_or_insert(now + TIMEOUT);
        }
        let own = since + TIMEOUT;
        self.end.map_or(own, |all| all.min(own)).saturating_duration_since(now)
    }
}

fn serve(
    wakes: &Receiver<()>,
    waiting: &Mutex<Waiting>,
    program: &Path,
    interface: &str,
    closing: &AtomicBool,
) {
    let mut limit = Limit { closing, end: None };
    let mut told: Option<(String, Instant)> = None;
    for () in wakes {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(hook) = next else { continue };
        let since = Instant::now();
        // The tunnel may end during the run.
        let done = run(program, interface, &hook, || limit.left(since, Instant::now()));
        // Peers cause the events, and must not fill the log.
        let known =
            |why: &String| told.as_ref().is_some_and(|(last, at)| last == why && at.elapsed() < TOLD_EVERY);
        if let Some(why) = done.err().filter(|why| !known(why)) {
            tracing::warn!("hook {} for {}: {why}", program.display(), hook.event.name());
            told = Some((why, Instant::now()));
        }
    }
}

/// Replaces the control characters in a text.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn run(program: &Path, interface: &str, hook: &Hook, left: impl FnMut() -> Duration) -> Result<(), String> {
    let mut command = Command::new(program);
    command.env("MPDCCP_EVENT", hook.event.name()).env("MPDCCP_INTERFACE", interface);
    command.env("MPDCCP_PEER", plain(&hook.peer)).env("MPDCCP_REASON", plain(&hook.why));
    command.env("MPDCCP_PATH", plain(hook.path.as_deref().unwrap_or_default()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let (since, child) = (Instant::now(), command.spawn());
    let mut child = child.map_err(|e| format!("cannot start it: {e}"))?;
    match wait(&mut child, left).map_err(|e| e.to_string())? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("the program ended with {status}")),
        None => Err(format!("the program ran for more than {} s and was killed", since.elapsed().as_secs())),
    }
}

/// Waits until a program with its own process group has ended. Once no time is left, kills the program and
/// returns `None`.
pub(super) fn wait(
    child: &mut Child,
    mut left: impl FnMut() -> Duration,
) -> std::io::Result<Option<std::process::ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if left().is_zero() {
            // Kill the whole process group, because the program may have started other programs.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            let _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::face::events::Events;
    use mpdccp_tunnel::HookEvent;
    use std::os::unix::fs::PermissionsExt;
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::layer::{Layer, SubscriberExt};

    fn script(directory: &Path, text: &str) -> PathBuf {
        let path = directory.join("hook");
        std::fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", directory.display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn hook(path: &str) -> Hook {
        Hook { event: HookEvent::PathUp, peer: "hub".into(), path: Some(path.into()), why: String::new() }
    }

    #[test]
    fn a_peers_text_is_data() {
        let directory = tempfile::tempdir().unwrap();
        let program = script(
            directory.path(),
            "printf '%s|%s|%s' \"$MPDCCP_EVENT\" \"$MPDCCP_PEER\" \"$MPDCCP_PATH\" >> out",
        );
        let mut hooks = Hooks::new(program, "tun".into());
        hooks.run(hook("$(touch bad); `touch bad`\n-rf"));
        drop(hooks);
        let out = std::fs::read_to_string(directory.path().join("out")).unwrap();
        assert_eq!(out, "path-up|hub|$(touch bad); `touch bad`?-rf");
        assert!(!directory.path().join("bad").exists());
    }

    #[test]
    fn skipped_events_do_not_fill_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let program = script(directory.path(), "until [ -e end ]; do sleep 0.02; done");
        let mut hooks = Hooks::new(program, "tun".into());
        let events = Events::default();
        let log = tracing_subscriber::registry().with(events.clone().with_filter(LevelFilter::WARN));
        tracing::subscriber::with_default(log, || (0..3 * WAITING).for_each(|_| hooks.run(hook("p"))));
        std::fs::write(directory.path().join("end"), "").unwrap();
        assert_eq!(events.newest(9).len(), 1);
        assert!(hooks.skipped >= WAITING as u64 - 2, "{}", hooks.skipped);
    }

    #[test]
    fn a_hook_that_always_fails_does_not_fill_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let program = script(directory.path(), "[ \"$MPDCCP_PATH\" = p ] && exit 3; exit 4");
        let (wake, wakes) = channel();
        let mut waiting = Waiting::default();
        for path in ["p", "p", "p", "q", "q"] {
            waiting.put(hook(path), WAITING);
            wake.send(()).unwrap();
        }
        drop(wake);
        let events = Events::default();
        let log = tracing_subscriber::registry().with(events.clone().with_filter(LevelFilter::WARN));
        let waiting = Mutex::new(waiting);
        let serve = || serve(&wakes, &waiting, &program, "tun", &AtomicBool::new(false));
        tracing::subscriber::with_default(log, serve);
        let lines: Vec<String> = events.newest(9).into_iter().map(|event| event.message).collect();
        assert!(lines.len() == 2 && lines[1].contains("exit status: 3"), "{lines:?}");
        assert!(lines[0].contains("exit status: 4"), "{lines:?}");
    }

    #[test]
    fn a_peer_with_many_events_does_not_take_the_turns_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let text = "until [ -e end ]; do sleep 0.02; done; echo \"$MPDCCP_PEER\" >> out";
        let mut hooks = Hooks::new(script(directory.path(), text), "tun".into());
        (0..2 * WAITING).for_each(|_| hooks.run(hook("p")));
        hooks.run(Hook { peer: "home".into(), ..hook("p") });
        std::fs::write(directory.path().join("end"), "").unwrap();
        drop(hooks);
        let out = std::fs::read_to_string(directory.path().join("out")).unwrap();
        let turn = out.lines().position(|peer| peer == "home");
        // The other peer has the current run and the next turn.
        assert!(turn.is_some_and(|turn| turn <= 2), "{out}");
    }

    #[test]
    fn a_full_queue_skips_an_event_of_the_peer_with_the_most() {
        let of = |peer: &str, path: &str| Hook { peer: peer.into(), ..hook(path) };
        let mut waiting = Waiting::default();
        for path in ["1", "2", "3"] {
            assert_eq!(waiting.put(of("a", path), 3), None);
        }
        assert_eq!(waiting.put(of("a", "4"), 3), Some(of("a", "4")));
        assert_eq!(waiting.put(of("b", "1"), 3), Some(of("a", "3")));
        assert_eq!(waiting.put(of("c", "1"), 3), Some(of("a", "2")));
        assert_eq!(waiting.put(of("d", "1"), 3), Some(of("d", "1")));
        let order: Vec<Hook> = std::iter::from_fn(|| waiting.take()).collect();
        assert_eq!(order, [of("a", "1"), of("b", "1"), of("c", "1")]);
    }

    #[test]
    fn a_hanging_hook_is_killed_with_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let program = script(directory.path(), "sleep 1000 & echo $! > child; wait");
        let child = directory.path().join("child");
        let written = || std::fs::read_to_string(&child).is_ok_and(|text| text.ends_with('\n'));
        let left = || if written() { Duration::ZERO } else { TIMEOUT };
        let why = run(&program, "tun", &hook("p"), left).unwrap_err();
        assert!(why.contains("was killed"), "{why}");
        let stat = format!("/proc/{}/stat", std::fs::read_to_string(&child).unwrap().trim());
        let lives = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(" Z "));
        // The killed child needs a moment to end. Without the kill, it would run for a thousand seconds.
        let since = Instant::now();
        while lives() && since.elapsed() < 3 * TIMEOUT {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!lives(), "the child lives");
        let failed = run(&script(directory.path(), "exit 3"), "tun", &hook("p"), || TIMEOUT).unwrap_err();
        assert!(failed.contains("exit status: 3"), "{failed}");
        assert!(run(Path::new("/none"), "tun", &hook("p"), || TIMEOUT).unwrap_err().contains("cannot start"));
    }

    #[test]
    fn the_end_of_the_tunnel_limits_the_current_run_and_all_later_ones_together() {
        let (closing, ms) = (AtomicBool::new(false), Duration::from_millis);
        let mut limit = Limit { closing: &closing, end: None };
        let first = Instant::now();
        assert_eq!(limit.left(first, first + ms(3_000)), ms(7_000));
        // The tunnel ends 3 s after the start of the first run, which is killed after 10 s.
        closing.store(true, Ordering::Relaxed);
        assert_eq!(limit.left(first, first + ms(3_000)), ms(7_000));
        let second = first + ms(10_000);
        assert_eq!(limit.left(second, second), ms(3_000), "10 s have passed since the end of the tunnel");
        assert_eq!(limit.left(second, second + ms(3_000)), ms(0));
    }
}
