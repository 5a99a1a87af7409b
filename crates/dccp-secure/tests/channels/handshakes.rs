//! Handshakes: keys, ciphers, and old handshakes.

use crate::{CLIENT, SERVER, World, address, at, key, seeded};
use dccp_secure::{Aead, ChannelId, Channels, Event, Input, PresharedKey, Reason, Settings, Unready};
use mpdccp_units::Duration;

#[test]
fn a_peer_with_another_preshared_key_gets_nowhere() {
    let mut world = World::new();
    world.server.add_peer(9, key(CLIENT).public(), PresharedKey::from_random([8; 32]));
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    assert_eq!(world.exchange(), []);
    assert_eq!(world.client.drops()[&Reason::BadHandshake], 1);
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
}

/// Creates a world whose ends support these ciphers, in order of preference.
fn with_ciphers(client: &[Aead], server: &[Aead]) -> World {
    let end = |n: u8, accepts, aeads: &[Aead]| {
        let unix = Duration::from_secs(1_700_000_000);
        let server = if accepts { 0x01_0203 } else { 0 };
        let (private_key, aeads, seed) = (key(n), aeads.to_vec(), [n; 32]);
        Channels::new(Settings { private_key, accepts, server, shard: n, aeads, unix, seed })
    };
    let mut world = World::new();
    (world.client, world.server) = (end(CLIENT, false, client), end(SERVER, true, server));
    world.client.add_peer(7, key(SERVER).public(), PresharedKey::default());
    world.server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
    world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
    world
}

#[test]
fn ends_with_unlike_ciphers_settle_on_one_that_both_have() {
    use Aead::{Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};
    for (client, server, both) in [
        (&[Aes128Gcm, ChaCha20Poly1305][..], &[ChaCha20Poly1305, Aes256Gcm][..], ChaCha20Poly1305),
        (&[Aes128Gcm, Aes256Gcm][..], &[Aes256Gcm, Aes128Gcm][..], Aes256Gcm),
        (&[Aes256Gcm][..], &Aead::ALL[..], Aes256Gcm),
    ] {
        let mut world = with_ciphers(client, server);
        assert_eq!(world.send(b"x"), Err(Unready::NoKey));
        assert_eq!(world.exchange(), [(ChannelId(0), 9, b"x".to_vec())]);
        assert_eq!(world.client.stats(world.channel).unwrap().aead, Some(both));
        assert_eq!(
            world.answer(ChannelId(0), b"y"),
            Ok(Input::Packet { channel: world.channel, peer: 7, len: 1 })
        );
    }
    let mut world = with_ciphers(&[Aes128Gcm], &[ChaCha20Poly1305]);
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    assert_eq!(world.exchange(), []);
    assert_eq!(world.server.drops()[&Reason::NoCommonCipher], 1);
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
}

/// An attacker on the path cannot change the chosen cipher, because the offer is encrypted.
#[test]
fn no_byte_of_an_offer_can_be_changed() {
    let mut world = World::new();
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    let (_, offer) = world.client.poll_transmit().unwrap();
    // Exclude the last 16 bytes: they are the cookie code, which a server that is not under load does not
    // check.
    for at in 0..offer.len() - 16 {
        let mut altered = offer.clone();
        altered[at] ^= 1;
        let result = world.server.handle(world.now, &world.from, &mut altered);
        assert!(matches!(result, Input::Dropped(_)), "byte {at}: {result:?}");
        assert_eq!(world.server.poll_transmit(), None, "byte {at}");
    }
    assert_eq!(world.server.handle(world.now, &world.from, &mut offer.clone()), Input::Handled);
}

/// The initiator sends the same message again, because another one would invalidate a response that is late.
#[test]
fn a_lost_response_is_sent_again() {
    let mut world = World::new();
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    let (_, offer) = world.client.poll_transmit().unwrap();
    let mut answer = || {
        assert_eq!(world.server.handle(world.now, &world.from, &mut offer.clone()), Input::Handled);
        world.server.poll_transmit().unwrap()
    };
    let (lost, mut again) = (answer(), answer());
    assert_eq!(lost, again);
    assert_eq!(world.client.handle(world.now, &address(SERVER), &mut again.1), Input::Handled);
    assert_eq!(world.exchange(), [(ChannelId(0), 9, b"x".to_vec())]);
}

#[test]
fn old_handshakes_are_not_taken_again() {
    let mut world = World::ready();
    let first = world.heard[0].clone();
    assert_eq!(
        world.server.handle(world.now, &world.from, &mut first.clone()),
        Input::Dropped(Reason::Replayed),
        "a network that duplicates packets is no reason to blame the client's clock"
    );
    world.server.close(ChannelId(0));
    let result = world.server.handle(world.now, &address(66), &mut first.clone());
    assert_eq!(
        result,
        Input::Dropped(Reason::OldHandshake),
        "a replay is refused even after the channel was dropped"
    );
    assert_eq!(world.server.poll_transmit(), None);
}

/// A server that has lost its state cannot recognise a replayed handshake, but the attacker cannot complete
/// that handshake.
#[test]
fn a_handshake_repeated_to_a_restarted_server_leads_nowhere() {
    let mut world = World::ready();
    let first = world.heard[0].clone();
    world.server = seeded(SERVER, true, 99);
    world.server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
    assert_eq!(world.server.handle(world.now, &address(66), &mut first.clone()), Input::Handled);
    for message in &world.heard[1..] {
        let result = world.server.handle(world.now, &address(66), &mut message.clone());
        assert!(matches!(result, Input::Dropped(_)));
    }
    world.wait(Duration::from_secs(11));
    assert_eq!(world.server.poll_event(), Some(Event::Gone(ChannelId(0))));
    assert_eq!(world.server.peer_stats(9).unwrap().channels, 0);
}

/// A client restarts with its clock set back. The server refuses the client as long as it remembers the
/// client's last channel, but accepts it if it continues from its last timestamp.
#[test]
fn a_clock_that_was_set_back_is_no_matter_to_who_remembers_the_last_handshake() {
    let mut world = World::ready();
    world.server.close(ChannelId(0));
    let used = world.client.initiated().unwrap();
    let hour = Duration::from_secs(3_600);
    let channels = |unix| {
        world.client = at(CLIENT, false, 99, unix);
        world.client.add_peer(7, key(SERVER).public(), PresharedKey::default());
        world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
        let _ = world.send(b"again");
        world.exchange();
        world.server.peer_stats(9).unwrap().channels
    };
    let back = [used - hour, used, used + hour].map(channels);
    assert_eq!(back, [0, 1, 1]);
    assert_eq!(world.server.drops().get(&Reason::OldHandshake), Some(&1));
}

/// A router without a battery may start its tunnel before it has set its clock.
#[test]
fn a_clock_that_is_set_after_the_start_makes_handshakes_newer_again() {
    let mut world = World::ready();
    world.server.close(ChannelId(0));
    let used = world.client.initiated().unwrap();
    let hour = Duration::from_secs(3_600);
    world.client = at(CLIENT, false, 99, used - hour);
    world.client.add_peer(7, key(SERVER).public(), PresharedKey::default());
    world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
    let _ = world.send(b"again");
    world.exchange();
    assert_eq!(world.server.drops().get(&Reason::OldHandshake), Some(&1));
    world.client.set_clock(world.now, used + hour);
    // The clock is set back, which must not make the next handshake older.
    world.client.set_clock(world.now, used - hour);
    world.wait(Duration::from_secs(3));
    world.exchange();
    assert_eq!(world.server.peer_stats(9).unwrap().channels, 1);
}
