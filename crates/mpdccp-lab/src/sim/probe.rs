//! The simulator's application packets, which contain their flow and sequence number.

use super::tcp::segment::{self, DONT_FRAGMENT, Segment};
use crate::tunnel_files::{CLIENT, SERVER};

const MAGIC: [u8; 4] = *b"mpsi";
/// Size in bytes of the magic number, the flow and the sequence number.
const MIN_PAYLOAD: usize = 14;
/// Size in bytes of the IPv4 and UDP headers.
pub(super) const INNER_HEADERS: usize = 28;

/// Returns a datagram of `payload` bytes, inside an IPv4 UDP packet if `ip` is set.
pub(super) fn write(flow: u16, seq: u64, payload: usize, ip: bool) -> Vec<u8> {
    let headers = if ip { INNER_HEADERS } else { 0 };
    let mut packet = vec![0; headers + payload.max(MIN_PAYLOAD)];
    if ip {
        let total = packet.len() as u16;
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[6] = DONT_FRAGMENT;
        packet[8..10].copy_from_slice(&[64, 17]);
        packet[12..16].copy_from_slice(&CLIENT.octets());
        packet[16..20].copy_from_slice(&SERVER.octets());
        packet[20..22].copy_from_slice(&(10_000 + flow).to_be_bytes());
        packet[22..24].copy_from_slice(&9u16.to_be_bytes());
        packet[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    }
    packet[headers..headers + 4].copy_from_slice(&MAGIC);
    packet[headers + 4..headers + 6].copy_from_slice(&flow.to_be_bytes());
    packet[headers + 6..headers + 14].copy_from_slice(&seq.to_be_bytes());
    packet
}

/// Returns the flow and number of one of the simulator's IP packets, which is a datagram or a TCP segment
/// with data. A segment's number counts transmissions, so a retransmission has a new number.
pub(super) fn read_ip(packet: &[u8]) -> Option<(u16, u64)> {
    match segment::read(packet) {
        Some(Segment::Data(data)) => Some((data.flow, data.no)),
        Some(Segment::Ack(_) | Segment::Open(..)) => None,
        None => tag(packet.get(INNER_HEADERS..)?),
    }
}

/// Returns the flow and number of a session's payload, which is either an IP packet or a bare datagram.
pub(super) fn read(payload: &[u8]) -> Option<(u16, u64)> {
    tag(payload).or_else(|| read_ip(payload))
}

fn tag(payload: &[u8]) -> Option<(u16, u64)> {
    let (magic, rest) = payload.split_first_chunk::<4>()?;
    let (flow, rest) = rest.split_first_chunk::<2>()?;
    let seq = rest.first_chunk::<8>()?;
    (*magic == MAGIC).then(|| (u16::from_be_bytes(*flow), u64::from_be_bytes(*seq)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::tcp::segment::Data;

    #[test]
    fn reads_what_it_wrote_and_nothing_else() {
        for ip in [false, true] {
            let packet = write(3, 1 << 40, 1000, ip);
            assert_eq!(read(&packet), Some((3, 1 << 40)));
            assert_eq!(read_ip(&packet).is_some(), ip);
            assert_eq!(read(&packet[..10]), None);
        }
        let segment = Data { flow: 2, start: 5, len: 100, no: 9, echo: 0, sent_ms: 0, ecn: 0, cwr: false };
        assert_eq!(read(&segment.packet()), Some((2, 9)));
    }
}
