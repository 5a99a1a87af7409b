//! Every way a network may treat the packets of a handshake, of a join, of MP_PRIO, of a removed address and of closing: each of the first
//! [`DEPTH`] packets is delivered, lost, delivered twice, or overtaken by later ones, in all combinations. Afterwards the network is
//! perfect, and both ends must agree (RFC 9897 sections 3.2 to 3.5): no session half open for ever, one subflow for each address, and no
//! session left after a close.
//!
//! The states that both ends pass through are counted; each is a pair of sessions as [`World::abstraction`] sees them.

#[path = "all/common/mod.rs"]
mod common;

use common::End::{Client, Server};
use common::{End, client_addr, client_route, config, listen, path};
use dccp_proto::{Ecn, Route, Sink};
use mpdccp_proto::{Endpoint, PathState, SessionId};
use mpdccp_units::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Packets whose fate is chosen: 4^5 combinations.
const DEPTH: usize = 5;
const DELAY: Duration = Duration::from_millis(10);
/// Longer than a round trip: what comes in answer to later packets overtakes it.
const LATE: Duration = Duration::from_millis(45);
const NAT_PORT: u16 = 40_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Delivered,
    Lost,
    Twice,
    Late,
}
const FATES: [Fate; 4] = [Fate::Delivered, Fate::Lost, Fate::Twice, Fate::Late];

/// What both ends look like: paths up, and whether sessions are there.
type Abstraction = [Vec<(String, Vec<PathState>)>; 2];

struct World {
    now: Time,
    ends: [Endpoint; 2],
    flying: BTreeMap<(Time, u64), (End, usize, Vec<u8>)>,
    sent: u64,
    /// Fates of the next packets; then all are delivered.
    fates: Vec<Fate>,
    /// Paths that carry nothing.
    cut: Vec<usize>,
    session: SessionId,
    seen: BTreeSet<String>,
}

struct Out(Vec<(Route, Vec<u8>)>);

impl Sink for Out {
    fn reserve(&mut self, route: &Route, _: Ecn, len: usize) -> &mut [u8] {
        self.0.push((*route, vec![0; len]));
        &mut self.0.last_mut().unwrap().1
    }
}

impl World {
    /// The client has begun; nothing has left yet.
    fn new(fates: &[Fate]) -> World {
        let mut ends = [Endpoint::new([1; 32]), Endpoint::new([2; 32])];
        ends[1].listen(listen(config()));
        let now = Time::from_millis(1);
        let session = ends[0].connect(now, config(), path(0));
        ends[0].add_path(now, session, path(1)).unwrap();
        let fates = fates.iter().rev().copied().collect();
        World {
            now,
            ends,
            flying: BTreeMap::new(),
            sent: 0,
            fates,
            cut: Vec::new(),
            session,
            seen: BTreeSet::new(),
        }
    }

    /// Open over two paths; the next packets have these fates.
    fn open(fates: &[Fate]) -> World {
        let mut world = World::new(&[]);
        world.run(Duration::from_secs(1));
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]]);
        world.fates = fates.iter().rev().copied().collect();
        world
    }

    fn launch(&mut self, from: End, path: usize, bytes: Vec<u8>) {
        if self.cut.contains(&path) {
            return;
        }
        let times: &[Duration] = match self.fates.pop().unwrap_or(Fate::Delivered) {
            Fate::Delivered => &[DELAY],
            Fate::Lost => &[],
            Fate::Twice => &[DELAY, LATE],
            Fate::Late => &[LATE],
        };
        for delay in times {
            self.sent += 1;
            self.flying.insert((self.now + *delay, self.sent), (from, path, bytes.clone()));
        }
    }

    fn drain(&mut self) {
        for from in [Client, Server] {
            let mut out = Out(Vec::new());
            let end = &mut self.ends[from as usize];
            end.poll_transmit(self.now, &mut out);
            while end.poll_deliver().is_some() {}
            while end.poll_event().is_some() {}
            for (route, bytes) in out.0 {
                let IpAddr::V4(ip) = route.remote.ip() else { unreachable!("all paths are IPv4") };
                self.launch(from, usize::from(ip.octets()[2]), bytes);
            }
        }
        let state = format!("{:?}", self.abstraction());
        self.seen.insert(state);
    }

    fn abstraction(&self) -> Abstraction {
        let look = |end: &Endpoint| {
            let statuses = end.sessions().into_iter().filter_map(|id| end.status(self.now, id));
            statuses.map(|s| (format!("{:?}", s.state), s.paths.iter().map(|p| p.state).collect())).collect()
        };
        [look(&self.ends[0]), look(&self.ends[1])]
    }

    fn arrive(&mut self, from: End, path: usize, bytes: &[u8]) {
        let (to, route) = match from {
            Client => {
                (1, Route { socket: 0, local: None, remote: SocketAddr::new(client_addr(path), NAT_PORT) })
            }
            Server => (0, Route { local: Some(client_addr(path)), ..client_route(path) }),
        };
        self.ends[to].handle_datagram(self.now, &route, Ecn::NotEct, bytes.len() as u32 + 28, bytes);
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.drain();
        loop {
            let timers = self.ends.iter().filter_map(|e| e.poll_timeout().map(|(at, _)| at));
            let next = timers.chain(self.flying.keys().next().map(|(at, _)| *at)).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
                let (from, path, bytes) = entry.remove();
                self.arrive(from, path, &bytes);
            }
            self.ends.iter_mut().for_each(|e| e.handle_timeout(self.now));
            self.drain();
        }
        self.now = end;
    }

    /// Paths up at each end, by the client's address, of all sessions.
    fn up(&self) -> [Vec<u8>; 2] {
        let paths = |end: usize, remote: bool| {
            let ids = self.ends[end].sessions().into_iter();
            let paths = ids.filter_map(|id| self.ends[end].status(self.now, id)).flat_map(|s| s.paths);
            let up = paths.filter(|p| p.state == PathState::Up).map(|p| {
                let IpAddr::V4(ip) = p.route.remote.ip() else { unreachable!("all paths are IPv4") };
                assert!(!remote || p.route.remote.port() == NAT_PORT);
                ip.octets()[2]
            });
            let mut up: Vec<u8> = up.collect();
            up.sort_unstable();
            up
        };
        [paths(0, false), paths(1, true)]
    }

    fn sessions(&self) -> [usize; 2] {
        [self.ends[0].session_count(), self.ends[1].session_count()]
    }

    fn server_session(&self) -> SessionId {
        self.ends[1].sessions()[0]
    }

    fn path_id(&self, end: usize, socket_path: u8) -> mpdccp_proto::PathId {
        let id = self.ends[end].sessions()[0];
        let paths = self.ends[end].status(self.now, id).unwrap().paths;
        let found = paths
            .iter()
            .find(|p| matches!(p.route.remote.ip(), IpAddr::V4(ip) if ip.octets()[2] == socket_path));
        found.unwrap().id
    }
}

/// All combinations of fates, in an order in which the first differ last.
fn combinations() -> impl Iterator<Item = Vec<Fate>> {
    let count = FATES.len().pow(DEPTH as u32);
    (0..count).map(|n| (0..DEPTH).map(|i| FATES[n / FATES.len().pow(i as u32) % FATES.len()]).collect())
}

/// Plays all combinations; says how many states were seen.
fn explore(what: &str, play: impl Fn(&[Fate]) -> World) {
    let mut seen = BTreeSet::new();
    let mut runs = 0;
    for fates in combinations() {
        let world = play(&fates);
        seen.extend(world.seen);
        runs += 1;
    }
    println!("{what}: {runs} interleavings, {} states", seen.len());
}

#[test]
fn sessions_and_joins_open() {
    explore("establishment and join", |fates| {
        let mut world = World::new(fates);
        world.run(Duration::from_secs(20));
        assert_eq!(world.sessions(), [1, 1], "{fates:?}");
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]], "{fates:?}");
        world
    });
}

#[test]
fn joins_open() {
    explore("join", |fates| {
        let mut world = World::new(&[]);
        // The client's Ack has left, and with the server's its join.
        world.run(Duration::from_millis(39));
        world.fates = fates.iter().rev().copied().collect();
        world.run(Duration::from_secs(20));
        assert_eq!(world.sessions(), [1, 1], "{fates:?}");
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]], "{fates:?}");
        world
    });
}

#[test]
fn priorities_reach_the_peer() {
    explore("MP_PRIO", |fates| {
        let mut world = World::open(fates);
        let (now, session, id) = (world.now, world.session, world.path_id(0, 1));
        world.ends[0].set_prio(now, session, id, 1);
        // It is under way when the next one replaces it.
        world.drain();
        world.ends[0].set_prio(now, session, id, 2);
        world.run(Duration::from_secs(10));
        let (server, theirs) = (world.server_session(), world.path_id(1, 1));
        let paths = world.ends[1].status(world.now, server).unwrap().paths;
        assert_eq!(paths.iter().find(|p| p.id == theirs).unwrap().prio, 2, "{fates:?}");
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]], "{fates:?}");
        world
    });
}

#[test]
fn an_address_that_was_removed_has_one_owner_when_it_comes_back() {
    explore("address removal", |fates| {
        let mut world = World::open(fates);
        let (session, id) = (world.session, world.path_id(0, 1));
        // The link is gone, so the address is; it comes back while the removal is under way.
        world.cut.push(1);
        world.ends[0].set_link(world.now, session, id, false);
        world.ends[0].remove_path(world.now, session, id);
        world.run(Duration::from_millis(30));
        world.cut.clear();
        world.ends[0].add_path(world.now, session, path(1)).unwrap();
        world.run(Duration::from_secs(30));
        assert_eq!(world.sessions(), [1, 1], "{fates:?}");
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]], "{fates:?}");
        world
    });
}

#[test]
fn closing_ends() {
    for (what, client, server) in [("client", true, false), ("server", false, true), ("both", true, true)] {
        explore(&format!("close by {what}"), |fates| {
            let mut world = World::open(fates);
            let (now, ids) = (world.now, [world.session, world.server_session()]);
            for (end, closes) in [client, server].into_iter().enumerate() {
                if closes {
                    world.ends[end].close(now, ids[end]);
                }
            }
            world.run(Duration::from_secs(90));
            assert_eq!(world.sessions(), [0, 0], "{what} {fates:?}");
            world
        });
    }
}

#[test]
fn aborting_ends() {
    explore("abort", |fates| {
        let mut world = World::open(fates);
        world.ends[0].abort(world.now, world.session);
        // Its Resets may all be lost: then the server finds out by the silence.
        world.run(Duration::from_secs(180));
        assert_eq!(world.sessions(), [0, 0], "{fates:?}");
        world
    });
}

#[test]
fn nothing_stays_half_open() {
    explore("a client that vanishes during the handshake", |fates| {
        let mut world = World::new(fates);
        while !world.fates.is_empty() && world.now < Time::from_millis(3000) {
            world.run(Duration::from_millis(5));
        }
        world.cut = vec![0, 1];
        world.run(Duration::from_secs(600));
        assert_eq!(world.sessions(), [0, 0], "{fates:?}");
        world
    });
}
