//! Tests of connections that died with an end, and of keepalives on connections that live.

use crate::tcp::{SOON, STREAMS, world};
use crate::world::{CLIENTS, SERVER, SERVERS, World, inner, server_text};
use etherparse::PacketBuilder;
use mpdccp_proxy::{Command as Told, Event, Segment};
use mpdccp_tunnel::{Packet, StateFile};
use mpdccp_units::Duration;

/// The end that lost its state does not know the connection, so it carries its host's further segments as
/// packets.
#[test]
fn a_host_behind_an_end_that_restarted_hears_that_its_connection_is_over() {
    let mut world = world(STREAMS, STREAMS);
    world.open(1_000);
    world.hosts[0].restart(world.now);
    world.run(Duration::from_secs(10));
    world.segment(0, (0, SERVER), (1_000, 80), (8, 4_711), b"more");
    let [(0, answer)] = &world.segments[..] else { panic!("{:?}", world.segments) };
    let answer = Segment::parse(answer).unwrap();
    assert_eq!((answer.resets, answer.seq), (true, 4_711));
}

impl World {
    /// Makes the host of an [`open`](Self::open) connection send a segment from the inner address of
    /// `source`.
    fn segment(
        &mut self,
        host: usize,
        (source, to): (usize, usize),
        ports: (u16, u16),
        numbers: (u32, u32),
        data: &[u8],
    ) {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4(inner(source).octets(), inner(to).octets(), 64);
        let tcp = builder.tcp(ports.0, ports.1, numbers.0, 1_000).ack(numbers.1);
        tcp.write(&mut packet, data).unwrap();
        self.hosts[host].packet(self.now, Packet::Interface(packet));
        self.run(SOON);
    }

    /// Returns the ports of the RST segments that a host's interface delivered.
    fn reset_ports(&mut self, host: usize) -> Vec<u16> {
        let out = std::mem::take(&mut self.segments);
        let segments = out.into_iter().map(|(at, packet)| (at, Segment::parse(&packet).unwrap()));
        segments
            .map(|(at, segment)| (assert!(at == host && segment.resets), segment.tuple.to.port()).1)
            .collect()
    }
}

/// Both hosts send on a connection that died hours ago, when one end was killed.
#[test]
fn connections_that_died_with_an_end_are_over_for_both_hosts_whichever_it_was() {
    for killed in [&[0][..], &[SERVER], &[0, SERVER]] {
        let mut world = world(STREAMS, STREAMS);
        // The client's other server is stopped, so that only two ends take part.
        let other = SERVERS[1];
        world.hosts[other].stopped = true;
        world.open(1_000);
        for host in killed {
            // An end that is killed alone also loses its journal here, so that it depends on the other end's
            // report of the dead connection.
            if killed.len() == 1 {
                world.hosts[*host].saved.remove(&StateFile::Connections);
            }
            world.hosts[*host].restart(world.now);
        }
        world.run(Duration::from_secs(3 * 3_600));
        assert_eq!(world.server_of(0), Some(SERVER));
        world.segments.clear();
        for host in killed {
            match *host {
                0 => world.segment(0, (0, SERVER), (1_000, 80), (8, 4_711), b"more"),
                _ => world.segment(SERVER, (SERVER, 0), (80, 1_000), (9, 4_711), b"more"),
            }
            let port = if *host == 0 { 1_000 } else { 80 };
            assert_eq!(world.reset_ports(*host), [port], "{killed:?}");
        }
        let as_packets = |host| world.tcp(host).as_packets["midstream"];
        assert_eq!([0, SERVER].map(as_packets), [0, 0], "{killed:?}");
        // The streams of the lists have ended, so they do not keep a session without paths alive.
        for host in [0, SERVER] {
            let endpoint = &world.hosts[host].endpoint;
            let open = |id| endpoint.status(world.now, id).unwrap().streams.map_or(0, |streams| streams.open);
            assert!(endpoint.sessions().into_iter().all(|id| open(id) == 0), "{killed:?}");
        }
        // A new connection with the same ports is carried as a stream.
        world.told(0);
        world.told(SERVER);
        world.syn(0, 0, SERVER, 1_000);
        world.connecting(SERVER);
    }
}

#[test]
fn only_a_peers_own_connections_are_taken_for_dead() {
    let mut world = world(STREAMS, STREAMS);
    world.open(1_000);
    // The server loses its state. In its new configuration file, the address belongs to another peer.
    world.hosts[SERVER].text = server_text([true; CLIENTS], STREAMS).replace("10.0.0.2/32", "10.0.0.77/32");
    world.hosts[SERVER].restart(world.now);
    world.run(Duration::from_secs(60));
    world.segment(SERVER, (SERVER, 0), (80, 1_000), (9, 4_711), b"more");
    // The server's journal lists the connection. The server does not accept the client's report of it,
    // because the address now belongs to another peer. No segment of the connection may reach that peer.
    assert!(world.segments.iter().all(|(at, _)| *at == SERVER));
}

#[test]
fn a_keepalive_is_answered_once_the_far_host_has_said_something() {
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    let (there, back) = (((0, SERVER), (1_000, 80)), ((SERVER, 0), (80, 1_000)));
    world.segment(0, there.0, there.1, (8, 1), b"data");
    world.segment(SERVER, back.0, back.1, (10, 1), b"");
    [0, SERVER].iter().for_each(|host| world.hosts[*host].diverted.clear());
    world.segment(0, there.0, there.1, (11, 1), b"");
    assert_eq!((world.told(SERVER), world.hosts[0].diverted.len()), (vec![Told::Probe(far, true)], 0));
    // The far host does not answer the probe, so the proxy sends no answer either.
    world.segment(0, there.0, there.1, (11, 1), b"");
    assert_eq!(world.hosts[0].diverted.len(), 0);
    world.segment(SERVER, back.0, back.1, (10, 1), b"");
    assert_eq!(
        (world.told(SERVER).last(), world.hosts[0].diverted.len()),
        (Some(&Told::Probe(far, false)), 1)
    );
    // The far end has lost the connection and answers by resetting the stream.
    world.says(SERVER, Event::Reset(far));
    assert_eq!(world.told(0), [Told::Reset(near)]);
    assert!(world.segments.is_empty());
}
