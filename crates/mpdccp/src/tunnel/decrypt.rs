//! `tunnel decrypt` replaces the encrypted records in a capture with the DCCP packets inside them, for use in
//! Wireshark.

use crate::error::Error;
use dccp_net::private_file;
use dccp_secure::KeyLog;
use dccp_wire::{IPPROTO_DCCP, checksum};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// IP protocol number of UDP.
const UDP: u8 = 17;
/// Size of an IPv6 header.
const IPV6: usize = 40;
/// Maximum size of a packet in a capture, in bytes.
const LONGEST: usize = 262_144;

pub(crate) fn run(keylog: &Path, input: &Path, output: &Path) -> Result<(), Error> {
    let cannot = |what: &str, file: &Path, e: std::io::Error| {
        Error::usage(format!("cannot {what} {}: {e}", file.display()))
    };
    let text = std::fs::read_to_string(keylog).map_err(|e| cannot("read", keylog, e))?;
    let keys = KeyLog::parse(&text).map_err(|line| {
        Error::usage(format!("{}: line {line} is not in the format of `keylog`", keylog.display()))
    })?;
    let mut reader = BufReader::new(File::open(input).map_err(|e| cannot("read", input, e))?);
    let mut head = [0; 24];
    let whole = match reader.read_exact(&mut head) {
        Err(e) if e.kind() != ErrorKind::UnexpectedEof => return Err(cannot("read", input, e)),
        read => read.is_ok(),
    };
    let format = Format::of(&head).filter(|_| whole).ok_or_else(|| {
        Error::usage(format!("{} is not a pcap file; convert pcapng with `editcap -F pcap`", input.display()))
    })?;
    // Create the output file only after the input has been checked, and never overwrite the input.
    if same_file(input, output) {
        return Err(Error::usage(format!(
            "{} is both input and output; give another output file",
            input.display()
        )));
    }
    let unwritten = |e| cannot("write", output, e);
    let out = private_file(OpenOptions::new().write(true).truncate(true), output).map_err(unwritten)?;
    let mut writer = BufWriter::new(out);
    writer.write_all(&head).map_err(unwritten)?;
    let (mut packets, mut opened) = (0, 0);
    let mut record = [0; 16];
    while reader.read_exact(&mut record).is_ok() {
        let len = format.number(&record[8..12]) as usize;
        let mut packet = vec![0; len.min(LONGEST)];
        if len > LONGEST || reader.read_exact(&mut packet).is_err() {
            // The last packet of the capture is truncated.
            break;
        }
        packets += 1;
        if open(&keys, format.link, &mut packet).is_some() {
            opened += 1;
            let len = format.bytes(packet.len() as u32);
            record[8..12].copy_from_slice(&len);
            record[12..16].copy_from_slice(&len);
        }
        writer.write_all(&record).and_then(|()| writer.write_all(&packet)).map_err(unwritten)?;
    }
    writer.flush().map_err(unwritten)?;
    println!("decrypted {opened} of {packets} packets");
    Ok(())
}

fn same_file(a: &Path, b: &Path) -> bool {
    let of = |path| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    of(a).is_some_and(|a| of(b) == Some(a))
}

/// Byte order of a capture file, and its link type.
struct Format {
    little: bool,
    link: u32,
}

impl Format {
    fn of(head: &[u8; 24]) -> Option<Format> {
        // The magic number determines the byte order, and whether times are in microseconds or nanoseconds.
        let little = match head[..4] {
            [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => true,
            [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => false,
            _ => return None,
        };
        let mut format = Format { little, link: 0 };
        format.link = format.number(&head[20..24]);
        Some(format)
    }

    fn number(&self, bytes: &[u8]) -> u32 {
        let bytes = bytes.first_chunk().copied().unwrap_or_default();
        if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    fn bytes(&self, number: u32) -> [u8; 4] {
        if self.little { number.to_le_bytes() } else { number.to_be_bytes() }
    }
}

/// Positions within a packet of the headers and the payload, which may be a record.
struct Layout {
    /// Where the IP header starts and ends.
    ip: usize,
    transport: usize,
    /// Position of the record, which is the payload of UDP or, with native DCCP, of IP.
    record: Range<usize>,
    udp: bool,
}

fn layout(link: u32, packet: &[u8]) -> Option<Layout> {
    let ip = match link {
        // Link types: Ethernet, raw IP, and Linux cooked versions 1 and 2.
        1 => 14,
        101 => 0,
        113 => 16,
        276 => 20,
        _ => return None,
    };
    let short = |at: usize| Some(usize::from(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    let (protocol, transport, end) = match packet.get(ip)? >> 4 {
        4 => (*packet.get(ip + 9)?, ip + usize::from(packet[ip] & 15) * 4, ip + short(ip + 2)?),
        6 => (*packet.get(ip + 6)?, ip + IPV6, ip + IPV6 + short(ip + 4)?),
        _ => return None,
    };
    let record = match protocol {
        UDP => transport + 8..transport + short(transport + 4)?.max(8),
        IPPROTO_DCCP => transport..end,
        _ => return None,
    };
    let fits = record.start <= record.end && record.end <= packet.len();
    fits.then_some(Layout { ip, transport, record, udp: protocol == UDP })
}

/// Decrypts the record in a packet in place. Returns `None` if the packet contains no record that `keys` can
/// decrypt, or if the record is empty.
fn open(keys: &KeyLog, link: u32, packet: &mut Vec<u8>) -> Option<()> {
    let Layout { ip, transport, record: at, udp } = layout(link, packet)?;
    let inner = keys.open(&mut packet[at.clone()])?;
    if inner.is_empty() {
        return None;
    }
    packet.truncate(at.start + inner.end);
    packet.drain(at.start..at.start + inner.start);
    let short = |n: usize| (n as u16).to_be_bytes();
    let end = packet.len();
    if packet[ip] >> 4 == 6 {
        packet[ip + 4..ip + 6].copy_from_slice(&short(end - transport));
    } else {
        packet[ip + 2..ip + 4].copy_from_slice(&short(end - ip));
        packet[ip + 10..ip + 12].fill(0);
        let words = packet[ip..transport].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
    if udp {
        packet[transport + 4..transport + 6].copy_from_slice(&short(end - transport));
        packet[transport + 6..transport + 8].fill(0);
    } else if let Some((from, to)) = addresses(&packet[ip..transport])
        // The shortest DCCP header has twelve bytes.
        && end - transport >= 12
    {
        // Packets inside records have no checksum, because records are authenticated. Native DCCP, however,
        // needs a checksum.
        checksum::fill(&mut packet[transport..], from, to);
    }
    Some(())
}

/// Returns the source and the destination in an IP header.
fn addresses(header: &[u8]) -> Option<(IpAddr, IpAddr)> {
    if header.first()? >> 4 == 6 {
        let at = |i: usize| Some(IpAddr::from(*header.get(i..)?.first_chunk::<16>()?));
        return at(8).zip(at(24));
    }
    let at = |i: usize| Some(IpAddr::from(*header.get(i..)?.first_chunk::<4>()?));
    at(12).zip(at(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_captures_are_no_trouble() {
        let keys = KeyLog::default();
        for link in [0, 1, 101, 113, 276] {
            for len in 0..80 {
                for first in [0x45, 0x4f, 0x60, 0xff] {
                    for protocol in [UDP, IPPROTO_DCCP] {
                        let mut packet = vec![protocol; len];
                        if let Some(byte) = packet.first_mut() {
                            *byte = first;
                        }
                        assert_eq!(open(&keys, link, &mut packet), None);
                    }
                }
            }
        }
        assert!(Format::of(&[0; 24]).is_none());
    }

    #[test]
    fn a_capture_is_not_written_over_nor_is_anything_for_want_of_one() {
        let directory = tempfile::tempdir().unwrap();
        let [keys, capture, letter] = ["keys", "a.pcap", "letter"].map(|name| directory.path().join(name));
        let head = [&[0xd4, 0xc3, 0xb2, 0xa1][..], &[0; 20]].concat();
        std::fs::write(&keys, "").unwrap();
        std::fs::write(&capture, &head).unwrap();
        std::fs::write(&letter, "dear").unwrap();
        assert!(run(&keys, &capture, &capture).is_err());
        assert!(run(&keys, &keys, &letter).is_err());
        assert_eq!(std::fs::read(&capture).unwrap(), head);
        assert_eq!(std::fs::read(&letter).unwrap(), b"dear");
        let full = run(&keys, &capture, Path::new("/dev/full")).unwrap_err().to_string();
        assert!(full.starts_with("cannot write /dev/full: No space"), "{full}");
        run(&keys, &capture, &letter).unwrap();
        assert_eq!(std::fs::read(&letter).unwrap(), head);
    }
}
