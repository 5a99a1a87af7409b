//! Internet checksum with partial coverage, for the pseudo-headers of IPv4 and IPv6 (RFC 4340 section 9.1).
//!
//! It is used only with native encapsulation (IP protocol 33). In UDP, the checksum field is zero, and
//! receivers ignore it (RFC 6773 section 3.3).

use crate::IPPROTO_DCCP;
use core::net::IpAddr;

/// Position of the checksum field in the header.
const FIELD: core::ops::Range<usize> = 6..8;

/// Fills in the checksum field of `packet` (a whole DCCP packet) for native IP protocol 33, respecting the
/// packet's checksum coverage (CsCov). `src` and `dst` must both be IPv4 or both be IPv6.
///
/// # Panics
/// If `packet` is shorter than 12 bytes, the length of the shortest DCCP header.
pub fn fill(packet: &mut [u8], src: IpAddr, dst: IpAddr) {
    packet[FIELD].fill(0);
    let sum = !fold(pseudo_header(packet.len(), src, dst) + words(covered(packet).unwrap_or(packet)));
    packet[FIELD].copy_from_slice(&sum.to_be_bytes());
}

/// Returns whether the checksum of a native packet is valid. It is invalid if the coverage exceeds the
/// packet.
pub fn verify(packet: &[u8], src: IpAddr, dst: IpAddr) -> bool {
    // If the checksum is valid, the sum over everything, including the checksum field, is all ones.
    covered(packet).is_some_and(|bytes| fold(pseudo_header(packet.len(), src, dst) + words(bytes)) == 0xffff)
}

/// Returns the part of a packet covered by its checksum (RFC 4340 section 9.2), or `None` if the coverage
/// exceeds the packet.
fn covered(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(*packet.get(4)?) * 4;
    match packet.get(5)? & 15 {
        0 => Some(packet),
        cscov => packet.get(..header + usize::from(cscov - 1) * 4),
    }
}

/// Sums the pseudo-header: addresses, protocol and length. IPv4 and IPv6 order these words differently, but
/// the sum is the same.
fn pseudo_header(len: usize, src: IpAddr, dst: IpAddr) -> u64 {
    let address = |ip| match ip {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    };
    address(src) + address(dst) + len as u64 + u64::from(IPPROTO_DCCP)
}

/// Sums the big-endian 16-bit words, padding an odd last byte with zero. The loop adds 32 bits at a time;
/// [`fold`] adds the carries later.
fn words(bytes: &[u8]) -> u64 {
    let (quads, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    quads.iter().map(|quad| u64::from(u32::from_be_bytes(*quad))).sum::<u64>()
        + u64::from(u32::from_be_bytes(last))
}

/// Returns the one's complement sum of the four 16-bit words of `sum`.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the CRC-32C of application data, as in the Data Checksum option (RFC 4340 section 9.3).
pub fn crc32c(data: &[u8]) -> u32 {
    const CRC: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);
    CRC.checksum(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_check_values() {
        // The published check value of CRC-32C, and the value that RFC 4340 section 9.3 gives for empty data.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
        // RFC 3720 appendix B.4: 32 bytes of zeros, and of ones.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
