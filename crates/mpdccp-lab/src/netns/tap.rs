//! A tap between the kernel's TCP and the tunnel: a packet socket that notes each data segment of one flow, so that the latency of
//! the tunnel can be told from that of TCP.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use dccp_net::Clock;
use socket2::{Domain, Protocol, Socket, Type};
use units::Time;

use super::flow::Counters;
use super::udp::NAP;
use super::world::Namespace;
use crate::LabError;
use crate::record::{ReceivedPacket, SentPacket};
use linkem_net::{Urgency, hurry};

/// ETH_P_ALL: what leaves is shown to no socket that asks for one protocol.
const EVERYTHING: u16 = 3;
const BUFFER: usize = 8 << 20;

/// What tells a packet from most others: all of it but what routers change.
type Key = u64;

/// A segment that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    key: Key,
    at: Time,
    /// As the tap counts.
    bytes: u32,
}

/// What a tap counts as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// IP packets.
    Packets,
    /// What TCP carries.
    Payload,
    /// IP packets of any protocol, data or not.
    All,
}

/// A running tap.
pub(super) struct Tap {
    stop: Arc<AtomicBool>,
    /// None once it was joined.
    thread: Option<JoinHandle<Vec<Seen>>>,
}

impl Tap {
    /// Notes segments with data to `to` that pass any interface of `namespace`, and counts their bytes in `counters`.
    pub(super) fn start(
        namespace: &Namespace,
        to: SocketAddr,
        count: Count,
        counters: Option<Arc<Counters>>,
    ) -> Result<Tap, LabError> {
        let socket = namespace.inside(|| socket().map_err(|e| LabError::failed("a tap's socket", e)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let shared = stop.clone();
        let thread = std::thread::Builder::new()
            .name("tap".to_owned())
            .spawn(move || watch(socket, (to, count), &shared, counters.as_deref()))
            .map_err(|e| LabError::failed("starting a tap", e))?;
        Ok(Tap { stop, thread: Some(thread) })
    }

    /// Stops it and takes what it saw.
    pub(super) fn finish(mut self) -> Result<Vec<Seen>, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(seen)) => Ok(seen),
            _ => Err(LabError::Failed("a tap panicked".to_owned())),
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn socket() -> std::io::Result<Socket> {
    // Type::DGRAM: packets begin with the IP header whatever the interface.
    let socket =
        Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(i32::from(EVERYTHING.to_be()))))?;
    socket.set_recv_buffer_size(BUFFER)?;
    socket.set_read_timeout(Some(NAP))?;
    Ok(socket)
}

fn watch(
    mut socket: Socket,
    (to, count): (SocketAddr, Count),
    stop: &AtomicBool,
    counters: Option<&Counters>,
) -> Vec<Seen> {
    hurry(Urgency::Traffic);
    let mut seen = Vec::new();
    // Headers are enough, but the length of what was cut off is not told.
    let mut buf = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        // An error is the timeout.
        let Ok(n) = socket.read(&mut buf) else { continue };
        let at = Clock.now();
        let Some((key, bytes)) = packet(&buf[..n], to, count) else { continue };
        seen.push(Seen { key, at, bytes });
        if let Some(counters) = counters {
            counters.bytes.fetch_add(u64::from(bytes), Ordering::Relaxed);
        }
    }
    seen
}

/// Key and length of an IPv4 packet to `to`; of TCP data only, unless all packets to that host count.
fn packet(packet: &[u8], to: SocketAddr, count: Count) -> Option<(Key, u32)> {
    let word = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let header = usize::from(packet.first()? & 15) * 4;
    let IpAddr::V4(address) = to.ip() else { return None };
    if packet[0] >> 4 != 4 || packet.get(16..20)? != address.octets() {
        return None;
    }
    let total = word(2)?;
    if count == Count::All {
        return Some((key(packet)?, u32::from(total)));
    }
    if *packet.get(9)? != 6 || word(header + 2)? != to.port() {
        return None;
    }
    let data = usize::from(*packet.get(header + 12)? >> 4) * 4 + header;
    let len = usize::from(total).checked_sub(data).filter(|len| *len > 0)?;
    let bytes = if count == Count::Payload { len as u32 } else { u32::from(total) };
    Some((key(packet)?, bytes))
}

/// Of an IPv4 packet, without its type of service, time to live and checksum.
fn key(packet: &[u8]) -> Option<Key> {
    let mut hasher = DefaultHasher::new();
    packet.get(2..8)?.hash(&mut hasher);
    packet.get(12..)?.hash(&mut hasher);
    Some(hasher.finish())
}

/// Puts what left and what arrived together; of equal packets the first with the first.
pub(super) fn pair(client: &[Seen], server: &[Seen]) -> (Vec<SentPacket>, Vec<ReceivedPacket>) {
    let sent = client.iter().map(|s| SentPacket { at: s.at, bytes: s.bytes }).collect();
    let mut numbers: HashMap<Key, VecDeque<u64>> = HashMap::new();
    for (i, s) in client.iter().enumerate() {
        numbers.entry(s.key).or_default().push_back(i as u64);
    }
    let mut received = |s: &Seen| {
        let numbers = numbers.get_mut(&s.key)?;
        // One that comes twice has the number of the last.
        let seq = if numbers.len() > 1 { numbers.pop_front() } else { numbers.front().copied() };
        Some(ReceivedPacket { seq: seq?, at: s.at, bytes: s.bytes })
    };
    (sent, server.iter().filter_map(&mut received).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(id: u16, seq: u32, data: usize) -> Vec<u8> {
        let mut p = vec![0; 40 + data];
        p[0] = 0x45;
        p[2..4].copy_from_slice(&((40 + data) as u16).to_be_bytes());
        p[4..6].copy_from_slice(&id.to_be_bytes());
        p[9] = 6;
        p[16..20].copy_from_slice(&[10, 0, 0, 2]);
        p[22..24].copy_from_slice(&5001u16.to_be_bytes());
        p[24..28].copy_from_slice(&seq.to_be_bytes());
        p[32] = 5 << 4;
        p
    }

    #[test]
    fn data_segments_are_told_apart_and_paired() {
        let to = "10.0.0.2:5001".parse().unwrap();
        let see = |p: &[u8], ms| {
            let (key, bytes) = super::packet(p, to, Count::Packets).unwrap();
            Seen { key, at: Time::from_millis(ms), bytes }
        };
        let seen = |p: &[u8], to: &str, count| super::packet(p, to.parse().unwrap(), count).map(|(_, n)| n);
        let here = "10.0.0.2:5001";
        assert_eq!(seen(&packet(1, 2, 0), here, Count::Packets), None, "an acknowledgement");
        assert_eq!(seen(&packet(1, 2, 9), "10.0.0.2:80", Count::Packets), None);
        assert_eq!(seen(&packet(1, 2, 9)[..30], here, Count::Packets), None, "cut short");
        assert_eq!(seen(&packet(1, 2, 9), here, Count::Payload), Some(9));
        assert_eq!(seen(&packet(1, 2, 0), "10.0.0.2:0", Count::All), Some(40));
        assert_eq!(seen(&packet(1, 2, 0), "10.0.0.3:0", Count::All), None);
        // The second is sent again under another identification; the first copy comes late.
        let client = [see(&packet(1, 100, 10), 0), see(&packet(2, 110, 10), 1), see(&packet(3, 110, 10), 5)];
        let server = [client[0], client[2], client[1]];
        let (sent, received) = pair(&client, &server);
        assert_eq!((sent.len(), sent[0].bytes), (3, 50));
        assert_eq!(received.iter().map(|r| r.seq).collect::<Vec<_>>(), [0, 2, 1]);
    }

    #[test]
    fn equal_packets_are_paired_in_order_and_routers_change_nothing() {
        let seen = |ms| {
            let mut p = packet(0, 7, 20);
            p[8] = 64 - ms as u8;
            let (key, bytes) = super::packet(&p, "10.0.0.2:0".parse().unwrap(), Count::All).unwrap();
            Seen { key, at: Time::from_millis(ms), bytes }
        };
        let (_, received) = pair(&[seen(0), seen(1)], &[seen(10), seen(11), seen(12)]);
        assert_eq!(received.iter().map(|r| r.seq).collect::<Vec<_>>(), [0, 1, 1]);
    }
}
