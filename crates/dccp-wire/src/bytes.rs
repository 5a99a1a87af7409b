/// Decodes up to eight bytes as a big-endian number (RFC 4340 section 3: all numbers are in network byte
/// order).
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |acc, &byte| acc << 8 | u64::from(byte))
}
