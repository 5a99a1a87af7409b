//! Records are sealed, can be opened only once, and cannot be changed or replayed.

use crate::{CLIENT, SERVER, World, address, key, packet};
use dccp_secure::{Aead, ChannelId, Channels, Event, HEADER, Input, OVERHEAD, Reason, Unready};

#[test]
fn packets_cross_both_ways_and_none_is_lost_to_the_handshake() {
    let mut world = World::new();
    for n in 0..3u8 {
        assert_eq!(world.send(&[n]), Err(Unready::NoKey));
    }
    let got: Vec<Vec<u8>> = world.exchange().into_iter().map(|(_, _, data)| data).collect();
    assert_eq!(got, [[0], [1], [2]]);
    assert_eq!(world.client.poll_event(), Some(Event::Ready(world.channel)));
    assert_eq!(world.server.poll_event(), Some(Event::Ready(ChannelId(0))));
    assert_eq!(world.send(b"more"), packet(0, 4));
    let back = world.answer(ChannelId(0), b"back");
    assert_eq!(back, Ok(Input::Packet { channel: world.channel, peer: 7, len: 4 }));
    assert_eq!(world.client.stats(world.channel).unwrap().aead, Some(Aead::Aes128Gcm));
    let told: Vec<u8> = world.heard.iter().rev().find(|m| m.len() == 4 + OVERHEAD).unwrap()[..8].to_vec();
    assert_eq!(told[..5], [0x52, 1, 2, 3, SERVER], "records contain the numbers of the server and the shard");
}

#[test]
fn runs_of_equal_records_are_sealed_in_place() {
    let mut world = World::ready();
    let size = 100 + OVERHEAD;
    let mut run = vec![5; 2 * size + 40 + OVERHEAD];
    assert_eq!(world.client.seal(world.now, world.channel, &mut run, size), Ok(address(SERVER)));
    for (record, len) in run.chunks_mut(size).zip([100, 100, 40]) {
        assert_eq!(Ok(world.server.handle(world.now, &world.from, record)), packet(0, len));
        assert_eq!(record[HEADER..HEADER + len], vec![5; len]);
    }
}

#[test]
fn nothing_in_the_clear() {
    let mut world = World::ready();
    let secret = b"a text that must not be seen";
    world.send(secret).unwrap();
    let seen = |text: &[u8]| world.heard.iter().any(|m| m.windows(text.len()).any(|w| w == text));
    assert!(!seen(secret) && !seen(b"first") && !seen(&key(CLIENT).public().0));
}

#[test]
fn replayed_and_forged_records_have_no_effect() {
    let mut world = World::ready();
    let record = world.seal(b"once").unwrap();
    let now = world.now;
    let mut hear = |mut bytes: Vec<u8>| world.server.handle(now, &address(66), &mut bytes);
    for i in 0..record.len() {
        let mut forged = record.clone();
        forged[i] ^= 0x80;
        assert!(matches!(hear(forged), Input::Dropped(_)), "byte {i}");
    }
    assert_eq!(Ok(hear(record.clone())), packet(0, 4));
    assert_eq!(hear(record), Input::Dropped(Reason::Replayed));
    for message in world.heard.clone() {
        let mut again = message;
        assert!(matches!(world.server.handle(now, &address(66), &mut again), Input::Dropped(_)));
    }
    assert_eq!(world.server.poll_transmit(), None, "no datagram was answered");
}

#[test]
fn a_million_forged_records_have_no_effect() {
    let mut world = World::ready();
    let genuine = world.seal(b"genuine").unwrap();
    let before = world.server.stats(ChannelId(0)).unwrap();
    let mut random = 1u64;
    for _ in 0..1_000_000 {
        let mut forged = genuine.clone();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        forged[8..16].copy_from_slice(&(random >> 33).to_be_bytes());
        let at = HEADER + (random >> 8) as usize % (forged.len() - HEADER);
        forged[at] ^= (random >> 24) as u8 | 1;
        assert!(matches!(world.server.handle(world.now, &address(66), &mut forged), Input::Dropped(_)));
    }
    assert_eq!(world.server.stats(ChannelId(0)), Some(before));
    assert_eq!(world.server.address(ChannelId(0)), Some(address(CLIENT)));
    assert_eq!(Ok(world.server.handle(world.now, &world.from, &mut genuine.clone())), packet(0, 7));
}

#[test]
fn both_ends_can_be_sent_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Channels>();
}

#[test]
fn the_handshake_waits_for_no_packet() {
    let mut world = World::new();
    assert_eq!(world.exchange(), []);
    assert_eq!(world.client.poll_event(), Some(Event::Ready(world.channel)));
    assert_eq!(world.send(b"first"), packet(0, 5));
}
