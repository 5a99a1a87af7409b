//! What runs on the data thread: packets between the interface and the sessions, and the life of the sessions.

use crate::fault::Fault;
use crate::tunnel::allowed::{Allowed, addresses};
use crate::tunnel::assign::Assigned;
use crate::tunnel::config::{Config, Security};
use crate::tunnel::default_route::DefaultRoute;
use crate::tunnel::drain;
use crate::tunnel::handshakes::Handshakes;
use crate::tunnel::inner;
use crate::tunnel::leases::Leases;
use crate::tunnel::marking::REFUSED;
use crate::tunnel::mtu::{Answers, Sizes};
use crate::tunnel::names::Names;
use crate::tunnel::packets::TunCounters;
use crate::tunnel::paths;
use crate::tunnel::peer::{PeerState, WaitingPath};
use crate::tunnel::quota::Quotas;
use crate::tunnel::shards::{Interface, Shard};
use crate::tunnel::trace::Trace;
use crate::tunnel::up::notify;
use crate::tunnel::{security, setup};
use dccp_net::{App, Bursts, Core, HostWatch, LinkChange};
use mpdccp_proto::{Counter, ListenConfig, PathId, PathName, SessionConfig, SessionEvent, SessionId};
use sd_notify::NotifyState;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Duration, Rate, Time};

/// How long closing may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// How often to ask the system whether the paths' interfaces and addresses are there, and how large packets may be: what
/// [`HostWatch`] does not tell.
const WATCH: Duration = Duration::from_secs(1);
/// How soon after such a look the next one may be, when the system tells of change after change.
const PAUSE: Duration = Duration::from_millis(20);

/// Which of the descriptors is [`HostWatch`].
const HOST: u32 = 0;

pub(crate) struct TunnelApp {
    pub(crate) cfg: Config,
    pub(crate) peers: Vec<PeerState>,
    pub(crate) counters: TunCounters,
    pub(crate) sizes: Arc<Mutex<Sizes>>,
    pub(crate) shard: Shard,
    pub(crate) started: Time,
    /// Why the tunnel could not go on.
    pub(crate) failure: Option<String>,
    pub(crate) session_cfg: SessionConfig,
    /// A server's.
    pub(crate) listener: Option<ListenConfig>,
    pub(crate) names: Names,
    pub(crate) quotas: Quotas,
    pub(crate) handshakes: Handshakes,
    /// What a client was assigned, and what a server has to assign.
    pub(crate) assigned: Assigned,
    pub(crate) leases: Leases,
    /// Clients are asked to go elsewhere.
    pub(crate) draining: bool,
    /// Goes before the interface does.
    pub(crate) default_route: Option<DefaultRoute>,
    host: HostWatch,
    pub(crate) tun: Bursts,
    pub(crate) allowed: Allowed,
    /// Peers by their names.
    pub(crate) numbers: HashMap<String, usize>,
    pub(crate) sessions: BTreeMap<SessionId, usize>,
    /// What the log called their paths.
    labels: BTreeMap<(SessionId, PathId), String>,
    /// Refused so far, without keys.
    refused: u64,
    trace: Option<Trace>,
    /// Sockets of removed paths, and when they close.
    pub(crate) answers: Answers,
    pub(crate) retired: Vec<(Time, u32)>,
    closing: Option<Time>,
    /// When to look at the paths' links next, and when that was last done.
    watch_at: Time,
    watched: Time,
    /// How often: systemd may want to hear more often than [`WATCH`] that all shards live.
    every: Duration,
    watchdog: bool,
    /// Something about this host's interfaces changed since.
    changed: bool,
}

impl TunnelApp {
    pub(crate) fn client(
        core: &mut Core,
        now: Time,
        cfg: Config,
        trace: Option<Trace>,
    ) -> Result<TunnelApp, Fault> {
        security::set_up(core, &cfg, false, 0)?;
        let mut names = Names::new();
        let mut peers: Vec<PeerState> =
            cfg.peers.iter().map(|p| PeerState::new(p.get_ref().clone())).collect();
        for peer in &mut peers {
            let specs = peer.cfg.paths.iter().map(|p| p.get_ref().clone());
            peer.waiting = specs.map(WaitingPath::new).collect();
        }
        paths::open_waiting(core, now, &cfg, &mut peers, &mut names)?;
        let carried =
            |peer: &PeerState| peer.paths.iter().map(|path| setup::inner_mtu(path.mtu, path.overhead)).min();
        let known = peers.iter().filter_map(carried).max();
        let carried = known.unwrap_or_else(|| setup::guessed_mtu(&cfg));
        let interface = setup::create_tun(&cfg, carried)?;
        TunnelApp::with(now, cfg, trace, peers, names, interface, Shard::new(0, 1))
    }

    pub(crate) fn server(
        core: &mut Core,
        now: Time,
        cfg: Config,
        trace: Option<Trace>,
        number: u8,
        interface: Option<Interface>,
    ) -> Result<TunnelApp, Fault> {
        let shard = Shard::new(number, cfg.shards.0);
        security::set_up(core, &cfg, true, number)?;
        let (listener, carried) = setup::listen(core, &cfg, number)?;
        let interface = interface.map_or_else(|| setup::create_tun(&cfg, carried), Ok)?;
        let peers = cfg.peers.iter().map(|p| PeerState::new(p.get_ref().clone())).collect();
        let mut app = TunnelApp::with(now, cfg, trace, peers, Names::new(), interface, shard)?;
        app.listener = Some(listener);
        Ok(app)
    }

    fn with(
        now: Time,
        cfg: Config,
        trace: Option<Trace>,
        peers: Vec<PeerState>,
        names: Names,
        Interface { tun, sizes }: Interface,
        shard: Shard,
    ) -> Result<TunnelApp, Fault> {
        let mtu = sizes.lock().unwrap_or_else(PoisonError::into_inner).mtu;
        let mut patience = u64::MAX;
        let watchdog = sd_notify::watchdog_enabled(false, &mut patience);
        let (quotas, leases) = (Quotas::load(&cfg), Leases::load(&cfg));
        let mut app = TunnelApp {
            quotas,
            handshakes: Handshakes::load(&cfg),
            leases,
            assigned: Assigned::default(),
            draining: false,
            session_cfg: setup::session_config(&cfg),
            listener: None,
            allowed: Allowed::default(),
            numbers: HashMap::new(),
            cfg,
            peers,
            counters: TunCounters::default(),
            sizes,
            shard,
            started: now,
            failure: None,
            names,
            default_route: None,
            host: HostWatch::new()?,
            tun: Bursts::new(tun, mtu),
            sessions: BTreeMap::new(),
            labels: BTreeMap::new(),
            refused: 0,
            trace,
            retired: Vec::new(),
            closing: None,
            watch_at: now,
            watched: now,
            // All shards are heard of within two rounds, and that has to be in time.
            every: Duration::from_micros(patience / 4).min(WATCH),
            watchdog,
            changed: false,
            answers: Answers::default(),
        };
        app.keep_leases();
        Ok(app)
    }

    /// Everything is in place: connect, or wait for peers.
    pub(crate) fn start(&mut self, core: &mut Core, now: Time) {
        core.endpoint.cap_all(self.rate());
        if !self.shard.is_first() {
            return;
        }
        let names: Vec<String> = self.cfg.addresses.iter().map(|a| a.to_string()).collect();
        let names =
            if names.is_empty() { "its server is to assign addresses".into() } else { names.join(", ") };
        tracing::info!("{} is up: {names}, MTU {}", self.cfg.interface, self.sizes().mtu);
        match self.cfg.security {
            Security::Noise => tracing::info!("traffic is encrypted; only peers with the keys given get in"),
            Security::None => tracing::warn!(
                "security = \"none\": EVERYBODY ON THE WAY CAN READ AND CHANGE THE TRAFFIC, and take part in it"
            ),
        }
        if setup::is_client(&self.cfg) {
            for peer in &mut self.peers {
                peer.connect_at(now);
            }
            self.connect(core, now);
        } else {
            tracing::info!("waiting for {} peer(s)", self.peers.len());
        }
    }

    /// A shard came by, as the first one hears: systemd is told once all of them have, so that one that hangs is found.
    fn is_alive(&mut self, number: u8) {
        if self.shard.all_live(number) {
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// This shard's part of what all peers get together.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let part = |rate: Rate| Rate::from_bps(rate.bps() / u64::from(self.shard.of));
        self.cfg.rate.map(|rate| part(rate.0))
    }

    fn connect(&mut self, core: &mut Core, now: Time) {
        let mut failed = Vec::new();
        for (i, peer) in self.peers.iter_mut().enumerate() {
            let before = peer.session;
            if peer.on_timeout(core, now, &self.session_cfg, self.cfg.dccp_port) {
                tracing::info!("peer {}: connecting", peer.cfg.name);
            }
            if let Some(session) = before.filter(|_| peer.session != before) {
                self.sessions.remove(&session);
                failed.push(i);
            }
            if let Some(session) = peer.session {
                self.sessions.insert(session, i);
            }
        }
        for i in failed {
            let heard = |i| core.net.channels()?.peer_stats(u32::try_from(i).ok()?)?.heard;
            if core.net.channels().is_some() && heard(i).is_none() && self.peers[i].needs_hint() {
                tracing::warn!(
                    "peer {}: never an answer. Is its tunnel up, and do packets get there? Who has other keys gets no answer either: \
                     public_key has to be what `mpdccp pubkey` prints there, that of this end has to be in a [[peer]] of its file, \
                     and a preshared key is at both ends or at none",
                    self.peers[i].cfg.name
                );
            }
            self.next_server(core, now, i, "no session");
        }
    }

    /// A server's peers are many, and have no timers, sockets or names of ours: nothing goes through all of them.
    fn is_client(&self) -> bool {
        setup::is_client(&self.cfg)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Closes all sessions, then ends the loop.
    pub(crate) fn shut_down(&mut self, core: &mut Core, now: Time) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(now + CLOSE_PATIENCE);
        for peer in &mut self.peers {
            peer.shut_down();
        }
        let sessions = core.endpoint.sessions();
        for session in &sessions {
            core.endpoint.close(now, *session);
        }
        if sessions.is_empty() {
            core.stop();
        }
    }

    /// Settings of the file that a new path has to go with.
    pub(crate) fn now_and_peer(&self, core: &Core, peer: Option<&str>) -> Result<(Time, usize), String> {
        let present = || self.peers.iter().enumerate().filter(|(_, p)| !p.gone);
        let names = || present().map(|(_, p)| p.cfg.name.as_str()).collect::<Vec<_>>().join(", ");
        let index = match peer {
            Some(name) => self.numbers.get(name).copied(),
            None if present().count() == 1 => present().next().map(|(i, _)| i),
            None => return Err(format!("say which --peer: {}", names())),
        };
        let index = index.ok_or_else(|| format!("no such peer, expected one of: {}", names()))?;
        Ok((core.clock.now(), index))
    }

    /// The limit of a path, and a server's own wish for the priority of one it knows; the smaller of both ends' counts.
    pub(crate) fn set_limits(&self, core: &mut Core, now: Time, session: SessionId, peer: usize, id: PathId) {
        let status = core.endpoint.status(now, session);
        let Some(path) = status.as_ref().and_then(|s| s.paths.iter().find(|p| p.id == id)) else { return };
        let Some(spec) = self.peers[peer].cfg_of(path) else { return };
        if !setup::is_client(&self.cfg) {
            core.endpoint.name_path(now, session, id, PathName::of(&spec.name));
        }
        if let (false, Some(prio)) = (setup::is_client(&self.cfg), spec.priority) {
            core.endpoint.set_prio(now, session, id, prio.0);
        }
        core.endpoint.cap_path(now, session, id, spec.rate.map(|rate| rate.0));
    }

    /// A path as the log names it; as it was named last, should it be gone.
    fn path_label(&mut self, core: &Core, now: Time, session: SessionId, peer: usize, id: PathId) -> String {
        let status = core.endpoint.status(now, session);
        if let Some(path) = status.as_ref().and_then(|s| s.paths.iter().find(|p| p.id == id)) {
            let remote = core.net.resolve(&path.route).remote.to_string();
            let name = self.peers[peer].path_name(path);
            let label =
                if name == remote { format!("path {name}") } else { format!("path {name} ({remote})") };
            self.labels.insert((session, id), label);
        }
        self.labels.get(&(session, id)).cloned().unwrap_or_else(|| "a path".into())
    }

    /// A socket's path as the log names it, if it is known whose it is.
    fn socket_label(&self, core: &Core, socket: u32) -> Option<String> {
        let ours = |peer: &PeerState| {
            let path = peer.paths.iter().find(|p| p.socket == socket)?;
            Some(format!("peer {}: path {}", peer.cfg.name, path.spec.name))
        };
        if let Some(peer) = core.net.peer_of(socket) {
            let peer = self.peers.get(peer as usize)?;
            return ours(peer).or_else(|| Some(format!("peer {}", peer.cfg.name)));
        }
        // Without channels only a client's paths have sockets of their own.
        self.peers.iter().take_while(|_| self.is_client()).filter(|peer| !peer.gone).find_map(ours)
    }

    /// Says who was refused, at most once each time this is called. Of those without a key the carrier tells.
    fn tell_refused(&mut self, core: &Core) {
        let stats = core.endpoint.stats();
        let count = stats.counters.get(&Counter::RefusedPeer).copied().unwrap_or(0);
        if let (true, Some((from, Counter::RefusedPeer))) = (count > self.refused, stats.refused) {
            tracing::warn!("{from} was refused: no peer may come from there ({count} times in all)");
        }
        self.refused = count;
    }

    fn accept(&mut self, core: &mut Core, now: Time, session: SessionId, peer: u32) {
        let index = peer as usize;
        let Some(state) = self.peers.get_mut(index).filter(|peer| !peer.gone) else {
            return core.endpoint.abort(now, session);
        };
        // A peer has one session; a second one means that it lost the first.
        if let Some(old) = state.session.replace(session).filter(|old| *old != session) {
            tracing::info!("peer {}: a new session replaces the old one", state.cfg.name);
            if let Some(brief) = state.on_ended(now) {
                tracing::warn!(
                    "peer {}: {brief} sessions in a row were soon replaced by another: do two clients have its key?",
                    state.cfg.name
                );
            }
            self.sessions.remove(&old);
            core.endpoint.abort(now, old);
        }
        self.sessions.insert(session, index);
    }
}

impl App for TunnelApp {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let tun = self.reads().then(|| self.tun.as_fd());
        std::iter::once(self.host.as_fd()).chain(tun).collect()
    }

    fn on_readable(&mut self, core: &mut Core, now: Time, index: u32) {
        if index == HOST {
            self.host.drain();
            self.changed = true;
            self.watch_at = now.max(self.watched + PAUSE);
            return;
        }
        self.read(core, now);
    }

    fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, mut data: Vec<u8>) {
        let Some(&peer) = self.sessions.get(&session) else {
            return self.counters.drop("no_session");
        };
        if data == REFUSED {
            return self.counters.drop("ce_not_ect");
        }
        if drain::is_leave(&data) && setup::is_client(&self.cfg) {
            self.next_server(core, now, peer, "it is to be taken away");
            return;
        }
        let Some((source, _)) = addresses(&data) else {
            // First nibble 1 is set aside for messages between tunnels.
            let control = data.first().is_some_and(|b| b >> 4 == 1);
            if control && self.on_message(core, now, peer, &data) {
                return;
            }
            return self.counters.drop(if control { "unknown_control" } else { "not_ip" });
        };
        if self.allowed.peer(source) != Some(peer) {
            return self.counters.drop("bad_source");
        }
        let peer_state = &mut self.peers[peer];
        if !peer_state.policer.takes(now, peer_state.cfg.receive_rate.map(|rate| rate.0), data.len()) {
            return self.counters.drop("over_rate");
        }
        if self.cfg.mss_clamp {
            inner::clamp_mss(&mut data, self.limit(peer));
        }
        self.write(core, data);
    }

    fn on_delivered(&mut self, core: &mut Core, now: Time) {
        self.flush(core);
        // Answers of this host are there already.
        if self.reads() {
            self.read(core, now);
        }
    }

    fn on_event(&mut self, core: &mut Core, now: Time, session: SessionId, event: SessionEvent) {
        if let SessionEvent::Accepted { peer } = event {
            return self.accept(core, now, session, peer);
        }
        let Some(&index) = self.sessions.get(&session) else { return };
        let name = self.peers[index].cfg.name.clone();
        match event {
            SessionEvent::Opened { multipath } => {
                self.peers[index].on_opened(now);
                self.ask_for_addresses(core, now, true);
                self.advertise(core, now, session);
                core.endpoint.cap(now, session, self.peers[index].cfg.rate.map(|rate| rate.0));
                tracing::info!(
                    "peer {name}: session open{}",
                    if multipath { "" } else { " without multipath" }
                );
            }
            SessionEvent::PathUp(id) => {
                self.set_limits(core, now, session, index, id);
                let path = self.path_label(core, now, session, index, id);
                tracing::info!("peer {name}: {path} is up");
                self.peers[index].downs.remove(&path);
                self.hint_path_mtu(core, now, session, index, Some(id));
                self.adapt_mtu(core, now, index);
            }
            SessionEvent::PathMtu(id, mtu) => {
                let path = self.path_label(core, now, session, index, id);
                tracing::info!("peer {name}: {path} carries packets of {mtu} bytes");
                self.adapt_mtu(core, now, index);
            }
            // The tunnel has none.
            SessionEvent::Private(..) => {}
            SessionEvent::PathSuspect(id) => {
                tracing::warn!("peer {name}: {} is silent", self.path_label(core, now, session, index, id));
            }
            SessionEvent::PathDown(id, why) => {
                let path = self.path_label(core, now, session, index, id);
                if self.peers[index].is_new(&path, why.to_string()) {
                    tracing::warn!("peer {name}: {path} is down: {why}");
                }
            }
            SessionEvent::Closed(why) => {
                tracing::info!("peer {name}: session closed: {}", why);
                self.sessions.remove(&session);
                let paths = (session, PathId(0))..=(session, PathId(u32::MAX));
                let of_it: Vec<_> = self.labels.range(paths).map(|(path, _)| *path).collect();
                of_it.iter().for_each(|path| drop(self.labels.remove(path)));
                let peer = &mut self.peers[index];
                if peer.session == Some(session) {
                    peer.downs.clear();
                    if let (Some(brief), true) = (peer.on_ended(now), self.closing.is_none()) {
                        tracing::warn!(
                            "peer {name}: {brief} sessions in a row ended soon after they had opened: \
                             does another client have this one's key?"
                        );
                    }
                    peer.on_closed(now);
                }
                self.next_server(core, now, index, "the session ended");
                if self.closing.is_some() {
                    self.peers[index].shut_down();
                    // The endpoint forgets this one after the event.
                    if core.endpoint.sessions().iter().all(|left| *left == session) {
                        core.stop();
                    }
                }
            }
            _ => {}
        }
    }

    fn on_link(&mut self, core: &mut Core, change: &LinkChange) {
        let whose = self.socket_label(core, change.socket).map_or_else(String::new, |label| label + ": ");
        match change.up {
            true => tracing::info!("{whose}sending to {} works again", change.remote),
            false => tracing::warn!("{whose}sending to {} fails: {}", change.remote, change.why),
        }
    }

    fn on_moved(&mut self, core: &mut Core, socket: u32, remote: SocketAddr) {
        if let Some(whose) = self.socket_label(core, socket) {
            tracing::info!("{whose} is at {remote} now");
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let trace = self.trace.as_ref().map(|t| t.next);
        let ours = self.peers.iter().take_while(|_| self.is_client());
        let peers = ours.filter_map(PeerState::next_timeout).min();
        let retired = self.retired.iter().map(|(at, _)| *at).min();
        [trace, peers, retired, self.closing, Some(self.watch_at)].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, core: &mut Core, now: Time) {
        if self.closing.is_some_and(|t| t <= now) {
            tracing::warn!("closed without an answer from the peer");
            core.stop();
        }
        if self.closing.is_none() && self.is_client() {
            self.connect(core, now);
        }
        if self.watch_at <= now {
            self.watch_at = now + self.every;
            self.watched = now;
            if self.watchdog {
                let number = self.shard.number;
                match self.shard.is_first() {
                    true => self.is_alive(number),
                    false => self.shard.at_first(move |_, first| first.is_alive(number)),
                }
            }
            if self.is_client() {
                for path in self.peers.iter().flat_map(|peer| &peer.paths) {
                    core.net.watch(now, path.socket, path.remote);
                }
            }
            if self.closing.is_none() {
                if self.is_client() {
                    self.follow_advertised(core, now);
                    self.watch_interfaces(core, now);
                    self.open_waiting(core, now);
                    self.watch_names(core, now);
                    self.charge(core, now);
                    self.handshakes.remember(core);
                    self.watch_servers(core, now);
                }
                self.ask_to_leave(core, now);
                self.ask_for_addresses(core, now, false);
                self.tell_refused(core);
            }
            // A server's own interfaces change seldom, and its clients may be many.
            if self.is_client() || std::mem::take(&mut self.changed) {
                for (session, peer) in &self.sessions {
                    self.hint_path_mtu(core, now, *session, *peer, None);
                }
            }
        }
        self.retired.retain(|(at, socket)| {
            if *at <= now {
                core.net.remove(*socket);
            }
            *at > now
        });
        let Some(trace) = self.trace.as_mut().filter(|t| t.next <= now) else { return };
        trace.advance(now);
        for peer in &self.peers {
            let Some(session) = peer.session else { continue };
            let Some(status) = core.endpoint.status(now, session) else { continue };
            let rows = core.endpoint.rows(now, session);
            if let Err(e) = trace.sample(now, &peer.cfg.name, &status, &rows, |path| peer.path_name(path)) {
                tracing::error!("trace: {e}; it ends here");
                self.trace = None;
                return;
            }
        }
    }
}
