//! Encrypted channels over the sockets. To the endpoint, each channel looks like a separate socket, whose
//! number and address stay the same when the peer moves.

use crate::refusals::Refusals;
use crate::secure::{Address, ChannelId, Channels, EchoQuestion, Event, HEADER, Handover, Input, OVERHEAD};
use dccp_proto::Route;
use mpdccp_units::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// The first of the socket numbers that identify channels.
pub(crate) const FIRST: u32 = 1 << 31;

/// Returns whether a socket number identifies a channel.
pub fn is_channel(socket: u32) -> bool {
    socket >= FIRST
}

/// The channels of a driver, and the routes under which the endpoint knows them.
pub struct ChannelRoutes {
    /// The channels.
    pub channels: Channels,
    /// The first destination of each channel. The channel's route keeps it even if the peer moves.
    routes: BTreeMap<ChannelId, SocketAddr>,
    /// The channels that this end opened, keyed by underlying socket and first destination.
    begun: BTreeSet<(u32, SocketAddr, ChannelId)>,
    refusals: Refusals,
}

/// Result of a received datagram.
pub enum Arrived {
    /// A packet from a peer.
    Packet(Opened),
    /// A datagram for the shard with this number.
    Elsewhere(u8),
    /// Nothing to do: the datagram was handled or dropped.
    Nothing,
}

/// An event of a channel. The socket number identifies the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelEvent {
    /// Both ends have their keys.
    Ready(u32),
    /// The other end has moved to a new address.
    Moved(u32, SocketAddr),
}

/// A decrypted packet that arrived through a channel.
pub struct Opened {
    /// The route of the channel, which never changes.
    pub route: Route,
    /// Number of the peer.
    pub peer: u32,
    /// Position of the packet in the datagram.
    pub packet: std::ops::Range<usize>,
}

pub(crate) fn address(route: &Route) -> Address {
    Address { socket: route.socket, local: route.local, remote: route.remote }
}

fn id(socket: u32) -> Option<ChannelId> {
    socket.checked_sub(FIRST).map(ChannelId)
}

impl ChannelRoutes {
    /// Wraps `channels`, which may already contain channels. More can be added later.
    pub fn new(channels: Channels) -> ChannelRoutes {
        let (routes, begun) = (BTreeMap::new(), BTreeSet::new());
        ChannelRoutes { channels, routes, begun, refusals: Refusals::default() }
    }

    /// Opens a channel to a peer. Returns the socket number that identifies it.
    pub fn open(&mut self, now: Time, peer: u32, to: &Route) -> Option<u32> {
        let channel = self.channels.open(now, peer, address(to))?;
        self.routes.insert(channel, to.remote);
        self.begun.insert((to.socket, to.remote, channel));
        channel.0.checked_add(FIRST)
    }

    /// Ends a channel.
    pub fn close(&mut self, socket: u32) {
        if let Some(channel) = id(socket) {
            self.channels.close(channel);
            self.routes.remove(&channel);
            self.begun.retain(|(_, _, begun)| *begun != channel);
        }
    }

    /// Returns the socket over which this end opened a channel, even if the channel has ended since.
    pub(crate) fn under(&self, socket: u32) -> Option<u32> {
        let channel = id(socket)?;
        self.begun.iter().find(|(.., begun)| *begun == channel).map(|(under, ..)| *under)
    }

    /// Returns the socket numbers of the channels that this end opened to a destination.
    pub fn toward(&self, socket: u32, remote: SocketAddr) -> impl Iterator<Item = u32> {
        let all = (socket, remote, ChannelId(0))..=(socket, remote, ChannelId(u32::MAX));
        self.begun.range(all).filter_map(|(_, _, channel)| channel.0.checked_add(FIRST))
    }

    /// Returns the underlying sockets of the channels that this end opened.
    pub(crate) fn sockets(&self) -> Vec<u32> {
        let mut sockets: Vec<u32> = self.begun.iter().map(|(socket, ..)| *socket).collect();
        sockets.dedup();
        sockets
    }

    /// Returns, for each channel that this end opened over a socket, a sealed echo request and its
    /// destination.
    pub(crate) fn questions(&mut self, now: Time, socket: u32) -> Vec<(Address, Vec<u8>)> {
        let question = EchoQuestion { number: 0, answer: 0, answers: 1, wait: Duration::ZERO };
        let packet = question.write(0);
        let len = packet.len() + OVERHEAD;
        let channels = self.begun.iter().filter(|(on, ..)| *on == socket);
        let sealed = channels.filter_map(|(_, _, channel)| {
            let mut record = vec![0; len];
            record[HEADER..HEADER + packet.len()].copy_from_slice(&packet);
            Some((self.channels.seal(now, *channel, &mut record, len).ok()?, record))
        });
        sealed.collect()
    }

    /// Returns the peer at the other end of a channel.
    pub fn peer(&self, socket: u32) -> Option<u32> {
        self.channels.peer(id(socket)?)
    }

    /// Returns the current address of a channel's peer.
    pub fn resolve(&self, socket: u32) -> Option<Address> {
        self.channels.address(id(socket)?)
    }

    /// Seals the records of a run and returns their destination, or `None` if the channel has no key yet.
    pub fn seal(
        &mut self,
        now: Time,
        socket: u32,
        (records, segment): (&mut [u8], usize),
    ) -> Option<Address> {
        self.channels.seal(now, id(socket)?, records, segment).ok()
    }

    /// Decrypts a datagram in place.
    pub fn handle(&mut self, now: Time, from: &Route, datagram: &mut [u8]) -> Arrived {
        let input = self.channels.handle(now, &address(from), datagram);
        self.arrived(now, from, input)
    }

    fn arrived(&mut self, now: Time, from: &Route, input: Input) -> Arrived {
        let (channel, peer, len) = match input {
            Input::Packet { channel, peer, len } => (channel, peer, len),
            Input::Handled => return Arrived::Nothing,
            Input::Elsewhere(shard) => return Arrived::Elsewhere(shard),
            Input::Dropped(reason) => {
                self.refusals.tell(now, from.remote, reason, self.channels.stranger());
                return Arrived::Nothing;
            }
        };
        let remote = *self.routes.entry(channel).or_insert(from.remote);
        let Some(socket) = channel.0.checked_add(FIRST) else { return Arrived::Nothing };
        let route = Route { socket, local: None, remote };
        Arrived::Packet(Opened { route, peer, packet: HEADER..HEADER + len })
    }

    /// Continues a handshake that arrived at another shard.
    pub(crate) fn take_over(&mut self, now: Time, handshake: Handover) {
        let remote = handshake.from().remote;
        if let Input::Dropped(reason) = self.channels.take_over(now, handshake) {
            self.refusals.tell(now, remote, reason, self.channels.stranger());
        }
    }

    /// Removes the routes of closed channels, and returns all other events. A channel that has moved several
    /// times has one event. Otherwise, a peer with two addresses could cause an event with each packet.
    pub fn events(&mut self) -> Vec<ChannelEvent> {
        let (mut events, mut moved) = (Vec::new(), BTreeSet::new());
        while let Some(event) = self.channels.poll_event() {
            match event {
                Event::Moved(channel) => {
                    let to = self.channels.address(channel).filter(|_| moved.insert(channel));
                    let to = to.map(|to| to.remote);
                    events.extend(to.map(|to| ChannelEvent::Moved(channel.0 + FIRST, to)));
                }
                Event::Gone(channel) => {
                    self.routes.remove(&channel);
                }
                Event::Ready(channel) => events.push(ChannelEvent::Ready(channel.0 + FIRST)),
            }
        }
        events
    }
}

#[cfg(all(test, feature = "encryption"))]
mod tests {
    use super::*;
    use crate::secure::{PresharedKey, PrivateKey, Settings};
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Collects log lines.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<String>>);

    impl Visit for Log {
        fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
            *self.0.lock().unwrap() += &format!("{value:?}\n");
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn channels(n: u8, shard: u8) -> Channels {
        let private_key = PrivateKey::from_random([n; 32]);
        Channels::new(Settings {
            shard,
            ..Settings::new(private_key, n == 2, Duration::from_secs(1_700_000_000), [n; 32])
        })
    }

    /// Returns a client with a channel to a server, whose peer 1 it is, and the client's route.
    fn connected(now: Time) -> (Channels, ChannelId, ChannelRoutes, Route) {
        let [own, other] = [1, 2].map(|n| PrivateKey::from_random([n; 32]).public());
        let from = Route { socket: 0, local: None, remote: ([192, 0, 2, 1], 6511).into() };
        let (mut client, mut server) = (channels(1, 0), ChannelRoutes::new(channels(2, 0)));
        client.add_peer(0, other, PresharedKey::default());
        server.channels.add_peer(1, own, PresharedKey::default());
        let channel = client.open(now, 0, address(&from)).unwrap();
        // The packet waits for the handshake.
        client.seal(now, channel, &mut [7; OVERHEAD + 4], OVERHEAD + 4).unwrap_err();
        for _ in 0..3 {
            while let Some((_, mut datagram)) = client.poll_transmit() {
                server.handle(now, &from, &mut datagram);
            }
            while let Some((_, mut datagram)) = server.channels.poll_transmit() {
                client.handle(now, &address(&from), &mut datagram);
            }
        }
        (client, channel, server, from)
    }

    #[test]
    fn the_routes_of_a_removed_peer_are_forgotten() {
        let (.., mut server, _) = connected(Time::from_millis(1));
        assert_eq!(server.routes.len(), 1);
        server.channels.remove_peer(1);
        server.events();
        assert!(server.routes.is_empty());
    }

    #[test]
    fn a_channel_that_keeps_moving_causes_one_event() {
        let now = Time::from_millis(1);
        let (mut client, channel, mut server, from) = connected(now);
        server.events();
        for n in 0..10 {
            let mut record = [7; OVERHEAD + 4];
            client.seal(now, channel, &mut record, OVERHEAD + 4).unwrap();
            let from = Route { remote: ([192, 0, 2, 1], 7_000 + n % 2).into(), ..from };
            server.handle(now, &from, &mut record);
        }
        let moved = ChannelEvent::Moved(FIRST, ([192, 0, 2, 1], 7_001).into());
        assert_eq!(server.events(), [moved]);
    }

    #[test]
    fn a_handshake_that_another_shard_refuses_is_logged() {
        let (now, log) = (Time::from_millis(1), Log::default());
        let [own, other] = [1, 2].map(|n| PrivateKey::from_random([n; 32]).public());
        let mut client = channels(1, 0);
        client.add_peer(0, other, PresharedKey::default());
        let mut shards = [0, 1].map(|shard| {
            let mut channels = channels(2, shard);
            channels.share(2);
            // The peer's number makes it belong to shard 1.
            channels.add_peer(1, own, PresharedKey::default());
            ChannelRoutes::new(channels)
        });
        let from = Route { socket: 0, local: None, remote: ([192, 0, 2, 1], 6511).into() };
        client.open(now, 0, address(&from)).unwrap();
        let first = client.poll_transmit().unwrap().1;
        tracing::subscriber::with_default(log.clone(), || {
            for replayed in [false, true] {
                shards[0].handle(now, &from, &mut first.clone());
                let handshake = shards[0].channels.poll_handover().unwrap();
                shards[1].take_over(now, handshake);
                assert_eq!(log.0.lock().unwrap().contains("its handshake is old"), replayed);
                // The closed channel leaves the time of its handshake behind.
                shards[1].channels.close(ChannelId(0));
            }
        });
    }
}
