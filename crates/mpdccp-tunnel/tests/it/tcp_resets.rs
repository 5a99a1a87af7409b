//! Tests of resets while much data is on its way.

use crate::tcp::{SOON, STREAMS, bytes, world};
use crate::world::{SERVER, inner};
use etherparse::PacketBuilder;
use mpdccp_proxy::{Command as Told, Event, Flow};
use mpdccp_tunnel::Packet;
use mpdccp_units::Duration;

/// A host pipelines its requests and reads no answer before it has sent them all. Its server is killed.
#[test]
fn a_host_that_writes_before_it_reads_is_not_held_up_after_a_reset() {
    const BLOCK: usize = 64 << 10;
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    // This is more than the sockets and the stream hold while nothing is read.
    (0..12).for_each(|_| world.says(SERVER, Event::Data(far, vec![7; BLOCK])));
    world.says(SERVER, Event::Reset(far));
    let mut told = world.told(0);
    assert!(bytes(&told) < 12 * BLOCK && !told.contains(&Told::Reset(near)));
    (0..12).for_each(|_| world.says(0, Event::Data(near, vec![7; BLOCK])));
    assert_eq!(world.told(0), vec![Told::Credit(near, BLOCK as u64); 12]);
    // The host gets all answers before the reset.
    for _ in 0..8 {
        world.says(0, Event::Consumed(near, 4 * BLOCK as u64));
        told.extend(world.told(0));
    }
    assert_eq!((bytes(&told), told.last()), (12 * BLOCK, Some(&Told::Reset(near))));
}

#[test]
fn the_connections_of_a_session_are_reset_in_the_order_in_which_they_were_opened() {
    let mut world = world(STREAMS, STREAMS);
    let resets: Vec<Told> = (0..16).map(|n| Told::Reset(world.open(1_000 + n)[0])).collect();
    world.hosts[SERVER].restart(world.now);
    world.run(Duration::from_secs(90));
    assert_eq!(world.told(0), resets);
}

/// The peer opens and resets streams faster than the sockets at the far end connect.
#[test]
fn a_connection_that_is_reset_stays_half_open_until_the_sockets_have_answered() {
    let mut world = world(STREAMS, STREAMS);
    for port in 1_000..=1_000 + 1_024 {
        world.send_syn(0, (inner(0), inner(SERVER)), port, 0);
        world.run(SOON / 10);
        let mut reset = Vec::new();
        let builder = PacketBuilder::ipv4(inner(0).octets(), inner(SERVER).octets(), 64);
        builder.tcp(port, 80, 8, 0).rst().write(&mut reset, &[]).unwrap();
        world.hosts[0].packet(world.now, Packet::Interface(reset));
        world.run(SOON / 10);
    }
    world.run(SOON);
    // The flow table allows one source this many half-open flows.
    assert_eq!(world.told(SERVER).len(), 1_024);
    world.syn(0, 0, SERVER, 3_000);
    assert!(world.told(SERVER).is_empty());
    let status = world.tcp(SERVER);
    assert_eq!((status.flows, status.accepted), (1_024, 1_024));
    // The number of a flow is that of its connection, counted from 0.
    world.says(SERVER, Event::Connected(Flow(0)));
    assert_eq!(world.told(SERVER), [Told::Reset(Flow(0))]);
    world.syn(0, 0, SERVER, 3_001);
    world.connecting(SERVER);
}
