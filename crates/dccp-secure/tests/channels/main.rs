//! Channels at two ends connected by a wire. The tests can read, delay, replay and modify datagrams on the
//! wire.

mod floods;
mod handshakes;
mod lifetime;
mod questions;
mod records;
mod servers;
mod strangers;

use dccp_secure::{
    Address, Aead, ChannelId, Channels, HEADER, Input, OVERHEAD, PresharedKey, PrivateKey, Settings, Unready,
};
use mpdccp_units::{Duration, Time};
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

/// Creates channels whose clock shows `unix` at time 0.
fn at(n: u8, accepts: bool, seed: u8, unix: Duration) -> Channels {
    Channels::new(Settings {
        server: if accepts { 0x01_0203 } else { 0 },
        shard: n,
        aeads: Aead::ALL.to_vec(),
        ..Settings::new(key(n), accepts, unix, [seed; 32])
    })
}

struct World {
    now: Time,
    client: Channels,
    server: Channels,
    channel: ChannelId,
    /// The client's address as seen by the server.
    from: Address,
    /// All datagrams that were on the wire.
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

    /// Creates a world in which both ends have keys.
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

    /// Lets the client seal a packet. Returns the record without sending it.
    fn seal(&mut self, packet: &[u8]) -> Result<Vec<u8>, Unready> {
        seal(&mut self.client, self.now, self.channel, packet)
    }

    /// Lets the client send a packet, which the server receives.
    fn send(&mut self, packet: &[u8]) -> Result<Input, Unready> {
        let mut record = self.seal(packet)?;
        self.heard.push(record.clone());
        Ok(self.server.handle(self.now, &self.from, &mut record))
    }

    /// Exchanges the channels' messages until neither end sends any more. Returns the packets received by the
    /// server.
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

    /// Makes the server send a packet on its channel, which the client receives.
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
