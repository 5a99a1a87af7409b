//! Replays traces of the model against the code. Each end has its own clock, which advances only when the
//! trace lets a timer fire. After each step, the packets sent and the state of both ends must equal those of
//! the model.

use super::check::{Graph, bounds};
use super::*;
use crate::common::{client_route, config, listen, path, server_route};
use dccp_proto::{Ecn, Route};
use dccp_wire::{MpOption, Opt, Options, PacketType, ResetCode, Seq};
use mpdccp_proto::{
    Endpoint, JoinFrom, PathId, PathState, PathStatus, SessionConfig, SessionId, SessionState,
};
use mpdccp_units::{Duration, Time};
use std::collections::{BTreeMap, HashSet};

/// Why a replay stops before the end of its trace.
enum Stop {
    /// The code does something that the model leaves out.
    LeftOut(&'static str),
    Differs(String),
}
use Stop::{Differs, LeftOut};

const CONGESTION: &str = "congestion control delays an option, or chooses another path for it";

/// Maximum number of other timers that may fire before the one that the trace names.
const PATIENCE: usize = 200;

/// A packet that an end sent.
#[derive(Clone)]
struct Sent {
    conn: usize,
    kind: Kind,
    bytes: Vec<u8>,
}

struct Replay {
    model: State,
    ends: [Endpoint; 2],
    now: [Time; 2],
    client: SessionId,
    /// The client's port of each subflow.
    ports: Vec<u16>,
    /// The first MP_SEQ of each end.
    mp_seq: [Option<Seq>; 2],
    flying: Vec<(Packet, Vec<u8>)>,
    /// Whether the client has lost a subflow that it did not close. If so, it will join again.
    lost: bool,
}

/// Returns the route of a packet to this end. Subflow 0 goes to the server's first address.
fn route(to: usize, conn: usize) -> Route {
    let there = client_route(conn.min(1)).remote;
    match to {
        CLIENT => Route { socket: 0, local: None, remote: there },
        _ => Route { local: Some(there.ip()), ..server_route(0) },
    }
}

/// Returns whether the model's packet and the packet sent are of the same kind. For an Ack, only the
/// confirmation is compared.
fn same(a: &Kind, b: &Kind) -> bool {
    match (a, b) {
        (Ack { confirms: a, .. }, Ack { confirms: b, .. }) => a == b,
        _ => a == b,
    }
}

fn bare(kind: &Kind) -> bool {
    matches!(kind, Ack { confirms: None, .. })
}

impl Replay {
    fn new() -> Result<Replay, Stop> {
        let now = Time::from_millis(1);
        let mut ends = [Endpoint::new([1; 32]), Endpoint::new([101; 32])];
        let cfg = || SessionConfig { join_advertised: JoinFrom::All, ..config() };
        ends[SERVER].listen(listen(cfg()));
        let client = ends[CLIENT].connect(now, cfg(), path(0));
        let mut replay = Replay {
            model: State { net: Vec::new(), ..State::new() },
            ends,
            now: [now; 2],
            client,
            ports: Vec::new(),
            mp_seq: [None; 2],
            flying: Vec::new(),
            lost: false,
        };
        let sent = replay.drain(CLIENT)?;
        replay.follow(State::new(), vec![(CLIENT, sent)])?;
        Ok(replay)
    }

    /// Returns the packets that an end sends now.
    fn drain(&mut self, end: usize) -> Result<Vec<Sent>, Stop> {
        let mut out: Vec<(Route, Ecn, Vec<u8>)> = Vec::new();
        // The second round sends what was triggered by the events of the first.
        for _ in 0..2 {
            self.ends[end].poll_transmit(self.now[end], &mut out);
            while self.ends[end].poll_deliver().is_some() {}
            while self.ends[end].poll_event().is_some() {}
        }
        out.into_iter().map(|(.., bytes)| self.read(end, bytes)).collect()
    }

    fn read(&mut self, from: usize, bytes: Vec<u8>) -> Result<Sent, Stop> {
        let packet = dccp_wire::Packet::parse(&bytes).unwrap();
        let header = packet.header;
        let port = if from == CLIENT { header.src_port } else { header.dst_port };
        let conn = match self.ports.iter().position(|p| *p == port) {
            Some(conn) => conn,
            None if self.ports.len() == CONNS && self.lost => return Err(LeftOut("another join")),
            None if self.ports.len() == CONNS => return Err(Differs("another join".to_string())),
            None => {
                self.ports.push(port);
                self.ports.len() - 1
            }
        };
        let options: Vec<MpOption<'_>> =
            packet.options().filter_map(|o| if let Ok(Opt::Mp(mp)) = o { Some(mp) } else { None }).collect();
        let has = |test: fn(&MpOption<'_>) -> bool| options.iter().any(test);
        let hmac = has(|o| matches!(o, MpOption::Hmac(_)));
        let kind = match header.ptype {
            PacketType::Request => Request,
            PacketType::Response => Response,
            PacketType::Ack => {
                let confirmed = options
                    .iter()
                    .find_map(|o| if let MpOption::Confirm(list) = o { Some(*list) } else { None });
                let told = confirmed.and_then(|list| {
                    let list: Vec<MpOption<'_>> = Options::new(list)
                        .filter_map(|o| if let Ok(Opt::Mp(mp)) = o { Some(mp) } else { None })
                        .collect();
                    self.told(1 - from, &list)
                });
                Ack { handshake: hmac, confirms: told }
            }
            PacketType::Data => match self.told(from, &options) {
                Some((told, mp_seq)) => Data(told, mp_seq),
                None => return Err(LeftOut("data")),
            },
            PacketType::Close => Close(has(|o| matches!(o, MpOption::Close(_)))),
            PacketType::Sync => Sync(hmac),
            PacketType::SyncAck => SyncAck(hmac),
            PacketType::Reset => Reset(match header.reset.unwrap().code {
                ResetCode::Closed => Code::Closed,
                ResetCode::Aborted => Code::Aborted,
                ResetCode::NoConnection => Code::NoConnection,
                ResetCode::PacketError => Code::PacketError,
                ResetCode::OptionError => Code::OptionError,
                ResetCode::ConnectionRefused => Code::Refused,
                ResetCode::AbruptMpTermination => Code::Abrupt(has(|o| matches!(o, MpOption::FastClose(_)))),
                code => return Err(Differs(format!("Reset {code:?}"))),
            }),
            ptype => return Err(Differs(format!("{ptype:?}"))),
        };
        Ok(Sent { conn, kind, bytes })
    }

    /// Returns the option that needs a confirmation, and its MP_SEQ counted from one.
    fn told(&mut self, from: usize, options: &[MpOption<'_>]) -> Option<(Told, u16)> {
        let mp_seq =
            options.iter().find_map(|o| if let MpOption::Seq(seq) = o { Some(*seq) } else { None })?;
        let first = *self.mp_seq[from].get_or_insert(mp_seq);
        let told = options.iter().find_map(|o| match o {
            MpOption::Prio(prio) => Some(Told::Prio(prio - 3)),
            MpOption::AddAddr { addr_id, .. } => Some(Told::Add(*addr_id)),
            MpOption::RemoveAddr { addr_id, .. } => Some(Told::Remove(*addr_id)),
            _ => None,
        })?;
        Some((told, mp_seq.diff(first) as u16 + 1))
    }

    /// The model has reached the state `next`. Matches the packets that the ends have just sent against the
    /// model's new packets.
    fn follow(&mut self, next: State, sent: Vec<(usize, Vec<Sent>)>) -> Result<(), Stop> {
        let mut new = next.net.clone();
        for (packet, _) in &self.flying {
            let at = new.iter().position(|p| p == packet);
            new.remove(at.unwrap_or_else(|| panic!("{packet:?} is no longer in the network")));
        }
        new.sort_by_key(|p| p.seq);
        for c in 0..CONNS {
            let was_open = self.model.is_open(CLIENT, c) || c == 0;
            self.lost |=
                was_open && self.model.conns[c][CLIENT].state != Conn::Closing && !next.is_live(CLIENT, c);
        }
        self.model = next;
        for (end, sent) in sent {
            for sent in sent {
                let at = new.iter().position(|p| (p.from, p.conn) == (end, sent.conn));
                match at.filter(|at| same(&new[*at].kind, &sent.kind)) {
                    Some(at) => self.flying.push((new.remove(at), sent.bytes)),
                    // An Ack with congestion control feedback, which is not part of the model.
                    None if bare(&sent.kind) => {}
                    // The client joins again, on its first path or a lost one.
                    None if sent.kind == Request && self.lost => {
                        return Err(LeftOut("another join"));
                    }
                    None if self.waits(end, &sent.kind) => return Err(LeftOut(CONGESTION)),
                    None => {
                        return Err(Differs(format!(
                            "end {end} sent {:?} on {}, not {new:?}",
                            sent.kind, sent.conn
                        )));
                    }
                }
            }
        }
        match new.is_empty() {
            _ if self.model.is_mixed() => Err(LeftOut("a connection has two incarnations")),
            true => Ok(()),
            false if new.iter().all(|p| matches!(p.kind, Data(..))) => Err(LeftOut(CONGESTION)),
            false => Err(Differs(format!("the code did not send {new:?}"))),
        }
    }

    /// Returns whether the option is waiting for its first transmission or for a retransmission.
    fn waits(&self, end: usize, kind: &Kind) -> bool {
        let waits = |told: &Told| self.model.pending[end].iter().flatten().any(|p| p.told == *told);
        matches!(kind, Data(told, _) if waits(told))
    }

    /// Compares the states of both ends with the model's.
    fn compare(&self) -> Result<(), Stop> {
        for end in 0..2 {
            let statuses: Vec<_> = self.ends[end]
                .sessions()
                .into_iter()
                .filter_map(|id| self.ends[end].status(self.now[end], id))
                .collect();
            let states: Vec<SessionState> = statuses.iter().map(|s| s.state).collect();
            let wanted = match self.model.sessions[end] {
                Session::None | Session::Closed => None,
                Session::Connecting => Some(SessionState::Connecting),
                Session::Open => Some(SessionState::Open),
                Session::Closing => Some(SessionState::Closing),
            };
            let found = wanted.is_none_or(|wanted| states.contains(&wanted));
            if !found || wanted.is_none() && states.iter().any(|s| *s != SessionState::Closed) {
                return Err(Differs(format!("sessions of end {end}: {states:?}, not {wanted:?}")));
            }
            let mut halves: BTreeMap<usize, PathStatus> = BTreeMap::new();
            for path in statuses.iter().flat_map(|s| &s.paths) {
                let port = if end == CLIENT { path.ports.local } else { path.ports.remote };
                if let Some(conn) = self
                    .ports
                    .iter()
                    .position(|p| *p == port)
                    .filter(|_| path.state != PathState::Down || path.tx.is_some())
                {
                    halves.insert(conn, path.clone());
                }
            }
            for c in 0..CONNS {
                let half = &self.model.conns[c][end];
                let wanted = match half.state {
                    Conn::Closed | Conn::TimeWait => None,
                    Conn::Request | Conn::Respond | Conn::PartOpen => Some(PathState::Connecting),
                    Conn::Open => Some(PathState::Up),
                    Conn::Closing => Some(PathState::Down),
                };
                // The model does not contain path states.
                let state = halves.get(&c).map(|p| p.state);
                let state = state.map(|s| if s == PathState::Suspect { PathState::Up } else { s });
                if state != wanted {
                    return Err(Differs(format!("subflow {c} of end {end}: {state:?}, not {wanted:?}")));
                }
                let prio = half.prio.map_or(3, |(prio, _)| prio + 3);
                if end == SERVER && half.state == Conn::Open && halves[&c].prio != prio {
                    return Err(Differs(format!("priority {} of subflow {c}, not {prio}", halves[&c].prio)));
                }
            }
            let known: Vec<u8> = (1..)
                .zip(&self.model.known)
                .filter(|(_, k)| matches!(k, Some((true, _))))
                .map(|(id, _)| id)
                .collect();
            let real: Vec<u8> =
                statuses.first().map_or(vec![], |s| s.peer_addresses.iter().map(|a| a.0).collect());
            if end == CLIENT && !states.is_empty() && states[0] != SessionState::Closed && real != known {
                return Err(Differs(format!("the client knows Address IDs {real:?}, not {known:?}")));
            }
        }
        Ok(())
    }

    /// Finds the trace's packet in the replay's network. Its numbers may differ, because a probe may have
    /// shifted them.
    fn find(&self, packet: &Packet) -> Option<Packet> {
        let exact = self.flying.iter().find(|(p, _)| p == packet);
        let like = |p: &Packet| (p.conn, p.from, p.kind) == (packet.conn, packet.from, packet.kind);
        exact.or_else(|| self.flying.iter().find(|(p, _)| like(p))).map(|(p, _)| *p)
    }

    fn take(&mut self, packet: &Packet) -> Vec<u8> {
        let at = self.flying.iter().position(|(p, _)| p == packet).unwrap();
        self.flying.remove(at).1
    }

    fn deliver(&mut self, packet: &Packet) -> Result<(), Stop> {
        let bytes = self.take(packet);
        let end = 1 - packet.from;
        // With the feature near-wrap, numbers soon wrap to 0, so a connection's window contains 0.
        let unchecked =
            matches!(self.model.conns[packet.conn][end].state, Conn::Closed | Conn::TimeWait | Conn::Request);
        if packet.seq == 0 && !unchecked && Seq::initial(0) != Seq::new(0) {
            return Err(LeftOut("the number 0 is valid"));
        }
        self.now[end] += Duration::from_millis(1);
        let len = bytes.len() as u32 + 28;
        self.ends[end].handle_datagram(self.now[end], &route(end, packet.conn), Ecn::NotEct, len, &bytes);
        let sent = self.drain(end)?;
        self.follow(self.model.after(&Action::Deliver(*packet)), vec![(end, sent)])?;
        self.compare()
    }

    /// Returns the session of `end`. On the server, this is the first one that is neither half open nor
    /// ended.
    fn session(&self, end: usize) -> SessionId {
        let live = |id: &SessionId| {
            let state = self.ends[end].status(self.now[end], *id).map(|s| s.state);
            matches!(state, Some(SessionState::Open | SessionState::Closing))
        };
        if end == CLIENT { self.client } else { self.ends[end].sessions().into_iter().find(live).unwrap() }
    }

    fn path_id(&self, c: usize) -> PathId {
        let status = self.ends[CLIENT].status(self.now[CLIENT], self.client).unwrap();
        status.paths.iter().find(|p| p.ports.local == self.ports[c]).unwrap().id
    }

    fn command(&mut self, command: Command) -> Result<(), Stop> {
        let model = self.model.clone();
        let mut next = model.clone();
        next.commands = [9; 8];
        let next = next.after(&Action::Command(command));
        let joined = model.joined();
        let end = match command {
            Command::Advertise | Command::Withdraw => SERVER,
            Command::Prio | Command::Leave => CLIENT,
            Command::Close(end) | Command::Abort(end) => end,
        };
        let (now, id) = (self.now[end], self.session(end));
        match command {
            Command::Advertise => {
                let addr = route(CLIENT, 1).remote.ip();
                let told = self.ends[end].advertise(now, id, addr, None);
                let wanted = (0..IDS).find(|id| !model.given[*id]).map(|id| id as u8 + 1);
                if told != wanted {
                    return Err(Differs(format!("Address ID {told:?}, not {wanted:?}")));
                }
            }
            Command::Withdraw => {
                let gone =
                    (0..IDS).find(|id| model.pending[SERVER][*id] != next.pending[SERVER][*id]).unwrap();
                self.ends[end].withdraw(now, id, gone as u8 + 1);
            }
            Command::Prio => self.ends[end].set_prio(now, id, self.path_id(joined.unwrap()), next.prios + 3),
            Command::Leave => self.ends[end].remove_path(now, id, self.path_id(joined.unwrap())),
            Command::Close(_) => self.ends[end].close(now, id),
            Command::Abort(_) => self.ends[end].abort(now, id),
        }
        let sent = self.drain(end)?;
        self.follow(next, vec![(end, sent)])?;
        self.compare()
    }

    /// Returns the model's action for a timer whose firing sends this packet.
    fn cause(&self, end: usize, sent: &Sent) -> Action {
        match sent.kind {
            Sync(_) => Action::Probe(end, sent.conn),
            Data(told, _) => Action::Repeat(end, told, false),
            Reset(_) => Action::Timer(end, sent.conn, true),
            _ => Action::Timer(end, sent.conn, false),
        }
    }

    /// Advances the clock of an end until the trace's timer fires. Other timers may fire before it.
    fn timer(&mut self, end: usize, wanted: &Action) -> Result<(), Stop> {
        for _ in 0..PATIENCE {
            let Some((at, _)) = self.ends[end].poll_timeout() else { return Err(LeftOut("no timer")) };
            self.now[end] = self.now[end].max(at);
            self.ends[end].handle_timeout(self.now[end]);
            let mut sent = self.drain(end)?;
            let mut fired = false;
            while let Some(first) = sent.first() {
                let action = self.cause(end, first);
                let (soon, late) = self.model.timers();
                if !soon.contains(&action) && !late.contains(&action) {
                    if bare(&first.kind) {
                        sent.remove(0);
                        continue;
                    }
                    return Err(match first.kind {
                        Request if self.lost => LeftOut("another join"),
                        _ => Differs(format!("a timer sent {:?} on subflow {}", first.kind, first.conn)),
                    });
                }
                fired |= action == *wanted;
                let next = self.model.after(&action);
                let count = next.net.len() - self.model.net.len();
                let rest = sent.split_off(count.min(sent.len()));
                let mark = self.flying.len();
                self.follow(next, vec![(end, sent)])?;
                sent = rest;
                if action == *wanted {
                    continue;
                }
                let packets: Vec<Packet> = self.flying[mark..].iter().map(|(p, _)| *p).collect();
                match (action, wanted) {
                    // The path stays up.
                    (Action::Probe(_, c), _) => {
                        self.deliver(&packets[0])?;
                        let answers = |p: &Packet| {
                            (p.conn, p.from) == (c, 1 - end) && matches!(p.kind, SyncAck(_) | Reset(_))
                        };
                        if let Some(answer) = self.flying.last().map(|(p, _)| *p).filter(answers) {
                            self.deliver(&answer)?;
                        }
                    }
                    (_, Action::Timer(_, _, true) | Action::Repeat(_, _, true)) => {
                        for packet in packets {
                            self.take(&packet);
                            self.model = self.model.after(&Action::Lose(packet));
                        }
                    }
                    _ => {}
                }
            }
            self.compare()?;
            if fired {
                return Ok(());
            }
        }
        Err(LeftOut("the timer is too far in the future"))
    }

    fn step(&mut self, action: &Action) -> Result<(), Stop> {
        let packet = match action {
            Action::Deliver(p) | Action::Lose(p) | Action::Duplicate(p) => {
                Some(self.find(p).ok_or(LeftOut("the timers fire in another order"))?)
            }
            _ => None,
        };
        match (action, packet) {
            (Action::Deliver(_), Some(packet)) => self.deliver(&packet),
            (Action::Lose(_), Some(packet)) => {
                self.take(&packet);
                self.follow(self.model.after(&Action::Lose(packet)), Vec::new())
            }
            (_, Some(packet)) => {
                let bytes = self.take(&packet);
                self.flying.extend([(packet, bytes.clone()), (packet, bytes)]);
                self.follow(self.model.after(&Action::Duplicate(packet)), Vec::new())
            }
            (Action::Command(command), _) if self.model.may(*command) => self.command(*command),
            (Action::Timer(end, ..) | Action::Repeat(end, ..) | Action::Probe(end, _), _) => {
                self.timer(*end, action)
            }
            _ => Err(LeftOut("the timers fire in another order")),
        }
    }
}

/// Returns the states of both ends without their numbers, and the kind of the last action. Traces with the
/// same class count as equal.
fn class(state: &State, last: &Action) -> impl std::hash::Hash + Eq + use<> {
    let halves = state.conns.map(|c| c.map(|half| half.state));
    let pending = state.pending.map(|p| p.map(|p| p.map(|p| p.told)));
    let last = match last {
        Action::Deliver(p) => (0, p.conn, Some(p.kind), None),
        Action::Lose(p) => (1, p.conn, Some(p.kind), None),
        Action::Duplicate(p) => (2, p.conn, Some(p.kind), None),
        other => (3, 0, None, Some(*other)),
    };
    (halves, state.sessions, pending, state.known.map(|k| k.map(|k| k.0)), last)
}

#[test]
fn the_code_does_as_the_model() {
    let (mut left_out, mut steps, mut whole) = (BTreeMap::<&str, usize>::new(), 0, 0);
    let mut differ: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut classes = HashSet::new();
    for (name, prefix, start) in bounds() {
        let mut ends = Vec::new();
        let graph = Graph::of(start, &mut |before, action, next| {
            if classes.insert(class(next, action)) {
                ends.push((before, *action));
            }
        });
        for (before, last) in ends {
            let mut trace = graph.trace(before);
            trace.push(last);
            let Ok(mut replay) = Replay::new() else { panic!("the client sends no Request") };
            let mut done = Vec::new();
            let result = prefix.iter().chain(&trace).try_for_each(|action| {
                steps += 1;
                done.push(*action);
                replay.step(action)
            });
            match result {
                Ok(()) => whole += 1,
                Err(LeftOut(why)) => *left_out.entry(why).or_default() += 1,
                Err(Differs(why)) => {
                    let text: String = done.iter().map(|a| format!("\n  {a:?}")).collect();
                    let entry = differ.entry(why.clone()).or_insert((0, format!("{name}:{text}")));
                    entry.0 += 1;
                }
            }
        }
    }
    println!("{} traces, {whole} replayed to the end, {steps} steps; left out: {left_out:?}", classes.len());
    for (why, (n, trace)) in differ.iter().take(10) {
        println!("=== {n} x {why}\n{trace}");
    }
    assert!(differ.is_empty(), "{} differences", differ.len());
    assert!(whole * 10 > classes.len() * 9, "only {whole} traces were replayed to the end");
}
