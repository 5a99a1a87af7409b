use super::*;
use crate::poller::{Poller, Source};
use crate::secure::{Address, ChannelId, Channels, HEADER, OVERHEAD, PresharedKey, PrivateKey, Settings};
use crate::worker::Alarm;
use crate::{Bind, Clock, Encapsulation, Mark, UdpEncapsulation};
use dccp_proto::Ecn;
use mpdccp_units::Duration;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};

/// Notes the first byte of each datagram that arrives.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<u8>>>);

impl Marking for Notes {
    fn outer(&self, _: Option<&[u8]>, ecn: Ecn) -> Mark {
        Mark { dscp: 0, ecn }
    }

    fn arrived(&self, data: &mut [u8], _: Ecn) -> usize {
        self.0.lock().unwrap().push(data[0]);
        data.len()
    }
}

/// A net that receives from a peer.
struct World {
    net: Net,
    poller: Poller,
    socket: u32,
    endpoint: Endpoint,
    notes: Notes,
    peer: Channels,
    channel: ChannelId,
    wire: socket2::Socket,
    to: SocketAddr,
    now: Time,
}

fn channels(n: u8) -> Channels {
    let settings = Settings {
        private_key: PrivateKey::from_random([n; 32]),
        accepts: n == 2,
        server: 0,
        shard: 0,
        aeads: secure::Aead::preferred(),
        unix: Duration::from_secs(1_700_000_000),
        seed: [n; 32],
    };
    let mut channels = Channels::new(settings);
    channels.add_peer(0, PrivateKey::from_random([3 - n; 32]).public(), PresharedKey::default());
    channels
}

impl World {
    fn new() -> World {
        let (now, poller) = (Clock.now(), Poller::new().unwrap());
        let (mut net, notes) = (Net::new(), Notes::default());
        net.alarm = Some(Alarm::new(poller.wake()));
        net.marking = Some(Box::new(notes.clone()));
        let udp = UdpEncapsulation::new(Bind { addr: ([127, 0, 0, 1], 0).into(), interface: None }).unwrap();
        let to = udp.local_addr().unwrap();
        let socket = net.add(&poller, Box::new(udp)).unwrap();
        net.secure(channels(2));
        let (wire, mut peer) = (UdpSocket::bind("127.0.0.1:0").unwrap(), channels(1));
        let here = Address { socket, local: None, remote: wire.local_addr().unwrap() };
        let there = Address { socket: 0, local: None, remote: to };
        let channel = peer.open(now, 0, there).unwrap();
        let mut first = [0; OVERHEAD];
        peer.seal(now, channel, &mut first, OVERHEAD).unwrap_err();
        let ours = net.channels_mut().unwrap();
        while let Some((_, mut message)) = peer.poll_transmit() {
            ours.handle(now, &here, &mut message);
            while let Some((_, mut answer)) = ours.poll_transmit() {
                peer.handle(now, &there, &mut answer);
            }
        }
        let wire = socket2::Socket::from(wire);
        // ECT(0), because the marking handles only ECN-capable packets.
        wire.set_tos_v4(2).unwrap();
        World { net, poller, socket, endpoint: Endpoint::new([1; 32]), notes, peer, channel, wire, to, now }
    }

    /// The peer sends DCCP-Data packets of 1,400 bytes with these numbers, and the net receives once.
    fn exchange(&mut self, numbers: std::ops::Range<u8>) {
        for number in numbers {
            let mut record = [number; 1400];
            record[HEADER + 4] = 4;
            record[HEADER + 8] = 2 << 1 | 1;
            self.peer.seal(self.now, self.channel, &mut record, 1400).unwrap();
            self.wire.send_to(&record, &self.to.into()).unwrap();
        }
        self.net.receive(self.socket, &mut self.now, &mut self.endpoint);
    }

    fn arrived(&self) -> Vec<u8> {
        self.notes.0.lock().unwrap().clone()
    }

    fn is_idle(&self) -> bool {
        self.net.opening.as_ref().is_none_or(|opening| opening.is_idle())
    }
}

#[test]
fn small_receipts_never_overtake_a_backlog() {
    let mut world = World::new();
    world.exchange(0..1);
    assert!(world.is_idle() && world.arrived() == [0]);
    world.exchange(1..33);
    world.exchange(33..34);
    assert!(!world.is_idle() && world.arrived() == [0]);
    while !world.is_idle() {
        let (mut ready, deadline) = (Vec::new(), Clock.now() + Duration::from_secs(10));
        world.poller.wait(Clock.now(), Some(deadline), &mut ready).unwrap();
        assert_eq!(ready, [Source::Wake], "the thread wakes the loop");
        world.net.take_opened(&mut world.now, &mut world.endpoint);
    }
    world.exchange(34..35);
    assert_eq!(world.arrived(), (0..35).collect::<Vec<_>>());
    assert!(world.is_idle());
}

#[test]
fn with_a_capture_or_without_threads_the_loop_opens() {
    let mut world = World::new();
    let file = tempfile();
    world.net.capture = Some(Capture::create(&file).unwrap());
    world.exchange(0..32);
    std::fs::remove_file(file).unwrap();
    assert_eq!(world.arrived().len(), 32);
    let mut world = World::new();
    world.net.alarm = None;
    world.exchange(0..32);
    assert_eq!(world.arrived().len(), 32);
}

fn tempfile() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("mpdccp-receive-{}.pcap", std::process::id()))
}

#[test]
fn buffers_are_reused() {
    let mut world = World::new();
    for _ in 0..20 {
        world.exchange(0..32);
        while !world.is_idle() {
            world.net.take_opened(&mut world.now, &mut world.endpoint);
        }
    }
    assert_eq!(world.arrived().len(), 20 * 32);
    assert_eq!(world.net.spare.len(), 1);
}
