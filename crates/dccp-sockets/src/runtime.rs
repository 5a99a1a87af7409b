//! The data thread, which runs one endpoint and its sockets on behalf of the handles of all its connections.

mod byte_streams;
mod clockwork;
pub(crate) mod host;
mod peers;
mod probes;

use crate::backlog::Backlog;
use crate::budget::Budget;
use crate::byte_stream::Pipe;
use crate::shared::SharedSockets;
use crate::signal::lock;
use crate::stats::{Event, PathStats, Stats};
use crate::stream::{Ends, Stream};
use crate::{Encapsulation, Options, SendPolicy, sockets};
use dccp_cc::Remembered;
use dccp_net::secure::PublicKey;
use dccp_net::{App, Core};
use dccp_proto::ServiceCode;
use dccp_streams::StreamId;
pub(crate) use host::Runtime;
use mpdccp_proto::{Counter, ListenConfig, PktInfo, Reason, SessionEvent, SessionId};
use mpdccp_units::{Rate, Time};
use probes::Clockwork;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Number of datagrams that a session gets at a time, once it has sent the previous ones. This is enough for
/// a burst. If the queue drops or reorders datagrams, the session gets only one at a time.
const BURST: usize = 16;
/// Time to wait for acknowledgements of the last packets, on top of the retransmission timeout.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state of a session on the data thread.
struct Entry {
    stream: Arc<Stream>,
    /// Sockets that this session uses and must release when it ends.
    sockets: Vec<u32>,
    /// The deadline for acknowledgements. Set while the connection is finishing and its queue is empty.
    drained: Option<Time>,
    /// Number of the peer in [`Options::peer`].
    peer: Option<u32>,
    /// Whether the peer knows that the application has fallen behind.
    behind: bool,
    pipes: BTreeMap<StreamId, Arc<Pipe>>,
    /// The stored capacity that the first path will start with.
    resume: Option<Remembered>,
}

impl Entry {
    fn new(stream: Arc<Stream>, sockets: Vec<u32>, peer: Option<u32>) -> Entry {
        Entry { stream, sockets, drained: None, peer, behind: false, pipes: BTreeMap::new(), resume: None }
    }

    /// Ends the handles of a session that has ended.
    fn end(&self, reason: Reason, dropped: u64) {
        self.pipes.values().for_each(|pipe| pipe.end(reason));
        self.stream.end(reason, dropped);
    }
}

/// The state of the data thread.
pub(crate) struct Streams {
    pub(crate) options: Options,
    budget: Arc<Budget>,
    pub(crate) shared: SharedSockets,
    /// The address on which this end listens, and the number of its socket.
    pub(crate) listens: Option<(SocketAddr, u32)>,
    /// The peers that have keys, numbered as in the channels.
    peers: BTreeMap<u32, PublicKey>,
    entries: BTreeMap<SessionId, Entry>,
    /// Sessions that may have data to send, or that are waiting for acknowledgements before they close.
    busy: BTreeSet<SessionId>,
    /// Sessions waiting for the peer's answer, sorted by deadline.
    opening: BTreeSet<(Time, SessionId)>,
    backlog: Option<Arc<Backlog>>,
    clockwork: Clockwork,
    /// Whether no handles are left, in which case the thread ends with the last session.
    leaving: bool,
}

impl Streams {
    fn new(options: Options, budget: Arc<Budget>, backlog: Option<Arc<Backlog>>) -> Streams {
        Streams {
            peers: (0u32..).zip(options.peers.iter().map(|(key, _)| *key)).collect(),
            options,
            budget,
            shared: SharedSockets::default(),
            listens: None,
            entries: BTreeMap::new(),
            busy: BTreeSet::new(),
            opening: BTreeSet::new(),
            backlog,
            clockwork: Clockwork::default(),
            leaving: false,
        }
    }

    /// Adds a client's new session.
    pub(crate) fn insert(
        &mut self,
        now: Time,
        id: SessionId,
        stream: Arc<Stream>,
        (sockets, peer): (Vec<u32>, u32),
    ) {
        let _ = stream.id.set(id);
        self.opening.insert((now + self.options.connect_timeout, id));
        let resume = self.options.resume.take();
        self.entries.insert(id, Entry { resume, ..Entry::new(stream, sockets, Some(peer)) });
    }

    /// Adds a socket to the entry of a session.
    pub(crate) fn add_socket(&mut self, id: SessionId, socket: u32) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.sockets.push(socket);
        }
    }

    /// Notes that a session has data to send or must finish.
    pub(crate) fn wake(&mut self, id: SessionId) {
        self.busy.insert(id);
    }

    /// Stops accepting connections, and ends those waiting to be accepted. Connections whose handshake is not
    /// complete yet end as soon as they open.
    pub(crate) fn stop_listening(&mut self, core: &mut Core) {
        let Some(backlog) = &self.backlog else { return };
        let mut state = lock(&backlog.state);
        if std::mem::replace(&mut state.over, true) {
            return;
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        match self.listens.take() {
            // The sessions that continue get further paths only while their port is listening, so refuse only
            // new sessions. With native DCCP, the port must be free for other programs.
            Some(at) if self.options.encapsulation == Encapsulation::Udp => {
                let config = sockets::listen_config(core, &self.options, at, &[]);
                core.endpoint.listen(ListenConfig { peers: Vec::new(), strangers: false, ..config });
            }
            _ => core.endpoint.unlisten(self.options.dccp_port),
        }
        for (id, _) in waiting {
            core.endpoint.abort(core.clock.now(), id);
        }
    }

    fn leave(&mut self, core: &mut Core) {
        self.leaving = true;
        if self.entries.is_empty() {
            core.stop();
        }
    }

    /// Reads a session's statistics and the size of the largest datagram that it can send.
    pub(crate) fn look(core: &Core, id: SessionId) -> Option<(Stats, usize)> {
        let now = core.clock.now();
        let status = core.endpoint.status(now, id)?;
        let below = core.endpoint.backlog(now, id);
        let rows = core.endpoint.rows(now, id);
        let paths: Vec<PathStats> = status
            .paths
            .iter()
            .map(|path| {
                let row = rows.iter().find(|row| row.id == path.id);
                PathStats {
                    id: path.id,
                    peer: core.net.resolve(&path.route).remote,
                    state: path.state,
                    ccids: path.ccids,
                    rtt: row.and_then(|row| row.srtt),
                    window: row.map_or(0, |row| row.cwnd),
                    path_mtu: path.mtu,
                    rate: row.filter(|row| !row.app_limited).map(|row| row.seen),
                    allowed: row.map_or(Rate::ZERO, |row| row.pacing.unwrap_or(row.rate)),
                    capacity: path.tx.as_ref().and_then(|tx| tx.capacity),
                    resumption: path.tx.as_ref().and_then(|tx| tx.resumption),
                    sent: path.stats.data_sent,
                    lost: path.tx.as_ref().map_or(0, |tx| tx.lost.packets),
                }
            })
            .collect();
        let up = || paths.iter().filter(|path| path.state.is_up());
        let app_limited = up().all(|path| path.rate.is_none());
        let stats = Stats {
            queued: status.queue.packets.into(),
            dropped: dropped(&status),
            lost: status.lost,
            rate: (!app_limited).then(|| up().filter_map(|path| path.rate).sum()),
            allowed: up().map(|path| path.allowed).sum(),
            app_limited,
            oldest: (below.packets > 0).then_some(below.oldest),
            paths: paths.clone(),
            ..Stats::default()
        };
        Some((stats, status.max_payload.unwrap_or(0)))
    }

    /// Passes a session's current statistics to its handle.
    pub(crate) fn refresh(&self, core: &Core, id: SessionId) {
        let (Some(entry), Some((stats, max))) = (self.entries.get(&id), Streams::look(core, id)) else {
            return;
        };
        lock(&entry.stream.state).update(stats);
        // While no path is up, keep the last known size, because datagrams of that size can wait for a path.
        if max > 0 {
            entry.stream.set_max_datagram(max);
        }
    }

    /// Sets each path's MTU to the one that the system knows, but at most to the MTU in the options. If the
    /// path is probed, the value is only a hint, which the probes try first.
    fn follow_mtu(&self, core: &mut Core, now: Time, id: SessionId) {
        for path in core.endpoint.status(now, id).into_iter().flat_map(|status| status.paths) {
            if let Ok(mtu) = core.net.path_mtu(path.route.socket, path.route.remote) {
                core.endpoint.set_mtu(now, id, path.id, mtu.min(self.options.mtu));
            }
        }
    }

    /// Returns the entry of a listener's session, creating it if necessary, because data may arrive before
    /// the event that opens the session.
    fn entry(&mut self, id: SessionId) -> &mut Entry {
        let Streams { entries, options, budget, .. } = self;
        entries.entry(id).or_insert_with(|| {
            let stream = Arc::new(Stream::new(options, budget));
            let _ = stream.id.set(id);
            Entry::new(stream, Vec::new(), None)
        })
    }

    /// Returns the addresses of both ends and the peer's key, for the path that opened the session.
    fn ends(&self, core: &Core, now: Time, id: SessionId) -> Option<Ends> {
        let status = core.endpoint.status(now, id)?;
        let path = status.paths.iter().find(|path| path.state.is_up()).or(status.paths.first())?;
        let outer = core.net.resolve(&path.route);
        let socket = core.net.socket(outer.socket)?;
        let bound = socket.local_addr().ok();
        let ip = outer.local.or_else(|| socket.source(outer.remote).ok());
        let peer = self.entries.get(&id)?.peer.or_else(|| core.net.peer_of(path.route.socket));
        let key = peer.and_then(|number| core.net.channels()?.peer_key(number));
        Some(Ends {
            local: bound.map(|bound| SocketAddr::new(ip.unwrap_or(bound.ip()), bound.port())),
            peer: outer.remote,
            service: ServiceCode(status.service_code),
            key,
        })
    }

    fn on_opened(&mut self, core: &mut Core, now: Time, id: SessionId, multipath: bool) {
        self.follow_mtu(core, now, id);
        let stream = self.entry(id).stream.clone();
        self.refresh(core, id);
        stream.open(multipath, self.ends(core, now, id));
        self.tell_rates(core, now);
        let Some(backlog) = &self.backlog else { return };
        let mut state = lock(&backlog.state);
        if state.over {
            drop(state);
            return core.endpoint.abort(now, id);
        }
        if state.waiting.len() >= self.options.backlog {
            if state.is_news() {
                tracing::warn!(
                    "the backlog is full, so new connections are aborted; accept faster, or raise the option `backlog`"
                );
            }
            drop(state);
            return core.endpoint.abort(now, id);
        }
        state.waiting.push_back((id, stream));
        state.show();
        drop(state);
        backlog.arrived.notify();
    }

    fn on_closed(&mut self, core: &mut Core, now: Time, id: SessionId, reason: Reason) {
        self.busy.remove(&id);
        self.clockwork.forget(id);
        let status = core.endpoint.status(now, id);
        let dropped = status.as_ref().map_or(0, dropped);
        if let Some(entry) = self.entries.remove(&id) {
            core.endpoint.unread_streams(id, |streams| {
                entry.pipes.values().for_each(|pipe| pipe.read_rest(streams));
            });
            lock(&entry.stream.state).hear(status.and_then(|status| status.error_text));
            entry.end(reason, dropped);
            entry.sockets.iter().for_each(|socket| self.shared.release(core, *socket));
            entry.peer.into_iter().for_each(|number| self.forget_peer(core, number));
        }
        if self.leaving && self.entries.is_empty() {
            core.stop();
        }
    }

    /// Releases the sockets of removed paths.
    fn close_unused(&mut self, core: &mut Core, now: Time, id: SessionId) {
        let Some(status) = core.endpoint.status(now, id) else { return };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.sockets.retain(|socket| {
            let used = status.paths.iter().any(|path| path.route.socket == *socket);
            if !used {
                self.shared.release(core, *socket);
            }
            used
        });
    }

    /// Passes datagrams to the session once it has sent the previous ones. Returns whether any were passed.
    fn feed(&mut self, core: &mut Core, now: Time, id: SessionId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else {
            self.busy.remove(&id);
            return false;
        };
        let below = core.endpoint.backlog(now, id);
        let most = match (below.packets, self.options.policy) {
            (0, SendPolicy::Wait) => BURST,
            (0, _) => 1,
            _ => 0,
        };
        let (taken, done) = entry.stream.take(most, &below);
        let any = !taken.is_empty();
        self.clockwork.on_sent(id, taken.iter().map(Vec::len).sum());
        for data in taken {
            core.endpoint.send(now, id, data, PktInfo::default());
        }
        if !done || any {
            return any;
        }
        if !entry.stream.is_finishing() {
            self.busy.remove(&id);
            return false;
        }
        let held = core.endpoint.streams(now, id, |all| entry.pipes.values().any(|pipe| pipe.holds(all)));
        if held != Some(true) {
            let rows = core.endpoint.rows(now, id);
            let rto = rows.iter().map(|row| row.srtt.unwrap_or(PATIENCE) + row.rttvar * 4).max();
            let until = *entry.drained.get_or_insert(now + PATIENCE + rto.unwrap_or_default());
            let unheard = rows.iter().map(|row| row.inflight.packets).sum();
            // Also wait until the acknowledgements of received streams have been sent, because the peer's
            // streams finish only with the last acknowledgement.
            let owes = core.endpoint.streams(now, id, |streams| streams.owes_ack()).unwrap_or_default();
            if now >= until || (unheard == 0 && !owes) {
                let stream = entry.stream.clone();
                self.busy.remove(&id);
                self.refresh(core, id);
                lock(&stream.state).give_up(unheard);
                core.endpoint.close(now, id);
                return true;
            }
        } else {
            // Streams need more time. A deadline that had passed meanwhile would keep the data thread busy.
            entry.drained = None;
        }
        false
    }
}

/// Returns how many datagrams a session has dropped.
fn dropped(status: &mpdccp_proto::SessionStatus) -> u64 {
    let queue = &status.queue_stats;
    let counted = |what: Counter| status.counters.get(&what).copied().unwrap_or(0);
    let unqueued = counted(Counter::DroppedAtClose) + counted(Counter::QueuesFull);
    queue.dropped_full + queue.dropped_old + queue.dropped_early + queue.dropped_too_big + unqueued
}

impl Drop for Streams {
    fn drop(&mut self) {
        for entry in self.entries.values() {
            entry.end(Reason::Aborted, 0);
        }
        if let Some(backlog) = &self.backlog {
            let mut state = lock(&backlog.state);
            state.over = true;
            state.show();
            drop(state);
            backlog.arrived.notify();
        }
    }
}

impl App for Streams {
    fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, data: Vec<u8>) {
        let entry = self.entry(session);
        if data.is_empty() {
            // The packet is padding of a probe, so take back its memory.
            return core.endpoint.put_block(data);
        }
        let behind = entry.stream.deliver(data);
        if std::mem::replace(&mut entry.behind, behind) != behind {
            core.endpoint.set_slow_receiver(now, session, behind);
        }
    }

    fn on_event(&mut self, core: &mut Core, now: Time, id: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Accepted { peer } => self.entry(id).peer = Some(peer),
            SessionEvent::Opened { multipath } => self.on_opened(core, now, id, multipath),
            SessionEvent::PathUp(path) => {
                self.follow_mtu(core, now, id);
                if let Some(saved) = self.entries.get_mut(&id).and_then(|entry| entry.resume.take()) {
                    core.endpoint.resume(now, id, path, &saved, u64::MAX);
                }
                self.tell(core, id, Event::PathUp(path));
            }
            SessionEvent::PathSuspect(path) => self.tell(core, id, Event::PathSuspect(path)),
            SessionEvent::PathDown(path, why) => {
                self.close_unused(core, now, id);
                self.tell(core, id, Event::PathDown(path, why));
            }
            SessionEvent::Stream(event) => self.on_stream(core, now, id, event),
            SessionEvent::Closed(reason) => self.on_closed(core, now, id, reason),
            SessionEvent::PathMtu { .. } => self.refresh(core, id),
            // Connections do not use private options.
            _ => {}
        }
    }

    fn fill(&mut self, core: &mut Core, now: Time) -> bool {
        let mut any = false;
        for id in self.busy.clone() {
            any |= self.feed(core, now, id);
        }
        any | self.pad(core, now)
    }

    fn next_timeout(&self) -> Option<Time> {
        let drained = self.busy.iter().filter_map(|id| self.entries.get(id)?.drained);
        let opening = self.opening.first().map(|(at, _)| *at);
        drained.chain(opening).chain(self.clockwork.next_timeout()).min()
    }

    fn on_timeout(&mut self, core: &mut Core, now: Time) {
        // `fill` takes care of sessions waiting for acknowledgements, and of sessions with probes.
        self.tell_rates(core, now);
        while let Some((at, id)) = self.opening.pop_first() {
            if at > now {
                self.opening.insert((at, id));
                break;
            }
            if let Some(entry) = self.entries.get(&id).filter(|entry| !lock(&entry.stream.state).is_open()) {
                entry.stream.end(Reason::NoAnswer, 0);
                core.endpoint.abort(now, id);
            }
        }
    }
}

impl Streams {
    pub(crate) fn tell(&self, core: &Core, id: SessionId, event: Event) {
        self.refresh(core, id);
        if let Some(entry) = self.entries.get(&id) {
            entry.stream.tell_event(event);
        }
    }
}
