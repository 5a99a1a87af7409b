//! Copies DSCP and ECN between inner and outer headers (RFC 2983, RFC 6040). Inner packets keep their
//! DSCP and TTL, even if the network changes those of the outer header.

use crate::config::{Config, OuterDscp, OuterEcn};
use mpdccp_units::Ecn;

/// DSCP and ECN field of an outer header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// The ECN field.
    pub ecn: Ecn,
}

/// How to mark outer headers, according to the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    ecn: OuterEcn,
    dscp: OuterDscp,
}

impl Marker {
    /// Creates the marker of a configuration.
    pub fn new(cfg: &Config) -> Marker {
        Marker { ecn: cfg.ecn, dscp: cfg.dscp }
    }

    /// Returns the DSCP and ECN field for an outer header. `data` is the inner packet, if any. `ecn` is the
    /// ECN field chosen by the path's congestion control.
    pub fn outer(&self, data: Option<&[u8]>, ecn: Ecn) -> Mark {
        let inner = data.and_then(tos);
        Mark {
            dscp: match self.dscp {
                OuterDscp::Copy => {
                    let of_streams = || data.and_then(dccp_streams::dscp);
                    inner.map(|tos| tos >> 2).or_else(of_streams).unwrap_or(0)
                }
                OuterDscp::Pinned(dscp) => dscp,
            },
            ecn: match self.ecn {
                OuterEcn::Own => ecn,
                OuterEcn::Copy => inner.map_or(ecn, Ecn::from_bits),
                OuterEcn::None => Ecn::NotEct,
            },
        }
    }

    /// Applies an arriving packet's outer ECN field to the inner packet `data`. Returns how many bytes of
    /// `data` to deliver.
    pub fn arrived(&self, data: &mut [u8], outer: Ecn) -> usize {
        let Some(inner) = tos(data).map(Ecn::from_bits) else { return data.len() };
        match combine(self.ecn, inner, outer) {
            Some(ecn) if ecn != inner => set_ecn(data, ecn),
            Some(_) => {}
            None => {
                data[..REFUSED.len()].copy_from_slice(REFUSED);
                return REFUSED.len();
            }
        }
        data.len()
    }
}

/// Delivered in place of a marked packet whose flow does not support ECN. The session thus still learns that
/// the packet arrived.
pub(crate) const REFUSED: &[u8] = &[0];

/// Returns the ECN field of a packet that leaves the tunnel (RFC 6040 section 4.2, figure 4), or `None` to
/// drop the packet. Two cases of the figure apply only if the outer field was copied from the inner field
/// (`copied`). Otherwise, the path's congestion control has set the outer field and reacts to marks itself.
/// A mark then does not require a drop, and an outer ECT(1) says nothing about the inner flow.
fn combine(mode: OuterEcn, inner: Ecn, outer: Ecn) -> Option<Ecn> {
    let copied = mode == OuterEcn::Copy;
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) if copied => None,
        (Ecn::NotEct, _) => Some(Ecn::NotEct),
        (_, Ecn::Ce) => Some(Ecn::Ce),
        (Ecn::Ect0, Ecn::Ect1) if copied => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

/// Returns the TOS byte (IPv4) or traffic class (IPv6) of a packet.
fn tos(packet: &[u8]) -> Option<u8> {
    match packet {
        [first, tos, ..] if first >> 4 == 4 && packet.len() >= 20 => Some(*tos),
        [first, second, ..] if first >> 4 == 6 && packet.len() >= 40 => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// Changes the ECN field of a packet. For IPv4, also updates the header checksum (RFC 1624).
fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    if packet[0] >> 4 == 6 {
        packet[1] = packet[1] & 0xcf | ecn.bits() << 4;
        return;
    }
    let old = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] = packet[1] & 0xfc | ecn.bits();
    let new = u16::from_be_bytes([packet[0], packet[1]]);
    let sum = u32::from(!u16::from_be_bytes([packet[10], packet[11]])) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Ipv4Header, PacketBuilder};

    const ALL: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];

    fn packet(version: u8, tos: u8) -> Vec<u8> {
        let mut out = Vec::new();
        if version == 6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 9).udp(1, 2).write(&mut out, b"data").unwrap();
            (out[0], out[1]) = (0x60 | tos >> 4, tos << 4);
        } else {
            let mut ip = Ipv4Header::new(0, 9, etherparse::IpNumber::UDP, [1; 4], [2; 4]).unwrap();
            (ip.dscp, ip.ecn) = ((tos >> 2).try_into().unwrap(), (tos & 3).try_into().unwrap());
            let ip = etherparse::IpHeaders::Ipv4(ip, Default::default());
            PacketBuilder::ip(ip).udp(1, 2).write(&mut out, b"data").unwrap();
        }
        out
    }

    /// RFC 6040 section 4.1: normal mode copies the ECN field; compatibility mode sets Not-ECT.
    #[test]
    fn outer_headers_say_what_was_asked_for() {
        for version in [4, 6] {
            for inner in ALL {
                let packet = packet(version, 46 << 2 | inner.bits());
                let outer = |ecn, dscp| Marker { ecn, dscp }.outer(Some(&packet), Ecn::Ect0);
                let copied = outer(OuterEcn::Copy, OuterDscp::Copy);
                assert_eq!(copied, Mark { dscp: 46, ecn: inner });
                let own = outer(OuterEcn::Own, OuterDscp::Pinned(10));
                assert_eq!(own, Mark { dscp: 10, ecn: Ecn::Ect0 });
                assert_eq!(outer(OuterEcn::None, OuterDscp::Pinned(0)), Mark::default());
            }
        }
        // None of these payloads is an inner IP packet.
        let marker = Marker { ecn: OuterEcn::Copy, dscp: OuterDscp::Copy };
        for data in [None, Some(&[][..]), Some(&[0x45, 0xff][..]), Some(&[0x10; 60][..])] {
            assert_eq!(marker.outer(data, Ecn::Ect0), Mark { dscp: 0, ecn: Ecn::Ect0 });
        }
    }

    #[test]
    fn stream_packets_have_the_dscp_of_their_connection_and_the_paths_own_ecn() {
        let mut streams = dccp_streams::Streams::new(dccp_streams::Role::Client, Default::default());
        let id = streams.open(b"", 0).unwrap();
        streams.classify(id, 0, 46).unwrap();
        let mut packet = [0; 100];
        let len = streams.poll_transmit(Default::default(), 0, 0, None, 0, &mut packet).unwrap();
        let outer = |ecn, dscp| Marker { ecn, dscp }.outer(Some(&packet[..len]), Ecn::Ect0);
        assert_eq!(outer(OuterEcn::Copy, OuterDscp::Copy), Mark { dscp: 46, ecn: Ecn::Ect0 });
        assert_eq!(outer(OuterEcn::Copy, OuterDscp::Pinned(10)).dscp, 10);
    }

    /// Checks every entry of figure 4 in RFC 6040 section 4.2.
    #[test]
    fn inner_headers_become_what_the_table_says() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        // The rows are the inner fields Not-ECT, ECT(0), ECT(1) and CE; the columns are the outer fields in
        // the same order.
        let figure = [
            [Some(NotEct), Some(NotEct), Some(NotEct), None],
            [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)],
            [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)],
            [Some(Ce), Some(Ce), Some(Ce), Some(Ce)],
        ];
        for (inner, row) in ALL.into_iter().zip(figure) {
            for (outer, expected) in ALL.into_iter().zip(row) {
                for (mode, version) in [(OuterEcn::Copy, 4), (OuterEcn::Copy, 6), (OuterEcn::Own, 4)] {
                    let expected = match (mode, inner, outer) {
                        (OuterEcn::Own, NotEct, Ce) => Some(NotEct),
                        (OuterEcn::Own, Ect0, Ect1) => Some(Ect0),
                        _ => expected,
                    };
                    let mut bytes = packet(version, 46 << 2 | inner.bits());
                    let kept = Marker { ecn: mode, dscp: OuterDscp::default() }.arrived(&mut bytes, outer);
                    if expected.is_none() {
                        assert_eq!(bytes[..kept], *REFUSED);
                        continue;
                    }
                    assert_eq!(kept, bytes.len());
                    let ecn = expected.unwrap();
                    // The checksum is still correct, and DSCP and TTL are unchanged.
                    assert_eq!(bytes, packet(version, 46 << 2 | ecn.bits()), "{mode:?} {inner:?} {outer:?}");
                }
            }
        }
    }
}
