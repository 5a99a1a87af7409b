//! The data thread: one endpoint and its sockets, shared by the handles of its connections.

use crate::signal::{Signal, lock};
use crate::stats::{Event, PathStats, Stats};
use crate::stream::Stream;
use crate::{ConnectError, Options, SendPolicy, sockets};
use dccp_net::{App, Core, Driver, Handle, Qlog};
use mpdccp_proto::{Counter, Endpoint, PktInfo, Reason, SessionEvent, SessionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use units::{Rate, Time};

/// How many datagrams wait in a session's own queue: enough for a burst, few enough to stay fresh. Fewer where it matters which one
/// leaves next.
const SESSION_QUEUE: u32 = 16;
const CHOSEN: u32 = 2;
/// How long to wait, beyond the retransmission timeout, for the acknowledgement of the last packets.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections that wait to be accepted.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) state: Mutex<BacklogState>,
    pub(crate) arrived: Signal,
}

#[derive(Debug, Default)]
pub(crate) struct BacklogState {
    pub(crate) waiting: VecDeque<(SessionId, Arc<Stream>)>,
    /// There will be no more.
    pub(crate) over: bool,
}

/// A session and its handle.
struct Entry {
    stream: Arc<Stream>,
    /// Sockets that are its own.
    sockets: Vec<u32>,
    /// Finishing, with an empty queue: until when to wait for acknowledgements.
    drained: Option<Time>,
    /// The peer's number among [`Options::peer`].
    peer: Option<u32>,
    /// The peer has been told that the application does not keep up.
    behind: bool,
}

/// What runs on the data thread.
pub(crate) struct Streams {
    pub(crate) options: Options,
    entries: BTreeMap<SessionId, Entry>,
    /// Those that may have something to send, or to wait for before they close.
    busy: BTreeSet<SessionId>,
    /// Those that wait for the peer's answer, by when they give up.
    opening: BTreeSet<(Time, SessionId)>,
    backlog: Option<Arc<Backlog>>,
    /// No handle is left: ends with the last session.
    leaving: bool,
}

/// The data thread's end of all handles; the thread ends when they are gone and their connections have been finished.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) handle: Handle<Streams>,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.handle.run(|core, streams| streams.leave(core));
    }
}

impl Runtime {
    /// Starts the thread. `set_up` opens what is needed before.
    pub(crate) fn start<T>(
        options: Options,
        backlog: Option<Arc<Backlog>>,
        set_up: impl FnOnce(&mut Core, &Options) -> Result<T, ConnectError>,
    ) -> Result<(Arc<Runtime>, T), ConnectError> {
        options.check()?;
        let mut result = None;
        let endpoint = Endpoint::new(dccp_net::random_seed()?);
        let driver = Driver::new(endpoint, |core| -> Result<Streams, ConnectError> {
            result = Some(set_up(core, &options)?);
            core.net.qlog = match &options.qlog {
                Some(file) => {
                    let name = format!("the qlog file {}", file.display());
                    let created = Qlog::create(file, backlog.is_some());
                    Some(created.map_err(|e| sockets::about(&name, &e))?)
                }
                None => None,
            };
            Ok(Streams {
                options,
                entries: BTreeMap::new(),
                busy: BTreeSet::new(),
                opening: BTreeSet::new(),
                backlog,
                leaving: false,
            })
        })?;
        let Some(result) = result else { return Err(ConnectError::Options("nothing was set up")) };
        let handle = driver.handle();
        let thread = std::thread::Builder::new().name("dccp".into());
        thread.spawn(move || {
            // Then the streams were dropped, and their handles know.
            if let Err(e) = driver.run() {
                tracing::error!("the data thread cannot go on: {e}");
            }
        })?;
        Ok((Arc::new(Runtime { handle }), result))
    }
}

impl Streams {
    /// A new session of a client.
    pub(crate) fn insert(&mut self, now: Time, id: SessionId, stream: Arc<Stream>, sockets: Vec<u32>) {
        self.opening.insert((now + self.options.connect_timeout, id));
        self.entries.insert(id, Entry { stream, sockets, drained: None, peer: None, behind: false });
    }

    /// A session has another socket.
    pub(crate) fn add_socket(&mut self, id: SessionId, socket: u32) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.sockets.push(socket);
        }
    }

    /// A session has something to send, or is to be finished.
    pub(crate) fn wake(&mut self, id: SessionId) {
        self.busy.insert(id);
    }

    /// The peer's number among those of the options.
    pub(crate) fn peer(&self, id: SessionId) -> Option<u32> {
        self.entries.get(&id)?.peer
    }

    /// Accepts no more; what nobody accepted ends.
    pub(crate) fn stop_listening(&mut self, core: &mut Core) {
        core.endpoint.unlisten(self.options.dccp_port);
        let Some(backlog) = self.backlog.take() else { return };
        let waiting = std::mem::take(&mut lock(&backlog.state).waiting);
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

    /// Looks at a session.
    pub(crate) fn look(core: &Core, id: SessionId) -> Option<(Stats, usize)> {
        let now = core.clock.now();
        let status = core.endpoint.status(now, id)?;
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
                    rate: row.map_or(Rate::ZERO, |row| row.rate),
                    sent: path.stats.data_sent,
                    lost: path.tx.as_ref().map_or(0, |tx| tx.lost.packets),
                }
            })
            .collect();
        let up = paths.iter().filter(|path| path.state.is_up());
        let stats = Stats {
            queued: status.queue.packets.into(),
            dropped: dropped(&status),
            lost: paths.iter().map(|path| path.lost).sum(),
            rate: Rate::from_bps(up.map(|path| path.rate.bps()).sum()),
            paths: paths.clone(),
            ..Stats::default()
        };
        Some((stats, status.max_payload.unwrap_or(0)))
    }

    /// Brings what the handle knows of a session up to date.
    pub(crate) fn refresh(&self, core: &Core, id: SessionId) {
        let (Some(entry), Some((stats, max))) = (self.entries.get(&id), Streams::look(core, id)) else {
            return;
        };
        lock(&entry.stream.state).update(stats);
        // While no path is up, what could be sent before is still worth waiting for.
        if max > 0 {
            entry.stream.set_max_datagram(max);
        }
    }

    /// The system may know that packets of this size cannot be sent.
    fn follow_mtu(&self, core: &mut Core, now: Time, id: SessionId) {
        for path in core.endpoint.status(now, id).into_iter().flat_map(|status| status.paths) {
            if let Ok(mtu) = core.net.path_mtu(path.route.socket, path.route.remote) {
                core.endpoint.set_mtu(now, id, path.id, mtu.min(self.options.mtu));
            }
        }
    }

    /// The handle of a session of a listener; data may come before the event of opening was read.
    fn entry(&mut self, id: SessionId) -> &mut Entry {
        let Streams { entries, options, .. } = self;
        entries.entry(id).or_insert_with(|| Entry {
            stream: Arc::new(Stream::new(options)),
            sockets: Vec::new(),
            drained: None,
            peer: None,
            behind: false,
        })
    }

    fn on_opened(&mut self, core: &mut Core, now: Time, id: SessionId, multipath: bool) {
        self.follow_mtu(core, now, id);
        let stream = self.entry(id).stream.clone();
        self.refresh(core, id);
        stream.open(multipath);
        let Some(backlog) = &self.backlog else { return };
        let mut state = lock(&backlog.state);
        if state.waiting.len() >= self.options.backlog {
            tracing::warn!("too many connections wait to be accepted: one is ended");
            drop(state);
            return core.endpoint.abort(now, id);
        }
        state.waiting.push_back((id, stream));
        drop(state);
        backlog.arrived.notify();
    }

    fn on_closed(&mut self, core: &mut Core, now: Time, id: SessionId, reason: Reason) {
        self.busy.remove(&id);
        let status = core.endpoint.status(now, id);
        let dropped = status.as_ref().map_or(0, dropped);
        if let Some(entry) = self.entries.remove(&id) {
            lock(&entry.stream.state).hear(status.and_then(|status| status.error_text));
            entry.stream.end(reason, dropped);
            entry.sockets.iter().for_each(|socket| core.net.remove(*socket));
        }
        if self.leaving && self.entries.is_empty() {
            core.stop();
        }
    }

    /// Hands on what fits; true if that was something.
    fn feed(&mut self, core: &mut Core, now: Time, id: SessionId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else {
            self.busy.remove(&id);
            return false;
        };
        let waiting = core.endpoint.backlog(now, id).packets;
        let most = if self.options.policy == SendPolicy::Wait { SESSION_QUEUE } else { CHOSEN };
        let (taken, empty) = entry.stream.take(most.saturating_sub(waiting) as usize);
        let any = !taken.is_empty();
        for data in taken {
            core.endpoint.send(now, id, data, PktInfo::default());
        }
        if !empty || any {
            return any;
        }
        if !lock(&entry.stream.state).is_finishing() {
            self.busy.remove(&id);
        } else if waiting == 0 {
            let rows = core.endpoint.rows(now, id);
            let rto = rows.iter().map(|row| row.srtt.unwrap_or(PATIENCE) + row.rttvar * 4).max();
            let until = *entry.drained.get_or_insert(now + PATIENCE + rto.unwrap_or_default());
            let unheard = rows.iter().map(|row| row.inflight.packets).sum();
            if now >= until || unheard == 0 {
                let stream = entry.stream.clone();
                self.busy.remove(&id);
                self.refresh(core, id);
                lock(&stream.state).give_up(unheard);
                core.endpoint.close(now, id);
                return true;
            }
        }
        false
    }
}

/// Datagrams that a session dropped.
fn dropped(status: &mpdccp_proto::SessionStatus) -> u64 {
    let queue = &status.queue_stats;
    let at_close = status.counters.get(&Counter::DroppedAtClose).copied().unwrap_or(0);
    queue.dropped_full + queue.dropped_old + queue.dropped_early + queue.dropped_too_big + at_close
}

impl Drop for Streams {
    fn drop(&mut self) {
        for entry in self.entries.values() {
            entry.stream.end(Reason::Aborted, 0);
        }
        if let Some(backlog) = &self.backlog {
            lock(&backlog.state).over = true;
            backlog.arrived.notify();
        }
    }
}

impl App for Streams {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn on_readable(&mut self, _: &mut Core, _: Time, _: u32) {}

    fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, data: Vec<u8>) {
        let entry = self.entry(session);
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
                self.tell(core, id, Event::PathUp(path));
            }
            SessionEvent::PathSuspect(path) => self.tell(core, id, Event::PathSuspect(path)),
            SessionEvent::PathDown(path, why) => self.tell(core, id, Event::PathDown(path, why)),
            SessionEvent::Closed(reason) => self.on_closed(core, now, id, reason),
            // Path MTUs are asked for when somebody wants to know them, private options not at all.
            _ => {}
        }
    }

    fn fill(&mut self, core: &mut Core, now: Time) -> bool {
        let mut any = false;
        for id in self.busy.clone() {
            any |= self.feed(core, now, id);
        }
        any
    }

    fn next_timeout(&self) -> Option<Time> {
        let drained = self.busy.iter().filter_map(|id| self.entries.get(id)?.drained);
        drained.chain(self.opening.first().map(|(at, _)| *at)).min()
    }

    fn on_timeout(&mut self, core: &mut Core, now: Time) {
        // Those that wait for acknowledgements are asked in `fill`.
        while let Some((at, id)) = self.opening.pop_first() {
            if at > now {
                self.opening.insert((at, id));
                break;
            }
            if let Some(entry) =
                self.entries.get(&id).filter(|entry| lock(&entry.stream.state).opening().is_none())
            {
                entry.stream.end(Reason::NoAnswer, 0);
                core.endpoint.abort(now, id);
            }
        }
    }
}

impl Streams {
    fn tell(&self, core: &Core, id: SessionId, event: Event) {
        self.refresh(core, id);
        if let Some(entry) = self.entries.get(&id) {
            entry.stream.tell_event(event);
        }
    }
}
