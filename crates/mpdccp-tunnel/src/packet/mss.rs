//! Clamps the maximum segment size (MSS) of TCP connections.

/// Lowers the MSS option of a TCP SYN to fit `mtu`, and updates the checksum (RFC 1624).
pub(crate) fn clamp_mss(packet: &mut [u8], mtu: u16) {
    let (headers, tcp) = match packet.first().map(|b| b >> 4) {
        // Only the first fragment contains the TCP header.
        Some(4) if packet.len() >= 20 && packet[9] == 6 && packet[6] & 0x1f == 0 && packet[7] == 0 => {
            (40, usize::from(packet[0] & 0xf) * 4)
        }
        Some(6) if packet.len() >= 40 && packet[6] == 6 => (60, 40),
        _ => return,
    };
    let Some(segment) = packet.get_mut(tcp..).filter(|s| s.len() >= 20) else { return };
    const SYN: u8 = 2;
    let end = (usize::from(segment[12] >> 4) * 4).min(segment.len());
    if segment[13] & SYN == 0 {
        return;
    }
    let mut at = 20;
    while at + 1 < end {
        match (segment[at], segment[at + 1]) {
            (0, _) => return,
            (1, _) => at += 1,
            (2, 4) if at + 4 <= end => return lower(segment, at + 2, mtu.saturating_sub(headers)),
            (_, len) if len >= 2 => at += usize::from(len),
            _ => return,
        }
    }
}

fn lower(segment: &mut [u8], at: usize, most: u16) {
    let word = |s: &[u8], at: usize| u16::from_be_bytes([s[at], s[at + 1]]);
    let old = word(segment, at);
    if old <= most {
        return;
    }
    // If the option starts at an odd offset, its 16-bit values are byte-swapped in the checksum.
    let swap = |n: u16| if at % 2 == 1 { n.swap_bytes() } else { n };
    let mut sum = u32::from(!word(segment, 16)) + u32::from(!swap(old)) + u32::from(swap(most));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    segment[at..at + 2].copy_from_slice(&most.to_be_bytes());
    segment[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpOptionElement, TransportSlice};

    const A4: [u8; 4] = [10, 0, 0, 1];
    const B4: [u8; 4] = [10, 0, 0, 2];
    const A6: [u8; 16] = [1; 16];
    const B6: [u8; 16] = [2; 16];

    #[test]
    fn bytes_that_are_no_packet_do_no_harm() {
        for (len, first) in (0..60).flat_map(|len| [0x00, 0x40, 0x45, 0x4f, 0x60].map(|first| (len, first))) {
            let mut bytes = vec![0xff; len];
            bytes.iter_mut().take(1).for_each(|b| *b = first);
            clamp_mss(&mut bytes, 1300);
        }
    }

    fn syn(version: u8, options: &[TcpOptionElement]) -> Vec<u8> {
        let mut out = Vec::new();
        match version {
            4 => PacketBuilder::ipv4(A4, B4, 9)
                .tcp(1, 2, 3, 4)
                .syn()
                .options(options)
                .unwrap()
                .write(&mut out, &[])
                .unwrap(),
            _ => PacketBuilder::ipv6(A6, B6, 9)
                .tcp(1, 2, 3, 4)
                .syn()
                .options(options)
                .unwrap()
                .write(&mut out, &[])
                .unwrap(),
        }
        out
    }

    /// Returns the MSS of the packet, and asserts that the checksum is correct.
    fn mss(packet: &[u8]) -> u16 {
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let (Some(TransportSlice::Tcp(tcp)), Some(net)) = (sliced.transport, sliced.net) else { panic!() };
        let sum = match &net {
            NetSlice::Ipv4(ip) => tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()),
            NetSlice::Ipv6(ip) => tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()),
            _ => panic!(),
        };
        assert_eq!(sum.unwrap(), tcp.checksum());
        tcp.options_iterator()
            .find_map(|o| match o {
                Ok(TcpOptionElement::MaximumSegmentSize(n)) => Some(n),
                _ => None,
            })
            .unwrap()
    }

    #[test]
    fn the_segment_size_is_lowered_and_never_raised() {
        use TcpOptionElement::{MaximumSegmentSize, Noop, WindowScale};
        for (version, headers) in [(4, 40), (6, 60)] {
            // Places the option once at an even and once at an odd offset.
            for options in [
                vec![MaximumSegmentSize(1460)],
                vec![Noop, MaximumSegmentSize(1460)],
                vec![WindowScale(7), MaximumSegmentSize(1460)],
            ] {
                let mut packet = syn(version, &options);
                clamp_mss(&mut packet, 1412);
                assert_eq!(mss(&packet), 1412 - headers);
            }
            let mut small = syn(version, &[MaximumSegmentSize(536)]);
            let before = small.clone();
            clamp_mss(&mut small, 1412);
            assert_eq!(small, before);
            // Without the SYN flag, the segment must not change.
            let mut other = syn(version, &[MaximumSegmentSize(1460)]);
            let flags = if version == 4 { 33 } else { 53 };
            other[flags] = 0x10;
            let before = other.clone();
            clamp_mss(&mut other, 1412);
            assert_eq!(other, before);
        }
    }
}
