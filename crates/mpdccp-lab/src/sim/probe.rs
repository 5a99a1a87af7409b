//! The simulator's application packets: which flow, which number.

use std::net::Ipv4Addr;

const MAGIC: [u8; 4] = *b"mpsi";
/// Bytes of magic, flow and number.
pub(super) const MIN_PAYLOAD: usize = 14;
/// IPv4 and UDP headers inside a tunnel.
pub(super) const INNER_HEADERS: usize = 28;

/// A datagram of `payload` bytes, in an inner IPv4 UDP packet if it goes through a tunnel.
pub(super) fn write(flow: u16, seq: u64, payload: usize, tunnel: bool) -> Vec<u8> {
    let headers = if tunnel { INNER_HEADERS } else { 0 };
    let mut packet = vec![0; headers + payload.max(MIN_PAYLOAD)];
    if tunnel {
        let total = packet.len() as u16;
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[8..10].copy_from_slice(&[64, 17]);
        packet[12..16].copy_from_slice(&Ipv4Addr::new(10, 9, 0, 1).octets());
        packet[16..20].copy_from_slice(&Ipv4Addr::new(10, 9, 0, 2).octets());
        packet[20..22].copy_from_slice(&(10_000 + flow).to_be_bytes());
        packet[22..24].copy_from_slice(&9u16.to_be_bytes());
        packet[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    }
    packet[headers..headers + 4].copy_from_slice(&MAGIC);
    packet[headers + 4..headers + 6].copy_from_slice(&flow.to_be_bytes());
    packet[headers + 6..headers + 14].copy_from_slice(&seq.to_be_bytes());
    packet
}

/// Flow and number of a datagram made by [`write`].
pub(super) fn read(packet: &[u8], tunnel: bool) -> Option<(u16, u64)> {
    let payload = packet.get(if tunnel { INNER_HEADERS } else { 0 }..)?;
    let (magic, rest) = payload.split_first_chunk::<4>()?;
    let (flow, rest) = rest.split_first_chunk::<2>()?;
    let seq = rest.first_chunk::<8>()?;
    (*magic == MAGIC).then(|| (u16::from_be_bytes(*flow), u64::from_be_bytes(*seq)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote_and_nothing_else() {
        for tunnel in [false, true] {
            let packet = write(3, 1 << 40, 1000, tunnel);
            assert_eq!(read(&packet, tunnel), Some((3, 1 << 40)));
            assert_eq!(read(&packet, !tunnel), None);
            assert_eq!(read(&packet[..10], tunnel), None);
        }
    }
}
