//! Two channels connected by a wire on which the tests can read, delay, replay and modify datagrams.

use dccp_secure::{
    Address, Aead, ChannelId, Channels, EchoAnswer, EchoQuestion, Event, HEADER, HostFacts, Input, OVERHEAD,
    PresharedKey, PrivateKey, Reason, Settings, Unready,
};
use mpdccp_units::{Duration, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;

const CLIENT: u8 = 1;
const SERVER: u8 = 2;

fn key(n: u8) -> PrivateKey {
    PrivateKey::from_random([n; 32])
}

fn address(n: u8) -> Address {
    Address { socket: 0, local: None, remote: SocketAddr::from(([192, 0, 2, n], 6511)) }
}

fn channels(n: u8, accepts: bool) -> Channels {
    seeded(n, accepts, n)
}

fn seeded(n: u8, accepts: bool, seed: u8) -> Channels {
    at(n, accepts, seed, Duration::from_secs(1_700_000_000))
}

/// Channels whose clock shows `unix` at time 0.
fn at(n: u8, accepts: bool, seed: u8, unix: Duration) -> Channels {
    Channels::new(Settings {
        private_key: key(n),
        accepts,
        server: if accepts { 0x01_0203 } else { 0 },
        shard: n,
        aeads: Aead::ALL.to_vec(),
        unix,
        seed: [seed; 32],
    })
}

struct World {
    now: Time,
    client: Channels,
    server: Channels,
    channel: ChannelId,
    /// The client's address as seen by the server.
    from: Address,
    /// All datagrams on the wire.
    heard: Vec<Vec<u8>>,
}

type Packets = Vec<(ChannelId, u32, Vec<u8>)>;

impl World {
    fn new() -> World {
        let (mut client, mut server) = (channels(CLIENT, false), channels(SERVER, true));
        client.add_peer(7, key(SERVER).public(), PresharedKey::default());
        server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
        let now = Time::from_millis(1);
        let channel = client.open(now, 7, address(SERVER)).unwrap();
        World { now, client, server, channel, from: address(CLIENT), heard: Vec::new() }
    }

    /// A world with keys at both ends.
    fn ready() -> World {
        let mut world = World::new();
        assert_eq!(world.send(b"first"), Err(Unready::NoKey));
        assert_eq!(world.exchange(), [(ChannelId(0), 9, b"first".to_vec())]);
        world
    }

    fn wait(&mut self, d: Duration) {
        self.now += d;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }

    /// The client seals a packet; returns the record without sending it.
    fn seal(&mut self, packet: &[u8]) -> Result<Vec<u8>, Unready> {
        seal(&mut self.client, self.now, self.channel, packet)
    }

    /// The client sends a packet, and it arrives.
    fn send(&mut self, packet: &[u8]) -> Result<Input, Unready> {
        let mut record = self.seal(packet)?;
        self.heard.push(record.clone());
        Ok(self.server.handle(self.now, &self.from, &mut record))
    }

    /// Exchanges the channels' own messages until both are quiet; returns the packets that the server
    /// received.
    fn exchange(&mut self) -> Packets {
        let mut got = Vec::new();
        loop {
            let mut quiet = true;
            while let Some((_, mut datagram)) = self.client.poll_transmit() {
                quiet = false;
                self.heard.push(datagram.clone());
                if let Input::Packet { channel, peer, len } =
                    self.server.handle(self.now, &self.from, &mut datagram)
                {
                    got.push((channel, peer, datagram[HEADER..HEADER + len].to_vec()));
                }
            }
            while let Some((_, mut datagram)) = self.server.poll_transmit() {
                quiet = false;
                self.heard.push(datagram.clone());
                self.client.handle(self.now, &address(SERVER), &mut datagram);
            }
            if quiet {
                return got;
            }
        }
    }

    /// The server sends on its channel, and the client receives it.
    fn answer(&mut self, channel: ChannelId, packet: &[u8]) -> Result<Input, Unready> {
        let mut record = seal(&mut self.server, self.now, channel, packet)?;
        Ok(self.client.handle(self.now, &address(SERVER), &mut record))
    }
}

fn seal(channels: &mut Channels, now: Time, channel: ChannelId, packet: &[u8]) -> Result<Vec<u8>, Unready> {
    let mut record = vec![0; packet.len() + OVERHEAD];
    record[HEADER..HEADER + packet.len()].copy_from_slice(packet);
    let len = record.len();
    channels.seal(now, channel, &mut record, len).map(|_| record)
}

fn packet(channel: u32, len: usize) -> Result<Input, Unready> {
    Ok(Input::Packet { channel: ChannelId(channel), peer: 9, len })
}

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
    assert_eq!(told[..5], [0x52, 1, 2, 3, SERVER], "records name the server and the shard");
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
    assert_eq!(world.server.poll_transmit(), None, "nobody was answered");
}

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
        (vec![0x52; 64], Reason::UnknownIndex),
        (vec![1, 0, 0, 0], Reason::NoMessage),
    ];
    for (mut datagram, why) in cases {
        assert_eq!(world.server.handle(world.now, &address(5), &mut datagram), Input::Dropped(why));
        assert_eq!(world.server.drops()[&why], 1);
    }
    assert_eq!(world.server.poll_transmit(), None);
    assert_eq!(world.server.peer_stats(9).unwrap().channels, 1);
}

/// If strangers are admitted, each has its own number while it has a channel, and their number is limited.
#[test]
fn strangers_are_let_in_where_the_owner_wants_it() {
    let mut now = Time::from_millis(1);
    let mut server = channels(SERVER, true);
    server.add_peer(9, key(CLIENT).public(), PresharedKey::default());
    server.admit_strangers(2);
    let visit = |n: u8, now: Time, server: &mut Channels| {
        let mut client = at(n, false, n, Duration::from_secs(1_700_000_000));
        client.add_peer(0, key(SERVER).public(), PresharedKey::default());
        let channel = client.open(now, 0, address(SERVER)).unwrap();
        let _ = seal(&mut client, now, channel, b"hello");
        let from = address(n);
        let input = server.handle(now, &from, &mut client.poll_transmit().unwrap().1);
        if input != Input::Handled {
            return Err(input);
        }
        client.handle(now, &address(SERVER), &mut server.poll_transmit().unwrap().1);
        match server.handle(now, &from, &mut client.poll_transmit().unwrap().1) {
            Input::Packet { peer, .. } => Ok(peer),
            other => Err(other),
        }
    };
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
    // The one that was silent for a minute is dropped; the other stays.
    now += Duration::from_secs(31);
    let third = visit(7, now, &mut server).unwrap();
    assert_eq!((server.peer_key(first), server.peer_key(second)), (None, Some(key(6).public())));
    // In the end all are removed except the configured peer.
    now += Duration::from_secs(3600);
    server.handle_timeout(now);
    assert_eq!((server.peer_key(second), server.peer_key(third)), (None, None));
    assert_eq!(server.peer_key(9), Some(key(CLIENT).public()));
    server.admit_strangers(0);
    assert_eq!(visit(5, now, &mut server), Err(Input::Dropped(Reason::UnknownPeer)));
}

/// A handshake that leads to no channel leaves no state of its sender.
#[test]
fn a_stranger_without_a_channel_is_forgotten() {
    let now = Time::from_millis(1);
    let aead = |aead| Settings {
        private_key: key(5),
        accepts: false,
        server: 0,
        shard: 0,
        aeads: vec![aead],
        unix: Duration::from_secs(1_700_000_000),
        seed: [5; 32],
    };
    let mut server =
        Channels::new(Settings { private_key: key(SERVER), accepts: true, ..aead(Aead::Aes128Gcm) });
    server.admit_strangers(1);
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
    let mut world = World::new();
    let mut other = channels(3, false);
    other.add_peer(0, key(CLIENT).public(), PresharedKey::default());
    let channel = other.open(world.now, 0, address(CLIENT)).unwrap();
    let _ = seal(&mut other, world.now, channel, b"x");
    let mut first = other.poll_transmit().unwrap().1;
    let result = world.client.handle(world.now, &address(3), &mut first);
    assert_eq!((result, world.client.poll_transmit()), (Input::Dropped(Reason::NotAccepting), None));
}

#[test]
fn a_peer_with_another_preshared_key_gets_nowhere() {
    let mut world = World::new();
    world.server.add_peer(9, key(CLIENT).public(), PresharedKey::from_random([8; 32]));
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    assert_eq!(world.exchange(), []);
    assert_eq!(world.client.drops()[&Reason::BadHandshake], 1);
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
}

/// A world whose ends support these ciphers, preferred first.
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

/// An attacker on the path cannot change the chosen cipher: the offer is sealed.
#[test]
fn no_byte_of_an_offer_can_be_changed() {
    let mut world = World::new();
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    let (_, offer) = world.client.poll_transmit().unwrap();
    // Except the last 16 bytes, the cookie code, which a server without load does not check.
    for at in 0..offer.len() - 16 {
        let mut altered = offer.clone();
        altered[at] ^= 1;
        let result = world.server.handle(world.now, &world.from, &mut altered);
        assert!(matches!(result, Input::Dropped(_)), "byte {at}: {result:?}");
        assert_eq!(world.server.poll_transmit(), None, "byte {at}");
    }
    assert_eq!(world.server.handle(world.now, &world.from, &mut offer.clone()), Input::Handled);
}

#[test]
fn old_handshakes_are_not_taken_again() {
    let mut world = World::ready();
    let first = world.heard[0].clone();
    world.server.close(ChannelId(0));
    let result = world.server.handle(world.now, &address(66), &mut first.clone());
    assert_eq!(result, Input::Dropped(Reason::OldHandshake), "even when the channel is forgotten");
    assert_eq!(world.server.poll_transmit(), None);
}

/// A server that lost its state cannot recognise a replayed handshake, but the attacker cannot continue it.
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

/// A client that restarts with its clock set back is refused while its last channel is remembered. It is
/// accepted if it continues from its last timestamp.
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

#[test]
fn a_peer_that_moves_is_followed_at_once() {
    let mut world = World::ready();
    let late = world.seal(b"late").unwrap();
    world.from = address(77);
    assert_eq!(world.send(b"new place"), packet(0, 9));
    assert_eq!(world.server.address(ChannelId(0)), Some(address(77)));
    assert_eq!(world.server.handle(world.now, &address(CLIENT), &mut late.clone()), packet(0, 4).unwrap());
    assert_eq!(world.server.address(ChannelId(0)), Some(address(77)), "a late record does not move it back");
    let _ = world.server.poll_event();
    assert_eq!(world.server.poll_event(), Some(Event::Moved(ChannelId(0))));
    assert_eq!(world.server.stats(ChannelId(0)).unwrap().moves, 1);
}

/// When a NAT forgets a binding, packets come from a new port, and packets to the old port are lost.
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
        // One packet per millisecond in both directions.
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
    // Packets are a millisecond apart in any case.
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

/// A channel that starts over makes a handshake at once; records that the peer still sends under the old keys
/// arrive.
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

/// The server is away for up to half a minute: the next handshake comes soon after.
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

/// Like a client whose session the server closed on exit: it retransmits its requests at growing intervals.
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
    // The last packet of an exchange has no answer, and the next exchange begins long after it.
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
    // At growing intervals: the path may be long, and a retransmission invalidates the answer to the previous
    // message.
    assert!((18..=30).contains(&sent), "{sent}");
    assert_eq!(world.client.poll_timeout(), None, "nothing to do until there is traffic again");
    assert_eq!(world.send(b"y"), Err(Unready::NoKey));
    assert_eq!(world.exchange(), [(ChannelId(0), 9, b"y".to_vec())]);
}

/// A retransmission must not overtake the answer, neither at first nor when keys are renewed.
#[test]
fn a_path_of_two_seconds_gets_keys_and_renews_them() {
    for millis in [300, 450, 1_000] {
        let (mut world, delay) = (World::new(), Duration::from_millis(millis));
        let mut flying: Vec<(Time, bool, Vec<u8>)> = Vec::new();
        let mut late: Vec<Time> = Vec::new();
        let began = world.now;
        for step in 0..8_000 {
            world.wait(Duration::from_millis(50));
            let (now, arrives) = (world.now, world.now + delay);
            if step % 10 == 0 {
                match world.seal(b"data") {
                    Ok(record) => flying.push((arrives, true, record)),
                    Err(_) => late.push(now),
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
        assert!(late.iter().all(|at| at.since(began) < Duration::from_secs(6)), "{millis} ms: {late:?}");
        assert!(world.client.stats(world.channel).unwrap().handshakes >= 3, "{millis} ms");
    }
}

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
    assert!(world.server.drops()[&Reason::UnknownPeer] <= 200, "the costly part is done rarely");
    assert_eq!(world.send(b"let me in"), Err(Unready::NoKey));
    assert_eq!(world.exchange(), [(ChannelId(0), 9, b"let me in".to_vec())]);
    assert_eq!(world.server.drops()[&Reason::NoCookie], answered + 1);
}

/// Handshakes of many peers at one address, each with the cookie that it received; returns the number
/// answered.
fn flood(world: &mut World, first: u32, count: u32) -> u32 {
    let mut answered = 0;
    for n in first..first + count {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&(n % 64).to_be_bytes());
        let mut client = Channels::new(Settings {
            private_key: PrivateKey::from_random(key),
            accepts: false,
            server: 0,
            shard: 0,
            aeads: Aead::ALL.to_vec(),
            unix: Duration::from_secs(1_700_000_000 + u64::from(n)),
            seed: key,
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
    // The threshold without cookies, 200, and the burst of one source, 32.
    assert_eq!(flood(&mut world, 0, 400), 200 + 32);
    assert!(world.server.drops()[&Reason::SourceLimited] > 0);
    // Each second allows 20 more, however many are tried.
    for second in 1..4 {
        world.wait(Duration::from_secs(1));
        assert_eq!(flood(&mut world, 400 * second, 400), 20, "in second {second}");
    }
}

/// A peer with valid keys cannot use up all handshakes.
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
    // At most the threshold at a time.
    assert_eq!(handshakes(&mut world, 150), 127);
    assert!(world.server.drops()[&Reason::PeerLimited] > 0);
    world.wait(Duration::from_secs(1));
    assert_eq!(handshakes(&mut world, 45), 20, "a second gives it 20 more");
}

/// The sender of cookies does not control the rate of initiations.
#[test]
fn cookies_bring_one_initiation_at_once() {
    let mut world = World::new();
    let mut sent = 0;
    assert_eq!(world.send(b"x"), Err(Unready::NoKey));
    for n in 0..100u8 {
        let Some((_, initiation)) = world.client.poll_transmit() else { continue };
        sent += 1;
        // A new server with the same key each time, so that each cookie is new.
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
    assert_eq!(sent, 2, "the first, and one that shows a cookie");
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

#[test]
fn a_second_path_goes_to_the_same_server() {
    let mut world = World::ready();
    world.channel = world.client.open(world.now, 7, address(SERVER)).unwrap();
    let _ = world.send(b"x");
    let (_, first) = world.client.poll_transmit().unwrap();
    assert_eq!(first[..5], [0x52, 1, 2, 3, SERVER]);
}

/// Three shards of a server, and a client that belongs to the last.
fn shards() -> (Vec<Channels>, Channels) {
    let shards = (0..3).map(|n| {
        let mut shard = Channels::new(Settings {
            private_key: key(SERVER),
            accepts: true,
            server: 5,
            shard: n,
            aeads: Aead::ALL.to_vec(),
            unix: Duration::from_secs(1_700_000_000),
            seed: [n; 32],
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
    // Only the shard that decrypted the message knows the peer.
    assert_eq!(shards[0].handle(now, &address(CLIENT), &mut initiation), Input::Handled);
    assert_eq!(shards[0].poll_transmit(), None, "not its to answer");
    let handover = shards[0].poll_handover().unwrap();
    assert_eq!(handover.shard, 2);
    assert_eq!(shards[2].take_over(now, handover), Input::Handled);
    let (to, mut response) = shards[2].poll_transmit().unwrap();
    assert_eq!(to, address(CLIENT));
    client.handle(now, &address(SERVER), &mut response);
    // All later messages name the shard, including the first message of another path.
    let (_, record) = client.poll_transmit().unwrap();
    let second = client.open(now, 7, address(SERVER)).unwrap();
    let _ = seal(&mut client, now, second, b"two");
    let (_, join) = client.poll_transmit().unwrap();
    for datagram in [record, join] {
        for wrong in [0, 1] {
            let mut there = datagram.clone();
            assert_eq!(shards[wrong].handle(now, &address(CLIENT), &mut there), Input::Elsewhere(2));
            assert_eq!(there, datagram, "as it came");
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
            private_key: key(SERVER),
            accepts: true,
            server,
            shard: 0,
            aeads: Aead::ALL.to_vec(),
            unix: Duration::from_secs(1_700_000_000),
            seed: [server as u8; 32],
        });
        channels.add_peer(8, key(CLIENT).public(), PresharedKey::default());
        channels
    });
    let mut client = channels(CLIENT, false);
    client.add_peer(7, key(SERVER).public(), PresharedKey::default());
    // Both paths ask before a server is known, and the balancer chooses different ones.
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
    // The second path asks the first one's server at once.
    let mut again = client.poll_transmit().unwrap().1;
    assert_eq!(again[..4], [0x52, 0, 0, 5]);
    servers[0].handle(now, &address(CLIENT), &mut again);
    let mut answer = servers[0].poll_transmit().unwrap().1;
    assert_eq!(client.handle(now, &address(SERVER), &mut answer), Input::Handled);
    assert_eq!(seal(&mut client, now, paths[1], b"more").unwrap()[..4], [0x52, 0, 0, 5]);
    // A client that leaves its server opens channels anywhere, and those that it had stay, with new keys too.
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
    // Another server that answers in its place later, for instance after it was taken out of the balancer, is accepted.
    client.start_over(7);
    let _ = seal(&mut client, now, paths[0], b"elsewhere");
    let elsewhere = std::iter::from_fn(|| client.poll_transmit()).map(|(_, datagram)| datagram);
    let mut initiation = elsewhere.filter(|datagram| datagram[..4] == [0x52, 0, 0, 0]).last().unwrap();
    servers[1].handle(now, &address(CLIENT), &mut initiation);
    let mut answer = servers[1].poll_transmit().unwrap().1;
    assert_eq!(client.handle(now, &address(SERVER), &mut answer), Input::Handled);
}

#[test]
fn a_shard_that_there_is_not_is_nobodys() {
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

/// The echo answers that the client receives, with their sizes.
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
    // From another port, as from a second socket.
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
    // Some ask for no answer, some for several; all are counted.
    for (n, count) in [(0, 3), (4, 4), (200, 5)] {
        let several = EchoQuestion { number: 8, answer: 200, answers: n, wait: Duration::ZERO };
        assert_eq!(world.send(&several.write(100)), Ok(Input::Handled));
        let got = answers(&mut world);
        assert_eq!(got.len(), usize::from(n.min(16)));
        assert!(got.iter().all(|(len, answer)| (*len, answer.count) == (200, count)));
    }
    // A client does not answer requests.
    assert_eq!(
        world.answer(ChannelId(0), &question(7, 0, 0)),
        packet(0, 100).map(|p| match p {
            Input::Packet { channel, len, .. } => Input::Packet { channel, peer: 7, len },
            other => other,
        })
    );
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
    assert_eq!(ask(&mut world, 0, 60_000), 1_024);
}
