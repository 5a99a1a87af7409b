//! Several servers, and several shards of one server.

use crate::{CLIENT, SERVER, World, address, channels, key, seal};
use dccp_secure::{Aead, ChannelId, Channels, Input, PresharedKey, Reason, Settings, Unready};
use mpdccp_units::{Duration, Time};

#[test]
fn a_second_path_goes_to_the_same_server() {
    let mut world = World::ready();
    world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
    let _ = world.send(b"x");
    let (_, first) = world.client.poll_transmit().unwrap();
    assert_eq!(first[..5], [0x52, 1, 2, 3, SERVER]);
}

/// Creates three shards of a server, and a client that belongs to the last shard.
fn shards() -> (Vec<Channels>, Channels) {
    let shards = (0..3).map(|n| {
        let mut shard = Channels::new(Settings {
            server: 5,
            shard: n,
            aeads: Aead::ALL.to_vec(),
            ..Settings::new(key(SERVER), true, Duration::from_secs(1_700_000_000), [n; 32])
        });
        shard.share(3);
        shard.add_peer(8, key(CLIENT).public(), PresharedKey::default());
        shard
    });
    let mut client = channels(CLIENT, false);
    client.add_peer(7, key(SERVER).public(), PresharedKey::default());
    (shards.collect(), client)
}

#[test]
fn all_paths_of_a_peer_come_to_one_shard() {
    let (mut shards, mut client) = shards();
    let now = Time::from_millis(1);
    assert_eq!(dccp_secure::home(8, 3), 2);
    let first = client.open(now, 7, address(SERVER)).unwrap();
    let _ = seal(&mut client, now, first, b"one");
    let (_, mut initiation) = client.poll_transmit().unwrap();
    // Only the shard that decrypted the message knows which peer sent it, so that shard must pass the message
    // on.
    assert_eq!(shards[0].handle(now, &address(CLIENT), &mut initiation), Input::Handled);
    assert_eq!(shards[0].poll_transmit(), None, "another shard must answer");
    let handover = shards[0].poll_handover().unwrap();
    assert_eq!(handover.shard, 2);
    assert_eq!(shards[2].take_over(now, handover), Input::Handled);
    let (to, mut response) = shards[2].poll_transmit().unwrap();
    assert_eq!(to, address(CLIENT));
    client.handle(now, &address(SERVER), &mut response);
    // All later messages contain the shard's number, including the first message of another path.
    let (_, record) = client.poll_transmit().unwrap();
    let second = client.open(now, 7, address(SERVER)).unwrap();
    let _ = seal(&mut client, now, second, b"two");
    let (_, join) = client.poll_transmit().unwrap();
    for datagram in [record, join] {
        for wrong in [0, 1] {
            let mut there = datagram.clone();
            assert_eq!(shards[wrong].handle(now, &address(CLIENT), &mut there), Input::Elsewhere(2));
            assert_eq!(there, datagram, "the datagram is unchanged");
        }
        let input = shards[2].handle(now, &address(CLIENT), &mut datagram.clone());
        assert!(matches!(input, Input::Packet { peer: 8, .. } | Input::Handled), "{input:?}");
    }
    assert_eq!(shards[2].peer_stats(8).unwrap().channels, 2);
    assert!(shards.iter_mut().all(|shard| shard.poll_handover().is_none() && shard.drops().is_empty()));
}

#[test]
fn all_paths_of_a_peer_come_to_one_server() {
    let now = Time::from_millis(1);
    let mut servers = [5, 6].map(|server| {
        let mut channels = Channels::new(Settings {
            server,
            aeads: Aead::ALL.to_vec(),
            ..Settings::new(key(SERVER), true, Duration::from_secs(1_700_000_000), [server as u8; 32])
        });
        channels.add_peer(8, key(CLIENT).public(), PresharedKey::default());
        channels
    });
    let mut client = channels(CLIENT, false);
    client.add_peer(7, key(SERVER).public(), PresharedKey::default());
    // Both paths send an initiation before a server is known. The load balancer chooses a different server
    // for each.
    let paths = [0, 1].map(|n| {
        let path = client.open(now, 7, address(SERVER)).unwrap();
        let _ = seal(&mut client, now, path, &[n]);
        path
    });
    let mut answers = [0, 1].map(|n| {
        let (_, mut initiation) = client.poll_transmit().unwrap();
        assert_eq!(initiation[..4], [0x52, 0, 0, 0]);
        servers[n].handle(now, &address(CLIENT), &mut initiation);
        servers[n].poll_transmit().unwrap().1
    });
    assert_eq!(client.handle(now, &address(SERVER), &mut answers[0]), Input::Handled);
    let record = client.poll_transmit().unwrap().1;
    assert_eq!(record[..4], [0x52, 0, 0, 5]);
    let late = client.handle(now, &address(SERVER), &mut answers[1]);
    assert_eq!(late, Input::Dropped(Reason::OtherServer));
    assert_eq!(seal(&mut client, now, paths[1], b"more"), Err(Unready::NoKey));
    // The second path then sends an initiation to the server that the first path uses.
    let mut again = client.poll_transmit().unwrap().1;
    assert_eq!(again[..4], [0x52, 0, 0, 5]);
    // A load balancer that cannot see the number may choose the other server. That server does not answer, so
    // that the right one can.
    let wrong = servers[1].handle(now, &address(CLIENT), &mut again.clone());
    assert_eq!((wrong, servers[1].poll_transmit()), (Input::Dropped(Reason::OtherServer), None));
    servers[0].handle(now, &address(CLIENT), &mut again);
    let mut answer = servers[0].poll_transmit().unwrap().1;
    assert_eq!(client.handle(now, &address(SERVER), &mut answer), Input::Handled);
    assert_eq!(seal(&mut client, now, paths[1], b"more").unwrap()[..4], [0x52, 0, 0, 5]);
    // A client that leaves its server may open channels at any server. Its existing channels stay with the
    // old server, even when their keys are renewed.
    while client.poll_transmit().is_some() {}
    client.leave_server(7);
    let third = client.open(now, 7, address(SERVER)).unwrap();
    let _ = seal(&mut client, now, third, b"new");
    let mut initiation = client.poll_transmit().unwrap().1;
    assert_eq!(initiation[..4], [0x52, 0, 0, 0]);
    servers[1].handle(now, &address(CLIENT), &mut initiation);
    let mut answer = servers[1].poll_transmit().unwrap().1;
    assert_eq!(client.handle(now, &address(SERVER), &mut answer), Input::Handled);
    client.start_over(7);
    assert_eq!(seal(&mut client, now, paths[0], b"old").unwrap()[..4], [0x52, 0, 0, 5]);
    let later = now + Duration::from_secs(125);
    let _ = seal(&mut client, later, paths[0], b"old");
    let renewal = std::iter::from_fn(|| client.poll_transmit()).map(|(_, datagram)| datagram);
    assert_eq!(renewal.last().unwrap()[..4], [0x52, 0, 0, 5]);
    client.close(paths[0]);
    let now = later;
    let fourth = client.open(now, 7, address(SERVER)).unwrap();
    let paths = [fourth];
    // Later, a different server may answer in place of the old one, for example because the old one was
    // removed from the load balancer. The client accepts this answer.
    client.start_over(7);
    let _ = seal(&mut client, now, paths[0], b"elsewhere");
    let elsewhere = std::iter::from_fn(|| client.poll_transmit()).map(|(_, datagram)| datagram);
    let mut initiation = elsewhere.filter(|datagram| datagram[..4] == [0x52, 0, 0, 0]).last().unwrap();
    servers[1].handle(now, &address(CLIENT), &mut initiation);
    let mut answer = servers[1].poll_transmit().unwrap().1;
    assert_eq!(client.handle(now, &address(SERVER), &mut answer), Input::Handled);
}

#[test]
fn an_unknown_shard_belongs_to_nobody() {
    let (mut shards, _) = shards();
    let mut record = [0; 64];
    record[..5].copy_from_slice(&[0x52, 0, 0, 5, 3]);
    let input = shards[0].handle(Time::from_millis(1), &address(CLIENT), &mut record);
    assert_eq!(input, Input::Dropped(Reason::UnknownIndex));
}

#[test]
fn removing_a_peer_ends_its_channels() {
    let mut world = World::ready();
    world.server.remove_peer(9);
    assert_eq!(world.send(b"x"), Ok(Input::Dropped(Reason::UnknownIndex)));
    let mut record = [0; 64];
    assert_eq!(world.server.seal(world.now, ChannelId(0), &mut record, 64), Err(Unready::NoChannel));
    assert_eq!(world.server.poll_timeout(), None);
}
