//! Decides what to do with packets from the interface that are larger than the peer's paths can carry.

use super::mtu::LEAST_V6;
use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber, Ipv4Header, Ipv6Header};
use std::net::{Ipv4Addr, Ipv6Addr};

/// What to do with a packet that is too large.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TooBig {
    /// Send this ICMP packet to the packet's sender.
    Answer(Vec<u8>),
    /// Send the packet as these fragments.
    Fragments(Vec<Vec<u8>>),
    /// Send the packet in pieces, because its sender may ignore a smaller MTU.
    Cut,
    /// Drop the packet.
    Drop,
}

/// Hop limit of ICMP packets that the tunnel creates.
const TTL: u8 = 64;
/// Size limits of ICMP errors: 1280 bytes for ICMPv6 (RFC 4443 section 2.4c), 576 bytes for ICMPv4
/// (RFC 1812 section 4.3.2.3).
const ICMP_V6: usize = 1280;
const ICMP_V4: usize = 576;

/// Decides what to do with a packet that is larger than `mtu`. The source address of an ICMP error is the
/// packet's destination, for two reasons: Linux ignores a packet from outside whose source is an address of
/// this host, and packets to the destination go through the tunnel anyway, so the destination could have sent
/// the error.
pub(crate) fn too_big(packet: &[u8], mtu: u16) -> TooBig {
    match packet.first().map(|b| b >> 4) {
        Some(4) => {
            let Ok((header, payload)) = Ipv4Header::from_slice(packet) else { return TooBig::Drop };
            match header.dont_fragment {
                false => fragments(&header, payload, mtu),
                true => frag_needed(&header, packet, mtu).map_or(TooBig::Drop, TooBig::Answer),
            }
        }
        Some(6) => {
            let Ok((header, payload)) = Ipv6Header::from_slice(packet) else { return TooBig::Drop };
            match packet.len() > LEAST_V6.into() {
                true => packet_too_big(&header, payload, packet, mtu).map_or(TooBig::Drop, TooBig::Answer),
                false => TooBig::Cut,
            }
        }
        _ => TooBig::Drop,
    }
}

/// Returns whether an ICMP packet is an error. No error is sent about an error (RFC 1122 section 3.2.2,
/// RFC 4443 section 2.4e).
fn is_icmp_error(protocol: IpNumber, payload: &[u8]) -> bool {
    match (protocol, payload.first()) {
        (IpNumber::ICMP, Some(kind)) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (IpNumber::IPV6_ICMP, Some(kind)) => *kind < 128,
        (IpNumber::ICMP | IpNumber::IPV6_ICMP, None) => true,
        _ => false,
    }
}

/// Builds the ICMPv4 error "Fragmentation Needed" with the MTU of the next hop (RFC 1191 section 4).
fn frag_needed(header: &Ipv4Header, packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let (source, destination) = (Ipv4Addr::from(header.source), Ipv4Addr::from(header.destination));
    let error = is_icmp_error(header.protocol, packet.get(header.header_len()..)?);
    let unicast = |ip: Ipv4Addr| !ip.is_multicast() && !ip.is_broadcast() && !ip.is_unspecified();
    if error || header.fragment_offset.value() != 0 || !unicast(source) || !unicast(destination) {
        return None;
    }
    let quote = &packet[..packet.len().min(ICMP_V4 - 28)];
    let kind =
        Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu });
    let icmp = Icmpv4Header::with_checksum(kind, quote);
    let len = u16::try_from(icmp.header_len() + quote.len()).ok()?;
    let ip = Ipv4Header::new(len, TTL, IpNumber::ICMP, header.destination, header.source).ok()?;
    let mut out = Vec::with_capacity(ICMP_V4);
    ip.write(&mut out).ok()?;
    icmp.write(&mut out).ok()?;
    out.extend_from_slice(quote);
    Some(out)
}

/// Builds the ICMPv6 error Packet Too Big (RFC 4443 section 3.2).
fn packet_too_big(header: &Ipv6Header, payload: &[u8], packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let (source, destination) = (Ipv6Addr::from(header.source), Ipv6Addr::from(header.destination));
    let unicast = |ip: Ipv6Addr| !ip.is_multicast() && !ip.is_unspecified();
    if is_icmp_error(header.next_header, payload) || !unicast(source) || !unicast(destination) {
        return None;
    }
    // Senders ignore an MTU below the IPv6 minimum.
    let mtu = u32::from(mtu.max(LEAST_V6));
    let quote = &packet[..packet.len().min(ICMP_V6 - 48)];
    let kind = Icmpv6Type::PacketTooBig { mtu };
    let icmp = Icmpv6Header::with_checksum(kind, header.destination, header.source, quote).ok()?;
    let ip = Ipv6Header {
        payload_length: u16::try_from(icmp.header_len() + quote.len()).ok()?,
        next_header: IpNumber::IPV6_ICMP,
        hop_limit: TTL,
        source: header.destination,
        destination: header.source,
        ..Ipv6Header::default()
    };
    let mut out = Vec::with_capacity(ICMP_V6);
    ip.write(&mut out).ok()?;
    icmp.write(&mut out).ok()?;
    out.extend_from_slice(quote);
    Some(out)
}

/// Fragments an IPv4 packet (RFC 791 section 3.2). Drops packets with options, which are rare, because not
/// every option may be copied into all fragments.
fn fragments(header: &Ipv4Header, payload: &[u8], mtu: u16) -> TooBig {
    let room = usize::from(mtu).saturating_sub(header.header_len()) & !7;
    let payload =
        &payload[..payload.len().min(usize::from(header.total_len).saturating_sub(header.header_len()))];
    if !header.options.is_empty() || room == 0 {
        return TooBig::Drop;
    }
    let first = usize::from(header.fragment_offset.value());
    let pieces = payload.chunks(room).enumerate().map(|(i, piece)| {
        let mut piece_header = header.clone();
        piece_header.total_len = u16::try_from(header.header_len() + piece.len()).ok()?;
        piece_header.fragment_offset = u16::try_from(first + i * room / 8).ok()?.try_into().ok()?;
        piece_header.more_fragments = header.more_fragments || (i + 1) * room < payload.len();
        let mut out = Vec::with_capacity(header.header_len() + piece.len());
        // `write` also computes the checksum.
        piece_header.write(&mut out).ok()?;
        out.extend_from_slice(piece);
        Some(out)
    });
    pieces.collect::<Option<Vec<_>>>().map_or(TooBig::Drop, TooBig::Fragments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Icmpv4Slice, Icmpv6Slice, PacketBuilder};

    const A4: [u8; 4] = [10, 0, 0, 1];
    const B4: [u8; 4] = [10, 0, 0, 2];
    const A6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const B6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

    fn udp(version: u8, len: usize, dont_fragment: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        if version == 6 {
            PacketBuilder::ipv6(A6, B6, 9).udp(1, 2).write(&mut out, &payload).unwrap();
            return out;
        }
        let mut ip = Ipv4Header::new(0, 9, IpNumber::UDP, A4, B4).unwrap();
        (ip.dont_fragment, ip.identification) = (dont_fragment, 77);
        let ip = etherparse::IpHeaders::Ipv4(ip, Default::default());
        PacketBuilder::ip(ip).udp(1, 2).write(&mut out, &payload).unwrap();
        out
    }

    #[test]
    fn senders_are_told_of_the_mtu() {
        let packet = udp(4, 1400, true);
        let TooBig::Answer(answer) = too_big(&packet, 1300) else { panic!() };
        let (ip, icmp) = Ipv4Header::from_slice(&answer).unwrap();
        assert_eq!((ip.source, ip.destination), (B4, A4));
        assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
        assert!(answer.len() == 576 && icmp[8..] == packet[..548]);
        let icmp = Icmpv4Slice::from_slice(icmp).unwrap();
        let DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1300 } = (match icmp.icmp_type() {
            Icmpv4Type::DestinationUnreachable(why) => why,
            other => panic!("{other:?}"),
        }) else {
            panic!()
        };
        assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(&packet[..548]));

        let packet = udp(6, 1400, true);
        let TooBig::Answer(answer) = too_big(&packet, 1300) else { panic!() };
        let (ip, icmp) = Ipv6Header::from_slice(&answer).unwrap();
        assert_eq!((ip.source, ip.destination, answer.len()), (B6, A6, 1280));
        let icmp = Icmpv6Slice::from_slice(icmp).unwrap();
        assert_eq!(icmp.icmp_type(), Icmpv6Type::PacketTooBig { mtu: 1300 });
        assert!(icmp.is_checksum_valid(ip.source, ip.destination));
    }

    /// RFC 8200 section 5: every link carries IPv6 packets of 1280 bytes.
    #[test]
    fn ipv6_packets_that_every_link_carries_are_split() {
        assert_eq!(too_big(&udp(6, 1232, true), 1000), TooBig::Cut);
        assert!(matches!(too_big(&udp(6, 1233, true), 1000), TooBig::Answer(_)));
    }

    #[test]
    fn packets_that_may_be_fragmented_are_fragmented() {
        let packet = udp(4, 3000, false);
        let TooBig::Fragments(pieces) = too_big(&packet, 1300) else { panic!() };
        let mut whole = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            let (ip, payload) = Ipv4Header::from_slice(piece).unwrap();
            assert!(piece.len() <= 1300 && usize::from(ip.total_len) == piece.len());
            assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
            assert_eq!((ip.identification, ip.more_fragments), (77, i + 1 < pieces.len()));
            assert_eq!(usize::from(ip.fragment_offset.value()) * 8, whole.len());
            whole.extend_from_slice(payload);
        }
        assert_eq!(whole, packet[20..]);
    }

    /// RFC 1122 section 3.2.2 and RFC 4443 section 2.4e: no ICMP error is sent about an error, a multicast
    /// packet, or an invalid packet.
    #[test]
    fn some_are_dropped_without_a_word() {
        let mut error = udp(4, 1400, true);
        (error[9], error[20]) = (1, 3);
        assert_eq!(too_big(&error, 1300), TooBig::Drop);
        let mut error = udp(6, 1400, true);
        (error[6], error[40]) = (58, 2);
        assert_eq!(too_big(&error, 1300), TooBig::Drop);
        let mut group = udp(4, 1400, true);
        group[16] = 224;
        assert_eq!(too_big(&group, 1300), TooBig::Drop);
        for len in 0..60 {
            for first in [0x00, 0x40, 0x45, 0x4f, 0x60] {
                let mut bytes = vec![0xff; len];
                if let Some(b) = bytes.first_mut() {
                    *b = first;
                }
                let _ = too_big(&bytes, 20);
            }
        }
    }
}
