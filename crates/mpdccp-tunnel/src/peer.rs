//! A peer and the session with it, if there is one.

use crate::Cx;
use crate::action::Action;
use crate::command::PeerKeys;
use crate::config::{self, PathSpec, Prio};
use crate::host::Sizes;
use crate::message::Message;
use crate::packet::mtu::{self, Answers, Carried};
use crate::packet::pieces::Pieces;
use crate::packet::police::Policer;
use crate::path::{Leaving, OpenPath, WaitingPath};
use crate::path_history::Histories;
use dccp_proto::Route;
use mpdccp_proto::{PathId, PathName, PathStatus, PktInfo, SessionConfig, SessionId, SessionStatus};
use mpdccp_units::{Duration, Time};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Time limit for connecting over the first of several paths. After failed attempts, the limit doubles up to
/// the second value, because the paths may have a long delay. With encryption, all paths start a handshake at
/// once, and the path whose handshake is answered first is selected even before the limit.
const FIRST_ATTEMPT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// Time limit for a session to open. When it expires, the next attempt starts on another path. The limit
/// restarts once the server has answered. After each answered attempt that failed, the limit doubles up to
/// the second value, because the line may have a queue of several seconds.
const OPEN_PATIENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(20));
/// Time limit for a session to open if the client has several servers and a path must first find out that UDP
/// does not answer. With the shorter `OPEN_PATIENCE`, the path would run out of time and would start over
/// with UDP at the next server.
const UDP_PATIENCE: Duration = Duration::from_secs(10);
/// If a peer had a session within the last `MISSED`, the client retries at once and limits each attempt to
/// `MISSED_PATIENCE`: most server outages are short, and packets sent while a server is starting are lost.
const MISSED: Duration = Duration::from_secs(35);
const MISSED_PATIENCE: Duration = Duration::from_millis(1_500);
/// Delay before a lost session is reopened. While attempts fail, the delay doubles up to `MAX_RETRY`. While
/// sessions open but soon end, it doubles up to `MAX_BRIEF_RETRY`. Each delay is randomly shortened by up to
/// a quarter.
const RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_secs(2);
const MAX_BRIEF_RETRY: Duration = Duration::from_secs(8);
/// A session shorter than this is brief: it counts as a failed attempt when the next delay is chosen.
const BRIEF: Duration = Duration::from_secs(10);
/// Until the peer has proved its key, the log suggests causes each time this many attempts have failed.
const HINT_EVERY: u32 = 3;
/// The new addresses of at most this many of a peer's channels are remembered.
const MOST_REMEMBERED: usize = 64;

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) cfg: config::Peer,
    pub(crate) keys: PeerKeys,
    /// The open paths of a client. Empty on a server, which learns the paths from the peer.
    pub(crate) paths: Vec<OpenPath>,
    /// Paths that are not open yet.
    pub(crate) waiting: Vec<WaitingPath>,
    /// Names of paths to advertised addresses that did not answer.
    pub(crate) unanswered: Vec<String>,
    pub(crate) session: Option<SessionId>,
    /// Sessions with former servers. They keep their TCP connections, but carry packets only until the next
    /// session opens.
    pub(crate) leaving: Vec<Leaving>,
    /// On a server: when the peer requested addresses, and the addresses leased to the peer.
    pub(crate) asked: Option<Time>,
    pub(crate) leased: Vec<IpAddr>,
    pub(crate) policer: Policer,
    /// Whether the peer was removed from the configuration.
    pub(crate) gone: bool,
    /// Inner packet sizes that the paths carry; known once a path is up.
    pub(crate) carried: Option<Carried>,
    pub(crate) answers: Answers,
    /// Rate limit of questions to the host about paths that have opened or moved.
    pub(crate) looks: Answers,
    /// Packets being reassembled from pieces.
    pub(crate) pieces: Pieces,
    /// Index of the server in use, and the time since which no path to that server has worked.
    pub(crate) server: usize,
    pub(crate) silent_since: Option<Time>,
    /// Whether the peer has ever proved its key.
    pub(crate) heard: bool,
    /// The paths' history for the log, and since when the peer has had no session.
    pub(crate) histories: Histories,
    away_since: Option<Time>,
    /// This end's paths that do not answer, by socket, with the cause as far as it is known. An entry is
    /// removed once the host has said whether it knows the cause.
    pub(crate) suspects: BTreeMap<u32, (PathId, String)>,
    /// The names that the client gave its paths.
    names: BTreeMap<PathName, String>,
    /// The time by which all messages with names would have arrived at their mean interval.
    pub(crate) named: Time,
    /// For each channel of this session whose other end has moved, the new address of that end.
    places: BTreeMap<u32, SocketAddr>,
    /// Name and log label of each path of this session.
    pub(crate) labels: BTreeMap<PathId, (String, String)>,
    /// When to connect; `None` on a server, and while there is a session.
    retry_at: Option<Time>,
    wait: Duration,
    /// When the session opened, and how many brief sessions there were in a row.
    pub(crate) opened: Option<Time>,
    brief: u32,
    /// Number of failed attempts since the last session.
    failures: u32,
    /// Number of those attempts that the server had answered.
    pub(crate) slow: u32,
    /// When to give up the current attempt to open a session.
    give_up_at: Option<Time>,
    /// Whether `give_up_at` has been extended because the server answered.
    answered: bool,
    /// Index of the path over which the next session opens.
    first: usize,
}

impl Peer {
    /// Creates a peer. A client's paths start as waiting paths.
    pub(crate) fn new(cfg: config::Peer, keys: PeerKeys, client: bool) -> Peer {
        let specs = cfg.paths.iter().filter(|_| client).map(|p| p.get_ref().clone());
        Peer {
            waiting: specs.map(WaitingPath::new).collect(),
            cfg,
            keys,
            paths: Vec::new(),
            unanswered: Vec::new(),
            session: None,
            leaving: Vec::new(),
            asked: None,
            leased: Vec::new(),
            policer: Policer::default(),
            gone: false,
            carried: None,
            answers: Answers::default(),
            looks: Answers::default(),
            pieces: Pieces::default(),
            server: 0,
            silent_since: None,
            heard: false,
            histories: Histories::default(),
            away_since: None,
            suspects: BTreeMap::new(),
            names: BTreeMap::new(),
            named: Time::ZERO,
            places: BTreeMap::new(),
            labels: BTreeMap::new(),
            retry_at: None,
            wait: RETRY,
            opened: None,
            brief: 0,
            failures: 0,
            slow: 0,
            give_up_at: None,
            answered: false,
            first: 0,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.cfg.name
    }

    /// Returns when to call [`on_timeout`](Self::on_timeout) or
    /// [`servers::watch`](crate::client::servers::watch) next.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        [self.retry_at, self.give_up_at, self.silence_ends()].into_iter().flatten().min()
    }

    /// Gives up an attempt whose time limit has passed, and starts an attempt that is due. Returns the
    /// session of the attempt that was given up.
    pub(crate) fn on_timeout(&mut self, cx: &mut Cx<'_>) -> Option<SessionId> {
        let late = self.give_up_at.is_some_and(|t| t <= cx.now);
        if late && !self.answered && self.session.is_some_and(|session| cx.endpoint.is_answered(session)) {
            self.answered = true;
            self.give_up_at = Some(cx.now + self.patience());
            return None;
        }
        let given_up = self.session.filter(|_| late);
        if let Some(session) = given_up {
            cx.endpoint.abort(cx.now, session);
            self.failures += 1;
            self.slow += u32::from(self.answered);
            if self.failures == 1 {
                cx.out.warn(format!("peer {}: no answer yet; retrying", self.name()));
            }
            if self.failures.is_multiple_of(HINT_EVERY) && !self.heard && self.keys.is_some() {
                cx.out.warn(format!(
                    "peer {}: still no answer. Check that its tunnel is up, that packets reach it, and the keys: \
                     public_key must be the key that `mpdccp pubkey` prints there, a [[peer]] of its file must have this end's key, \
                     and both ends need the same preshared key or none",
                    self.name()
                ));
            }
            self.on_closed(cx);
        }
        if self.retry_at.is_some_and(|t| t <= cx.now) {
            self.connect(cx);
            if self.failures == 0 {
                cx.out.info(format!("peer {}: connecting", self.name()));
            }
        }
        given_up
    }

    /// Returns the time limit for a session to open. It applies again once the server has answered.
    fn patience(&self) -> Duration {
        (OPEN_PATIENCE.0 * (1 << self.slow.min(8))).min(OPEN_PATIENCE.1)
    }

    /// Schedules the next attempt to connect.
    pub(crate) fn connect_at(&mut self, at: Time) {
        self.retry_at = Some(at);
    }

    fn connect(&mut self, cx: &mut Cx<'_>) {
        self.retry_at = None;
        if self.paths.is_empty() {
            return;
        }
        // Each attempt uses a different DCCP port, so that packets from earlier attempts do not match it.
        let port = cx.ports.next();
        self.first %= self.paths.len();
        let (later, sooner) = self.paths.split_at(self.first);
        let mut order = sooner.iter().chain(later).map(|p| p.config(port));
        let Some(first) = order.next() else { return };
        let first_attempt = match self.slow {
            0 => (FIRST_ATTEMPT.0 * (1 << self.failures.min(8))).min(FIRST_ATTEMPT.1),
            // The whole attempt takes at most this long, so it stays on its first path.
            _ => self.patience() * 2,
        };
        let cfg = SessionConfig { first_attempt, ..cx.cfg.session() };
        let session = cx.endpoint.connect(cx.now, cfg, first);
        for path in order {
            cx.endpoint.add_path(cx.now, session, path);
        }
        (self.session, self.opened) = (Some(session), None);
        let patience = match () {
            () if self.is_missed(cx.now) => MISSED_PATIENCE,
            () if self.cfg.servers() > 1 && self.paths.iter().any(OpenPath::may_move) => {
                UDP_PATIENCE.max(self.patience())
            }
            () => self.patience(),
        };
        (self.give_up_at, self.answered) = (Some(cx.now + patience), false);
        // If this attempt fails, the next one starts on another path.
        self.first += 1;
    }

    /// Handles the server's first answer, received on this end's path over `socket`. The session opens over
    /// the path that is answered first, because this path is the fastest and other paths may be down.
    pub(crate) fn on_answered(&mut self, cx: &mut Cx<'_>, socket: u32) {
        let mut paths = self.status(cx).into_iter().flat_map(|status| status.paths);
        let path = paths.find(|path| path.route.socket == socket).map(|path| path.id);
        let connecting = self.session.filter(|_| self.opened.is_none() && !self.answered);
        if let (Some(session), Some(path)) = (connecting, path) {
            (self.give_up_at, self.answered) = (Some(cx.now + self.patience()), true);
            cx.endpoint.connect_over(cx.now, session, path);
        }
    }

    /// Handles the opening of a session. If the peer had a session before, returns the length of the outage.
    pub(crate) fn on_opened(&mut self, now: Time) -> Option<Duration> {
        self.give_up_at = None;
        (self.failures, self.slow) = (0, 0);
        self.opened = Some(now);
        self.first = 0;
        self.away_since.take().map(|at| now.since(at))
    }

    /// Handles the end of a session. If a warning is due, returns the number of brief sessions in a row.
    pub(crate) fn on_ended(&mut self, now: Time) -> Option<u32> {
        let opened = self.opened.take()?;
        self.away_since = Some(now);
        if now.since(opened) >= BRIEF {
            (self.brief, self.wait) = (0, RETRY);
            return None;
        }
        self.brief += 1;
        Some(self.brief).filter(|brief| *brief >= 4 && brief.is_power_of_two())
    }

    /// Returns whether the peer had a session recently, and that session was not brief.
    fn is_missed(&self, now: Time) -> bool {
        self.brief == 0 && self.away_since.is_some_and(|at| now.since(at) < MISSED)
    }

    /// Clears the session after it has ended. A client schedules the next attempt.
    pub(crate) fn on_closed(&mut self, cx: &mut Cx<'_>) {
        self.forget_session();
        self.give_up_at = None;
        if self.paths.is_empty() {
            return;
        }
        let wait = if self.is_missed(cx.now) { RETRY } else { self.wait };
        let most = if self.brief > 0 { MAX_BRIEF_RETRY } else { MAX_RETRY };
        self.wait = (wait * 2).min(most);
        let chance = u32::from(cx.ports.next() & 255);
        self.retry_at = Some(cx.now + wait - wait / 4 * chance / 255);
    }

    /// Clears the session and the state of its paths. Returns the session.
    pub(crate) fn forget_session(&mut self) -> Option<SessionId> {
        self.places.clear();
        self.suspects.clear();
        self.labels.clear();
        self.session.take()
    }

    /// Stops all attempts to connect.
    pub(crate) fn shut_down(&mut self) {
        self.retry_at = None;
        self.give_up_at = None;
    }

    /// Adds an open path to the session. If there is no session, opens one over this path.
    pub(crate) fn add_path(&mut self, cx: &mut Cx<'_>, path: OpenPath) {
        match self.session {
            Some(session) => {
                let config = path.config(cx.ports.next());
                cx.endpoint.add_path(cx.now, session, config);
            }
            None => self.retry_at = Some(cx.now),
        }
        self.paths.push(path);
    }

    /// Stores the names that a client announced for its paths.
    pub(crate) fn on_names(&mut self, cx: &mut Cx<'_>, names: Vec<String>) {
        self.names = names.into_iter().map(|name| (PathName::of(&name), name)).collect();
        for path in self.status(cx).into_iter().flat_map(|status| status.paths) {
            self.label(cx, path.id);
        }
    }

    /// Stores that the other end of a channel has moved to another address.
    pub(crate) fn on_moved(&mut self, socket: u32, remote: SocketAddr) {
        if self.places.len() >= MOST_REMEMBERED {
            self.places.clear();
        }
        self.places.insert(socket, remote);
    }

    /// Returns a route's current destination.
    pub(crate) fn place(&self, route: &Route) -> SocketAddr {
        self.places.get(&route.socket).copied().unwrap_or(route.remote)
    }

    /// Sends a message to the peer.
    pub(crate) fn tell(&self, cx: &mut Cx<'_>, message: &Message) {
        if let Some(session) = self.session {
            cx.endpoint.send(cx.now, session, message.to_bytes(), PktInfo::default());
        }
    }

    /// Returns all paths of this end, open or not, except paths of sessions with former servers.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &PathSpec> {
        self.paths.iter().map(|p| &p.spec).chain(self.waiting.iter().map(|p| &p.spec))
    }

    /// Returns all paths of this end, open or not, including paths of sessions with former servers.
    pub(crate) fn specs_mut(&mut self) -> impl Iterator<Item = &mut PathSpec> {
        let leaving = self.leaving.iter_mut().flat_map(|leaving| &mut leaving.paths);
        let open = self.paths.iter_mut().chain(leaving).map(|p| &mut p.spec);
        open.chain(self.waiting.iter_mut().map(|p| &mut p.spec))
    }

    pub(crate) fn has_path(&self, name: &str) -> bool {
        self.specs().any(|spec| spec.name == name)
    }

    /// Returns the status of the session.
    pub(crate) fn status(&self, cx: &Cx<'_>) -> Option<SessionStatus> {
        cx.endpoint.status(cx.now, self.session?)
    }

    /// Returns the sockets of the paths that are up.
    pub(crate) fn up(&self, cx: &Cx<'_>) -> Vec<u32> {
        let paths = self.status(cx).into_iter().flat_map(|status| status.paths);
        paths.filter(|p| p.state.is_up()).map(|p| p.route.socket).collect()
    }

    /// Returns the identifier of one of this end's paths in the session.
    pub(crate) fn path_id(&self, cx: &Cx<'_>, name: &str) -> Option<PathId> {
        let socket = self.paths.iter().find(|p| p.spec.name == name)?.socket;
        // Return the newest match: a closed path with the same socket may still be listed.
        self.status(cx)?.paths.iter().rev().find(|p| p.route.socket == socket).map(|p| p.id)
    }

    /// Returns the configuration of a session's path, identified by its socket or remote address.
    pub(crate) fn cfg_of(&self, path: &PathStatus) -> Option<&PathSpec> {
        let ours = self.paths.iter().find(|p| p.socket == path.route.socket).map(|p| &p.spec);
        let remote = path.route.remote.ip();
        let theirs = || self.cfg.paths.iter().map(|p| p.get_ref()).find(|p| p.remote.ip() == Some(remote));
        ours.or_else(theirs)
    }

    /// Returns the name of a path: the configured name, else the peer's name for the path, else its address.
    pub(crate) fn path_name(&self, path: &PathStatus) -> String {
        let told = || self.names.get(&path.name);
        let name = self.cfg_of(path).map(|spec| &spec.name).or_else(told);
        name.cloned().unwrap_or_else(|| path.route.remote.to_string())
    }

    /// Asks the host about the destinations of this end's paths.
    pub(crate) fn look_at_own(&self, cx: &mut Cx<'_>) {
        for path in self.open_paths() {
            cx.out.push(Action::Look { socket: path.socket, remote: path.remote, own: true });
        }
    }

    /// Asks the host about the destinations of all paths of the session, or only of path `only`, which has
    /// opened or moved. A peer can open and move paths as fast as it likes, so the rate is limited.
    pub(crate) fn look(&mut self, cx: &mut Cx<'_>, only: Option<PathId>) {
        if only.is_some() && !self.looks.may(cx.now) {
            return;
        }
        let paths = self.status(cx).into_iter().flat_map(|status| status.paths);
        for path in paths.filter(|path| only.is_none_or(|id| path.id == id)) {
            let Route { socket, remote, .. } = path.route;
            cx.out.push(Action::Look { socket, remote, own: false });
        }
    }

    /// Passes the MTUs known to the system to the session. The path MTU is only a hint, because it comes from
    /// ICMP or from a changed interface. The interface MTU is a size to probe, because the smaller path MTU
    /// may come from a forged ICMP message.
    pub(crate) fn hint_mtu(&self, cx: &mut Cx<'_>, id: PathId, sizes: Sizes) {
        let (Some(session), Some(status)) = (self.session, self.status(cx)) else { return };
        let Some(path) = status.paths.iter().find(|path| path.id == id) else { return };
        let most = self.cfg_of(path).and_then(|spec| spec.mtu).unwrap_or(mtu::MOST);
        if let Some(known) = sizes.path {
            cx.endpoint.set_mtu(cx.now, session, id, known.min(most));
            if let Some(device) = sizes.device {
                cx.endpoint.try_mtu(cx.now, session, id, device.min(most));
            }
        }
    }

    /// Changes the priority of a path in this session and in future sessions.
    pub(crate) fn set_prio(&mut self, cx: &mut Cx<'_>, name: &str, priority: Prio) -> Result<(), String> {
        let Some(spec) = self.specs_mut().find(|spec| spec.name == name) else {
            return Err(self.no_such_path());
        };
        spec.priority = Some(priority);
        self.tell_prio(cx, name);
        Ok(())
    }

    /// Passes the current priority of a path to the session.
    pub(crate) fn tell_prio(&self, cx: &mut Cx<'_>, name: &str) {
        let open = self.paths.iter().find(|p| p.spec.name == name);
        if let (Some(session), Some(id), Some(path)) = (self.session, self.path_id(cx, name), open) {
            cx.endpoint.set_prio(cx.now, session, id, path.prio().0);
        }
        self.tell_leaving(cx, name);
    }

    pub(crate) fn no_such_path(&self) -> String {
        let names: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
        match names.is_empty() {
            true => "only the client can change paths".into(),
            false => format!("this peer has no such path; expected one of: {}", names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Peer {
        Peer::new(toml::from_str("name = \"hub\"").unwrap(), None, true)
    }

    #[test]
    fn brief_sessions_make_the_next_one_wait_and_are_warned_of() {
        let (mut peer, mut now, mut warned) = (peer(), Time::from_millis(1), Vec::new());
        for _ in 0..8 {
            peer.on_opened(now);
            now += Duration::from_secs(1);
            warned.extend(peer.on_ended(now));
        }
        assert_eq!(warned, [4, 8]);
        peer.wait = MAX_BRIEF_RETRY;
        peer.on_opened(now);
        assert_eq!((peer.on_ended(now + BRIEF), peer.wait, peer.brief), (None, RETRY, 0));
    }
}
