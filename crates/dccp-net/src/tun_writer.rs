//! Writes bursts of packets to a TUN device, coalescing the packets of each flow.

use crate::Tun;
use crate::gro::{Coalescer, MOST_PARTS};
use rustix::io::{Errno, writev};
use std::io::{self, IoSlice};
use tun_rs::VIRTIO_NET_HDR_LEN;

/// Result of writing a burst.
#[derive(Debug, Default)]
pub struct Written {
    /// Packets that the kernel accepted.
    pub packets: u64,
    /// IP bytes of the accepted packets.
    pub bytes: u64,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// The last error. `None` if the kernel accepted all packets.
    pub error: Option<io::Error>,
}

pub(crate) struct Writer {
    tun: Tun,
    coalescer: Coalescer,
    coalesces: bool,
}

impl Writer {
    pub(crate) fn new(tun: Tun) -> Writer {
        Writer { coalescer: Coalescer::default(), coalesces: tun.offloads(), tun }
    }

    pub(crate) fn write(&mut self, out: &[Vec<u8>], written: &mut Written) {
        if self.coalesces && out.len() > 1 {
            self.write_coalesced(out, written);
        } else {
            out.iter().for_each(|packet| write_one(&self.tun, packet, written));
        }
    }

    fn write_coalesced(&mut self, out: &[Vec<u8>], written: &mut Written) {
        let Writer { tun, coalescer, coalesces } = self;
        coalescer.sort(out, tun.device().udp_gso());
        for group in coalescer.all() {
            let alone = group.packets() == 1;
            if alone || !*coalesces {
                coalescer.members(group).for_each(|i| write_one(tun, &out[i], written));
                continue;
            }
            let header = group.header(out);
            let mut parts = [IoSlice::new(&[]); 1 + MOST_PARTS];
            parts[0] = IoSlice::new(header.as_bytes());
            for (part, i) in parts[1..].iter_mut().zip(coalescer.members(group)) {
                *part = IoSlice::new(&out[i][group.headers()..]);
            }
            match writev(&*tun, &parts[..1 + group.packets()]) {
                Ok(_) => {
                    written.packets += group.packets() as u64;
                    written.bytes += coalescer.members(group).map(|i| out[i].len() as u64).sum::<u64>();
                }
                Err(e) => {
                    // Some kernels refuse some super-packets. From now on, write each packet on its own.
                    if e != Errno::IO {
                        *coalesces = false;
                        tracing::warn!(
                            "the kernel refused a coalesced packet ({e}); from now on packets are written one by one"
                        );
                    }
                    coalescer.members(group).for_each(|i| write_one(tun, &out[i], written));
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
