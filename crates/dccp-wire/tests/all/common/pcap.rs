//! Reads and writes the subset of classic pcap files that the tests need.

use std::path::Path;

/// Link type of captures in which each packet starts with its IP header.
pub(crate) const LINKTYPE_RAW: u32 = 101;
const LINKTYPE_ETHERNET: u32 = 1;
const LINKTYPE_LINUX_SLL2: u32 = 276;

/// Writes IP packets.
pub(crate) fn write(path: &Path, packets: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, LINKTYPE_RAW] {
        file.extend(word.to_le_bytes());
    }
    for (second, packet) in (0u32..).zip(packets) {
        let len = packet.len() as u32;
        for word in [second, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    std::fs::write(path, file).unwrap();
}

/// Reads the IP packets of a little-endian capture, without link headers.
pub(crate) fn read(path: &Path) -> Vec<Vec<u8>> {
    read_timed(path).into_iter().map(|(_, packet)| packet).collect()
}

/// Like [`read`], and returns each packet's time, in microseconds since the second of the first packet.
pub(crate) fn read_timed(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert!(matches!(word(0), 0xa1b2_c3d4 | 0xa1b2_3c4d), "unknown byte order or format of {path:?}");
    let link_header = match word(20) {
        LINKTYPE_ETHERNET => 14,
        LINKTYPE_LINUX_SLL2 => 20,
        LINKTYPE_RAW => 0,
        other => panic!("unknown link type {other} of {path:?}"),
    };
    let mut packets = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let (captured, original) = (word(at + 8) as usize, word(at + 12) as usize);
        assert_eq!(captured, original, "truncated packet in {path:?}");
        let seconds = u64::from(word(at).saturating_sub(word(24)));
        let fraction = u64::from(word(at + 4)) / if word(0) == 0xa1b2_3c4d { 1_000 } else { 1 };
        packets
            .push((seconds * 1_000_000 + fraction, file[at + 16 + link_header..at + 16 + captured].to_vec()));
        at += 16 + captured;
    }
    packets
}
