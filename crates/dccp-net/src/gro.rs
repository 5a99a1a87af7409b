//! Receive offload in user space. Groups consecutive packets of a flow that the kernel accepts as one packet,
//! and builds the header of the group.
//!
//! The library that splits packets can also coalesce them, but copies each packet twice. This code leaves the
//! packets in place, and one `writev` collects them.

use std::ops::Range;
use tun_rs::{
    VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN,
    VirtioNetHdr, checksum, checksum_no_fold,
};

/// Maximum number of bytes of a coalesced packet.
const MOST_BYTES: usize = 65_000;
/// Maximum number of packets in a coalesced packet: the kernel splits a UDP packet into at most this many
/// (UDP_MAX_SEGMENTS).
pub(crate) const MOST_PARTS: usize = 64;

/// Maximum size of the headers: IPv6 and TCP with all options.
const HEADERS: usize = 100;

/// Numbers of IP protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Flags of a TCP header.
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum field contains only the sum of the pseudo-header. The kernel
/// completes it if necessary.
pub(crate) const NEEDS_CHECKSUM: u8 = 1;

/// Structure of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Length of the IP header.
    ip: usize,
    /// Length of the IP and transport headers.
    headers: usize,
    protocol: u8,
    /// A hash of the flow. It is equal for all packets of a flow, and rarely equal for different flows.
    key: u64,
}

impl Shape {
    /// Returns `None` unless this is a complete TCP or UDP packet without IP options and IPv6 extension
    /// headers.
    fn of(packet: &[u8]) -> Option<Shape> {
        let word = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
        let (ip, protocol, whole, addresses) = match packet.first()? {
            // Only the first fragment has ports, so fragments are excluded.
            0x45 if word(6)? & 0x3fff == 0 => (20, *packet.get(9)?, usize::from(word(2)?), 12..20),
            version if version >> 4 == 6 => (40, *packet.get(6)?, usize::from(word(4)?) + 40, 8..40),
            _ => return None,
        };
        let headers = match protocol {
            TCP => ip + usize::from(packet.get(ip + 12)? >> 4) * 4,
            UDP => ip + 8,
            _ => return None,
        };
        let least = ip + if protocol == TCP { 20 } else { 8 };
        if whole != packet.len() || headers < least || headers > packet.len() {
            return None;
        }
        let mut key = u64::from(protocol);
        for word in packet[addresses].chunks_exact(4).chain([&packet[ip..ip + 4]]) {
            let word = u32::from_be_bytes(word.try_into().ok()?);
            key = (key.rotate_left(23) ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Some(Shape { ip, headers, protocol, key })
    }

    fn addresses(&self) -> Range<usize> {
        if self.ip == 20 { 12..20 } else { 8..40 }
    }

    /// Ranges of bytes that must be equal in coalesced packets.
    fn common(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let &Shape { ip, headers, protocol, .. } = self;
        // IPv4: all fields except length, checksum and identification. The kernel increments the
        // identification when it splits. IPv6: all fields except the length.
        let network = if ip == 20 { [0..2, 6..10, 12..20] } else { [0..4, 6..40, 0..0] };
        // The ports. In TCP also the acknowledgement number, the header length and the options. As in the
        // kernel, the window may change.
        let transport = match protocol {
            TCP => [ip..ip + 4, ip + 8..ip + 13, ip + 20..headers],
            _ => [ip..ip + 4, 0..0, 0..0],
        };
        network.into_iter().chain(transport)
    }

    fn pseudo_header(&self, packet: &[u8], length: usize) -> u64 {
        checksum_no_fold(&packet[self.addresses()], u64::from(self.protocol) + length as u64)
    }

    fn is_intact(&self, packet: &[u8]) -> bool {
        let carried = &packet[self.ip..];
        checksum(carried, self.pseudo_header(packet, carried.len())) == u16::MAX
    }

    /// TCP sequence numbers of this packet and of the one after it.
    fn sequence(&self, packet: &[u8], size: usize) -> (u32, u32) {
        if self.protocol != TCP {
            return (0, 0);
        }
        let bytes = &packet[self.ip + 4..self.ip + 8];
        let now = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        (now, now.wrapping_add(size as u32))
    }

    /// Whether the packet may be coalesced at all, and whether it has PSH. No packet may follow PSH in a
    /// group.
    fn can_coalesce(&self, packet: &[u8]) -> (bool, bool) {
        let full = packet.len() > self.headers;
        match self.protocol {
            TCP => {
                let flags = packet[self.ip + 13];
                (full && flags & !PSH == ACK, flags & PSH != 0)
            }
            // Over IPv4, coalescing would add a checksum to a datagram that has none.
            _ => (full && packet[self.ip + 6..self.ip + 8] != [0, 0], false),
        }
    }
}

/// Consecutive packets that are written as one packet, or a single packet.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// `None` if the packet cannot be coalesced.
    shape: Option<Shape>,
    first: usize,
    last: usize,
    packets: usize,
    bytes: usize,
    /// Payload size of each packet except the last.
    size: usize,
    /// Whether another packet may be added.
    open: bool,
    /// TCP sequence number that the next packet must have.
    next: u32,
    /// Whether the last packet has PSH.
    push: bool,
}

/// The headers of a group: the virtio header, then the header of the coalesced packet.
pub(crate) struct Header {
    bytes: [u8; VIRTIO_NET_HDR_LEN + HEADERS],
    len: usize,
}

impl Header {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Group {
    pub(crate) fn packets(&self) -> usize {
        self.packets
    }

    /// Number of bytes at the start of each packet that [`header`](Self::header) replaces.
    pub(crate) fn headers(&self) -> usize {
        self.shape.map_or(0, |shape| shape.headers)
    }

    /// The header of the first packet, changed to describe the whole group.
    pub(crate) fn header(&self, burst: &[Vec<u8>]) -> Header {
        let mut header = Header { bytes: [0; _], len: VIRTIO_NET_HDR_LEN + self.headers() };
        let Some(shape) = self.shape else { return header };
        let (ip, carried) = (shape.ip, self.bytes - shape.ip);
        let (device, packet) = header.bytes.split_at_mut(VIRTIO_NET_HDR_LEN);
        packet[..shape.headers].copy_from_slice(&burst[self.first][..shape.headers]);
        let mut put = |at: usize, value: u16| packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
        if ip == 20 {
            put(2, self.bytes as u16);
            put(10, 0);
        } else {
            put(4, carried as u16);
        }
        let (offset, gso_type) = match shape.protocol {
            TCP if ip == 20 => (16, VIRTIO_NET_HDR_GSO_TCPV4),
            TCP => (16, VIRTIO_NET_HDR_GSO_TCPV6),
            _ => {
                put(ip + 4, carried as u16);
                (6, VIRTIO_NET_HDR_GSO_UDP_L4)
            }
        };
        put(ip + offset, checksum(&[], shape.pseudo_header(&burst[self.first], carried)));
        if ip == 20 {
            let sum = !checksum(&packet[..ip], 0);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        if self.push {
            packet[ip + 13] |= PSH;
        }
        let told = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            gso_type,
            hdr_len: shape.headers as u16,
            gso_size: self.size as u16,
            csum_start: ip as u16,
            csum_offset: offset as u16,
        };
        let told = told.encode(device);
        debug_assert!(told.is_ok(), "the buffer has room for the header");
        header
    }
}

/// Joins a burst.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    groups: Vec<Group>,
    /// For each packet, the index of the next packet in its group.
    following: Vec<usize>,
    /// Index of the first group that may grow. Earlier groups are complete.
    barrier: usize,
}

impl Coalescer {
    /// Groups the packets of a burst. Packets of each flow stay in order. `udp`: whether the kernel accepts
    /// coalesced datagrams.
    pub(crate) fn sort(&mut self, burst: &[Vec<u8>], udp: bool) {
        self.groups.clear();
        self.following.clear();
        self.following.resize(burst.len(), usize::MAX);
        self.barrier = 0;
        for i in 0..burst.len() {
            self.add(burst, i, udp);
        }
    }

    fn add(&mut self, burst: &[Vec<u8>], i: usize, udp: bool) {
        let packet = &burst[i];
        let bytes = packet.len();
        let mut alone = Group { first: i, last: i, packets: 1, bytes, ..Group::default() };
        let Some(shape) = Shape::of(packet) else {
            // The packet may be a fragment. Packets of its flow must not overtake it.
            self.groups.push(alone);
            self.barrier = self.groups.len();
            return;
        };
        let (fits, push) = shape.can_coalesce(packet);
        let size = bytes - shape.headers;
        let (now, next) = shape.sequence(packet, size);
        let mut of_flow = self.groups[self.barrier..].iter_mut().rev();
        if let Some(group) = of_flow.find(|group| group.shape.is_some_and(|s| s.key == shape.key))
            && group.open
            && fits
            && size <= group.size
            && now == group.next
            && group.packets < MOST_PARTS
            && group.bytes + size <= MOST_BYTES
            && shape.common().all(|field| burst[group.first][field.clone()] == packet[field])
            // A packet that was damaged before the tunnel must not receive a valid checksum.
            && (group.packets > 1 || shape.is_intact(&burst[group.first]))
            && shape.is_intact(packet)
        {
            self.following[group.last] = i;
            group.last = i;
            group.packets += 1;
            group.bytes += size;
            group.open = size == group.size && !push;
            (group.next, group.push) = (next, push);
            return;
        }
        alone.open = fits && !push && (udp || shape.protocol == TCP);
        self.groups.push(Group { shape: Some(shape), size, next, push, ..alone });
    }

    /// The groups in the order of writing.
    pub(crate) fn all(&self) -> &[Group] {
        &self.groups
    }

    /// Indices of the packets of a group, in order.
    pub(crate) fn members(&self, group: &Group) -> impl Iterator<Item = usize> + use<'_> {
        std::iter::successors(Some(group.first), |i| {
            Some(self.following[*i]).filter(|next| *next != usize::MAX)
        })
    }
}

#[cfg(test)]
#[path = "gro_tests.rs"]
mod tests;
