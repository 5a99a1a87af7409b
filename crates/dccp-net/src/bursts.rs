//! A TUN device read and written in bursts: the kernel hands over and takes several segments of a flow in one call.

use crate::Tun;
use crate::gro::{Coalescer, MOST_PARTS};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{Errno, writev};
use std::io::{self, IoSlice};
use tun_rs::{IDEAL_BATCH_SIZE, VIRTIO_NET_HDR_LEN};

/// Largest IP packet, and so the largest super-packet.
const LARGEST: usize = 65_535;
/// Room for each packet of a burst, for MTUs up to here; a device with a larger one gets room for the largest packet.
const USUAL: usize = 2_048;
/// Smaller packets are copied.
const LEAST: usize = 1_024;
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
    coalescer: Coalescer,
    /// Packets to be written.
    out: Vec<Vec<u8>>,
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
            coalescer: Coalescer::default(),
            out: Vec::new(),
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

    /// The same, to keep: in the memory it was read into, in place of which `block` gives other, unless a copy is less work.
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

    /// Puts a packet into the burst to be written, where it stays in the memory that it has; if the burst is full, writes it first, and hands the
    /// memory of its packets to `used`.
    pub fn write(&mut self, packet: Vec<u8>, used: impl FnMut(Vec<u8>)) -> Option<Written> {
        let written = (self.out.len() == IDEAL_BATCH_SIZE).then(|| self.flush(used));
        self.out.push(packet);
        written
    }

    /// Writes the burst, and hands the memory of its packets to `used`.
    pub fn flush(&mut self, used: impl FnMut(Vec<u8>)) -> Written {
        let mut written = Written::default();
        if self.joins && self.out.len() > 1 {
            self.write_joined(&mut written);
        } else {
            self.out.iter().for_each(|packet| write_one(&self.tun, packet, &mut written));
        }
        self.out.drain(..).for_each(used);
        written
    }

    fn write_joined(&mut self, written: &mut Written) {
        let Bursts { tun, coalescer, out, joins, .. } = self;
        coalescer.sort(out, tun.device().udp_gso());
        for joined in coalescer.all() {
            let alone = joined.packets() == 1;
            if alone || !*joins {
                coalescer.members(joined).for_each(|i| write_one(tun, &out[i], written));
                continue;
            }
            let header = joined.header(out);
            let mut parts = [IoSlice::new(&[]); 1 + MOST_PARTS];
            parts[0] = IoSlice::new(header.as_bytes());
            for (part, i) in parts[1..].iter_mut().zip(coalescer.members(joined)) {
                *part = IoSlice::new(&out[i][joined.headers()..]);
            }
            match writev(&*tun, &parts[..1 + joined.packets()]) {
                Ok(_) => {
                    written.packets += joined.packets() as u64;
                    written.bytes += coalescer.members(joined).map(|i| out[i].len() as u64).sum::<u64>();
                }
                Err(e) => {
                    // Some kernels refuse some super-packets; no more are made then.
                    if e != Errno::IO {
                        *joins = false;
                        tracing::warn!(
                            "the kernel refused a joined packet ({e}); packets are written one by one from now on"
                        );
                    }
                    coalescer.members(joined).for_each(|i| write_one(tun, &out[i], written));
                }
            }
        }
    }
}

fn write_one(tun: &Tun, packet: &[u8], written: &mut Written) {
    let header: &[u8] = if tun.offloads() { &[0; VIRTIO_NET_HDR_LEN] } else { &[] };
    match writev(tun, &[IoSlice::new(header), IoSlice::new(packet)]) {
        Ok(_) => {
            written.packets += 1;
            written.bytes += packet.len() as u64;
        }
        Err(e) => {
            written.refused += 1;
            written.error = Some(e.into());
        }
    }
}

impl AsFd for Bursts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}
