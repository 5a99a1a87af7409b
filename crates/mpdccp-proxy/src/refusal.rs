//! Builds the answer to a held SYN if the far end could not connect. The host gets exactly the answer that it
//! would have received without the proxy.

use crate::segment::{Icmp, Segment, Tuple};
use etherparse::checksum::Sum16BitWords;
use etherparse::{IpHeaders, IpNumber, Ipv4Header, Ipv6Header, PacketBuilder, PacketBuilderStep, TcpHeader};
use std::net::{IpAddr, SocketAddr};

/// Why the far end could not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The far host answered the SYN with RST.
    Reset,
    /// A host or a router answered the SYN with an ICMP error.
    Icmp(Icmp),
    /// Nothing answered the SYN, so the host gets no answer either.
    Silence,
    /// The far end still has an earlier flow with these ports. When the host repeats its SYN, the proxy tries
    /// again.
    Busy,
    /// The far end has reached a limit, or its host has sent a SYN for the same connection. The flow travels
    /// as packets.
    Limit,
}

/// TTL or hop limit of the answers that this module builds.
const TTL: u8 = 64;
/// Maximum length of the packet quoted in an ICMP error over IPv4 (RFC 1812 section 4.3.2.3). IPv6 allows
/// longer quotes (RFC 4443 section 2.4c), but a SYN is rarely longer than this limit.
const QUOTE: usize = 548;

impl Refusal {
    /// Returns the packet that answers a held SYN, if there is an answer.
    pub(crate) fn packet(self, tuple: Tuple, syn: &[u8], seq: u32, length: u32) -> Option<Vec<u8>> {
        match self {
            Refusal::Silence | Refusal::Busy | Refusal::Limit => None,
            Refusal::Reset => reset(tuple, seq.wrapping_add(length)),
            Refusal::Icmp(icmp) => error(tuple, syn, icmp),
        }
    }
}

/// Returns a RST that acknowledges the SYN and its data (RFC 9293 section 3.10.7.1).
fn reset(tuple: Tuple, ack: u32) -> Option<Vec<u8>> {
    write(back(tuple)?.tcp(tuple.to.port(), tuple.from.port(), 0, 0).rst().ack(ack))
}

/// Returns the RST that answers a segment of an unknown connection (RFC 9293 section 3.10.7.1), or `None` if
/// the segment is itself a RST.
pub(crate) fn reset_of(segment: &Segment) -> Option<Vec<u8>> {
    let tuple = segment.tuple;
    let tcp = back(tuple)?;
    match (segment.resets, segment.ack) {
        (true, _) => None,
        (false, Some(ack)) => write(tcp.tcp(tuple.to.port(), tuple.from.port(), ack, 0).rst()),
        (false, None) => reset(tuple, segment.seq.wrapping_add(segment.length)),
    }
}

/// Returns an empty segment in the direction opposite to a SYN, with the traffic class of the SYN.
pub(crate) fn answer(tuple: Tuple, traffic_class: u8) -> Option<Vec<u8>> {
    let mut out = write(back(tuple)?.tcp(tuple.to.port(), tuple.from.port(), 0, 0).ack(0))?;
    match tuple.to {
        SocketAddr::V4(_) => out[1] = traffic_class & !3,
        SocketAddr::V6(_) => {
            out[0] |= traffic_class >> 4;
            out[1] |= traffic_class << 4 & 0xc0;
        }
    }
    Some(out)
}

/// Starts a packet in the reverse direction of the connection.
fn back(tuple: Tuple) -> Option<PacketBuilderStep<IpHeaders>> {
    match (tuple.to.ip(), tuple.from.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Some(PacketBuilder::ipv4(from.octets(), to.octets(), TTL)),
        (IpAddr::V6(from), IpAddr::V6(to)) => Some(PacketBuilder::ipv6(from.octets(), to.octets(), TTL)),
        _ => None,
    }
}

fn write(tcp: PacketBuilderStep<TcpHeader>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(60);
    tcp.write(&mut out, &[]).ok()?;
    Some(out)
}

fn error(tuple: Tuple, syn: &[u8], icmp: Icmp) -> Option<Vec<u8>> {
    let mut body = vec![icmp.kind, icmp.code, 0, 0];
    body.extend_from_slice(&icmp.rest);
    body.extend_from_slice(&syn[..syn.len().min(QUOTE)]);
    let length = u16::try_from(body.len()).ok()?;
    let mut out = Vec::with_capacity(40 + body.len());
    match (icmp.from, tuple.from.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let sum = Sum16BitWords::new().add_slice(&body).ones_complement();
            body[2..4].copy_from_slice(&sum.to_ne_bytes());
            Ipv4Header::new(length, TTL, IpNumber::ICMP, from.octets(), to.octets())
                .ok()?
                .write(&mut out)
                .ok()?;
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = Ipv6Header {
                payload_length: length,
                next_header: IpNumber::IPV6_ICMP,
                hop_limit: TTL,
                source: from.octets(),
                destination: to.octets(),
                ..Ipv6Header::default()
            };
            let sum = Sum16BitWords::new()
                .add_16bytes(header.source)
                .add_16bytes(header.destination)
                .add_4bytes(u32::from(length).to_be_bytes())
                .add_2bytes([0, IpNumber::IPV6_ICMP.0])
                .add_slice(&body)
                .ones_complement();
            body[2..4].copy_from_slice(&sum.to_ne_bytes());
            header.write(&mut out).ok()?;
        }
        _ => return None,
    }
    out.extend_from_slice(&body);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::quoted;
    use etherparse::{Icmpv6Slice, TcpSlice};

    fn syn(v6: bool) -> (Tuple, Vec<u8>) {
        let builder = match v6 {
            false => PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
            true => PacketBuilder::ipv6([1; 16], [2; 16], 64),
        };
        let mut out = Vec::new();
        builder.tcp(40_000, 80, u32::MAX, 1_000).syn().write(&mut out, &[]).unwrap();
        (Segment::parse(&out).unwrap().tuple, out)
    }

    #[test]
    fn a_reset_acknowledges_the_syn_and_comes_from_where_it_went() {
        for v6 in [false, true] {
            let (tuple, syn) = syn(v6);
            let packet = Refusal::Reset.packet(tuple, &syn, u32::MAX, 1).unwrap();
            let segment = Segment::parse(&packet).unwrap();
            assert_eq!((segment.tuple, segment.resets), (tuple.reversed(), true));
            let tcp = TcpSlice::from_slice(&packet[if v6 { 40 } else { 20 }..]).unwrap();
            assert_eq!((tcp.ack(), tcp.acknowledgment_number()), (true, 0));
        }
    }

    #[test]
    fn an_icmp_error_quotes_the_syn_with_a_checksum_that_is_right() {
        let (tuple, syn4) = syn(false);
        let icmp = Icmp { from: "192.0.2.1".parse().unwrap(), kind: 3, code: 13, rest: [0; 4] };
        let packet = Refusal::Icmp(icmp).packet(tuple, &syn4, 0, 1).unwrap();
        assert_eq!(quoted(&packet), Some((tuple, icmp)));
        let whole = Sum16BitWords::new().add_slice(&packet[20..]).ones_complement();
        assert_eq!(whole, 0, "the sum over header, checksum and quote must be zero");
        let (tuple, syn6) = syn(true);
        let icmp = Icmp { from: "2001:db8::1".parse().unwrap(), kind: 1, code: 0, rest: [0; 4] };
        let packet = Refusal::Icmp(icmp).packet(tuple, &syn6, 0, 1).unwrap();
        assert_eq!(quoted(&packet), Some((tuple, icmp)));
        let slice = Icmpv6Slice::from_slice(&packet[40..]).unwrap();
        let ip = etherparse::Ipv6Slice::from_slice(&packet).unwrap();
        assert!(slice.is_checksum_valid(ip.header().source(), ip.header().destination()));
        // An ICMP error of the other IP version is not a valid answer to the host.
        assert_eq!(Refusal::Icmp(icmp).packet(syn(false).0, &syn4, 0, 1), None);
    }
}
