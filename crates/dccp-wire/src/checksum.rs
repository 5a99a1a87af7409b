//! Internet checksum with partial coverage over both pseudo-headers (RFC 4340 section 9.1).

use core::net::IpAddr;

/// Fills the checksum field of `packet` (a whole DCCP packet) for native IP protocol 33, honouring its CsCov.
/// `src` and `dst` are of one family.
pub fn fill(packet: &mut [u8], src: IpAddr, dst: IpAddr) {
    let _ = (packet, src, dst);
    todo!()
}

/// Whether the checksum of a native packet is right.
pub fn verify(packet: &[u8], src: IpAddr, dst: IpAddr) -> bool {
    let _ = (packet, src, dst);
    todo!()
}

/// CRC-32C of application data, as in the Data Checksum option (RFC 4340 section 9.3).
pub fn crc32c(data: &[u8]) -> u32 {
    let _ = data;
    todo!()
}
