//! Limits under floods of handshakes.

use crate::{CLIENT, SERVER, World, address, channels, key, seal, seeded};
use dccp_secure::{
    Address, Aead, ChannelId, Channels, Event, PresharedKey, PrivateKey, Reason, Settings, Unready,
};
use mpdccp_units::Duration;
use std::net::SocketAddr;

#[test]
fn a_flood_of_handshakes_is_asked_for_cookies_and_an_honest_client_gets_in() {
    let mut world = World::new();
    let mut flooder = channels(5, false);
    flooder.add_peer(0, key(SERVER).public(), PresharedKey::default());
    let channel = flooder.open(world.now, 0, address(SERVER)).unwrap();
    let _ = seal(&mut flooder, world.now, channel, b"x");
    let (_, flood) = flooder.poll_transmit().unwrap();
    let mut answered = 0;
    for n in 0..50_000u32 {
        let spoofed = SocketAddr::from(((n | 10 << 24).to_be_bytes(), 1));
        let from = Address { remote: spoofed, ..address(0) };
        world.server.handle(world.now, &from, &mut flood.clone());
        while let Some((_, reply)) = world.server.poll_transmit() {
            assert!(reply.len() < flood.len(), "no amplification");
            answered += 1;
        }
    }
    assert!(answered > 40_000);
    assert!(world.server.drops()[&Reason::UnknownPeer] <= 200, "expensive operations are limited");
    assert_eq!(world.send(b"let me in"), Err(Unready::NoKey));
    assert_eq!(world.exchange(), [(ChannelId(0), 9, b"let me in".to_vec())]);
    assert_eq!(world.server.drops()[&Reason::NoCookie], answered + 1);
}

/// Sends handshakes from many peers at one address, each with the cookie that its peer received. Returns how
/// many handshakes were answered.
fn flood(world: &mut World, first: u32, count: u32) -> u32 {
    let mut answered = 0;
    for n in first..first + count {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&(n % 64).to_be_bytes());
        let unix = Duration::from_secs(1_700_000_000 + u64::from(n));
        let mut client = Channels::new(Settings {
            aeads: Aead::ALL.to_vec(),
            ..Settings::new(PrivateKey::from_random(key), false, unix, key)
        });
        client.add_peer(0, self::key(SERVER).public(), PresharedKey::default());
        let channel = client.open(world.now, 0, address(SERVER)).unwrap();
        let _ = seal(&mut client, world.now, channel, b"x");
        while let Some((_, mut datagram)) = client.poll_transmit() {
            world.server.handle(world.now, &address(3), &mut datagram);
            while let Some((_, mut reply)) = world.server.poll_transmit() {
                client.handle(world.now, &address(SERVER), &mut reply);
            }
        }
        answered += u32::from(client.poll_event() == Some(Event::Ready(channel)));
    }
    answered
}

#[test]
fn a_source_cannot_take_all_handshakes() {
    let mut world = World::new();
    for n in 0..64u32 {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_be_bytes());
        world.server.add_peer(100 + n, PrivateKey::from_random(key).public(), PresharedKey::default());
    }
    // 200 initiations are answered without cookies. After that, each source must prove its address and may
    // send a burst of 32 initiations.
    assert_eq!(flood(&mut world, 0, 400), 200 + 32);
    assert!(world.server.drops()[&Reason::SourceLimited] > 0);
    // The source gains 20 more initiations per second, however many it attempts.
    for second in 1..4 {
        world.wait(Duration::from_secs(1));
        assert_eq!(flood(&mut world, 400 * second, 400), 20, "in second {second}");
    }
}

/// A peer with valid keys must not be able to use up the server's handshake capacity.
#[test]
fn a_peer_cannot_take_all_handshakes() {
    let mut world = World::ready();
    let handshakes = |world: &mut World, count: u32| {
        let mut answered = 0;
        for _ in 0..count {
            world.now += Duration::from_micros(10);
            world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
            let _ = world.send(b"x");
            while let Some((_, mut initiation)) = world.client.poll_transmit() {
                world.server.handle(world.now, &world.from, &mut initiation);
            }
            while world.server.poll_transmit().is_some() {
                answered += 1;
            }
            let channel = world.channel;
            world.client.close(channel);
        }
        answered
    };
    // A peer may make 128 handshakes in a burst. `World::ready` has already made one of them.
    assert_eq!(handshakes(&mut world, 150), 127);
    assert!(world.server.drops()[&Reason::PeerLimited] > 0);
    world.wait(Duration::from_secs(1));
    assert_eq!(handshakes(&mut world, 45), 20, "a peer must gain 20 handshakes per second");
}

/// A restarted server cannot recognise replays, but must still have tokens for the peer's next handshake.
#[test]
fn replays_to_a_restarted_server_do_not_keep_the_peer_out() {
    let mut world = World::ready();
    let mut recorded = Vec::new();
    for _ in 0..170 {
        world.now += Duration::from_micros(10);
        let channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
        recorded.extend(std::iter::from_fn(|| world.client.poll_transmit()).map(|(_, message)| message));
        world.client.close(channel);
    }
    world.server = seeded(SERVER, true, 99);
    world.server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
    let replay = |world: &mut World, mut message: Vec<u8>| {
        world.server.handle(world.now, &address(66), &mut message);
        while world.server.poll_transmit().is_some() {}
    };
    recorded.iter().for_each(|message| replay(&mut world, message.clone()));
    assert_eq!(world.server.drops()[&Reason::PeerLimited], 170 - 128);
    // From now on, a replay arrives whenever the peer has gained a token.
    world.now += Duration::from_micros(10);
    world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
    assert_eq!(world.send(b"let me in"), Err(Unready::NoKey));
    let mut got = world.exchange();
    for message in recorded.drain(128..).take(30) {
        world.wait(Duration::from_millis(50));
        replay(&mut world, message);
        got.extend(world.exchange());
    }
    assert_eq!(got.into_iter().map(|(_, _, packet)| packet).collect::<Vec<_>>(), [b"let me in"]);
}

/// The sender of cookies must not control the rate of initiations.
#[test]
fn cookies_bring_one_initiation_at_once() {
    let mut world = World::new();
    let mut sent = 0;
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    for n in 0..100u8 {
        let Some((_, initiation)) = world.client.poll_transmit() else { continue };
        sent += 1;
        // In each round, a different server with the same key answers, so every cookie is new.
        let mut busy = seeded(SERVER, true, n);
        let stranger = Address { remote: SocketAddr::from(([10, 0, 0, n], 1)), ..world.from };
        for _ in 0..250 {
            busy.handle(world.now, &stranger, &mut initiation.clone());
        }
        while busy.poll_transmit().is_some() {}
        busy.handle(world.now, &world.from, &mut initiation.clone());
        let (_, mut cookie) = busy.poll_transmit().unwrap();
        world.client.handle(world.now, &address(SERVER), &mut cookie);
    }
    assert_eq!(sent, 2, "expected the first initiation, and one with a cookie");
}

#[test]
fn channels_of_a_peer_are_bounded() {
    let mut world = World::ready();
    for _ in 0..200 {
        world.wait(Duration::from_millis(100));
        world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
        assert_eq!(world.send(b"x"), Err(Unready::NoKey));
        world.exchange();
    }
    assert_eq!(world.server.peer_stats(9).unwrap().channels, 64);
    assert!(world.send(b"the newest works").is_ok());
}
