//! Handshakes from peers whose keys are unknown.

use crate::{CLIENT, SERVER, World, address, at, channels, key, seal};
use core::net::IpAddr;
use dccp_secure::{Address, Aead, Channels, EchoQuestion, Input, PresharedKey, Reason, Settings};
use mpdccp_units::{Duration, Time};

#[test]
fn strangers_get_no_answer() {
    let mut world = World::ready();
    let mut stranger = channels(5, false);
    stranger.add_peer(0, key(SERVER).public(), PresharedKey::default());
    let wrong = {
        let mut guesser = channels(6, false);
        guesser.add_peer(0, key(4).public(), PresharedKey::default());
        let channel = guesser.open(world.now, 0, address(SERVER)).unwrap();
        let _ = seal(&mut guesser, world.now, channel, b"x");
        guesser.poll_transmit().unwrap().1
    };
    let channel = stranger.open(world.now, 0, address(SERVER)).unwrap();
    let _ = seal(&mut stranger, world.now, channel, b"x");
    let unknown = stranger.poll_transmit().unwrap().1;
    let cases = [
        (wrong, Reason::Stranger),
        (unknown, Reason::UnknownPeer),
        ([&[0x52, 1, 2, 3][..], &[0x52; 60]].concat(), Reason::UnknownIndex),
        (vec![0x52; 64], Reason::OtherServer),
        (vec![1, 0, 0, 0], Reason::NoMessage),
    ];
    for (mut datagram, why) in cases {
        assert_eq!(world.server.handle(world.now, &address(5), &mut datagram), Input::Dropped(why));
        assert_eq!(world.server.drops()[&why], 1);
    }
    assert_eq!(world.server.poll_transmit(), None);
    assert_eq!(world.server.peer_stats(9).unwrap().channels, 1);
}

/// Sends the first message of the client with this key.
fn knock(n: u8, from: &Address, now: Time, server: &mut Channels) -> Result<Channels, Input> {
    let mut client = at(n, false, n, Duration::from_secs(1_700_000_000));
    client.add_peer(0, key(SERVER).public(), PresharedKey::default());
    let channel = client.open(now, 0, address(SERVER)).unwrap();
    let _ = seal(&mut client, now, channel, b"hello");
    match server.handle(now, from, &mut client.poll_transmit().unwrap().1) {
        Input::Handled => Ok(client),
        input => Err(input),
    }
}

/// Completes a handshake of the client with this key, and returns the client's number.
fn visit(n: u8, from: &Address, now: Time, server: &mut Channels) -> Result<u32, Input> {
    while server.poll_transmit().is_some() {}
    let mut client = knock(n, from, now, server)?;
    client.handle(now, &address(SERVER), &mut server.poll_transmit().unwrap().1);
    match server.handle(now, from, &mut client.poll_transmit().unwrap().1) {
        Input::Packet { peer, .. } => Ok(peer),
        other => Err(other),
    }
}

/// Each admitted stranger has its own number for as long as it has a channel. The number of strangers is
/// limited.
#[test]
fn strangers_are_let_in_where_the_owner_wants_it() {
    let mut now = Time::from_millis(1);
    let mut server = channels(SERVER, true);
    server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
    server.admit_strangers(2, 2);
    let visit = |n: u8, now: Time, server: &mut Channels| visit(n, &address(n), now, server);
    assert_eq!(visit(CLIENT, now, &mut server), Ok(9), "a named peer keeps its number");
    let first = visit(5, now, &mut server).unwrap();
    now += Duration::from_secs(30);
    let second = visit(6, now, &mut server).unwrap();
    assert!(first != second && first != 9);
    for (n, number) in [(5, first), (6, second)] {
        assert_eq!(server.peer_key(number), Some(key(n).public()));
        assert_eq!(server.number(&key(n).public()), Some(number));
    }
    assert_eq!(visit(7, now, &mut server), Err(Input::Dropped(Reason::TooMany)));
    // The stranger that has been silent for a minute is dropped; the other one stays.
    now += Duration::from_secs(31);
    let third = visit(7, now, &mut server).unwrap();
    assert_eq!((server.peer_key(first), server.peer_key(second)), (None, Some(key(6).public())));
    // In the end, all peers except the configured one are removed.
    now += Duration::from_secs(3600);
    server.handle_timeout(now);
    assert_eq!((server.peer_key(second), server.peer_key(third)), (None, None));
    assert_eq!(server.peer_key(9), Some(key(CLIENT).public()));
    server.admit_strangers(0, 0);
    assert_eq!(visit(5, now, &mut server), Err(Input::Dropped(Reason::UnknownPeer)));
}

/// Keys cost nothing, so one host can have many. It must not keep other hosts out.
#[test]
fn one_source_cannot_take_all_places_of_strangers() {
    let mut now = Time::from_millis(1);
    let [host, other] = [address(5), address(6)];
    let v6 = |ip: &str| Address { remote: (ip.parse::<IpAddr>().unwrap(), 6511).into(), ..host };
    let mut server = channels(SERVER, true);
    server.admit_strangers(16, 4);
    let full = Err(Input::Dropped(Reason::TooMany));
    assert!((20..24).all(|n| visit(n, &host, now, &mut server).is_ok()));
    assert_eq!(visit(24, &host, now, &mut server), full);
    assert!(visit(25, &other, now, &mut server).is_ok());
    // The hosts of one /64 count as one source. Fewer places are free now, so this source gets only three.
    assert!((30..33).all(|n| visit(n, &v6(&format!("fd00::{n}")), now, &mut server).is_ok()));
    assert_eq!(visit(33, &v6("fd00::33"), now, &mut server), full);
    assert!(visit(34, &v6("fd00:0:0:1::1"), now, &mut server).is_ok());
    now += Duration::from_secs(60);
    assert!(visit(24, &host, now, &mut server).is_ok(), "silent strangers make room");
}

/// Handshakes with a forged source take up places of that source only until the source itself needs them.
#[test]
fn forged_handshakes_do_not_keep_their_source_out() {
    let now = Time::from_millis(1);
    let host = address(5);
    let mut server = channels(SERVER, true);
    server.admit_strangers(16, 2);
    for n in 20..30 {
        assert!(knock(n, &host, now, &mut server).is_ok(), "{n}");
    }
    let known = (20..30).filter(|n| server.number(&key(*n).public()).is_some());
    assert_eq!(known.collect::<Vec<_>>(), [28, 29]);
    assert!((30..32).all(|n| visit(n, &host, now, &mut server).is_ok()));
    assert_eq!(knock(32, &host, now, &mut server).err(), Some(Input::Dropped(Reason::TooMany)));
}

/// Handshakes with many forged sources can take all places, but only until another source needs one.
#[test]
fn forged_handshakes_do_not_keep_other_sources_out() {
    let now = Time::from_millis(1);
    let mut server = channels(SERVER, true);
    server.admit_strangers(4, 1);
    let first = visit(10, &address(10), now, &mut server).unwrap();
    for n in 20..30 {
        assert!(knock(n, &address(n), now, &mut server).is_ok(), "{n}");
    }
    assert!((40..43).all(|n| visit(n, &address(n), now, &mut server).is_ok()));
    // Strangers that have confirmed their keys keep their places.
    assert_eq!(visit(43, &address(43), now, &mut server), Err(Input::Dropped(Reason::TooMany)));
    assert_eq!(server.peer_key(first), Some(key(10).public()));
}

/// A source that already has a client may have a second one, even if forged handshakes have taken the places.
#[test]
fn forged_handshakes_do_not_keep_a_second_client_out() {
    let (now, host) = (Time::from_millis(1), address(5));
    let mut server = channels(SERVER, true);
    server.admit_strangers(4, 2);
    assert!(visit(10, &host, now, &mut server).is_ok());
    for n in 20..30 {
        assert!(knock(n, &address(n), now, &mut server).is_ok(), "{n}");
    }
    assert!(visit(11, &host, now, &mut server).is_ok());
    assert_eq!(visit(12, &host, now, &mut server), Err(Input::Dropped(Reason::TooMany)));
}

/// If a handshake does not lead to a channel, no state is kept about its sender.
#[test]
fn a_stranger_without_a_channel_is_forgotten() {
    let now = Time::from_millis(1);
    let aead = |aead| Settings {
        aeads: vec![aead],
        ..Settings::new(key(5), false, Duration::from_secs(1_700_000_000), [5; 32])
    };
    let mut server =
        Channels::new(Settings { private_key: key(SERVER), accepts: true, ..aead(Aead::Aes128Gcm) });
    server.admit_strangers(1, 1);
    let mut client = Channels::new(aead(Aead::ChaCha20Poly1305));
    client.add_peer(0, key(SERVER).public(), PresharedKey::default());
    let channel = client.open(now, 0, address(SERVER)).unwrap();
    let _ = seal(&mut client, now, channel, b"hello");
    let dropped = server.handle(now, &address(5), &mut client.poll_transmit().unwrap().1);
    assert_eq!(dropped, Input::Dropped(Reason::NoCommonCipher));
    assert_eq!(server.number(&key(5).public()), None);
}

#[test]
fn clients_answer_no_handshake() {
    let mut world = World::ready();
    let mut other = channels(3, false);
    other.add_peer(0, key(CLIENT).public(), PresharedKey::default());
    let channel = other.open(world.now, 0, address(CLIENT)).unwrap();
    let _ = seal(&mut other, world.now, channel, b"x");
    let mut first = other.poll_transmit().unwrap().1;
    let result = world.client.handle(world.now, &address(3), &mut first);
    assert_eq!((result, world.client.poll_transmit()), (Input::Dropped(Reason::NotAccepting), None));
}

/// A stranger can forge the source of an echo request, so the answers must not be larger than the request.
#[test]
fn strangers_get_no_answers_larger_than_their_request() {
    let now = Time::from_millis(1);
    let mut server = channels(SERVER, true);
    server.admit_strangers(2, 2);
    let mut client = channels(5, false);
    client.add_peer(0, key(SERVER).public(), PresharedKey::default());
    let channel = client.open(now, 0, address(SERVER)).unwrap();
    let _ = seal(&mut client, now, channel, b"hello");
    server.handle(now, &address(5), &mut client.poll_transmit().unwrap().1);
    client.handle(now, &address(SERVER), &mut server.poll_transmit().unwrap().1);
    server.handle(now, &address(5), &mut client.poll_transmit().unwrap().1);
    while server.poll_transmit().is_some() {}
    for (answer, answers, allowed) in [(100, 1, true), (50, 2, true), (101, 1, false), (51, 2, false)] {
        let request = EchoQuestion { number: 1, answer, answers, wait: Duration::ZERO }.write(100);
        let mut record = seal(&mut client, now, channel, &request).unwrap();
        let input = server.handle(now, &address(5), &mut record);
        let expected = if allowed { Input::Handled } else { Input::Dropped(Reason::EchoLimited) };
        assert_eq!(input, expected, "{answers} answers of {answer} bytes");
        let sent = core::iter::from_fn(|| server.poll_transmit()).count();
        assert_eq!(sent, if allowed { usize::from(answers) } else { 0 });
    }
}
