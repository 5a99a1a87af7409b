//! Checks that packet settings also apply to TCP connections carried as streams.

use crate::tcp::{SOON, STREAMS, world, world_of};
use crate::world::{CLIENTS, ClientFile, SERVER, SERVERS, World, inner, server_text};
use mpdccp_proxy::{Command as Told, Event, Flow, Segment};
use mpdccp_tunnel::Command;
use mpdccp_units::Duration;

const MS: Duration = Duration::from_millis(1);

fn rule(what: &str) -> String {
    format!("{STREAMS}\n[[policy_rule]]\nprotocol = \"tcp\"\nports = 80\n{what}\n")
}

/// A bulk transfer: the host and the flow at each end, and the number of bytes that the sending end may still
/// read from its host.
struct Bulk {
    from: (usize, Flow),
    to: (usize, Flow),
    credit: u64,
    got: usize,
}

impl Bulk {
    fn new(from: (usize, Flow), to: (usize, Flow)) -> Bulk {
        Bulk { from, to, credit: 256 << 10, got: 0 }
    }
}

impl World {
    /// Runs the transfers for this long. The sending hosts send as fast as they may, and the receiving hosts
    /// read everything.
    fn bulk(&mut self, transfers: &mut [Bulk], milliseconds: u32) {
        for _ in 0..milliseconds {
            for bulk in transfers.iter_mut() {
                let len = bulk.credit.min(64 << 10);
                if len > 0 {
                    bulk.credit -= len;
                    let event = Event::Data(bulk.from.1, vec![7; len as usize]);
                    self.hosts[bulk.from.0].sockets(self.now, event);
                }
            }
            self.run(MS);
            for host in 0..self.hosts.len() {
                for told in std::mem::take(&mut self.hosts[host].told) {
                    let bulk = transfers.iter_mut().find(|bulk| match &told {
                        Told::Data(flow, _) => bulk.to == (host, *flow),
                        Told::Credit(flow, _) => bulk.from == (host, *flow),
                        _ => false,
                    });
                    match (told, bulk) {
                        (Told::Data(flow, data), Some(bulk)) => {
                            bulk.got += data.len();
                            self.hosts[host].sockets(self.now, Event::Consumed(flow, data.len() as u64));
                        }
                        (Told::Credit(_, n), Some(bulk)) => bulk.credit += n,
                        // This command is for another transfer.
                        (told, _) => self.hosts[host].told.push(told),
                    }
                }
            }
        }
    }

    /// Runs a transfer of the first client for one second. Returns the bytes sent on each path and the bytes
    /// received.
    fn second(&mut self, bulk: &mut Bulk) -> ([u64; 2], usize) {
        // First let the data in flight under the old rules arrive.
        self.bulk(std::slice::from_mut(bulk), 200);
        let (before, got) = (self.carried(), bulk.got);
        self.bulk(std::slice::from_mut(bulk), 1_000);
        let after = self.carried();
        (["p0", "p1"].map(|path| after[path] - before[path]), bulk.got - got)
    }

    /// Opens a connection from the first client. Returns the transfers in both directions.
    fn both(&mut self, port: u16) -> [Bulk; 2] {
        let [near, far] = self.open(port);
        [Bulk::new((0, near), (SERVER, far)), Bulk::new((SERVER, far), (0, near))]
    }
}

#[test]
fn a_rule_keeps_the_bytes_of_its_connections_to_its_path_at_both_ends() {
    let ruled = rule("paths = \"b\"\notherwise = \"wait\"");
    let mut world = world(&ruled, &ruled);
    let [mut up, mut down] = world.both(1_000);
    for bulk in [&mut up, &mut down] {
        let ([a, b], got) = world.second(bulk);
        assert!(a < b / 50 && b > 1_000_000 && got > 1_000_000, "{a} and {b}, {got}");
    }
    let rules =
        |world: &World, host: usize, name: &str| world.peer(host, name).unwrap().policy_rules["rule-1"].bytes;
    assert!(rules(&world, 0, "hub") > 1_000_000 && rules(&world, SERVER, "c0") > 1_000_000);
    // While path b is down, the stream waits for the path without a time limit.
    world.change(0, "p1", |access| access.up = false);
    let (_, got) = world.second(&mut up);
    world.bulk(std::slice::from_mut(&mut up), 5_000);
    assert!(got < 300_000, "{got}");
    let waited = up.got;
    world.change(0, "p1", |access| access.up = true);
    world.run(Duration::from_secs(20));
    world.bulk(std::slice::from_mut(&mut up), 1_000);
    assert!(up.got > waited + 500_000);
}

#[test]
fn a_reload_has_open_connections_follow_the_new_rules() {
    let mut world = world(STREAMS, STREAMS);
    let [mut up, _] = world.both(1_000);
    let ([a, _], _) = world.second(&mut up);
    assert!(a > 100_000, "{a}");
    let file = |what: &str| ClientFile { extra: rule(what), ..ClientFile::new() }.text(0);
    world.reload(0, &file("paths = \"b\""));
    let ([a, b], _) = world.second(&mut up);
    assert!(a < b / 50 && b > 1_000_000, "{a} and {b}");
    // An open connection cannot switch to packets, because the kernels at the two ends use different sequence
    // numbers.
    world.reload(0, &file("paths = \"a\"\ntcp = \"packets\""));
    let ([a, b], _) = world.second(&mut up);
    assert!(b < a / 50 && a > 1_000_000, "{a} and {b}");
    let (near, far) = (up.from.1, up.to.1);
    world.reload(0, &file("drop = true"));
    world.run(SOON);
    assert_eq!(
        (world.told(0).last(), world.told(SERVER).last()),
        (Some(&Told::Reset(near)), Some(&Told::Reset(far)))
    );
}

#[test]
fn connections_whose_rule_needs_packets_travel_as_packets() {
    for what in ["fec = 4", "tcp = \"packets\""] {
        let mut near = world(&rule(what), STREAMS);
        near.syn(0, 0, SERVER, 1_000);
        assert_eq!((near.segments.len(), near.tcp(0).as_packets["policy"]), (1, 1), "{what}");
        // The rule at the far end matches the far host's answers, so the next SYN is carried as a packet.
        let mut far = world(STREAMS, &rule(what));
        far.syn(0, 0, SERVER, 1_000);
        assert!(far.segments.is_empty() && far.told(SERVER).is_empty());
        far.syn(0, 0, SERVER, 1_000);
        assert_eq!(far.segments.len(), 1, "{what}");
    }
    let mut world = world(&rule("drop = true"), STREAMS);
    world.syn(0, 0, SERVER, 1_000);
    assert!(world.segments.is_empty() && world.told(SERVER).is_empty());
    assert_eq!(world.peer(0, "hub").unwrap().policy_rules["rule-1"].dropped, 1);
}

#[test]
fn a_redundant_rule_has_bytes_on_both_paths() {
    let mut world = world(&rule("scheduler = \"redundant\""), STREAMS);
    let [mut up, _] = world.both(1_000);
    let ([a, b], got) = world.second(&mut up);
    let got = got as u64;
    assert!(a > got * 9 / 10 && b > got * 9 / 10, "{a} and {b} of {got}");
}

#[test]
fn the_packets_of_a_connection_have_its_dscp() {
    let mut world = world(STREAMS, STREAMS);
    world.syn_marked(0, (0, SERVER), 1_000, 46 << 2);
    let far = world.connects(SERVER);
    let [Told::Accept { flow: near, .. }] = world.told(0)[..] else { panic!("no SYN was accepted") };
    world.says(0, Event::Connected(near));
    for (host, flow) in [(0, near), (SERVER, far)] {
        world.marks.clear();
        world.says(host, Event::Data(flow, vec![7; 100]));
        assert!(world.marks.contains(&(host, 46)), "{:?}", world.marks);
    }
    // Packets of the other connection have no DSCP.
    world.told(0);
    world.told(SERVER);
    let [near, _] = world.open(1_001);
    world.marks.clear();
    world.says(0, Event::Data(near, vec![7; 100]));
    assert!(!world.marks.iter().any(|(_, dscp)| *dscp > 0), "{:?}", world.marks);
}

/// Allowed range of bytes in one second at 1 Mbit/s. The exact number is 125,000 bytes, but hosts may send
/// ahead of the rate, so the range allows about a quarter more or less.
const KEPT: std::ops::Range<usize> = 90_000..160_000;

#[test]
fn rates_hold_for_the_bytes_of_streams() {
    let mut world = world(STREAMS, STREAMS);
    let [mut up, mut down] = world.both(1_000);
    assert!(world.second(&mut up).1 > 1_000_000 && world.second(&mut down).1 > 1_000_000);
    let of_peer = |what: &str| server_text([true; CLIENTS], STREAMS).replace("name = \"c0\"", what);
    world.reload(SERVER, &of_peer("name = \"c0\"\nrate = \"1M\""));
    // First let the data already in the windows arrive.
    world.second(&mut down);
    let (_, got) = world.second(&mut down);
    assert!(KEPT.contains(&got), "{got} to the peer");
    world.reload(SERVER, &(of_peer("name = \"c0\"").replace("listen", "rate = \"1M\"\nlisten")));
    world.second(&mut down);
    let (_, got) = world.second(&mut down);
    assert!(KEPT.contains(&got), "{got} to all peers");
    world.reload(SERVER, &of_peer("name = \"c0\""));
    let file = ClientFile { second: None, extra: STREAMS.into(), ..ClientFile::new() }.text(0);
    world.reload(0, &file.replace("interface =", "rate = \"1M\"\ninterface ="));
    world.bulk(std::slice::from_mut(&mut up), 3_000);
    let before = up.got;
    world.bulk(std::slice::from_mut(&mut up), 1_000);
    assert!(KEPT.contains(&(up.got - before)), "{} over the path", up.got - before);
}

#[test]
fn a_receivers_rate_holds_back_streams_and_leaves_room_for_packets() {
    let mut world = world(STREAMS, STREAMS);
    let limited = server_text([true; CLIENTS], STREAMS)
        .replace("name = \"c0\"", "name = \"c0\"\nreceive_rate = \"4M\"");
    world.reload(SERVER, &limited);
    let [one, mut down] = world.both(1_000);
    let [two, _] = world.both(1_001);
    let mut both = [one, two];
    world.bulk(&mut both, 1_000);
    let before = both.each_ref().map(|bulk| bulk.got);
    let mut numbers = Vec::new();
    for _ in 0..40 {
        world.bulk(&mut both, 50);
        numbers.push(world.send(0, inner(SERVER), 200));
    }
    world.run(SOON);
    let got = [0, 1].map(|i| both[i].got - before[i]);
    // In two seconds, the limit allows 1,000,000 bytes. Packets have used 8,000 of them.
    assert!((900_000..1_030_000).contains(&(got[0] + got[1])), "{got:?}");
    assert!(got[0].abs_diff(got[1]) < 100_000, "{got:?}");
    assert!(numbers.iter().all(|number| world.delivered.contains_key(number)));
    // The limit affects neither the other direction nor other peers.
    assert!(world.second(&mut down).1 > 1_000_000);
    world.reload(SERVER, &server_text([true; CLIENTS], STREAMS));
    let [free, _] = both;
    let mut free = [free];
    world.bulk(&mut free, 1_000);
    let before = free[0].got;
    world.bulk(&mut free, 1_000);
    assert!(free[0].got - before > 1_000_000);
}

#[test]
fn quota_standby_and_cost_hold_for_the_bytes_of_streams() {
    let file = ClientFile { quota: true, extra: STREAMS.into(), ..ClientFile::new() };
    let mut world = world_of(file, STREAMS);
    let [mut up, mut down] = world.both(1_000);
    // The quota is 1 MB per month.
    world.bulk(std::slice::from_mut(&mut up), 500);
    world.bulk(std::slice::from_mut(&mut down), 500);
    world.run(Duration::from_secs(10));
    assert_eq!(world.path(0, "a").unwrap().priority, 1, "the quota is used up");
    for bulk in [&mut up, &mut down] {
        let ([a, b], _) = world.second(bulk);
        assert!(a < b / 50 && b > 1_000_000, "{a} and {b}");
    }
    // Path b is down, so the standby path carries the data.
    world.change(0, "p1", |access| access.up = false);
    world.run(Duration::from_secs(1));
    let ([a, _], _) = world.second(&mut up);
    assert!(a > 1_000_000, "{a}");
    for second in ["priority = 1", "cost = 5.0"] {
        let file = ClientFile { extra: STREAMS.into(), ..ClientFile::new() };
        let mut world = world_of(file.clone(), STREAMS);
        world.reload(0, &file.text(0).replace("priority = 3", second));
        world.run(SOON);
        let [mut up, mut down] = world.both(1_000);
        for bulk in [&mut up, &mut down] {
            let ([a, b], _) = world.second(bulk);
            assert!(b < a / 5 && a > 1_000_000, "{second}: {a} and {b}");
        }
    }
}

/// The shards of the first server, as hosts.
const SHARDS: [usize; 2] = [SERVER, SERVER + SERVERS.len()];

/// Returns the shard that has a client's session.
fn home(world: &World, client: usize) -> usize {
    let name = format!("c{client}");
    let is_home = |shard: &usize| world.hosts[*shard].tunnel.sessions().any(|(_, peer)| peer == name);
    SHARDS.into_iter().find(is_home).unwrap()
}

#[test]
fn each_shard_carries_the_connections_of_its_peers() {
    let sharded = format!("{STREAMS}\nshards = 2");
    let mut world = world(STREAMS, &sharded);
    let homes = [0, 1].map(|client| home(&world, client));
    for (client, home) in homes.into_iter().enumerate() {
        world.syn(client, client, SERVER, 1_000);
        world.connects(home);
        world.told(client);
        world.told(home);
        // Now the server's host connects. Either shard may read the packet.
        for (port, reader) in (2_000u16..).zip(SHARDS) {
            world.syn(reader, SERVER, client, port);
            world.connects(client);
            world.told(client);
            assert!(
                matches!(world.told(home)[..], [Told::Accept { .. }]),
                "the peer's shard handles the flow"
            );
        }
    }
    assert_ne!(homes[0], homes[1], "each shard has one flow");
    assert!(world.segments.is_empty());
}

#[test]
fn every_shard_knows_the_addresses_that_the_first_gives() {
    let pool = format!("{STREAMS}\nshards = 2\n[assign]\npool = [\"10.0.0.0/29\"]\n");
    let mut world = world(&format!("{STREAMS}\naddresses = \"auto\""), &pool);
    let homes = [0, 1].map(|client| home(&world, client));
    for (client, home) in homes.into_iter().enumerate() {
        let own = world.address(client);
        // The client opens a connection, then the server. Either shard may read the packet.
        world.syn_from(client, own, SERVER, 1_000);
        world.connecting(home);
        for (port, reader) in (2_000u16..).zip(SHARDS) {
            world.syn_with(reader, (inner(SERVER), own), port, 0);
            world.connecting(client);
        }
    }
    assert_ne!(homes[0], homes[1], "each shard has one flow");
}

#[test]
fn a_removed_peers_connections_are_reset_and_others_stay() {
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    world.syn(1, 1, SERVER, 1_000);
    world.connects(SERVER);
    world.told(1);
    world.told(SERVER);
    world.reload(SERVER, &server_text([false, true], STREAMS));
    world.run(SOON);
    assert_eq!((world.told(SERVER), world.tcp(SERVER).flows), (vec![Told::Reset(far)], 1));
    // Once the peer's key is removed, the peer gets no more answers.
    world.run(Duration::from_secs(60));
    assert_eq!((world.told(0), world.told(1)), (vec![Told::Reset(near)], vec![]));
}

#[test]
fn an_address_that_a_peer_has_no_more_takes_its_connections_with_it() {
    let pool = format!("{STREAMS}\n[assign]\npool = [\"10.0.0.0/29\"]\n");
    let mut world = world(&format!("{STREAMS}\naddresses = \"auto\""), &pool);
    let own = world.address(0);
    world.syn_from(0, own, SERVER, 1_000);
    let far = world.connects(SERVER);
    world.told(0);
    world.told(SERVER);
    world.reload(SERVER, &pool_of(&pool, "10.0.7.0/29"));
    world.run(SOON);
    assert_eq!(world.told(SERVER), [Told::Reset(far)]);
    assert!(matches!(world.told(0)[..], [Told::Reset(_)]));
}

fn pool_of(text: &str, pool: &str) -> String {
    server_text([true; CLIENTS], &text.replace("10.0.0.0/29", pool))
}

#[test]
fn two_clients_reach_each_other_through_the_servers_two_connections() {
    let mut world = world(STREAMS, STREAMS);
    world.syn(0, 0, 1, 1_000);
    // The server's kernel routes the SYN of the server's own connection back into the interface.
    let Told::Connect { flow: first, request } = world.told(SERVER).remove(0) else {
        panic!("the host was not told to connect")
    };
    world.syn(SERVER, 0, 1, request.tuple.from.port());
    world.connects(1);
    assert!(matches!(world.told(SERVER)[..], [Told::Accept { .. }]));
    world.says(SERVER, Event::Connected(first));
    assert!(matches!(world.told(0)[..], [Told::Accept { .. }]));
    assert!(world.segments.iter().all(|(_, packet)| Segment::parse(packet).is_none()));
}

#[test]
fn connections_of_a_drained_server_stay_with_it_until_they_end() {
    let file = ClientFile { quota: true, extra: STREAMS.into(), ..ClientFile::new() };
    let mut world = world_of(file, STREAMS);
    let other = SERVERS[1];
    let [mut up, mut down] = world.both(1_000);
    let [near, far] = [up.from.1, up.to.1];
    world.command(SERVER, &Command::Drain);
    world.run(Duration::from_secs(10));
    assert_eq!(world.server_of(0), Some(other));
    assert!(world.reaches(0, other));
    // New connections and all packets go to the new server.
    world.syn(0, 0, other, 1_001);
    world.connects(other);
    assert!(matches!(world.told(0)[..], [Told::Accept { .. }]));
    world.told(SERVER);
    for bulk in [&mut up, &mut down] {
        assert!(world.second(bulk).1 > 500_000);
    }
    // Traffic of the old session counts toward the quota and follows the priorities.
    world.run(Duration::from_secs(10));
    assert_eq!(world.path(0, "a").unwrap().priority, 1);
    let sockets = |world: &World| world.hosts[0].sockets.len();
    assert_eq!(sockets(&world), 4);
    let ([a, b], _) = world.second(&mut up);
    assert!(a < b / 50 && b > 1_000_000, "{a} and {b}");
    world.run(Duration::from_secs(1));
    world.hosts.iter_mut().for_each(|host| host.told.clear());
    let mut both = |event: fn(Flow) -> Event| {
        world.says(0, event(near));
        world.says(SERVER, event(far));
        world.run(SOON);
    };
    both(Event::Finished);
    (0..20).for_each(|_| both(|flow| Event::Consumed(flow, 1 << 20)));
    both(Event::Ended);
    world.run(Duration::from_secs(10));
    assert_eq!((sockets(&world), world.tcp(0).flows, world.tcp(SERVER).flows), (2, 1, 0));
    assert!(world.hosts[SERVER].endpoint.sessions().len() <= 1, "only the other client may have a session");
    assert_eq!(world.server_of(0), Some(other));
    assert!(!world.told(0).iter().any(|told| matches!(told, Told::Reset(_))));
    assert!(world.reaches(0, other));
}

#[test]
fn a_session_that_is_left_delivers_what_a_host_sent_before_its_reset() {
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    world.command(SERVER, &Command::Drain);
    world.run(Duration::from_secs(10));
    world.hosts[SERVER].stopped = true;
    world.says(0, Event::Data(near, b"last".to_vec()));
    world.says(0, Event::Reset(near));
    world.run(Duration::from_secs(1));
    world.hosts[SERVER].stopped = false;
    world.run(Duration::from_secs(10));
    assert_eq!(world.told(SERVER), [Told::Data(far, b"last".to_vec()), Told::Reset(far)]);
}

#[test]
fn a_drained_server_that_ends_or_is_held_for_an_hour_resets_what_it_had() {
    for hour in [false, true] {
        let mut world = world(STREAMS, STREAMS);
        let [near, far] = world.open(1_000);
        world.command(SERVER, &Command::Drain);
        world.run(Duration::from_secs(10));
        assert_eq!((world.told(0), world.told(SERVER)), (vec![], vec![]));
        if hour {
            world.run(Duration::from_secs(3_000));
            assert_eq!((world.told(0), world.told(SERVER)), (vec![], vec![]));
            world.run(Duration::from_secs(700));
            assert_eq!(world.told(SERVER), [Told::Reset(far)]);
        } else {
            world.command(SERVER, &Command::ShutDown);
            world.run(Duration::from_secs(10));
        }
        assert_eq!((world.told(0), world.hosts[0].sockets.len()), (vec![Told::Reset(near)], 2));
        assert_eq!(world.server_of(0), Some(SERVERS[1]));
    }
}

#[test]
fn a_path_or_a_peer_that_a_reload_removes_leaves_the_old_session_too() {
    let mut world = world(STREAMS, STREAMS);
    let [mut up, _] = world.both(1_000);
    world.command(SERVER, &Command::Drain);
    world.run(Duration::from_secs(10));
    assert_eq!(world.hosts[0].sockets.len(), 4);
    let file = |second| ClientFile { second, extra: STREAMS.into(), ..ClientFile::new() }.text(0);
    world.reload(0, &file(None));
    world.run(Duration::from_secs(10));
    assert_eq!(world.hosts[0].sockets.len(), 2);
    assert!(
        up.got == 0 && {
            world.bulk(std::slice::from_mut(&mut up), 1_000);
            up.got > 100_000
        }
    );
    world.reload(0, &file(None).replace("\"hub\"", "\"nub\""));
    world.run(Duration::from_secs(10));
    assert_eq!(world.hosts[0].sockets.len(), 1);
    assert!(world.told(0).contains(&Told::Reset(up.from.1)));
}

/// Failures of paths to the old server do not affect the paths to the new one.
#[test]
fn a_drained_server_that_is_gone_resets_what_it_had_and_no_path_fails() {
    let mut world = world(STREAMS, STREAMS);
    let [near, _] = world.open(1_000);
    world.command(SERVER, &Command::Drain);
    world.run(Duration::from_secs(10));
    world.hosts[SERVER].stopped = true;
    world.hosts[0].log.clear();
    world.run(Duration::from_secs(600));
    assert_eq!((world.told(0), world.hosts[0].sockets.len()), (vec![], 4));
    world.run(Duration::from_secs(400));
    assert_eq!((world.told(0), world.hosts[0].sockets.len()), (vec![Told::Reset(near)], 2));
    let log = &world.hosts[0].log;
    assert!(!log.iter().any(|line| line.contains("fails") || line.contains("is up")), "{log:?}");
    assert_eq!(world.server_of(0), Some(SERVERS[1]));
}
