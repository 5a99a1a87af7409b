use crate::{Burst, Clock, Encapsulation, Received, private_file};
use dccp_wire::{IPPROTO_DCCP, checksum};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

/// Writes sent and received packets to a pcap file (link type raw IP), with reconstructed IP and UDP headers.
/// UDP checksums are zero over IPv4. Over IPv6, which does not allow zero, they are wrong.
pub struct Capture {
    /// The file; `None` after a write has failed.
    file: Option<File>,
    /// Complete records that have not been written to the file yet, and the number of bytes in the file.
    waiting: Vec<u8>,
    written: u64,
    clock: Clock,
    sources: BTreeMap<(u32, IpAddr), IpAddr>,
}

/// The content of a captured packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Dccp,
    /// Messages of channels, which have no checksum.
    Sealed,
}

/// Maximum number of source addresses that are remembered.
const MAX_SOURCES: usize = 256;
/// The records are written to the file once they add up to this many bytes.
const PIECE: usize = 8192;
/// Header of a pcap file: nanoseconds, version 2.4, snapshot length 65,535, LINKTYPE_RAW.
const HEADER: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 101];
const IPPROTO_UDP: u8 = 17;

impl Capture {
    /// Creates the file, or truncates an existing file.
    ///
    /// # Errors
    /// The system's error.
    pub fn create(path: &Path) -> io::Result<Capture> {
        let file = private_file(OpenOptions::new().write(true).truncate(true), path)?;
        let waiting = HEADER.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(Capture { file: Some(file), waiting, written: 0, clock: Clock, sources: BTreeMap::new() })
    }

    /// Call this when this host's addresses may have changed. The system is then asked again for the local
    /// addresses of packets.
    pub fn forget_sources(&mut self) {
        self.sources.clear();
    }

    /// Records the packets of a sent burst: DCCP packets, or messages of channels.
    pub(crate) fn sent(
        &mut self,
        socket: u32,
        encapsulation: &dyn Encapsulation,
        burst: &Burst<'_>,
        form: Form,
    ) {
        // If there is no route, the packets are not sent.
        let Some(local) = self.source(socket, encapsulation, burst) else { return };
        for packet in burst.bytes.chunks(burst.segment.max(1)) {
            self.write(local, burst.remote, burst.tos(), packet, form);
        }
    }

    /// Records a received datagram.
    pub(crate) fn received(
        &mut self,
        socket: u32,
        bound: Option<SocketAddr>,
        packet: &Received<'_>,
        form: Form,
    ) {
        let bound = bound.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
        let known = self.sources.get(&(socket, packet.remote.ip())).copied();
        let local = SocketAddr::new(packet.local.or(known).unwrap_or(bound.ip()), bound.port());
        self.write(packet.remote, local, packet.ecn.bits(), packet.bytes, form);
    }

    /// Returns the local address of packets to `remote`. The system is asked only once per socket and
    /// destination.
    fn source(
        &mut self,
        socket: u32,
        encapsulation: &dyn Encapsulation,
        burst: &Burst<'_>,
    ) -> Option<SocketAddr> {
        let bound = encapsulation.local_addr().ok()?;
        let key = (socket, burst.remote.ip());
        if let Some(ip) = burst.local.or_else(|| self.sources.get(&key).copied()) {
            return Some(SocketAddr::new(ip, bound.port()));
        }
        if self.sources.len() >= MAX_SOURCES {
            self.sources.clear();
        }
        let ip = encapsulation.source(burst.remote).ok()?;
        self.sources.insert(key, ip);
        Some(SocketAddr::new(ip, bound.port()))
    }

    fn write(&mut self, from: SocketAddr, to: SocketAddr, tos: u8, bytes: &[u8], form: Form) {
        if self.file.is_none() {
            return;
        }
        // Sockets for native DCCP have port 0.
        let udp = from.port() != 0 || to.port() != 0;
        let mut bytes = bytes.to_vec();
        // The encapsulation computes the checksum in its own copy of the packet, so compute it here too.
        // Messages of channels have none.
        if form == Form::Dccp && !udp && bytes.len() >= 12 && from.is_ipv4() == to.is_ipv4() {
            checksum::fill(&mut bytes, from.ip(), to.ip());
        }
        let payload = bytes.len() + if udp { 8 } else { 0 };
        let protocol = if udp { IPPROTO_UDP } else { IPPROTO_DCCP };
        let mut head = ip_header(from.ip(), to.ip(), tos, protocol, payload as u16);
        if udp {
            for field in [from.port(), to.port(), payload as u16, 0] {
                head.extend_from_slice(&field.to_be_bytes());
            }
        }
        let at = self.clock.wall_nanos();
        let len = (head.len() + bytes.len()) as u32;
        let record = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, len, len];
        self.waiting.extend(record.iter().flat_map(|word| word.to_ne_bytes()));
        self.waiting.extend_from_slice(&head);
        self.waiting.extend_from_slice(&bytes);
        if self.waiting.len() >= PIECE {
            self.flush();
        }
    }

    /// Writes the pending records. If the write fails, for example because the disk is full, the traffic
    /// continues. The capture then ends after the last complete write, so that it stays readable.
    fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        match file.write_all(&self.waiting) {
            Ok(()) => self.written += self.waiting.len() as u64,
            Err(e) => {
                // Ignore the error: only a regular file can be truncated.
                let _ = file.set_len(self.written);
                tracing::warn!(
                    "the capture ends after {} bytes, because its file cannot be written: {e}",
                    self.written
                );
                self.file = None;
            }
        }
        self.waiting.clear();
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.flush();
    }
}

fn ip_header(from: IpAddr, to: IpAddr, tos: u8, protocol: u8, payload: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(48);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[0x45, tos]);
            out.extend_from_slice(&(payload + 20).to_be_bytes());
            // Identification is 0, and Don't Fragment is set.
            out.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
            let sum: u32 = out.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            // The addition may carry again.
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            out.extend_from_slice(&[0x60 | tos >> 4, tos << 4, 0, 0]);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(capture: &mut Capture, packets: usize) {
        let (from, to) = (([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into());
        for _ in 0..packets {
            capture.write(from, to, 0, &[7; 100], Form::Sealed);
        }
    }

    /// The first source address stands for one that this host has lost.
    #[test]
    fn packets_have_the_address_that_the_host_has_now() {
        let bind = crate::Bind { addr: ([0; 4], 0).into(), interface: None };
        let socket = crate::UdpEncapsulation::new(bind).unwrap();
        let (lost, now): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [127, 0, 0, 1].into());
        let mut capture = Capture::create(Path::new("/dev/null")).unwrap();
        capture.sources.insert((0, now), lost);
        let mut source = |forget: bool| {
            if forget {
                capture.forget_sources();
            }
            let burst = Burst::of_one(None, (now, 9).into(), &[7; 100]);
            capture.source(0, &socket, &burst).unwrap().ip()
        };
        assert_eq!([source(false), source(true)], [lost, now]);
    }

    /// Size of each record in this test.
    const RECORD: usize = 16 + 28 + 100;

    #[test]
    fn every_ip_header_has_a_valid_checksum() {
        for last in 0..=u16::MAX {
            let [high, low] = last.to_be_bytes();
            let header = ip_header([255, 255, 255, 255].into(), [192, 0, high, low].into(), 0, 17, 108);
            let words = header.chunks(2).map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])));
            assert_eq!(words.sum::<u64>() % 0xffff, 0, "{last:#x}");
        }
    }

    #[test]
    fn a_full_disk_ends_it() {
        let mut capture = Capture::create(Path::new("/dev/full")).unwrap();
        fill(&mut capture, 1);
        assert!(capture.file.is_some(), "no write has failed yet");
        fill(&mut capture, 1000);
        assert!(capture.file.is_none());
        assert!(capture.waiting.is_empty(), "later packets are not stored");
    }

    /// This test runs itself again in a process whose files may have only some KiB.
    #[test]
    fn a_capture_that_stops_early_can_be_read() {
        let path = std::env::temp_dir().join(format!("mpdccp-short-{}.pcap", std::process::id()));
        if let Some(path) = std::env::var_os("SHORT_CAPTURE") {
            let mut capture = Capture::create(path.as_ref()).unwrap();
            fill(&mut capture, 1000);
            assert!(capture.file.is_none(), "the file size limit had no effect");
            return;
        }
        // The trap makes the process ignore SIGXFSZ, which would otherwise end it.
        let run = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 40; exec \"$0\" --exact capture::tests::a_capture_that_stops_early_can_be_read"])
            .arg(std::env::current_exe().unwrap())
            .env("SHORT_CAPTURE", &path)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        let pcap = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(pcap.len() > PIECE);
        assert_eq!((pcap.len() - HEADER.len() * 4) % RECORD, 0, "the file contains only complete records");
    }
}
