//! Writes the model's TCP segments as IP packets. The packets have real sizes, and valid contents in those
//! TCP header fields that the tunnel's flow table reads. Other fields carry the model's own data, such as the
//! upper parts of 48-bit sequence numbers, and transmission numbers in place of timestamps.

use mpdccp_units::Time;

pub(crate) use super::handshake::Step;
use crate::tunnel_files::{CLIENT, SERVER};

/// Size in bytes of the IPv4 and TCP headers, including timestamps.
pub(crate) const HEADERS: usize = 52;
/// Data bytes in a full segment on a link with an MTU of 1,500 bytes.
pub(super) const MSS: u64 = 1500 - HEADERS as u64;
/// Size in bytes of the other options in a SYN: maximum segment size, window scale, SACK permitted.
const SYN_OPTIONS: usize = 8;
/// Size in bytes of the SACK option with padding but without blocks.
const SACK_HEAD: usize = 4;
/// IP flag that makes the tunnel drop and count packets that are too large.
pub(crate) const DONT_FRAGMENT: u8 = 0x40;
/// Bytes that identify the model's packets, in place of the urgent pointer.
const MAGIC: [u8; 2] = *b"mp";
/// Start of the options: two bytes of padding, in whose place the upper part of a sequence number is written,
/// and the head of the timestamp option.
const OPTIONS: [u8; 4] = [1, 1, 8, 10];
/// Sequence number of the first data byte: the initial sequence number is 0, and the SYN counts as a byte.
const FIRST: u32 = 1;
/// Client port of the first flow. All flows use the same server port.
const FIRST_PORT: u16 = 20_000;
const SERVER_PORT: u16 = 9;
/// TCP flags. ECE (on acknowledgements) and CWR (on data) report congestion marks (RFC 3168 section 6.1).
const SYN: u8 = 2;
const ACK: u8 = 16;
const ECE: u8 = 64;
const CWR: u8 = 128;
/// A reserved bit of the TCP header, used to mark a DSACK.
const IS_DSACK: u8 = 2;
/// Values of the IP header's ECN field: ECT and CE.
const ECT: u8 = 2;
const CE: u8 = 3;

/// Returns the timestamp of a segment sent now (TSval of RFC 7323).
pub(super) fn milliseconds(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// A segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    /// Flow of the scenario.
    pub(crate) flow: u16,
    /// Sequence number of the first byte.
    pub(crate) start: u64,
    /// Number of bytes.
    pub(crate) len: u32,
    /// Number of the transmission, in place of the timestamp. Each retransmission has a new number.
    pub(crate) no: u64,
    /// [`Ack::no`] of the latest acknowledgement.
    pub(crate) echo: u32,
    /// When the segment was sent, in ms (TSval of RFC 7323).
    pub(crate) sent_ms: u32,
    /// ECN field of the IP header.
    pub(crate) ecn: u8,
    /// Whether the sender has reduced its window (CWR).
    pub(crate) cwr: bool,
}

/// A segment without data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    /// Flow of the scenario.
    pub(crate) flow: u16,
    /// End of the data that has arrived without a hole.
    pub(crate) upto: u64,
    /// Number of this acknowledgement, in place of the timestamp.
    pub(crate) no: u32,
    /// [`Data::no`] of the latest arrival at the left edge of the window, in place of the timestamp's echo.
    pub(crate) echo: u64,
    /// Number of bytes that the sender may send beyond `upto`.
    pub(crate) window: u64,
    /// When the acknowledgement was sent, in ms (TSval of RFC 7323).
    pub(crate) sent_ms: u32,
    /// Whether a congestion mark has arrived and no [`Data::cwr`] since (ECE).
    pub(crate) ece: bool,
    /// Whether the first block reports a duplicate (RFC 2883).
    pub(crate) dsack: bool,
    /// Up to three received blocks, each from start to end, most recent first.
    pub(crate) blocks: Vec<(u64, u64)>,
}

/// A packet of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Data(Data),
    Ack(Ack),
    /// A step of a flow's handshake.
    Open(u16, Step),
}

impl Segment {
    /// Returns the scenario's flow that the segment belongs to.
    pub(crate) fn flow(&self) -> u16 {
        match self {
            Segment::Data(Data { flow, .. }) | Segment::Ack(Ack { flow, .. }) | Segment::Open(flow, _) => {
                *flow
            }
        }
    }
}

impl Data {
    /// Returns the ECN field as written by the sender.
    pub(super) fn capable(ecn: bool) -> u8 {
        if ecn { ECT } else { 0 }
    }

    /// Returns whether a queue has set a congestion mark on the segment.
    pub(super) fn marked(&self) -> bool {
        self.ecn == CE
    }
}

/// Returns a packet of the handshake.
pub(super) fn open(flow: u16, step: Step) -> Vec<u8> {
    let options = if step == Step::Ack { 0 } else { SYN_OPTIONS };
    let mut p = frame(flow, HEADERS + options, options, step == Step::SynAck);
    p[33] = match step {
        Step::Syn => SYN,
        Step::SynAck => SYN | ACK,
        Step::Ack => ACK,
    };
    let first = if step == Step::Ack { FIRST } else { 0 };
    p[24..28].copy_from_slice(&first.to_be_bytes());
    p
}

/// Returns the flow that a connection's client port belongs to.
pub(crate) fn flow_of(port: u16) -> u16 {
    port.wrapping_sub(FIRST_PORT)
}

/// Turns a packet into a UDP packet, as sent by a transport such as QUIC.
pub(super) fn over_udp(packet: &mut [u8]) {
    packet[9] = 17;
}

/// Writes the fields of an IP header by which [`read`] recognises the model's packets.
pub(crate) fn write_ip_header(packet: &mut [u8]) {
    (packet[0], packet[9]) = (0x45, 6);
}

/// Returns a packet of `bytes` bytes in total, `options` of which are TCP options other than timestamps.
fn frame(flow: u16, bytes: usize, options: usize, from_server: bool) -> Vec<u8> {
    let mut p = vec![0; bytes];
    let hosts = [CLIENT.octets(), SERVER.octets()];
    let ports = [FIRST_PORT.wrapping_add(flow), SERVER_PORT].map(u16::to_be_bytes);
    let [from, to] = if from_server { [1, 0] } else { [0, 1] };
    write_ip_header(&mut p);
    p[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    (p[6], p[8]) = (DONT_FRAGMENT, 64);
    p[12..16].copy_from_slice(&hosts[from]);
    p[16..20].copy_from_slice(&hosts[to]);
    p[20..22].copy_from_slice(&ports[from]);
    p[22..24].copy_from_slice(&ports[to]);
    (p[32], p[33]) = (((HEADERS - 20 + options) as u8 / 4) << 4, ACK);
    p[38..40].copy_from_slice(&MAGIC);
    p[40..44].copy_from_slice(&OPTIONS);
    p
}

/// Writes a 48-bit number: the lower 32 bits at `at`, the upper part into the options.
fn write_number(packet: &mut [u8], at: usize, number: u64) {
    packet[at..at + 4].copy_from_slice(&(number as u32).wrapping_add(FIRST).to_be_bytes());
    packet[40..42].copy_from_slice(&((number >> 32) as u16).to_be_bytes());
}

fn read_number(packet: &[u8], at: usize) -> u64 {
    let rest = u16::from_be_bytes([packet[40], packet[41]]);
    u64::from(rest) << 32 | u64::from(word(&packet[at..]).wrapping_sub(FIRST))
}

impl Data {
    /// Returns the segment as an IP packet.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let mut p = frame(self.flow, HEADERS + self.len as usize, 0, false);
        write_number(&mut p, 24, self.start);
        // The server sends no data, so the place of the acknowledgement number is free.
        p[28..32].copy_from_slice(&self.sent_ms.to_be_bytes());
        p[44..48].copy_from_slice(&(self.no as u32).to_be_bytes());
        p[48..52].copy_from_slice(&self.echo.to_be_bytes());
        p[1] = self.ecn;
        p[33] |= if self.cwr { CWR } else { 0 };
        p
    }
}

impl Ack {
    /// Returns the acknowledgement as an IP packet.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let sack = if self.blocks.is_empty() { 0 } else { SACK_HEAD + 8 * self.blocks.len() };
        let mut p = frame(self.flow, HEADERS + sack, sack, true);
        // The server sends no data, so the place of its sequence number is free.
        p[24..28].copy_from_slice(&self.sent_ms.to_be_bytes());
        write_number(&mut p, 28, self.upto);
        // The window is stored in place of the TCP window and checksum.
        p[34..38].copy_from_slice(&(self.window as u32).to_be_bytes());
        p[44..48].copy_from_slice(&self.no.to_be_bytes());
        p[48..52].copy_from_slice(&(self.echo as u32).to_be_bytes());
        p[32] |= if self.dsack { IS_DSACK } else { 0 };
        p[33] |= if self.ece { ECE } else { 0 };
        for (place, (start, end)) in p[HEADERS..]
            .get_mut(SACK_HEAD..)
            .into_iter()
            .flat_map(|b| b.chunks_exact_mut(8))
            .zip(&self.blocks)
        {
            // A block is stored as its offset from `upto`, which may be negative.
            let offset = start.wrapping_sub(self.upto) as u32;
            place[..4].copy_from_slice(&offset.to_be_bytes());
            place[4..].copy_from_slice(&((end - start) as u32).to_be_bytes());
        }
        p
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |b| u32::from_be_bytes(*b))
}

/// Parses a packet of the model.
pub(crate) fn read(packet: &[u8]) -> Option<Segment> {
    let model = packet.len() >= HEADERS && packet[38..40] == MAGIC && packet[42..44] == OPTIONS[2..];
    if !model || packet[0] != 0x45 {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let from_server = port(20) == SERVER_PORT;
    let flow = flow_of(port(if from_server { 22 } else { 20 }));
    let (no, echo) = (word(&packet[44..]), word(&packet[48..]));
    let flags = packet[33];
    let len = packet.len().checked_sub(20 + usize::from(packet[32] >> 4) * 4)? as u32;
    Some(match (flags & SYN != 0, from_server) {
        (true, false) => Segment::Open(flow, Step::Syn),
        (true, true) => Segment::Open(flow, Step::SynAck),
        (false, false) if len == 0 => Segment::Open(flow, Step::Ack),
        (false, false) => {
            let (ecn, cwr) = (packet[1] & CE, flags & CWR != 0);
            let (start, sent_ms) = (read_number(packet, 24), word(&packet[28..]));
            Segment::Data(Data { flow, start, len, no: no.into(), echo, sent_ms, ecn, cwr })
        }
        (false, true) => {
            let upto = read_number(packet, 28);
            let block = |b: &[u8]| {
                let start = upto.wrapping_add_signed(i64::from(word(b).cast_signed()));
                (start, start + u64::from(word(&b[4..])))
            };
            let blocks = packet[HEADERS..].get(SACK_HEAD..).unwrap_or_default();
            let blocks = blocks.chunks_exact(8).map(block).collect();
            let (window, echo, sent_ms) = (word(&packet[34..]).into(), echo.into(), word(&packet[24..]));
            let (dsack, ece) = (packet[32] & IS_DSACK != 0, flags & ECE != 0);
            Segment::Ack(Ack { flow, upto, no, echo, window, sent_ms, ece, dsack, blocks })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_real_sizes_and_are_read_back() {
        let data =
            Data { flow: 3, start: 1 << 40, len: 1448, no: 77, echo: 5, sent_ms: 6, ecn: ECT, cwr: true };
        assert_eq!(data.packet().len(), 1500);
        assert_eq!(read(&data.packet()), Some(Segment::Data(data)));
        assert_eq!(open(3, Step::Syn).len(), 60);
        for step in [Step::Syn, Step::SynAck, Step::Ack] {
            assert_eq!(read(&open(3, step)), Some(Segment::Open(3, step)));
        }
        let mut ack =
            Ack { flow: 3, upto: 1 << 40, no: 8, echo: 9, window: 1 << 20, sent_ms: 7, ..Ack::default() };
        assert_eq!(ack.packet().len(), 52);
        assert_eq!(read(&ack.packet()), Some(Segment::Ack(ack.clone())));
        (ack.dsack, ack.ece) = (true, true);
        ack.blocks = vec![((1 << 40) - 1448, 1 << 40), ((1 << 40) + 1448, (1 << 40) + 2896)];
        assert_eq!(ack.packet().len(), 72);
        assert_eq!(read(&ack.packet()), Some(Segment::Ack(ack.clone())));
        assert_eq!(read(&ack.packet()[..40]), None);
    }
}
