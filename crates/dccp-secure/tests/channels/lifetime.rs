//! A channel over time: moves, new keys, restarts and silence.

use crate::{CLIENT, SERVER, World, address, key, packet, seal, seeded};
use dccp_secure::{Address, ChannelId, Event, Input, PresharedKey, Reason, Unready};
use mpdccp_units::{Duration, Time};
use std::collections::VecDeque;

#[test]
fn a_peer_that_moves_is_followed_at_once() {
    let mut world = World::ready();
    let late = world.seal(b"late").unwrap();
    world.from = address(77);
    assert_eq!(world.send(b"new place"), packet(0, 9));
    assert_eq!(world.server.address(ChannelId(0)), Some(address(77)));
    assert_eq!(world.server.handle(world.now, &address(CLIENT), &mut late.clone()), packet(0, 4).unwrap());
    assert_eq!(
        world.server.address(ChannelId(0)),
        Some(address(77)),
        "a late record does not move the channel back"
    );
    let _ = world.server.poll_event();
    assert_eq!(world.server.poll_event(), Some(Event::Moved(ChannelId(0))));
    assert_eq!(world.server.stats(ChannelId(0)).unwrap().moves, 1);
}

/// A client's socket need not be bound to an address. After the host has moved to another network, it can
/// send only from its new address.
#[test]
fn a_client_that_moves_does_not_send_from_its_old_address() {
    let mut world = World::ready();
    let mut record = seal(&mut world.server, world.now, ChannelId(0), b"hello").unwrap();
    let to = Address { local: Some([198, 51, 100, 1].into()), ..address(SERVER) };
    assert!(matches!(world.client.handle(world.now, &to, &mut record), Input::Packet { .. }));
    assert_eq!(world.client.address(world.channel), Some(address(SERVER)));
    assert_eq!(world.client.stats(world.channel).unwrap().moves, 0);
    // A server answers from the address that the client knows.
    world.from.local = Some([203, 0, 113, 1].into());
    assert_eq!(world.send(b"hello"), packet(0, 5));
    assert_eq!(world.server.address(ChannelId(0)), Some(world.from));
}

/// When a NAT drops a binding, packets arrive from a new port, and packets to the old port are lost.
#[test]
fn a_new_binding_of_a_nat_costs_a_round_trip_at_most() {
    const ONE_WAY: u64 = 20;
    const FORGETS: u64 = 200;
    let mut world = World::ready();
    let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
    let mut got = Vec::new();
    for now in 0..400 {
        world.wait(Duration::from_millis(1));
        let binding = address(if now < FORGETS { CLIENT } else { 77 });
        // One packet is sent per millisecond in each direction.
        up.push_back((now + ONE_WAY, binding, world.seal(b"up").unwrap()));
        let to = world.server.address(ChannelId(0)).unwrap();
        let record = seal(&mut world.server, world.now, ChannelId(0), b"down").unwrap();
        down.push_back((now + ONE_WAY, to, record));
        while let Some((_, from, mut record)) = up.pop_front_if(|(at, ..)| *at <= now) {
            assert!(matches!(world.server.handle(world.now, &from, &mut record), Input::Packet { .. }));
        }
        while let Some((_, to, mut record)) = down.pop_front_if(|(at, ..)| *at <= now) {
            if to == binding {
                assert!(matches!(
                    world.client.handle(world.now, &address(SERVER), &mut record),
                    Input::Packet { .. }
                ));
                got.push(now);
            }
        }
    }
    let gap = got.windows(2).map(|w| w[1] - w[0]).max().unwrap();
    // The interval between packets adds one millisecond to the gap.
    assert!((ONE_WAY..=2 * ONE_WAY + 2).contains(&gap), "{gap} ms");
}

#[test]
fn keys_are_renewed_without_a_gap() {
    let mut world = World::ready();
    for second in 0..600 {
        world.wait(Duration::from_secs(1));
        let held = world.seal(b"held back").unwrap();
        assert_eq!(world.send(b"traffic"), packet(0, 7), "second {second}");
        world.exchange();
        assert_eq!(Ok(world.server.handle(world.now, &world.from, &mut held.clone())), packet(0, 9));
        assert!(matches!(world.answer(ChannelId(0), b"back"), Ok(Input::Packet { .. })));
    }
    let stats = world.client.stats(world.channel).unwrap();
    assert!((5..=6).contains(&stats.handshakes), "{stats:?}");
    assert_eq!(world.server.drops().len() + world.client.drops().len(), 0);
}

/// The client sends nothing for a long time. The server cannot start handshakes, so the client keeps its key
/// usable, unless the server is gone.
#[test]
fn a_server_can_send_after_a_long_silence() {
    let mut world = World::ready();
    for second in 1..=1_200 {
        world.wait(Duration::from_secs(1));
        assert_eq!(world.exchange(), []);
        if second % 300 == 0 {
            let answer = world.answer(ChannelId(0), b"news");
            assert!(matches!(answer, Ok(Input::Packet { .. })), "{answer:?} after {second} s");
        }
    }
    assert!(world.client.stats(world.channel).unwrap().handshakes <= 1 + 1_200 / 120);
    for _ in 0..600 {
        world.wait(Duration::from_secs(1));
        while world.client.poll_transmit().is_some() {}
    }
    assert_eq!(world.client.poll_timeout(), None, "the client must not retry forever");
}

#[test]
fn a_key_is_not_used_for_too_long() {
    let mut world = World::ready();
    let old = world.seal(b"old").unwrap();
    world.wait(Duration::from_secs(181));
    assert_eq!(world.send(b"new"), Err(Unready::NoKey));
    let result = world.server.handle(world.now, &world.from, &mut old.clone());
    assert!(matches!(result, Input::Dropped(Reason::UnknownIndex | Reason::KeyExpired)));
    assert_eq!(world.exchange(), [(ChannelId(0), 9, b"new".to_vec())], "the channel is the same");
}

#[test]
fn a_restarted_server_is_found_within_two_seconds() {
    let mut world = World::ready();
    world.server = seeded(SERVER, true, 99);
    world.server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
    let mut got = Vec::new();
    for _ in 0..20 {
        world.wait(Duration::from_millis(100));
        let _ = world.send(b"anybody there?");
        got.extend(world.exchange());
        if world.server.peer_stats(9).unwrap().heard.is_some() {
            break;
        }
    }
    assert_eq!(world.send(b"yes"), packet(0, 3));
}

/// The channel starts over, so its next packet waits for a handshake. Records that the peer still sends under
/// the old keys are accepted.
#[test]
fn a_channel_that_starts_over_waits_for_one_handshake() {
    for restarted in [true, false] {
        let mut world = World::ready();
        world.client.start_over(7);
        world.wait(Duration::from_millis(100));
        if restarted {
            world.server = seeded(SERVER, true, 99);
            world.server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
        } else {
            let answer = world.answer(ChannelId(0), b"under the old key").unwrap();
            assert!(matches!(answer, Input::Packet { .. }), "{answer:?}");
        }
        assert_eq!(world.send(b"anybody there?"), Err(Unready::NoKey));
        assert_eq!(world.exchange(), [(ChannelId(0), 9, b"anybody there?".to_vec())], "{restarted}");
        assert_eq!(world.client.stats(world.channel).unwrap().handshakes, 2);
    }
}

/// The clock stands still while the host is suspended, but keys age.
#[test]
fn keys_age_while_the_host_is_suspended() {
    let cases = [(119, false), (179, false), (180, true), (100_000, true)];
    for ((suspended, expired), silent) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let mut world = World::ready();
        world.wait(Duration::from_secs(200));
        let _ = world.send(b"later");
        world.exchange();
        let handshakes = |world: &World| world.client.stats(world.channel).unwrap().handshakes;
        let before = handshakes(&world);
        world.client.on_suspended(world.now, Duration::from_secs(suspended));
        if !silent {
            assert_eq!(world.send(b"awake").is_err(), expired, "{suspended}");
        }
        world.exchange();
        assert_eq!(handshakes(&world), before + u64::from(suspended >= 120), "{suspended}");
        assert_eq!(world.send(b"again"), packet(0, 5));
    }
}

/// The server is away for up to half a minute. The next handshake must start soon after it has come back.
#[test]
fn a_server_that_was_away_is_asked_again_within_a_second() {
    for away in [3, 15, 29] {
        let mut world = World::ready();
        world.server = seeded(SERVER, true, 99);
        for _ in 0..away * 10 {
            world.wait(Duration::from_millis(100));
            let _ = world.send(b"anybody there?");
            while world.client.poll_transmit().is_some() {}
        }
        let mut asked = 0;
        for _ in 0..7 {
            world.wait(Duration::from_millis(100));
            while world.client.poll_transmit().is_some_and(|(_, message)| message.len() == 172) {
                asked += 1;
            }
        }
        assert!(asked >= 1, "after {away} s");
    }
}

/// The server closed the session when it exited, so the client retransmits its Requests at growing intervals.
/// This test sends at such intervals.
#[test]
fn a_restarted_server_is_found_by_who_sends_ever_more_seldom() {
    let mut world = World::ready();
    world.send(b"the last of an exchange").unwrap();
    world.exchange();
    world.server = seeded(SERVER, true, 99);
    world.server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
    for pause in [4, 1] {
        world.wait(Duration::from_secs(pause));
        let _ = world.send(b"a request");
        world.exchange();
    }
    assert!(world.server.peer_stats(9).unwrap().heard.is_some());
}

#[test]
fn a_pause_is_no_silence() {
    let mut world = World::ready();
    // The last packet of an exchange is not answered, and the next exchange starts long after it.
    for _ in 0..5 {
        world.wait(Duration::from_secs(12));
        for _ in 0..2 {
            world.send(b"probe").unwrap();
            world.answer(ChannelId(0), b"answer").unwrap();
            world.send(b"acknowledgement").unwrap();
        }
        assert_eq!(world.exchange(), []);
    }
    assert_eq!(world.client.stats(world.channel).unwrap().handshakes, 1);
}

#[test]
fn a_lost_handshake_is_repeated_and_given_up_in_the_end() {
    let mut world = World::new();
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    let mut sent = 0;
    for _ in 0..120 {
        while world.client.poll_transmit().is_some() {
            sent += 1;
        }
        world.wait(Duration::from_secs(1));
    }
    // The intervals grow, because the path may be long and a retransmission invalidates the answer to the
    // previous message.
    assert!((18..=30).contains(&sent), "{sent}");
    assert_eq!(world.client.poll_timeout(), None, "nothing to do until there is traffic again");
    assert_eq!(world.send(b"y"), Err(Unready::NoKey));
    assert_eq!(world.exchange(), [(ChannelId(0), 9, b"y".to_vec())]);
}

/// Exchanges packets for 400 s. `delay` returns the delay in each direction at a given time, both in ms.
/// Returns the times at which the client had no key, and the number of handshakes.
fn carry(delay: impl Fn(u64) -> u64) -> (Vec<u64>, u64) {
    let mut world = World::new();
    let mut flying: Vec<(Time, bool, Vec<u8>)> = Vec::new();
    let mut late = Vec::new();
    for ms in (0..400_000).step_by(50) {
        world.wait(Duration::from_millis(50));
        let (now, arrives) = (world.now, world.now + Duration::from_millis(delay(ms)));
        if ms % 500 == 0 {
            match world.seal(b"data") {
                Ok(record) => flying.push((arrives, true, record)),
                Err(_) => late.push(ms),
            }
            if let Ok(record) = seal(&mut world.server, now, ChannelId(0), b"back") {
                flying.push((arrives, false, record));
            }
        }
        while let Some((_, datagram)) = world.client.poll_transmit() {
            flying.push((arrives, true, datagram));
        }
        while let Some((_, datagram)) = world.server.poll_transmit() {
            flying.push((arrives, false, datagram));
        }
        let due = flying.extract_if(.., |(at, ..)| *at <= now);
        for (_, to_server, mut datagram) in due.collect::<Vec<_>>() {
            match to_server {
                true => world.server.handle(now, &world.from, &mut datagram),
                false => world.client.handle(now, &address(SERVER), &mut datagram),
            };
        }
    }
    (late, world.client.stats(world.channel).unwrap().handshakes)
}

/// A retransmission must not invalidate an answer that is still on its way, neither in the first handshake
/// nor when keys are renewed.
#[test]
fn a_path_of_two_seconds_gets_keys_and_renews_them() {
    for millis in [300, 450, 1_000] {
        let (late, handshakes) = carry(|_| millis);
        assert!(late.iter().all(|ms| *ms < 6_000), "{millis} ms: {late:?}");
        assert!(handshakes >= 3, "{millis} ms");
    }
}

/// A responder must keep a channel until the first record arrives, a round trip after the answer.
#[test]
fn a_path_of_nine_seconds_gets_its_first_keys() {
    for millis in [2_500, 3_500, 4_500] {
        let (late, handshakes) = carry(|_| millis);
        assert!(late.iter().all(|ms| *ms < 26_000), "{millis} ms: {late:?}");
        assert!(handshakes >= 3, "{millis} ms");
    }
}

#[test]
fn a_path_whose_queue_grows_to_five_seconds_renews_its_keys() {
    let (late, handshakes) = carry(|ms| if ms < 10_000 { 50 } else { 2_500 });
    assert!(late.iter().all(|ms| *ms < 1_000), "{late:?}");
    assert!(handshakes >= 3);
}
