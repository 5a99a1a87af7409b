use crate::tunnel::config::{PathSpec, Peer};
use crate::tunnel::police::Policer;
use crate::tunnel::setup::OpenPath;
use dccp_net::Core;
use dccp_proto::{Ports, Route};
use mpdccp_proto::{PathConfig, PathId, PathName, PathStatus, SessionConfig, SessionId};
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::{Duration, Time};

/// How long a session may take to open before another path is tried first.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
/// Wait before a lost session is opened again, doubled up to the maximum as long as that fails.
const RETRY: Duration = Duration::from_millis(250);
const MAX_RETRY: Duration = Duration::from_secs(8);
/// A session that ends sooner was not worth the name: the next one has to wait as if it had not come about.
const BRIEF: Duration = Duration::from_secs(10);

/// So many attempts in vain before the log says what may be wrong, and how often again.
const HINT_EVERY: u32 = 3;

/// A path that cannot be opened yet: its interface or address is not there, or its name has no address.
#[derive(Clone, Debug)]
pub(crate) struct WaitingPath {
    pub(crate) spec: PathSpec,
    pub(crate) why: String,
    /// Its name led there, in vain.
    pub(crate) failed: Option<IpAddr>,
}

impl WaitingPath {
    pub(crate) fn new(spec: PathSpec) -> WaitingPath {
        WaitingPath { spec, why: String::new(), failed: None }
    }
}

/// A peer and the session with it, which may come and go.
pub(crate) struct PeerState {
    pub(crate) cfg: Peer,
    /// A client's own paths; a server learns its paths from the peer.
    pub(crate) paths: Vec<OpenPath>,
    /// Those that wait for their interface, address or name.
    pub(crate) waiting: Vec<WaitingPath>,
    /// Names of paths to advertised addresses that did not answer.
    pub(crate) unanswered: Vec<String>,
    pub(crate) session: Option<SessionId>,
    /// A server's: it asked for addresses, and has these.
    pub(crate) asked: bool,
    pub(crate) leased: Vec<IpAddr>,
    pub(crate) policer: Policer,
    /// Not in the configuration any more.
    pub(crate) gone: bool,
    /// Largest inner packet, once a path is up.
    pub(crate) mtu: Option<u16>,
    /// Which of its servers is in use, and since when none of its paths has been up.
    pub(crate) server: usize,
    pub(crate) silent_since: Option<Time>,
    /// Why paths of this session that are not up went down, as the log has it: they try again every second.
    pub(crate) downs: BTreeMap<String, String>,
    /// When to connect; `None` for a server, or with a session.
    retry_at: Option<Time>,
    wait: Duration,
    /// Since when there is a session, and how many in a row were brief.
    opened: Option<Time>,
    brief: u32,
    /// Attempts in vain since the last session.
    failures: u32,
    /// When to give an unopened session up.
    give_up_at: Option<Time>,
    /// Which path opens the next session.
    first: usize,
}

impl PeerState {
    pub(crate) fn new(cfg: Peer) -> PeerState {
        PeerState {
            cfg,
            paths: Vec::new(),
            waiting: Vec::new(),
            unanswered: Vec::new(),
            session: None,
            asked: false,
            leased: Vec::new(),
            policer: Policer::default(),
            gone: false,
            mtu: None,
            server: 0,
            silent_since: None,
            downs: BTreeMap::new(),
            retry_at: None,
            wait: RETRY,
            opened: None,
            brief: 0,
            failures: 0,
            give_up_at: None,
            first: 0,
        }
    }

    /// When [`on_timeout`](Self::on_timeout) has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        [self.retry_at, self.give_up_at].into_iter().flatten().min()
    }

    /// Connects or gives up; true if a session was opened.
    pub(crate) fn on_timeout(
        &mut self,
        core: &mut Core,
        now: Time,
        cfg: &SessionConfig,
        dccp_port: u16,
    ) -> bool {
        if let (Some(session), true) = (self.session, self.give_up_at.is_some_and(|t| t <= now)) {
            tracing::warn!("peer {}: no session after {OPEN_PATIENCE:?}, trying again", self.cfg.name);
            core.endpoint.abort(now, session);
            self.failures += 1;
            self.on_closed(now);
        }
        if self.retry_at.is_none_or(|t| t > now) {
            return false;
        }
        self.connect(core, now, cfg, dccp_port);
        true
    }

    /// Connects soon.
    pub(crate) fn connect_at(&mut self, at: Time) {
        self.retry_at = Some(at);
    }

    fn connect(&mut self, core: &mut Core, now: Time, cfg: &SessionConfig, dccp_port: u16) {
        self.retry_at = None;
        if self.paths.is_empty() {
            return;
        }
        // Another DCCP port each time, so that no packet of an earlier attempt is taken for one of this.
        let port = core.ephemeral_port();
        self.first %= self.paths.len();
        let (later, sooner) = self.paths.split_at(self.first);
        let mut order = sooner.iter().chain(later).map(|p| path_config(p, port, dccp_port));
        let Some(first) = order.next() else { return };
        let session = core.endpoint.connect(now, cfg.clone(), first);
        for path in order {
            core.endpoint.add_path(now, session, path);
        }
        self.session = Some(session);
        self.give_up_at = Some(now + OPEN_PATIENCE);
        // If this one fails, the next attempt starts elsewhere.
        self.first += 1;
    }

    pub(crate) fn on_opened(&mut self, now: Time) {
        self.give_up_at = None;
        self.failures = 0;
        self.opened = Some(now);
        self.first = 0;
    }

    /// Another attempt was in vain, and it is time for a word on why that may be.
    pub(crate) fn needs_hint(&self) -> bool {
        self.failures.is_multiple_of(HINT_EVERY)
    }

    /// A session ended; how many in a row did soon after they had opened, if that is worth a word.
    pub(crate) fn on_ended(&mut self, now: Time) -> Option<u32> {
        let opened = self.opened.take()?;
        if now.since(opened) >= BRIEF {
            (self.brief, self.wait) = (0, RETRY);
            return None;
        }
        self.brief += 1;
        Some(self.brief).filter(|brief| *brief >= 4 && brief.is_power_of_two())
    }

    /// The session is gone; a client opens another one.
    pub(crate) fn on_closed(&mut self, now: Time) {
        self.session = None;
        self.give_up_at = None;
        if !self.paths.is_empty() {
            self.retry_at = Some(now + self.wait);
            self.wait = (self.wait * 2).min(MAX_RETRY);
        }
    }

    /// No more attempts.
    pub(crate) fn shut_down(&mut self) {
        self.retry_at = None;
        self.give_up_at = None;
    }

    /// Adds an open path to the session, or opens one with it.
    pub(crate) fn add_path(&mut self, core: &mut Core, now: Time, path: OpenPath, dccp_port: u16) {
        let port = core.ephemeral_port();
        match self.session {
            Some(session) => {
                core.endpoint.add_path(now, session, path_config(&path, port, dccp_port));
            }
            None => self.retry_at = Some(now),
        }
        self.paths.push(path);
    }

    /// Whether a path went down for another reason than the last time.
    pub(crate) fn is_new(&mut self, path: &str, why: String) -> bool {
        // A server's paths are where its clients were, as often as they moved.
        if self.downs.len() > 64 {
            self.downs.clear();
        }
        let before = self.downs.insert(path.to_owned(), why.clone());
        before.as_deref() != Some(&why)
    }

    /// Whether a path of ours has that name, open or not.
    pub(crate) fn has_path(&self, name: &str) -> bool {
        let waiting = self.waiting.iter().map(|p| &p.spec.name);
        self.paths.iter().map(|p| &p.spec.name).chain(waiting).any(|n| n == name)
    }

    /// Interfaces that its paths leave through.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        self.paths.iter().filter_map(|p| p.interface.clone()).collect()
    }

    /// The session's number of a path of ours.
    pub(crate) fn path_id(&self, core: &Core, now: Time, name: &str) -> Option<PathId> {
        let socket = self.paths.iter().find(|p| p.spec.name == name)?.socket;
        let status = core.endpoint.status(now, self.session?)?;
        // The newest, should an earlier one still be listed.
        status.paths.iter().rev().find(|p| p.route.socket == socket).map(|p| p.id)
    }

    /// The configuration of a path, if it has one.
    pub(crate) fn cfg_of(&self, path: &PathStatus) -> Option<&PathSpec> {
        let ours = self.paths.iter().find(|p| p.socket == path.route.socket).map(|p| &p.spec);
        let theirs = || {
            self.cfg.paths.iter().map(|p| p.get_ref()).find(|p| p.remote.ip() == Some(path.route.remote.ip()))
        };
        ours.or_else(theirs)
    }

    /// The configured name of a path, or where it leads.
    pub(crate) fn path_name(&self, path: &PathStatus) -> String {
        self.cfg_of(path).map_or_else(|| path.route.remote.to_string(), |spec| spec.name.clone())
    }
}

fn path_config(path: &OpenPath, local: u16, remote: u16) -> PathConfig {
    PathConfig {
        route: Route { socket: path.socket, local: None, remote: path.remote },
        ports: Ports { local, remote },
        name: PathName::of(&path.spec.name),
        prio: path.prio().0,
        mtu: path.mtu,
        overhead: path.overhead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_goes_down_again_and_again_is_told_of_once() {
        let mut peer = PeerState::new(toml::from_str("name = \"hub\"").unwrap());
        let told = |peer: &mut PeerState, path: &str, why: &str| peer.is_new(path, why.into());
        assert!(told(&mut peer, "one", "silent") && told(&mut peer, "two", "silent"));
        assert!(told(&mut peer, "one", "no answer") && !told(&mut peer, "one", "no answer"));
        peer.downs.remove("one");
        assert!(told(&mut peer, "one", "no answer"), "it was up meanwhile");
        (0..1_000).for_each(|n| assert!(told(&mut peer, &n.to_string(), "moved")));
        assert!(peer.downs.len() <= 65, "bounded");
    }

    #[test]
    fn brief_sessions_make_the_next_one_wait_and_are_told_of() {
        let mut peer = PeerState::new(toml::from_str("name = \"hub\"").unwrap());
        let (mut now, mut said) = (Time::from_millis(1), Vec::new());
        for _ in 0..8 {
            peer.on_opened(now);
            now += Duration::from_secs(1);
            said.extend(peer.on_ended(now));
        }
        assert_eq!(said, [4, 8]);
        peer.wait = MAX_RETRY;
        peer.on_opened(now);
        assert_eq!((peer.on_ended(now + BRIEF), peer.wait, peer.brief), (None, RETRY, 0));
    }
}
