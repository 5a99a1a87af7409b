//! A TUN device read and written in bursts: the kernel hands over and takes several segments of a flow in one call.

use crate::Tun;
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use tun_rs::{ExpandBuffer, GROTable, IDEAL_BATCH_SIZE, VIRTIO_NET_HDR_LEN};

/// Largest IP packet, and so the largest super-packet.
const LARGEST: usize = 65_535;
/// Room for each packet of a burst, for MTUs up to here; a device with a larger one gets room for the largest packet.
const USUAL: usize = 2_048;
/// A joined packet takes no more than this, ...
const JOINED: usize = 65_000;
/// ... and one whose memory is larger than this was one that others were joined to.
const ALONE: usize = 4_096;

/// A packet to be written, behind room for the header of the device. Only the first packet of those that are joined needs room for all of them; if each
/// had it, a burst would lie over megabytes, and each packet be copied to where no cache has anything.
#[derive(Default)]
struct Outgoing(Vec<u8>);

impl Outgoing {
    fn set(&mut self, packet: &[u8]) {
        self.0.extend_from_slice(&[0; VIRTIO_NET_HDR_LEN]);
        self.0.extend_from_slice(packet);
    }

    /// IP bytes.
    fn size(&self) -> u64 {
        (self.0.len() - VIRTIO_NET_HDR_LEN) as u64
    }

    /// Keeps memory for a packet.
    fn clear(&mut self) {
        if self.0.capacity() > ALONE {
            self.0 = Vec::new();
        }
        self.0.clear();
    }

    fn grow(&mut self) {
        let all = VIRTIO_NET_HDR_LEN + JOINED;
        if self.0.capacity() < all {
            self.0.reserve_exact(all - self.0.len());
        }
    }
}

impl AsRef<[u8]> for Outgoing {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Outgoing {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl ExpandBuffer for Outgoing {
    fn buf_capacity(&self) -> usize {
        VIRTIO_NET_HDR_LEN + JOINED
    }

    fn buf_resize(&mut self, new_len: usize, value: u8) {
        self.grow();
        self.0.resize(new_len, value);
    }

    fn buf_extend_from_slice(&mut self, src: &[u8]) {
        self.grow();
        self.0.extend_from_slice(src);
    }
}

/// What writing a burst came to.
#[derive(Debug, Default)]
pub struct Written {
    /// Packets the kernel took.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
    /// Packets it did not take, and what it said to the last of them.
    pub refused: u64,
    /// None if it took all.
    pub error: Option<io::Error>,
}

/// Cuts what the kernel hands over whole (TSO, USO) and joins what it may take whole, checksums completed, if the device was made with
/// `offload`; reads and writes a packet at a time if it was not, or the kernel has none.
pub struct Bursts {
    tun: Tun,
    /// As read, before it is cut.
    whole: Box<[u8]>,
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    table: Box<GROTable>,
    /// Packets to be written; the first `waiting` are in use.
    out: Vec<Outgoing>,
    waiting: usize,
    joins: bool,
}

impl Bursts {
    /// Of a device whose packets are `mtu` bytes at most.
    pub fn new(tun: Tun, mtu: u16) -> Bursts {
        let room = if usize::from(mtu) <= USUAL { USUAL } else { LARGEST };
        let burst = if tun.offloads() { IDEAL_BATCH_SIZE } else { 1 };
        Bursts {
            whole: vec![0; VIRTIO_NET_HDR_LEN + LARGEST].into_boxed_slice(),
            packets: vec![vec![0; room]; burst],
            sizes: vec![0; burst],
            table: Box::default(),
            out: Vec::new(),
            waiting: 0,
            joins: tun.offloads(),
            tun,
        }
    }

    /// The device.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }

    /// Reads a burst; how many packets [`packet`](Self::packet) has of it, none if there is nothing to read.
    ///
    /// # Errors
    /// What the system says, the device being gone among it; `InvalidData` for a burst that cannot be cut, which is lost.
    pub fn read(&mut self) -> io::Result<usize> {
        match self.tun.device().recv_multiple(&mut self.whole, &mut self.packets, &mut self.sizes, 0) {
            Ok(n) => Ok(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(e) if e.raw_os_error().is_none() => Err(io::Error::new(io::ErrorKind::InvalidData, e)),
            Err(e) => Err(e),
        }
    }

    /// Packet `i` of the burst that was read last.
    pub fn packet(&self, i: usize) -> &[u8] {
        &self.packets[i][..self.sizes[i]]
    }

    /// Puts a packet into the burst to be written; if that is full, writes it first.
    pub fn write(&mut self, packet: &[u8]) -> Option<Written> {
        let written = (self.waiting == IDEAL_BATCH_SIZE).then(|| self.flush());
        if self.out.len() == self.waiting {
            self.out.push(Outgoing::default());
        }
        self.out[self.waiting].set(packet);
        self.waiting += 1;
        written
    }

    /// Writes the burst.
    pub fn flush(&mut self) -> Written {
        let burst = &mut self.out[..self.waiting];
        let bytes = burst.iter().map(Outgoing::size).sum();
        let mut written = Written { packets: self.waiting as u64, bytes, ..Written::default() };
        if self.joins && burst.len() > 1 {
            if let Err(e) = self.tun.device().send_multiple(&mut self.table, burst, VIRTIO_NET_HDR_LEN) {
                // How many were lost is not known. Some kernels refuse some super-packets; no more are made then.
                if !Tun::is_down(&e) {
                    self.joins = false;
                    tracing::warn!(
                        "the kernel refused a joined packet ({e}); packets are written one by one from now on"
                    );
                }
                written = Written { refused: written.packets, error: Some(e), ..Written::default() };
            }
        } else {
            for packet in burst.iter() {
                let header = if self.tun.offloads() { 0 } else { VIRTIO_NET_HDR_LEN };
                if let Err(e) = self.tun.write(&packet.0[header..]) {
                    written.packets -= 1;
                    written.bytes -= packet.size();
                    written.refused += 1;
                    written.error = Some(e);
                }
            }
        }
        burst.iter_mut().for_each(Outgoing::clear);
        self.waiting = 0;
        written
    }
}

impl AsFd for Bursts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}
