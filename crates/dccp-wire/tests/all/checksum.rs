//! Compares the header checksum with independent vectors, and verifies that changing any one byte makes it
//! invalid.

use core::net::IpAddr;
use dccp_wire::checksum::{fill, verify};
use dccp_wire::{Header, PacketType, Seq};
use proptest::collection::vec;
use proptest::prelude::*;

fn data_packet(cscov: u8, payload: &[u8]) -> Vec<u8> {
    let header = Header::new((0x1234, 0x5678), PacketType::Data, Seq::new(0x0a0b0c));
    let header = Header { cscov, short: true, ..header };
    let mut packet = vec![0; header.packet_len(0, payload.len())];
    header.emit(&[], &mut packet).copy_from_slice(payload);
    packet
}

/// Returns the complement of the one's complement sum of 16-bit words, in the simplest form.
fn plain(words: &[u16]) -> u16 {
    let sum = words.iter().map(|&word| u32::from(word)).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[test]
fn words_spelled_out() {
    let header = [0x1234, 0x5678, 0x0300, 0, 0x040a, 0x0b0c];
    let v4 = [0xc0a8, 0x0001, 0xc0a8, 0x00c7, 33];
    let mut packet = data_packet(0, &[0xab, 0xcd, 0xef]);
    fill(&mut packet, IpAddr::from([192, 168, 0, 1]), IpAddr::from([192, 168, 0, 199]));
    let expected = plain(&[&header[..], &v4, &[15, 0xabcd, 0xef00]].concat());
    assert_eq!(packet[6..8], expected.to_be_bytes());

    // With CsCov 1, only the header is covered, but the pseudo-header contains the length of the whole
    // packet.
    let mut packet = data_packet(1, &[0xab, 0xcd, 0xef]);
    fill(&mut packet, IpAddr::from([192, 168, 0, 1]), IpAddr::from([192, 168, 0, 199]));
    let expected = plain(&[&header[..], &v4, &[15, 0x0001]].concat());
    assert_eq!(packet[6..8], expected.to_be_bytes());

    let v6 = [0x2001, 0x0db8, 0, 0, 0, 0, 0, 1, 0x2001, 0x0db8, 0, 0, 0, 0, 0, 0xffff];
    let mut packet = data_packet(2, &[0xab, 0xcd, 0xef, 0x01, 0x99]);
    fill(&mut packet, IpAddr::from(v6_octets(&v6[..8])), IpAddr::from(v6_octets(&v6[8..])));
    let expected = plain(&[&header[..], &v6, &[0, 17, 0, 33, 0x0002, 0xabcd, 0xef01]].concat());
    assert_eq!(packet[6..8], expected.to_be_bytes());
}

fn v6_octets(words: &[u16]) -> [u16; 8] {
    words.try_into().unwrap()
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ]
}

proptest! {
    #[test]
    fn covered_damage_shows_and_other_damage_does_not(
        (src, dst) in addresses(),
        payload in vec(any::<u8>(), 0..80),
        cover in 0..16u8,
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let cscov = if usize::from(cover.saturating_sub(1)) * 4 <= payload.len() { cover } else { 0 };
        let mut packet = data_packet(cscov, &payload);
        fill(&mut packet, src, dst);
        prop_assert!(verify(&packet, src, dst));
        let covered = if cscov == 0 { packet.len() } else { 12 + usize::from(cscov - 1) * 4 };
        let at = at.index(packet.len());
        // Skip Data Offset and CsCov, because they change the coverage. Any other single-byte change alters
        // the sum: only changing a word from 0x0000 to 0xffff would not, and one byte cannot do that.
        prop_assume!(at != 4 && at != 5);
        packet[at] ^= flip;
        prop_assert_eq!(verify(&packet, src, dst), at >= covered);
    }

    #[test]
    fn another_address_or_length_is_wrong((src, dst) in addresses(), payload in vec(any::<u8>(), 1..80), byte in 0..4usize) {
        let mut packet = data_packet(1, &payload);
        fill(&mut packet, src, dst);
        let other = match src {
            IpAddr::V4(ip) => {
                let mut octets = ip.octets();
                octets[byte] ^= 1;
                IpAddr::from(octets)
            }
            IpAddr::V6(ip) => {
                let mut octets = ip.octets();
                octets[byte * 4 + 1] ^= 1;
                IpAddr::from(octets)
            }
        };
        prop_assert!(!verify(&packet, other, dst));
        packet.pop();
        prop_assert!(!verify(&packet, src, dst));
    }
}

#[test]
fn a_coverage_beyond_the_packet_is_wrong() {
    let ip = IpAddr::from([10, 0, 0, 1]);
    let mut packet = data_packet(3, &[0; 4]);
    fill(&mut packet, ip, ip);
    assert!(!verify(&packet, ip, ip));
    assert!(!verify(&packet[..4], ip, ip) && !verify(&[], ip, ip));
}
