//! Everything that a network may do to the packets of a handshake, a join, MP_PRIO, an address removal and a
//! close. Each of the first [`DEPTH`] packets is delivered, lost, duplicated, or overtaken by later packets,
//! in all combinations. After that, the network is perfect, and both ends must agree
//! (RFC 9897 sections 3.2 to 3.5): no session stays half open, each address has one subflow, and no session
//! remains after a close.

use crate::common::End::{Client, Server};
use crate::common::{End, Net, config, path};
use mpdccp_proto::{PathState, SessionId};
use mpdccp_units::{Duration, Time};
use std::net::IpAddr;

/// Number of packets whose fate is chosen, which gives 4^5 combinations.
const DEPTH: usize = 5;
const DELAY: Duration = Duration::from_millis(10);
/// A delay longer than a round trip, so that answers to later packets overtake the packet.
const LATE: Duration = Duration::from_millis(45);
/// The delay of each copy of a packet for each fate: delivered once, lost, delivered twice, late.
const FATES: [&[Duration]; 4] = [&[DELAY], &[], &[DELAY, LATE], &[LATE]];
type Fates = [&'static [Duration]];

struct World {
    net: Net,
    session: SessionId,
}

impl World {
    /// Creates a client that is starting to connect, and whose first packets have these fates.
    fn new(fates: &Fates) -> World {
        let mut net = Net::new(1, 2, config());
        net.fates = fates.iter().copied().collect();
        let session = net.connect(config());
        World { net, session }
    }

    /// Creates a session that is open over two paths, and whose next packets have these fates.
    fn open(fates: &Fates) -> World {
        let mut world = World::new(&[]);
        world.run(Duration::from_secs(1));
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]]);
        world.net.fates = fates.iter().copied().collect();
        world
    }

    fn run(&mut self, time: Duration) {
        self.net.run(time);
    }

    /// Returns the paths that are up at each end in all sessions, by client address.
    fn up(&mut self) -> [Vec<u8>; 2] {
        let now = self.net.now;
        [Client, Server].map(|end| {
            let endpoint = self.net.end(end);
            let ids = endpoint.sessions().into_iter();
            let paths = ids.filter_map(|id| endpoint.status(now, id)).flat_map(|s| s.paths);
            let mut up: Vec<u8> = paths.filter(|p| p.state == PathState::Up).map(|p| place(&p)).collect();
            up.sort_unstable();
            up
        })
    }

    fn sessions(&mut self) -> [usize; 2] {
        [Client, Server].map(|end| self.net.end(end).sessions().len())
    }

    fn path_id(&self, end: End, id: SessionId, wire: u8) -> mpdccp_proto::PathId {
        self.net.status(end, id).paths.iter().find(|path| place(path) == wire).unwrap().id
    }
}

/// Returns the wire that a path uses.
fn place(path: &mpdccp_proto::PathStatus) -> u8 {
    let IpAddr::V4(ip) = path.route.remote.ip() else { unreachable!("all paths are IPv4") };
    ip.octets()[2]
}

/// Returns all combinations of fates, varying the fate of the first packet fastest.
fn combinations() -> impl Iterator<Item = Vec<&'static [Duration]>> {
    let count = FATES.len().pow(DEPTH as u32);
    (0..count).map(|n| (0..DEPTH).map(|i| FATES[n / FATES.len().pow(i as u32) % FATES.len()]).collect())
}

#[test]
fn sessions_and_joins_open() {
    for fates in combinations() {
        let mut world = World::new(&fates);
        world.run(Duration::from_secs(20));
        assert_eq!(world.sessions(), [1, 1], "{fates:?}");
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]], "{fates:?}");
    }
}

#[test]
fn joins_open() {
    for fates in combinations() {
        let mut world = World::new(&[]);
        // The client has sent its Ack. The server's Ack arrives at 40 ms, and then the client sends its join.
        world.run(Duration::from_millis(39));
        world.net.fates = fates.iter().copied().collect();
        world.run(Duration::from_secs(20));
        assert_eq!(world.sessions(), [1, 1], "{fates:?}");
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]], "{fates:?}");
    }
}

#[test]
fn priorities_reach_the_peer() {
    for fates in combinations() {
        let mut world = World::open(&fates);
        let (now, session, id) = (world.net.now, world.session, world.path_id(Client, world.session, 1));
        world.net.client.set_prio(now, session, id, 1);
        // The first MP_PRIO is still in flight when the next one replaces it.
        world.net.drain();
        world.net.client.set_prio(now, session, id, 2);
        world.run(Duration::from_secs(10));
        let server = world.net.server_id();
        let theirs = world.path_id(Server, server, 1);
        let paths = world.net.status(Server, server).paths;
        assert_eq!(paths.iter().find(|p| p.id == theirs).unwrap().prio, 2, "{fates:?}");
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]], "{fates:?}");
    }
}

#[test]
fn an_address_that_was_removed_has_one_owner_when_it_comes_back() {
    for fates in combinations() {
        let mut world = World::open(&fates);
        let (now, session, id) = (world.net.now, world.session, world.path_id(Client, world.session, 1));
        // The link fails, and its address is removed. While the removal is in flight, the link returns.
        world.net.wires[1].up = false;
        world.net.client.set_link(now, session, id, false);
        world.net.client.remove_path(now, session, id);
        world.run(Duration::from_millis(30));
        world.net.wires[1].up = true;
        let now = world.net.now;
        world.net.client.add_path(now, session, path(1)).unwrap();
        world.run(Duration::from_secs(30));
        assert_eq!(world.sessions(), [1, 1], "{fates:?}");
        assert_eq!(world.up(), [vec![0, 1], vec![0, 1]], "{fates:?}");
    }
}

#[test]
fn closing_ends() {
    for closing in [&[Client][..], &[Server], &[Client, Server]] {
        for fates in combinations() {
            let mut world = World::open(&fates);
            for end in closing {
                let id = if *end == Client { world.session } else { world.net.server_id() };
                let now = world.net.now;
                world.net.end(*end).close(now, id);
            }
            world.run(Duration::from_secs(90));
            assert_eq!(world.sessions(), [0, 0], "{closing:?} {fates:?}");
        }
    }
}

#[test]
fn aborting_ends() {
    for fates in combinations() {
        let mut world = World::open(&fates);
        let now = world.net.now;
        world.net.client.abort(now, world.session);
        // If all Resets of the client are lost, the server notices the silence.
        world.run(Duration::from_secs(180));
        assert_eq!(world.sessions(), [0, 0], "{fates:?}");
    }
}

/// The client vanishes during the handshake.
#[test]
fn nothing_stays_half_open() {
    for fates in combinations() {
        let mut world = World::new(&fates);
        while !world.net.fates.is_empty() && world.net.now < Time::from_millis(3000) {
            world.run(Duration::from_millis(5));
        }
        world.net.wires.iter_mut().for_each(|wire| wire.up = false);
        world.run(Duration::from_secs(600));
        assert_eq!(world.sessions(), [0, 0], "{fates:?}");
    }
}
