//! A tap between the kernel's TCP and the tunnel. It is a packet socket that records each data segment of one
//! flow. The records show how much of the latency arises in the tunnel and how much inside TCP.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dccp_net::Clock;
use mpdccp_units::Time;
use socket2::{Domain, Protocol, Socket, Type};

use super::flow::{Counters, Receiver};
use super::link::MTU;
use super::namespaces::Namespace;
use super::udp::NAP;
use crate::LabError;
use crate::record::{ReceivedPacket, SentPacket};

/// ETH_P_ALL, because sockets for a single protocol do not receive outgoing packets.
const EVERYTHING: u16 = 3;
const BUFFER: usize = 8 << 20;

/// Identifies a packet: a hash of everything that routers leave unchanged.
type Key = u64;

/// A recorded segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    key: Key,
    at: Time,
    /// Bytes of the segment that count according to the tap's `Count`.
    bytes: u32,
    /// The range of a TCP connection's data that the segment carries.
    piece: Option<Piece>,
}

/// A range of bytes of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Ports of the connection.
    flow: u32,
    /// Hash of the segment's options, whose timestamps distinguish a retransmission from the original.
    options: Key,
    seq: u32,
    len: u32,
    /// Bytes that the tap counts on top of the data.
    headers: u32,
}

/// Length of the longest packet on a link. Devices may pass several segments as one longer packet.
const LONGEST: u32 = MTU as u32;

/// Selects the packets that a tap counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// Counts IP packets with TCP data to one port.
    Packets,
    /// Counts only the TCP payload of packets to one port.
    Payload,
    /// Counts IP packets of any protocol, with or without data.
    Of(Whose),
}

/// Assigns IP packets to the flows of programs that choose protocols and ports themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    /// The port assigned to the flow.
    pub(super) own: u16,
    /// Ports of other flows.
    pub(super) others: Vec<u16>,
    /// Whether only packets with the port `own` belong to the flow. Otherwise, packets without any of the
    /// ports in `others` also belong to the flow.
    pub(super) only_own: bool,
}

impl Whose {
    /// Returns whether a packet with these `ports` (if it has any) belongs to the flow.
    fn is_own(&self, ports: Option<[u16; 2]>) -> bool {
        let has = |port: &u16| ports.is_some_and(|ports| ports.contains(port));
        has(&self.own) || !self.only_own && !self.others.iter().any(has)
    }
}

/// A running tap.
pub(super) type Tap = Receiver<Seen>;

/// Records data segments sent to `to` on any interface of `namespace`, and adds their bytes to `counters`.
pub(super) fn start(
    namespace: &Namespace,
    to: SocketAddr,
    count: Count,
    counters: Option<Arc<Counters>>,
) -> Result<Tap, LabError> {
    let socket =
        namespace.inside(|| socket().map_err(|e| LabError::failed("cannot open a tap's socket", e)))?;
    Receiver::start("tap", move |own| watch(socket, (to, count), &own.stop, counters.as_deref()))
}

fn socket() -> std::io::Result<Socket> {
    // With Type::DGRAM, packets begin with the IP header on every interface.
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
    let mut seen = Vec::new();
    // The buffer can hold whole packets, because the length of a truncated packet would be unknown.
    let mut buf = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        // The only error expected here is the read timeout.
        let Ok(n) = socket.read(&mut buf) else { continue };
        let at = Clock.now();
        let Some((key, bytes, piece)) = packet(&buf[..n], to, &count) else { continue };
        seen.push(Seen { key, at, bytes, piece });
        if let Some(counters) = counters {
            counters.bytes.fetch_add(u64::from(bytes), Ordering::Relaxed);
        }
    }
    seen
}

/// Returns the key, the counted bytes and the data range of an IPv4 packet sent to `to`, or `None` if the
/// packet does not count.
fn packet(packet: &[u8], to: SocketAddr, count: &Count) -> Option<(Key, u32, Option<Piece>)> {
    let word = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let header = usize::from(packet.first()? & 15) * 4;
    let IpAddr::V4(address) = to.ip() else { return None };
    if packet[0] >> 4 != 4 || packet.get(16..20)? != address.octets() {
        return None;
    }
    let total = word(2)?;
    let (tcp, udp) = (*packet.get(9)? == 6, *packet.get(9)? == 17);
    let piece = if tcp { piece(packet, header, u32::from(total), count) } else { None };
    match count {
        Count::Packets | Count::Payload if word(header + 2)? != to.port() => return None,
        Count::Packets | Count::Payload => _ = piece?,
        Count::Of(whose) => {
            // Only the first fragment of a packet contains the ports.
            let first = word(6)? & 0x1fff == 0;
            let ports = || Some([word(header)?, word(header + 2)?]);
            if !whose.is_own(if (tcp || udp) && first { ports() } else { None }) {
                return None;
            }
        }
    }
    let payload = piece.filter(|_| *count == Count::Payload).map(|piece| piece.len);
    Some((key(packet)?, payload.unwrap_or(u32::from(total)), piece))
}

/// Returns the data range of a TCP segment, if it has data. `header` is the length of the IP header.
fn piece(packet: &[u8], header: usize, total: u32, count: &Count) -> Option<Piece> {
    let word = |at: usize| packet.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let data = usize::from(*packet.get(header + 12)? >> 4) * 4 + header;
    let len = total.checked_sub(data as u32).filter(|len| *len > 0)?;
    let mut hasher = DefaultHasher::new();
    packet.get(header + 20..data)?.hash(&mut hasher);
    let headers = if *count == Count::Payload { 0 } else { data as u32 };
    Some(Piece { flow: word(header)?, options: hasher.finish(), seq: word(header + 4)?, len, headers })
}

/// Devices may merge segments, so split the segments from both taps at every boundary seen at either tap.
fn cut(seen: &[Seen], edges: &BTreeSet<(u32, u32)>) -> Vec<Seen> {
    let mut cut = Vec::with_capacity(seen.len());
    for s in seen {
        let Some(whole) = s.piece else {
            cut.push(*s);
            continue;
        };
        // Do not split a segment whose sequence numbers wrap.
        let end = whole.seq.wrapping_add(whole.len);
        let inside = (whole.flow, whole.seq.saturating_add(1).min(end))..(whole.flow, end);
        let mut from = whole.seq;
        for to in edges.range(inside).map(|(_, seq)| *seq).chain([end]) {
            let len = to.wrapping_sub(from);
            let mut hasher = DefaultHasher::new();
            (whole.flow, whole.options, from, len).hash(&mut hasher);
            let piece = Some(Piece { seq: from, len, ..whole });
            cut.push(Seen { key: hasher.finish(), bytes: len + whole.headers, piece, ..*s });
            from = to;
        }
    }
    cut
}

/// Returns the hash of an IPv4 packet, without the fields that routers change: type of service, time to live
/// and checksum.
fn key(packet: &[u8]) -> Option<Key> {
    let mut hasher = DefaultHasher::new();
    packet.get(2..8)?.hash(&mut hasher);
    packet.get(12..)?.hash(&mut hasher);
    Some(hasher.finish())
}

/// Pairs sent and received segments. Segments with equal keys are paired in order.
pub(super) fn pair(client: &[Seen], server: &[Seen]) -> (Vec<SentPacket>, Vec<ReceivedPacket>) {
    let all = || client.iter().chain(server).filter_map(|s| s.piece);
    if !all().any(|piece| piece.len + piece.headers > LONGEST) {
        return pair_equal(client, server);
    }
    let edges = all().flat_map(|p| [p.seq, p.seq.wrapping_add(p.len)].map(|seq| (p.flow, seq))).collect();
    pair_equal(&cut(client, &edges), &cut(server, &edges))
}

fn pair_equal(client: &[Seen], server: &[Seen]) -> (Vec<SentPacket>, Vec<ReceivedPacket>) {
    let sent = client.iter().map(|s| SentPacket { at: s.at, bytes: s.bytes }).collect();
    let mut numbers: HashMap<Key, VecDeque<u64>> = HashMap::new();
    for (i, s) in client.iter().enumerate() {
        numbers.entry(s.key).or_default().push_back(i as u64);
    }
    let mut received = |s: &Seen| {
        let numbers = numbers.get_mut(&s.key)?;
        // Give any additional copies the number of the last transmission.
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
            let (key, bytes, piece) = super::packet(p, to, &Count::Packets).unwrap();
            Seen { key, at: Time::from_millis(ms), bytes, piece }
        };
        let seen =
            |p: &[u8], to: &str, count| super::packet(p, to.parse().unwrap(), &count).map(|(_, n, _)| n);
        let here = "10.0.0.2:5001";
        assert_eq!(seen(&packet(1, 2, 0), here, Count::Packets), None, "an acknowledgement");
        assert_eq!(seen(&packet(1, 2, 9), "10.0.0.2:80", Count::Packets), None);
        assert_eq!(seen(&packet(1, 2, 9)[..30], here, Count::Packets), None, "cut short");
        assert_eq!(seen(&packet(1, 2, 9), here, Count::Payload), Some(9));
        assert_eq!(seen(&packet(1, 2, 0), "10.0.0.2:0", any()), Some(40));
        assert_eq!(seen(&packet(1, 2, 0), "10.0.0.3:0", any()), None);
        // The second segment is retransmitted with a different IP identification, and its first copy arrives
        // late.
        let client = [see(&packet(1, 100, 10), 0), see(&packet(2, 110, 10), 1), see(&packet(3, 110, 10), 5)];
        let server = [client[0], client[2], client[1]];
        let (sent, received) = pair(&client, &server);
        assert_eq!((sent.len(), sent[0].bytes), (3, 50));
        assert_eq!(received.iter().map(|r| r.seq).collect::<Vec<_>>(), [0, 2, 1]);
    }

    fn any() -> Count {
        Count::Of(Whose { own: 7, others: Vec::new(), only_own: false })
    }

    #[test]
    fn programs_are_counted_by_their_own_packets() {
        let own = Whose { own: 5001, others: vec![5000, 5002], only_own: false };
        // Packets in both directions, and packets without ports, belong to the flow; packets with another
        // flow's port do not.
        let of = |whose: &Whose| {
            [
                Some([40_000, 5001]),
                Some([5001, 40_000]),
                Some([40_000, 5002]),
                Some([5000, 9]),
                Some([1, 2]),
                None,
            ]
            .map(|ports| whose.is_own(ports))
        };
        assert_eq!(of(&own), [true, true, false, false, true, true]);
        assert_eq!(of(&Whose { only_own: true, ..own }), [true, true, false, false, false, false]);
        let udp = |port: u16, offset: u16| {
            let mut p = packet(1, 0, 9);
            (p[6..8]).copy_from_slice(&offset.to_be_bytes());
            p[9] = 17;
            p[22..24].copy_from_slice(&port.to_be_bytes());
            p
        };
        let count = Count::Of(Whose { own: 5001, others: vec![5002], only_own: false });
        let counted = |p: &[u8]| super::packet(p, "10.0.0.2:0".parse().unwrap(), &count).is_some();
        assert!(counted(&udp(5001, 0)) && !counted(&udp(5002, 0)) && counted(&udp(5002, 100)));
    }

    #[test]
    fn equal_packets_are_paired_in_order_and_routers_change_nothing() {
        let seen = |ms| {
            let mut p = packet(0, 7, 20);
            p[8] = 64 - ms as u8;
            let (key, bytes, piece) = super::packet(&p, "10.0.0.2:0".parse().unwrap(), &any()).unwrap();
            Seen { key, at: Time::from_millis(ms), bytes, piece }
        };
        let (_, received) = pair(&[seen(0), seen(1)], &[seen(10), seen(11), seen(12)]);
        assert_eq!(received.iter().map(|r| r.seq).collect::<Vec<_>>(), [0, 1, 1]);
    }

    #[test]
    fn segments_that_a_device_puts_together_come_apart() {
        let see = |seq, data, ms| {
            let p = packet(ms as u16, seq, data);
            let (key, bytes, piece) = super::packet(&p, "10.0.0.2:0".parse().unwrap(), &any()).unwrap();
            Seen { key, at: Time::from_millis(ms), bytes, piece }
        };
        // The client sends three segments as one packet. The second segment is lost, and the third arrives
        // merged with the next one.
        let client = [see(100, 4_200, 0), see(4_300, 1_400, 1)];
        let server = [see(100, 1_400, 10), see(2_900, 2_800, 11)];
        let (sent, received) = pair(&client, &server);
        assert_eq!(sent.iter().map(|s| s.bytes).collect::<Vec<_>>(), [1_440; 4]);
        let came: Vec<_> = received.iter().map(|r| (r.seq, r.bytes, r.at)).collect();
        let ms = Time::from_millis;
        assert_eq!(came, [(0, 1_440, ms(10)), (2, 1_440, ms(11)), (3, 1_440, ms(11))]);
    }

    #[test]
    fn sequence_numbers_may_wrap() {
        let see = |seq, ms| {
            let p = packet(ms as u16, seq, 2_800);
            let (key, bytes, piece) = super::packet(&p, "10.0.0.2:0".parse().unwrap(), &any()).unwrap();
            Seen { key, at: Time::from_millis(ms), bytes, piece }
        };
        for start in [u32::MAX - 2_798, u32::MAX - 2_799, u32::MAX - 10, u32::MAX] {
            let (sent, received) = pair(&[see(start, 0)], &[see(start, 10)]);
            assert_eq!((sent.len(), received.len()), (1, 1), "{start}");
        }
    }
}
