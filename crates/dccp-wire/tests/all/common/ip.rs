//! IP and UDP headers around DCCP packets.

use core::net::IpAddr;
use dccp_wire::{IPPROTO_DCCP, checksum};

const IPPROTO_UDP: u8 = 17;

/// Encapsulation of a DCCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encapsulation {
    Native,
    /// In UDP, to this port.
    Udp(u16),
}

/// Returns the complement of the one's complement sum of the 16-bit words.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn datagram(protocol: u8, transport: &[u8], src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let len = transport.len() as u16;
    let mut packet = match src {
        IpAddr::V4(_) => {
            let [l1, l0] = (len + 20).to_be_bytes();
            vec![0x45, 0, l1, l0, 0, 0, 0x40, 0, 64, protocol, 0, 0]
        }
        IpAddr::V6(_) => {
            let [l1, l0] = len.to_be_bytes();
            vec![0x60, 0, 0, 0, l1, l0, protocol, 64]
        }
    };
    packet.extend(octets(src));
    packet.extend(octets(dst));
    if src.is_ipv4() {
        let sum = internet_checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet.extend(transport);
    packet
}

/// Returns the IP packet that carries `dccp`, with the DCCP checksum filled in if the encapsulation uses it.
pub(crate) fn wrap(encapsulation: Encapsulation, mut dccp: Vec<u8>, src: IpAddr, dst: IpAddr) -> Vec<u8> {
    match encapsulation {
        Encapsulation::Native => {
            checksum::fill(&mut dccp, src, dst);
            datagram(IPPROTO_DCCP, &dccp, src, dst)
        }
        Encapsulation::Udp(port) => {
            let len = (dccp.len() as u16 + 8).to_be_bytes();
            let [p1, p0] = port.to_be_bytes();
            let mut udp = vec![0xc0, 0x01, p1, p0, len[0], len[1], 0, 0];
            udp.extend(dccp);
            let pseudo = [&octets(src), &octets(dst), &[0, IPPROTO_UDP][..], &len, &udp].concat();
            let sum = match internet_checksum(&pseudo) {
                0 => 0xffff,
                sum => sum,
            };
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
            datagram(IPPROTO_UDP, &udp, src, dst)
        }
    }
}

/// Returns the DCCP packet of a native IPv4 packet, and its addresses. Removes link-layer padding.
pub(crate) fn unwrap_native(packet: &[u8]) -> Option<(&[u8], IpAddr, IpAddr)> {
    if packet.first()? >> 4 != 4 || packet[9] != IPPROTO_DCCP {
        return None;
    }
    let header = usize::from(packet[0] & 15) * 4;
    let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let ip = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
    Some((&packet[header..len], ip(12), ip(16)))
}
