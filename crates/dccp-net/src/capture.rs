use crate::{Burst, Clock, Received};
use dccp_wire::IPPROTO_DCCP;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Writes what carriers send and receive to a pcap file (link type raw IP), with IP and UDP headers made up from what is
/// known of them. UDP checksums are left out over IPv4 and wrong over IPv6, where the field may not be zero.
pub struct Capture {
    file: BufWriter<File>,
    clock: Clock,
}

/// Nanosecond pcap, version 2.4, snapshot length 65,535, LINKTYPE_RAW.
const HEADER: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 101];
const IPPROTO_UDP: u8 = 17;

impl Capture {
    /// Creates or empties the file.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Capture> {
        let mut file = BufWriter::new(File::create(path)?);
        for word in HEADER {
            file.write_all(&word.to_ne_bytes())?;
        }
        Ok(Capture { file, clock: Clock })
    }

    pub(crate) fn sent(&mut self, bound: Option<SocketAddr>, burst: &Burst<'_>) {
        let local = local_of(bound, burst.local, burst.remote);
        for packet in burst.bytes.chunks(burst.segment.max(1)) {
            self.write(local, burst.remote, burst.ecn.bits(), packet);
        }
    }

    pub(crate) fn received(&mut self, bound: Option<SocketAddr>, packet: &Received<'_>) {
        let local = local_of(bound, packet.local, packet.remote);
        self.write(packet.remote, local, packet.ecn.bits(), packet.bytes);
    }

    /// A capture that cannot be written (disk full) must not stop the traffic: the packet is left out.
    fn write(&mut self, from: SocketAddr, to: SocketAddr, ecn: u8, dccp: &[u8]) {
        // Sockets of native DCCP have no port.
        let udp = from.port() != 0 || to.port() != 0;
        let payload = dccp.len() + if udp { 8 } else { 0 };
        let protocol = if udp { IPPROTO_UDP } else { IPPROTO_DCCP };
        let mut head = ip_header(from.ip(), to.ip(), ecn, protocol, payload as u16);
        if udp {
            for field in [from.port(), to.port(), payload as u16, 0] {
                head.extend_from_slice(&field.to_be_bytes());
            }
        }
        let at = self.clock.wall_nanos();
        let len = (head.len() + dccp.len()) as u32;
        let record = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, len, len];
        let record: Vec<u8> = record.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let _ = [&record[..], &head, dccp].iter().try_for_each(|part| self.file.write_all(part));
    }
}

/// The address of this end of a packet, as far as it is known without asking the system.
fn local_of(bound: Option<SocketAddr>, packet: Option<IpAddr>, remote: SocketAddr) -> SocketAddr {
    let any: IpAddr = if remote.is_ipv4() { [0u8; 4].into() } else { [0u8; 16].into() };
    let bound = bound.unwrap_or(SocketAddr::new(any, 0));
    SocketAddr::new(packet.unwrap_or(bound.ip()), bound.port())
}

fn ip_header(from: IpAddr, to: IpAddr, ecn: u8, protocol: u8, payload: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(48);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[0x45, ecn]);
            out.extend_from_slice(&(payload + 20).to_be_bytes());
            // Identification 0, Don't Fragment.
            out.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
            let sum: u32 = out.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            out.extend_from_slice(&[0x60, ecn << 4, 0, 0]);
            out.extend_from_slice(&payload.to_be_bytes());
            out.extend_from_slice(&[protocol, 64]);
            for ip in [from, to] {
                out.extend_from_slice(&match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                });
            }
        }
    }
    out
}
