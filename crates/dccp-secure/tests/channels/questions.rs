//! Echo requests from `mpdccp tunnel doctor`, and their answers.

use crate::{SERVER, World, address, channels, key, packet};
use dccp_secure::{
    ChannelId, EchoAnswer, EchoQuestion, HEADER, HostFacts, Input, PresharedKey, Reason, Unready,
};
use mpdccp_units::Duration;

/// Returns the echo answers that the client receives, with their sizes.
fn answers(world: &mut World) -> Vec<(usize, EchoAnswer)> {
    let mut got = Vec::new();
    while let Some((to, mut datagram)) = world.server.poll_transmit() {
        assert_eq!(to, world.from);
        if let Input::Packet { len, .. } = world.client.handle(world.now, &address(SERVER), &mut datagram) {
            got.extend(EchoAnswer::read(&datagram[HEADER..HEADER + len]).map(|answer| (len, answer)));
        }
    }
    got
}

fn question(number: u64, answer: u16, wait: u64) -> Vec<u8> {
    EchoQuestion { number, answer, answers: 1, wait: Duration::from_millis(wait) }.write(100)
}

#[test]
fn questions_are_answered_where_they_came_from_and_when_they_ask_for_it() {
    let mut world = World::ready();
    let unix = Duration::from_secs(1_800_000_000);
    world.server.set_facts(HostFacts { unix, at: world.now, forwards: [true, false] });
    // The request comes from another port, as if the client used a second socket.
    world.from.remote.set_port(99);
    assert_eq!(world.send(&question(5, 1_300, 0)), Ok(Input::Handled));
    let answer = answers(&mut world);
    let wanted = EchoAnswer { number: 5, count: 1, unix, forwards: [true, false], seen: world.from.remote };
    assert_eq!(answer, [(1_300, wanted)]);
    assert_eq!(world.send(&question(6, 0, 5_000)), Ok(Input::Handled));
    assert_eq!(world.server.poll_timeout(), Some(world.now + Duration::from_secs(5)));
    world.wait(Duration::from_millis(4_999));
    assert_eq!(answers(&mut world), []);
    world.wait(Duration::from_millis(1));
    assert_eq!(answers(&mut world)[0].1.number, 6);
    // Some requests ask for no answer, others for several. All are counted.
    for (n, count) in [(0, 3), (4, 4), (200, 5)] {
        let several = EchoQuestion { number: 8, answer: 200, answers: n, wait: Duration::ZERO };
        assert_eq!(world.send(&several.write(100)), Ok(Input::Handled));
        let got = answers(&mut world);
        assert_eq!(got.len(), usize::from(n.min(16)));
        assert!(got.iter().all(|(len, answer)| (*len, answer.count) == (200, count)));
    }
    // A client does not answer echo requests.
    assert_eq!(
        world.answer(ChannelId(0), &question(7, 0, 0)),
        packet(0, 100).map(|p| match p {
            Input::Packet { channel, len, .. } => Input::Packet { channel, peer: 7, len },
            other => other,
        })
    );
}

/// A peer can forge the source of a request. The server knows only that the peer receives packets at the
/// address of its last handshake.
#[test]
fn a_source_without_a_handshake_gets_no_answers_larger_than_the_request() {
    let mut world = World::ready();
    world.from = address(66);
    for (size, answers, allowed) in [(100, 1, true), (50, 2, true), (101, 1, false), (51, 2, false)] {
        let request = EchoQuestion { number: 1, answer: size, answers, wait: Duration::ZERO }.write(100);
        let expected = if allowed { Input::Handled } else { Input::Dropped(Reason::EchoLimited) };
        assert_eq!(world.send(&request), Ok(expected), "{answers} answers of {size} bytes");
        assert_eq!(self::answers(&mut world).len(), if allowed { usize::from(answers) } else { 0 });
    }
    world.wait(Duration::from_secs(121));
    assert_eq!(world.send(b"time for new keys"), packet(0, 17));
    world.exchange();
    assert_eq!(world.send(&question(2, 1_300, 0)), Ok(Input::Handled));
    assert_eq!(answers(&mut world).len(), 1);
}

/// The response was sent to both addresses, and the peer may have received only one of them.
#[test]
fn a_handshake_repeated_from_another_address_proves_neither() {
    let mut world = World::new();
    let own = world.from;
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    let (_, offer) = world.client.poll_transmit().unwrap();
    for from in [address(66), own] {
        assert_eq!(world.server.handle(world.now, &from, &mut offer.clone()), Input::Handled);
    }
    let mut responses: Vec<_> = std::iter::from_fn(|| world.server.poll_transmit()).collect();
    assert_eq!(world.client.handle(world.now, &address(SERVER), &mut responses[0].1), Input::Handled);
    world.exchange();
    for from in [address(66), own] {
        world.from = from;
        assert_eq!(world.send(&question(1, 1_300, 0)), Ok(Input::Dropped(Reason::EchoLimited)));
    }
}

/// The shortest request is as long as the shortest answer, so that a client can test another address.
#[test]
fn the_shortest_request_is_answered_at_any_source() {
    let mut world = World::ready();
    world.from = address(66);
    let request = EchoQuestion { number: 1, answer: 0, answers: 1, wait: Duration::ZERO }.write(0);
    assert_eq!(world.send(&request), Ok(Input::Handled));
    assert_eq!(answers(&mut world).len(), 1);
}

#[test]
fn questions_are_bounded_in_bytes_and_in_what_waits() {
    let mut world = World::ready();
    let ask = |world: &mut World, answer: u16, wait: u64| {
        (0..100_000).take_while(|n| world.send(&question(*n, answer, wait)) == Ok(Input::Handled)).count()
    };
    assert_eq!(ask(&mut world, 9_000, 0), 4_000_000 / 9_060);
    assert_eq!(world.server.drops()[&Reason::EchoLimited], 1);
    answers(&mut world);
    world.wait(Duration::from_secs(1));
    assert_eq!(ask(&mut world, 0, 60_000), 512);
    // An answer without delay does not wait, so it does not need a place.
    assert_eq!(world.send(&question(1, 0, 0)), Ok(Input::Handled));
    assert_eq!(answers(&mut world).len(), 1);
    // One answer waits, so 16 more find a place only 32 times.
    world.wait(Duration::from_secs(60));
    answers(&mut world);
    assert_eq!(world.send(&question(1, 0, 60_000)), Ok(Input::Handled));
    let several = EchoQuestion { number: 2, answer: 0, answers: 16, wait: Duration::from_secs(60) };
    let taken = (0..100).take_while(|_| world.send(&several.write(100)) == Ok(Input::Handled)).count();
    assert_eq!(taken, 32);
}

#[test]
fn a_peer_leaves_places_for_the_answers_to_others() {
    let mut world = World::ready();
    while world.send(&question(1, 0, 60_000)) == Ok(Input::Handled) {}
    world.server.add_peer(10, key(3).public(), PresharedKey::default());
    world.client = channels(3, false);
    world.client.add_peer(7, key(SERVER).public(), PresharedKey::default());
    world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
    world.from = address(3);
    assert_eq!(world.send(b"first"), Err(Unready::NoKey));
    world.exchange();
    assert_eq!(world.send(&question(1, 0, 60_000)), Ok(Input::Handled));
}
