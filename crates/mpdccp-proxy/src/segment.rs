//! The properties of a TCP packet that the flow table uses.

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpNumber, IpSlice, NetSlice, TcpSlice};
use std::net::{IpAddr, SocketAddr};

/// The addresses and ports of a TCP connection. `from` and `to` are as in packets read from the tunnel's
/// interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// Source address and port.
    pub from: SocketAddr,
    /// Destination address and port.
    pub to: SocketAddr,
}

impl Tuple {
    /// Returns the same connection in the other direction.
    pub fn reversed(self) -> Tuple {
        Tuple { from: self.to, to: self.from }
    }
}

/// The parts of an ICMP error that are passed on to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// The sender of the error.
    pub from: IpAddr,
    /// The ICMP type.
    pub kind: u8,
    /// The ICMP code.
    pub code: u8,
    /// The second 32-bit word of the message. Depending on the type, it contains the MTU, a pointer, or
    /// nothing.
    pub rest: [u8; 4],
}

impl Icmp {
    /// Returns whether the message is an error rather than a request, an answer or a redirect.
    pub fn is_error(&self) -> bool {
        match self.from {
            IpAddr::V4(_) => matches!(self.kind, 3 | 11 | 12),
            IpAddr::V6(_) => self.kind < 128,
        }
    }
}

/// Kinds of TCP options (IANA registry) that only the two hosts themselves can process, so a proxy cannot
/// support them.
const MD5: u8 = 19;
const AUTHENTICATION: u8 = 29;
const MULTIPATH: u8 = 30;

/// The fields of a TCP segment that the flow table uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Addresses and ports.
    pub tuple: Tuple,
    /// The segment is a SYN without ACK.
    pub opens: bool,
    /// The segment has RST.
    pub resets: bool,
    /// The segment has FIN.
    pub finishes: bool,
    /// The packet is not a fragment, and has no IP options or IPv6 extension headers.
    pub plain: bool,
    /// The segment has an option that only the two hosts themselves can process: MD5, TCP-AO or Multipath
    /// TCP.
    pub end_to_end_option: bool,
    /// The segment is a SYN that offers classic ECN (RFC 3168 section 6.1.1).
    pub ecn: bool,
    /// The segment is a SYN that offers Accurate ECN.
    pub accurate_ecn: bool,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP and ECN field of the IP header.
    pub traffic_class: u8,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number, if there is one.
    pub ack: Option<u32>,
    /// Length in sequence space. SYN and FIN count as one byte each.
    pub length: u32,
    /// The segment has no SYN, FIN or RST, and at most one byte of data, so it may be a keepalive or a window
    /// probe.
    pub may_probe: bool,
}

impl Segment {
    /// Parses a packet. Returns `None` if it does not contain a complete TCP header.
    pub fn parse(packet: &[u8]) -> Option<Segment> {
        // Check the protocol first, so that non-TCP packets, which are the majority, cost only one
        // comparison.
        let protocol = match packet.first()? >> 4 {
            4 => *packet.get(9)?,
            6 => *packet.get(6)?,
            _ => return None,
        };
        if matches!(IpNumber(protocol), IpNumber::UDP | IpNumber::ICMP | IpNumber::IPV6_ICMP) {
            return None;
        }
        let ip = IpSlice::from_slice(packet).ok()?;
        let payload = ip.payload();
        if payload.ip_number != IpNumber::TCP || payload.fragmented && !is_first_fragment(&ip) {
            return None;
        }
        let tcp = TcpSlice::from_slice(payload.payload).ok()?;
        let (ttl, traffic_class, plain) = match &ip {
            IpSlice::Ipv4(v4) => {
                let header = v4.header();
                let class = header.dcp().value() << 2 | header.ecn().value();
                (header.ttl(), class, header.options().is_empty())
            }
            IpSlice::Ipv6(v6) => {
                let header = v6.header();
                (header.hop_limit(), header.traffic_class(), header.next_header() == IpNumber::TCP)
            }
        };
        let opens = tcp.syn() && !tcp.ack();
        let length = tcp.payload().len() as u32 + u32::from(tcp.syn()) + u32::from(tcp.fin());
        Some(Segment {
            tuple: Tuple {
                from: SocketAddr::new(ip.source_addr(), tcp.source_port()),
                to: SocketAddr::new(ip.destination_addr(), tcp.destination_port()),
            },
            opens,
            resets: tcp.rst(),
            finishes: tcp.fin(),
            plain: plain && !payload.fragmented,
            end_to_end_option: opens
                && kinds(tcp.options()).any(|k| [MD5, AUTHENTICATION, MULTIPATH].contains(&k)),
            ecn: opens && tcp.ece() && tcp.cwr() && !tcp.ns(),
            accurate_ecn: opens && tcp.ece() && tcp.cwr() && tcp.ns(),
            ttl,
            traffic_class,
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            length,
            may_probe: !(tcp.syn() || tcp.fin() || tcp.rst()) && tcp.ack() && length <= 1,
        })
    }

    /// Returns the sequence number that follows the segment.
    pub(crate) fn end(&self) -> u32 {
        self.seq.wrapping_add(self.length)
    }
}

/// Returns a copy of a [plain](Segment::plain) segment with the correct TCP checksum. With offload, the
/// kernel leaves the checksums of packets to the device.
pub(crate) fn with_checksum(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let v6 = packet.first().is_some_and(|b| b >> 4 == 6);
    let (header, addresses) = if v6 { (40, 8..40) } else { (20, 12..20) };
    let at = header + 16;
    if packet.len() < at + 2 {
        return packet;
    }
    packet[at..at + 2].fill(0);
    let length = (packet.len() - header) as u32;
    let sum = Sum16BitWords::new()
        .add_slice(&packet[addresses])
        .add_4bytes(length.to_be_bytes())
        .add_2bytes([0, IpNumber::TCP.0])
        .add_slice(&packet[header..])
        .ones_complement();
    packet[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
    packet
}

fn is_first_fragment(ip: &IpSlice<'_>) -> bool {
    ip.ipv4().is_some_and(|v4| v4.header().fragments_offset().value() == 0)
}

/// Returns the kinds of all TCP options except padding. A length below 2 counts as 2. The iterator ends after
/// an option that is not complete.
fn kinds(mut options: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        while let Some((&kind, rest)) = options.split_first() {
            match kind {
                0 => return None,
                1 => options = rest,
                _ => {
                    let length = usize::from(*rest.first()?).max(2);
                    options = options.get(length..).unwrap_or_default();
                    return Some(kind);
                }
            }
        }
        None
    })
}

/// Parses an ICMP error. Returns the connection of the quoted packet, in the direction of that packet, and
/// the error itself.
pub(crate) fn quoted(packet: &[u8]) -> Option<(Tuple, Icmp)> {
    let sliced = etherparse::SlicedPacket::from_ip(packet).ok()?;
    let (from, icmp): (IpAddr, _) = match (&sliced.net?, sliced.transport?) {
        (NetSlice::Ipv4(ip), etherparse::TransportSlice::Icmpv4(icmp)) => {
            (ip.header().source_addr().into(), icmp.slice())
        }
        (NetSlice::Ipv6(ip), etherparse::TransportSlice::Icmpv6(icmp)) => {
            (ip.header().source_addr().into(), icmp.slice())
        }
        _ => return None,
    };
    let quote = icmp.get(8..)?;
    // The quote needs to contain only the first eight bytes of the TCP header (RFC 792).
    let (header, v6) = match quote.first()? >> 4 {
        4 => (usize::from(quote[0] & 15) * 4, false),
        6 => (40, true),
        _ => return None,
    };
    if *quote.get(if v6 { 6 } else { 9 })? != IpNumber::TCP.0 {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        match v6 {
            true => Some(<[u8; 16]>::try_from(quote.get(at..at + 16)?).ok()?.into()),
            false => Some(<[u8; 4]>::try_from(quote.get(at..at + 4)?).ok()?.into()),
        }
    };
    let port = |at: usize| Some(u16::from_be_bytes(quote.get(at..at + 2)?.try_into().ok()?));
    let (source, destination) = if v6 { (address(8)?, address(24)?) } else { (address(12)?, address(16)?) };
    let tuple = Tuple {
        from: SocketAddr::new(source, port(header)?),
        to: SocketAddr::new(destination, port(header + 2)?),
    };
    let rest = icmp.get(4..8)?.try_into().ok()?;
    let icmp = Icmp { from, kind: icmp[0], code: icmp[1], rest };
    icmp.is_error().then_some((tuple, icmp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn syn(options: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 61).tcp(40_000, 80, 7, 64_000).syn();
        let mut out = Vec::new();
        builder.options_raw(options).unwrap().write(&mut out, &[]).unwrap();
        out
    }

    #[test]
    fn a_syn_is_read_with_its_addresses_and_ttl() {
        let segment = Segment::parse(&syn(&[2, 4, 5, 180])).unwrap();
        assert_eq!(segment.tuple.from, "10.0.0.1:40000".parse().unwrap());
        assert_eq!(segment.tuple.to, "10.0.0.2:80".parse().unwrap());
        assert!(segment.opens && segment.plain && !segment.end_to_end_option && !segment.ecn);
        assert_eq!((segment.ttl, segment.seq, segment.length), (61, 7, 1));
    }

    #[test]
    fn options_that_only_the_hosts_can_handle_are_seen_behind_others() {
        for kind in [MD5, AUTHENTICATION, MULTIPATH] {
            assert!(Segment::parse(&syn(&[1, 2, 4, 5, 180, kind, 4, 0, 0])).unwrap().end_to_end_option);
        }
        // An option of length zero must not cause an endless loop.
        assert!(!Segment::parse(&syn(&[5, 0, 0, 0])).unwrap().end_to_end_option);
    }

    #[test]
    fn a_missing_checksum_is_completed() {
        let mut v6 = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(1, 2, 3, 4).syn().write(&mut v6, b"odd").unwrap();
        for (whole, at) in [(syn(&[2, 4, 5, 180]), 36), (v6, 56)] {
            let mut without = whole.clone();
            without[at..at + 2].fill(7);
            assert_eq!(with_checksum(&without), whole);
        }
    }

    #[test]
    fn cut_packets_are_no_segments() {
        let whole = syn(&[]);
        assert!((0..whole.len()).all(|n| Segment::parse(&whole[..n]).is_none()));
    }

    #[test]
    fn ecn_and_accurate_ecn_are_told_apart() {
        let builder = || PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(1, 2, 0, 0).syn().ece().cwr();
        let parsed = |builder: etherparse::PacketBuilderStep<etherparse::TcpHeader>| {
            let mut out = Vec::new();
            builder.write(&mut out, b"data").unwrap();
            Segment::parse(&out).unwrap()
        };
        let classic = parsed(builder());
        assert!(classic.ecn && !classic.accurate_ecn);
        assert_eq!(classic.length, 5);
        let accurate = parsed(builder().ns());
        assert!(!accurate.ecn && accurate.accurate_ecn);
    }
}
