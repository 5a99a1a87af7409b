//! Generic receive offload in user space: groups consecutive packets of a flow, so that the kernel accepts
//! each group as one packet, and builds the header of each group.
//!
//! The library that splits packets can also coalesce them, but copies each packet twice. This code copies no
//! packets; one `writev` collects them.

use std::ops::Range;
use tun_rs::{
    VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN,
    VirtioNetHdr, checksum, checksum_no_fold,
};

/// Size limit of a coalesced packet.
const MOST_BYTES: usize = 65_000;
/// Maximum number of packets in a group. The kernel splits a UDP packet into at most this many
/// (UDP_MAX_SEGMENTS).
pub(crate) const MOST_PARTS: usize = 64;

/// Size limit of the headers: IPv6, and TCP with all options.
const HEADERS: usize = 100;

/// Numbers of IP protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Flags of a TCP header.
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum field contains only the sum of the pseudo-header. The kernel
/// completes the checksum if necessary.
pub(crate) const NEEDS_CHECKSUM: u8 = 1;

/// The structure of a packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Length of the IP header.
    ip: usize,
    /// Length of the IP and transport headers.
    headers: usize,
    protocol: u8,
    /// A hash of the flow. Packets of one flow have the same hash, and packets of different flows rarely do.
    key: u64,
}

impl Shape {
    /// Analyses a packet. Returns `None` unless it is a complete TCP or UDP packet without IP options or IPv6
    /// extension headers.
    fn of(packet: &[u8]) -> Option<Shape> {
        let word = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
        let (ip, protocol, whole, addresses) = match packet.first()? {
            // Exclude fragments, because only the first fragment has ports.
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

    /// Returns the ranges of header bytes that must be equal in all packets of a group.
    fn common(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let &Shape { ip, headers, protocol, .. } = self;
        // IPv4: all fields except the length, the checksum and the identification, which the kernel
        // increments when it splits a packet. IPv6: all fields except the length.
        let network = if ip == 20 { [0..2, 6..10, 12..20] } else { [0..4, 6..40, 0..0] };
        // UDP: the ports. TCP: also the acknowledgement number, the header length and the options. The window
        // may differ, as in the kernel's own offload.
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

    /// Returns the TCP sequence number of this packet and that of the next packet.
    fn sequence(&self, packet: &[u8], size: usize) -> (u32, u32) {
        if self.protocol != TCP {
            return (0, 0);
        }
        let bytes = &packet[self.ip + 4..self.ip + 8];
        let now = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        (now, now.wrapping_add(size as u32))
    }

    /// Returns whether the packet may be in a group, and whether it has the PSH flag. A packet with PSH is
    /// the last of its group.
    fn can_coalesce(&self, packet: &[u8]) -> (bool, bool) {
        let full = packet.len() > self.headers;
        match self.protocol {
            TCP => {
                let flags = packet[self.ip + 13];
                (full && flags & !PSH == ACK, flags & PSH != 0)
            }
            // Exclude datagrams without a checksum, because coalescing would give them one over IPv4.
            _ => (full && packet[self.ip + 6..self.ip + 8] != [0, 0], false),
        }
    }
}

/// Consecutive packets of a flow that are written as one packet, or a single packet.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Structure of the packets; `None` if the packet cannot be grouped with others.
    shape: Option<Shape>,
    first: usize,
    last: usize,
    packets: usize,
    bytes: usize,
    /// Payload size of each packet except the last.
    size: usize,
    /// Whether another packet may be added.
    open: bool,
    /// TCP sequence number that the next packet of the group must have.
    next: u32,
    /// Whether the last packet has the PSH flag.
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

    /// Returns how many bytes at the start of each packet are replaced by [`header`](Self::header).
    pub(crate) fn headers(&self) -> usize {
        self.shape.map_or(0, |shape| shape.headers)
    }

    /// Returns the header of the first packet, changed to describe the whole group.
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

/// Groups the packets of a burst.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    groups: Vec<Group>,
    /// For each packet, the index of the packet after it in the same group.
    following: Vec<usize>,
    /// Index of the first group that may still grow.
    barrier: usize,
}

impl Coalescer {
    /// Groups the packets of a burst. The packets of each flow stay in order. `udp` says whether the kernel
    /// accepts coalesced UDP packets.
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
            // The packet may be a fragment. Later packets of its flow must not overtake it, so from here on
            // no earlier group may grow.
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
            // The packets must have correct checksums: a packet that was damaged earlier must not get a valid
            // checksum here.
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

    /// Returns the groups in the order in which they must be written.
    pub(crate) fn all(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the indices of a group's packets, in order.
    pub(crate) fn members(&self, group: &Group) -> impl Iterator<Item = usize> + use<'_> {
        std::iter::successors(Some(group.first), |i| {
            Some(self.following[*i]).filter(|next| *next != usize::MAX)
        })
    }
}

#[cfg(test)]
#[path = "gro_tests.rs"]
mod tests;
