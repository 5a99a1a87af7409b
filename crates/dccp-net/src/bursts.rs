//! Reads and writes a TUN device in bursts. With offload, one system call passes several segments of a flow
//! as one large packet (super-packet).

use crate::Tun;
use crate::gro::NEEDS_CHECKSUM;
use crate::tun_writer::{Writer, Written};
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use tun_rs::{
    IDEAL_BATCH_SIZE, VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN, VirtioNetHdr, checksum, gso_split,
};

/// Size of the largest IP packet, and therefore of the largest super-packet.
const LARGEST: usize = 65_535;
/// Size of each packet's buffer, if the MTU does not exceed this size. With a larger MTU, each buffer has
/// room for the largest packet.
const USUAL: usize = 2_048;
/// Packets with fewer bytes than this are copied instead of moved.
const LEAST: usize = 1_024;

/// Exchanges bursts with a TUN device that was created with `offload`. Splits super-packets from the kernel
/// (TSO, USO), completes their checksums, and coalesces packets for the kernel. If the device has no offload,
/// reads and writes one packet at a time.
pub struct Bursts {
    tun: Tun,
    /// The super-packet that was read last.
    whole: Box<[u8]>,
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    /// Packets that wait to be written.
    out: Vec<Vec<u8>>,
    writer: Writer,
}

impl Bursts {
    /// Creates bursts for a device whose packets have at most `mtu` bytes.
    pub fn new(tun: Tun, mtu: u16) -> Bursts {
        let room = if usize::from(mtu) <= USUAL { USUAL } else { LARGEST };
        let burst = if tun.offloads() { IDEAL_BATCH_SIZE } else { 1 };
        Bursts {
            whole: vec![0; VIRTIO_NET_HDR_LEN + LARGEST].into_boxed_slice(),
            packets: vec![vec![0; room]; burst],
            sizes: vec![0; burst],
            out: Vec::new(),
            writer: Writer::new(tun.clone()),
            tun,
        }
    }

    /// Returns the device.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }

    /// Reads a burst and returns the number of packets in it, or 0 if there is nothing to read.
    /// [`packet`](Self::packet) returns the packets.
    ///
    /// # Errors
    /// The error of the system, for example if the device is gone. `InvalidData` if a super-packet cannot be
    /// split, in which case it is lost.
    pub fn read(&mut self) -> io::Result<usize> {
        self.read_unless(|_| false).map(Option::unwrap_or_default)
    }

    /// Reads a burst like [`read`](Self::read), but first passes a super-packet with its header to `taken`.
    /// If `taken` returns true, the super-packet is not split, and the result is 0. Returns `None` if there
    /// is nothing to read.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn read_unless(&mut self, taken: impl FnOnce(&[u8]) -> bool) -> io::Result<Option<usize>> {
        let whole = self.tun.offloads();
        let room = if whole { &mut self.whole[..] } else { &mut self.packets[0][..] };
        let n = match self.tun.device().recv(room) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e),
        };
        if !whole {
            self.sizes[0] = n;
            return Ok(Some(1));
        }
        let Bursts { whole, packets, sizes, .. } = self;
        let (header, _) = whole[..n].split_first_chunk::<VIRTIO_NET_HDR_LEN>().ok_or_else(uncut)?;
        let header = VirtioNetHdr::decode(header)?;
        if header.gso_type != 0 && taken(&whole[..n]) {
            return Ok(Some(0));
        }
        cut(header, &mut whole[VIRTIO_NET_HDR_LEN..n], packets, sizes).map(Some)
    }

    /// Returns packet `i` of the last burst.
    pub fn packet(&self, i: usize) -> &[u8] {
        &self.packets[i][..self.sizes[i]]
    }

    /// Moves packet `i` out of the burst: returns the memory into which the packet was read, and puts a block
    /// from `block` in its place. If a copy costs less, returns a copy instead.
    pub fn take(&mut self, i: usize, block: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let size = self.sizes[i];
        if size < LEAST || self.packets[i].len() > USUAL {
            return self.packet(i).to_vec();
        }
        let mut next = block();
        next.resize(USUAL, 0);
        let mut packet = std::mem::replace(&mut self.packets[i], next);
        packet.truncate(size);
        packet
    }

    /// Adds a packet to the burst to be written, without copying it. If the burst is full, first writes it
    /// and passes the memory of its packets to `used`.
    pub fn write(&mut self, packet: Vec<u8>, used: impl FnMut(Vec<u8>)) -> Option<Written> {
        let written = (self.out.len() == IDEAL_BATCH_SIZE).then(|| self.flush(used));
        self.out.push(packet);
        written
    }

    /// Writes the burst and passes the memory of its packets to `used`.
    pub fn flush(&mut self, used: impl FnMut(Vec<u8>)) -> Written {
        let mut written = Written::default();
        self.writer.write(&self.out, &mut written);
        self.out.drain(..).for_each(used);
        written
    }
}

fn uncut() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// Splits a super-packet as its virtio header describes, and completes the checksums.
fn cut(
    mut header: VirtioNetHdr,
    packet: &mut [u8],
    packets: &mut [Vec<u8>],
    sizes: &mut [usize],
) -> io::Result<usize> {
    let start = usize::from(header.csum_start);
    if header.gso_type == 0 {
        if header.flags & NEEDS_CHECKSUM != 0 {
            let at = start + usize::from(header.csum_offset);
            let field = packet.get_mut(at..at + 2).ok_or_else(uncut)?;
            let pseudo_header = u16::from_be_bytes([field[0], field[1]]);
            field.fill(0);
            // In a UDP header, a checksum of 0 means that there is none, so write 0xffff instead.
            let sum = match !checksum(&packet[start..], pseudo_header.into()) {
                0 => u16::MAX,
                sum => sum,
            };
            packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        packets[0].get_mut(..packet.len()).ok_or_else(uncut)?.copy_from_slice(packet);
        sizes[0] = packet.len();
        return Ok(1);
    }
    // Do not use the header length from the kernel: for a forwarded packet, it may be the length of the whole
    // packet.
    let behind = match header.gso_type {
        VIRTIO_NET_HDR_GSO_UDP_L4 => 8,
        _ => usize::from(packet.get(start + 12).ok_or_else(uncut)? >> 4) * 4,
    };
    header.hdr_len = u16::try_from(start + behind).map_err(|_| uncut())?;
    let v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    gso_split(packet, header, packets, sizes, 0, v6)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

impl AsFd for Bursts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}
