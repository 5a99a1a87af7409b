//! The tunnel passes each event to its features, in a fixed order. Each feature has its own file.

use crate::action::{Action, Actions, StateFile};
use crate::capacities::Capacities;
use crate::client::assigned::Assigned;
use crate::client::leaving;
use crate::client::paths::Paths;
use crate::client::quota::Quotas;
use crate::client::timestamp::Timestamp;
use crate::client::{self, servers};
use crate::config::Config;
use crate::drops::DropReason;
use crate::hooks::NameServers;
use crate::host::HostEvent;
use crate::message::Message;
use crate::packet::forward::{Forward, Outcome, Packet};
use crate::packet::mtu::{self, InterfaceMtu};
use crate::packet::pieces::Pieces;
use crate::peer::Peer;
use crate::peers::Peers;
use crate::routes::SessionRoutes;
use crate::server::drain::Listener;
use crate::server::leases::Leases;
use crate::sessions::{self, Next};
use crate::setup::{self, Setup};
use crate::shards::{Shard, ShardMessage, Told};
use crate::status::{PeerStatus, Status};
use crate::tcp::Flows;
use crate::watch::Watch;
use crate::{Cx, Ports, routes};
use dccp_secure::PrivateKey;
use mpdccp_proto::{Endpoint, PathStatus, PktInfo, SessionEvent, SessionId};
use mpdccp_units::{Duration, Time};

/// Time limit for closing the sessions.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// One end of a tunnel, or one shard of a server.
#[derive(Debug)]
pub struct Tunnel {
    cfg: Config,
    own_key: Option<PrivateKey>,
    peers: Peers,
    forward: Forward,
    paths: Paths,
    quotas: Quotas,
    timestamp: Timestamp,
    assigned: Assigned,
    capacities: Capacities,
    leases: Leases,
    listener: Listener,
    name_servers: NameServers,
    session_routes: SessionRoutes,
    shard: Shard,
    /// TCP flows carried as streams, if this host supports streams.
    flows: Option<Flows>,
    /// Connections that died with the last run.
    connections: String,
    started: Time,
    running: bool,
    failure: Option<String>,
    closing: Option<Time>,
    /// Decides when to check this host and the paths next.
    watch: Watch,
    ports: Ports,
    out: Actions,
}

macro_rules! cx {
    ($self:ident, $endpoint:expr, $now:expr) => {
        &mut Cx {
            now: $now,
            endpoint: $endpoint,
            cfg: &$self.cfg,
            out: $self.out.at($now),
            ports: &mut $self.ports,
            closing: $self.closing.is_some(),
        }
    };
}

mod commands;
mod end;
mod shard_messages;
mod streams;

impl Tunnel {
    /// Creates a tunnel. A client requests its paths. Call [`start`](Self::start) once the interface exists.
    pub fn new(endpoint: &mut Endpoint, now: Time, setup: Setup) -> Tunnel {
        let Setup { cfg, keys, saved, wall, shard, seed, alive } = setup;
        let mut out = Actions::default();
        let file = |file| saved.get(&file).map(String::as_str);
        let mut tunnel = Tunnel {
            own_key: keys.own,
            peers: Peers::new(&cfg, keys.peers),
            forward: Forward::default(),
            paths: Paths::default(),
            quotas: Quotas::new(file(StateFile::Volumes), &mut out),
            timestamp: Timestamp::new(file(StateFile::Timestamp)),
            assigned: Assigned::new(&cfg),
            // Only the first shard has this file: several shards would overwrite each other's entries.
            capacities: Capacities::new(
                file(StateFile::Capacities).filter(|_| shard == 0),
                now,
                wall,
                &mut out,
            ),
            leases: Leases::new(file(StateFile::Leases), &mut out),
            listener: Listener::default(),
            name_servers: NameServers::default(),
            session_routes: SessionRoutes::default(),
            shard: Shard::new(shard, cfg.shards.0),
            flows: None,
            connections: file(StateFile::Connections).unwrap_or_default().into(),
            started: now,
            running: false,
            failure: None,
            closing: None,
            watch: Watch::new(now, alive),
            ports: Ports::new(seed),
            out,
            cfg,
        };
        if tunnel.cfg.is_client() {
            client::open(cx!(tunnel, endpoint, now), &mut tunnel.peers, &mut tunnel.paths);
        }
        tunnel
    }

    /// Accepts sessions. `mtu` is the sockets' smallest path MTU, and `overhead` their headers' size.
    pub fn listen(&mut self, endpoint: &mut Endpoint, mtu: u16, overhead: u16) {
        if self.shard.of > 1 {
            endpoint.set_shard(self.shard.number);
        }
        self.listener.open(&self.cfg, &self.peers, endpoint, (mtu, overhead));
    }

    /// Starts the tunnel once the interface exists with this MTU: sets the routes and, on a client, connects.
    pub fn start(&mut self, endpoint: &mut Endpoint, now: Time, mtu: u16) {
        self.running = true;
        self.forward.mtu = InterfaceMtu::new(mtu);
        self.forward.allowed = self.leases.allow(cx!(self, endpoint, now), &mut self.peers, &self.shard);
        endpoint.cap_all(self.cfg.rate_of_shard());
        if !self.shard.is_first() {
            return;
        }
        let cx = cx!(self, endpoint, now);
        routes::change(cx, &[], &self.assigned.routes(&self.cfg), false);
        setup::announce(&self.cfg, mtu, &mut self.out);
        if self.cfg.is_client() {
            self.peers.iter_mut().for_each(|peer| peer.connect_at(now));
            self.connect(endpoint, now);
        }
    }

    /// Returns the size of the largest inner packet that this end's paths carry, if it has any. Paths that
    /// are not open yet count, too, because the interface never gets larger than at the start.
    pub fn carried(&self) -> Option<u16> {
        let open = |peer: &Peer| peer.paths.iter().map(|path| mtu::inner(path.mtu, path.overhead)).max();
        let waiting =
            |peer: &Peer| peer.waiting.iter().map(|path| mtu::expected(&self.cfg, &path.spec)).max();
        self.peers.iter().filter_map(|peer| open(peer).max(waiting(peer))).max()
    }

    /// Returns the error that keeps the tunnel from starting or continuing.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the current configuration.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// Returns the timestamp for handshakes, as time since 1970, while the clock shows `wall`.
    pub fn handshake_time(&mut self, wall: Duration) -> Duration {
        self.timestamp.time(wall, &mut self.out)
    }

    fn connect(&mut self, endpoint: &mut Endpoint, now: Time) {
        for number in self.peers.on_timeout(cx!(self, endpoint, now)) {
            self.next_server(endpoint, now, number, "no session opened");
        }
        servers::watch(cx!(self, endpoint, now), &mut self.peers, &mut self.paths);
    }

    fn next_server(&mut self, endpoint: &mut Endpoint, now: Time, number: usize, why: &str) {
        servers::next(cx!(self, endpoint, now), &mut self.peers, &mut self.paths, number, why, None);
    }

    /// Handles a packet. The caller collects packets for the interface and writes them in bursts.
    #[must_use]
    pub fn handle_packet(&mut self, endpoint: &mut Endpoint, now: Time, packet: Packet) -> Outcome {
        let done = match packet {
            Packet::Interface(packet) => {
                self.forward.read.count(1, packet.len() as u64);
                if let Some(done) = self.divert(endpoint, now, &packet, false) {
                    return done.outcome(packet);
                }
                let (cx, own) = (cx!(self, endpoint, now), &self.assigned.nets);
                self.forward.send(cx, &mut self.peers, own, &self.shard, packet)
            }
            Packet::HandedOver(packet) => {
                if let Some(done) = self.divert(endpoint, now, &packet, false) {
                    return done.outcome(packet);
                }
                let (cx, own) = (cx!(self, endpoint, now), &self.assigned.nets);
                self.forward.send_here(cx, &mut self.peers, own, &self.shard, packet)
            }
            Packet::Session(session, data) => match self.peers.of(session) {
                Some(number) if data.first().is_some_and(|b| b >> 4 == 1) => {
                    self.handle_message(endpoint, now, (number, session), &data)
                }
                Some(number) => {
                    let cx = cx!(self, endpoint, now);
                    let done = self.forward.deliver(cx, &mut self.peers, number, data);
                    let back = match (&done, &mut self.flows) {
                        (Ok(Outcome::Write(packet)), Some(flows)) => flows.on_delivered(packet),
                        _ => None,
                    };
                    if let Some(back) = back {
                        let info = PktInfo::of_ip(&back, endpoint.flow_key());
                        endpoint.send(now, session, back, info);
                        return Outcome::Done;
                    }
                    done
                }
                None => Err(DropReason::NoSession),
            },
        };
        done.unwrap_or_else(|why| {
            self.count_drops(why, 1);
            Outcome::Done
        })
    }

    /// Counts packets that the interface has accepted.
    pub fn count_written(&mut self, packets: u64, bytes: u64) {
        self.forward.written.count(packets, bytes);
    }

    /// Counts packets that the host has dropped.
    pub fn count_drops(&mut self, why: DropReason, packets: u64) {
        self.forward.drops.add(why, packets);
    }

    /// Handles a message from the peer's tunnel. Its first four bits are 1; those of an IP packet are 4 or 6.
    fn handle_message(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        (number, session): (usize, SessionId),
        data: &[u8],
    ) -> Result<Outcome, DropReason> {
        if Pieces::is_piece(data) {
            let from = (number, session);
            return self.forward.deliver_piece(cx!(self, endpoint, now), &mut self.peers, from, data);
        }
        let auto = self.cfg.addresses.auto;
        match (Message::parse(data), self.cfg.is_client()) {
            (Some(message @ (Message::Probe(_) | Message::Alive(_))), _) => {
                return Ok(self.handle_probe(endpoint, now, session, &message));
            }
            (Some(Message::Leave), true) => self.leave(endpoint, now, number, session),
            (Some(Message::Ask), false) if !self.peers[number].may_ask(now) => {}
            (Some(Message::Ask), false) => self.assign(endpoint, now, number),
            (Some(Message::Names(_)), false) if !self.peers[number].may_name(now) => {}
            (Some(Message::Names(names)), false) => {
                let cx = cx!(self, endpoint, now);
                self.peers[number].on_names(cx, names);
                self.capacities.resume(cx, &self.peers[number]);
            }
            (Some(Message::Give(gift)), true) if auto => {
                self.assigned.on_given(cx!(self, endpoint, now), &self.peers[number], gift);
            }
            (Some(Message::Refuse(why)), true) if auto => {
                self.assigned.on_refused(cx!(self, endpoint, now), &self.peers[number], why.words());
            }
            _ => return Err(DropReason::UnknownControl),
        }
        Ok(Outcome::Done)
    }

    /// Handles an event of a session.
    pub fn handle_event(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        session: SessionId,
        event: SessionEvent,
    ) {
        if self.handle_stream_event(endpoint, now, session, &event) {
            return;
        }
        let cx = cx!(self, endpoint, now);
        let mtu = self.forward.mtu.mtu;
        match &event {
            SessionEvent::Opened { .. } if self.peers.of(session).is_some() => {
                self.name_servers.on_opened(cx, session);
            }
            SessionEvent::Closed(_) => self.name_servers.on_closed(cx, session),
            _ => {}
        }
        if let Some(number) = self.peers.of(session).filter(|n| self.peers[*n].has_left(session)) {
            if let SessionEvent::Closed(_) = event {
                let paths = leaving::ended(cx, &mut self.peers[number], session);
                let name = self.peers[number].name();
                paths.iter().for_each(|path| self.paths.retire(cx, name, path));
                self.peers.forget(session);
            }
            return;
        }
        let (assigned, capacities) = (&mut self.assigned, &mut self.capacities);
        let number = self.peers.of(session);
        let next = sessions::on_event(cx, &mut self.peers, assigned, capacities, mtu, session, event);
        if let Some(number) = number {
            self.peers[number].tell_server(cx);
            self.session_routes.follow(cx, &self.peers, number);
        }
        match next {
            Next::Nothing => {}
            Next::Resize(number) => {
                self.forward.on_paths(cx, &mut self.peers[number], &self.shard, &self.assigned);
            }
            Next::Over(number) if !cx.closing => self.next_server(endpoint, now, number, "the session ended"),
            Next::Over(number) => {
                self.peers[number].shut_down();
                // The endpoint still lists the ended session until this event has been handled.
                if endpoint.sessions().iter().all(|left| *left == session) {
                    self.stop(endpoint, now);
                }
            }
        }
    }

    /// Handles an event of the host.
    pub fn handle_host(&mut self, endpoint: &mut Endpoint, now: Time, event: HostEvent) {
        let cx = cx!(self, endpoint, now);
        match event {
            HostEvent::PathOpened { request, socket, sizes, overhead } => {
                self.paths.on_opened(cx, &mut self.peers, request, (socket, sizes, overhead));
                if self.closing.is_some() || !self.running {
                    self.peers.iter_mut().for_each(Peer::shut_down);
                }
            }
            HostEvent::PathFailed { request, absent, why } => {
                let error = self.paths.on_failed(cx, &mut self.peers, request, absent, why);
                if !self.running {
                    self.failure = self.failure.take().or(error);
                }
            }
            HostEvent::Looked(looked) => {
                self.peers.on_looked(cx, &looked);
                self.capacities.set_clock(now, Duration::from_secs(looked.unix));
                if self.cfg.is_client() {
                    let (peers, paths) = (&mut self.peers, &mut self.paths);
                    client::charge(cx, peers, paths, &mut self.quotas, &mut self.timestamp, &looked);
                }
            }
            HostEvent::Interfaces(_) | HostEvent::Resolved { .. } if cx.closing => {}
            HostEvent::Interfaces(list) => self.paths.on_interfaces(cx, &mut self.peers, list),
            HostEvent::Resolved { name, answer } => {
                self.paths.on_resolved(cx, &mut self.peers, &name, answer);
            }
            HostEvent::Changed => self.watch.on_change(now, self.cfg.is_client()),
            HostEvent::SwitchedOn => {
                if self.shard.is_first() {
                    self.assigned.renew(cx);
                }
                self.session_routes.renew(cx);
            }
            HostEvent::AddressesSet(result) => {
                if let Some(peer) = self.peers.iter().next() {
                    self.assigned.on_set(cx, peer, result);
                }
                self.forward.adapt_interface(cx, &self.assigned);
            }
            HostEvent::MtuSet(mtu, done) => self.forward.on_mtu_set(cx, &self.shard, mtu, done),
            HostEvent::Link { socket, peer, remote, error } => {
                self.peers.on_link(cx, socket, peer, remote, error);
            }
            HostEvent::Answered { socket } => self.peers.on_answered(cx, socket),
            HostEvent::Moved { socket, peer, remote } => self.peers.on_moved(cx, socket, peer, remote),
            HostEvent::Failed(why) => {
                self.failure.get_or_insert(why);
                self.shut_down(endpoint, now);
                self.stop(endpoint, now);
            }
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&self) -> Option<Time> {
        // Skip a server's peers: they have no timer and may be many. A closing tunnel does not connect.
        let ours = self.peers.iter().take_while(|_| self.cfg.is_client() && self.closing.is_none());
        let peers = ours.filter_map(Peer::next_timeout).min();
        let flows = self.flows.as_ref().and_then(|flows| flows.next_timeout(&self.peers));
        let others = [peers, flows, self.paths.next_timeout(), self.closing];
        others.into_iter().flatten().chain([self.watch.at]).min()
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, endpoint: &mut Endpoint, now: Time) {
        if self.closing.take_if(|at| *at <= now).is_some() {
            self.closing = Some(now + CLOSE_PATIENCE);
            self.out.warn(format!("{} did not answer the close in time; ending anyway", self.peers.open()));
            self.stop(endpoint, now);
        }
        if self.closing.is_none() && self.cfg.is_client() {
            self.connect(endpoint, now);
        }
        if let Some(changed) = self.watch.is_due(now) {
            self.look(endpoint, now, changed);
        }
        self.paths.on_timeout(cx!(self, endpoint, now));
        self.continue_flows(endpoint, now);
    }

    /// Checks this host and the paths.
    fn look(&mut self, endpoint: &mut Endpoint, now: Time, changed: bool) {
        match self.shard.number {
            0 => self.handle_shard(endpoint, now, ShardMessage(Told::Alive(0))),
            number => cx!(self, endpoint, now).tell_shard(0, Told::Alive(number)),
        }
        if self.closing.is_none() && self.capacities.is_due(now) {
            self.observe(endpoint, now);
        }
        let cx = cx!(self, endpoint, now);
        let (peers, paths) = (&mut self.peers, &mut self.paths);
        if self.cfg.is_client() {
            peers.iter().for_each(|peer| peer.look_at_own(cx));
        } else {
            // A server may have many clients, so it asks only after its own interfaces have changed.
            peers.next_to_check(changed).into_iter().for_each(|number| peers[number].look(cx, None));
        }
        if self.closing.is_some() {
            return;
        }
        if self.cfg.is_client() {
            self.name_servers.watch(cx, peers);
            client::watch(cx, peers, paths, &mut self.assigned);
            let flows = &self.flows;
            leaving::watch(cx, peers, |session| flows.as_ref().is_some_and(|f| f.of_session(session) > 0));
        }
        self.forward.follow_sizes(cx, &self.assigned);
        self.session_routes.watch(cx);
        self.listener.watch(cx, peers);
        self.leases.save(&mut self.out);
    }

    /// Returns the next action for the host.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.waiting.pop_front()
    }

    /// Returns the status of all peers, or of peer `only`. The host adds the state of sockets and channels.
    pub fn status(&self, endpoint: &Endpoint, now: Time, only: Option<&str>) -> Status {
        let here = self.peers.asked(only).into_iter().filter(|number| self.shard.is_home(*number));
        let peers =
            here.map(|number| PeerStatus::of_peer(endpoint, now, number, &self.peers[number], &self.quotas));
        let shard = self.shard.status(self.peers.sessions().len(), self.forward.read.packets);
        Status {
            mtu: self.forward.mtu.mtu,
            addresses: self.assigned.nets.iter().map(|net| net.to_string()).collect(),
            no_address: self.assigned.error(&self.cfg),
            uptime_s: now.since(self.started).as_secs_f64(),
            tun: self.forward.status(),
            tcp: self.flows.as_ref().map(Flows::status),
            endpoint: endpoint.stats().counters.iter().map(|(k, n)| (k.name().into(), *n)).collect(),
            shards: shard.into_iter().collect(),
            peers: peers.collect(),
            ..Status::of(&self.cfg)
        }
    }

    /// Returns each session with the name of its peer.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &str)> {
        self.peers.sessions().iter().map(|(session, number)| (*session, self.peers[*number].name()))
    }

    /// Returns the name configured for a session's path at either end, or else the path's address.
    pub fn path_name(&self, session: SessionId, path: &PathStatus) -> String {
        let peer = self.peers.of(session).map(|number| &self.peers[number]);
        peer.map_or_else(|| path.route.remote.to_string(), |peer| peer.path_name(path))
    }
}
