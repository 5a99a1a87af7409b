//! The model's TCP segments as IP packets: real sizes and ports, with the model's own fields in place of a
//! TCP header's.

pub(crate) use super::handshake::Step;
use crate::tunnel_files::{CLIENT, SERVER};

/// Bytes of IPv4, TCP and timestamps.
pub(crate) const HEADERS: usize = 52;
/// Data in a full segment over a link of 1,500 bytes.
pub(super) const MSS: u64 = 1500 - HEADERS as u64;
/// Bytes of a SYN's further options: maximum segment size, window scale, SACK permitted.
const SYN_OPTIONS: usize = 8;
/// Bytes of the SACK option without its blocks, with padding.
const SACK_HEAD: usize = 4;
/// Packets too large for the tunnel are dropped, and counted there.
pub(crate) const DONT_FRAGMENT: u8 = 0x40;
const MAGIC: [u8; 4] = *b"mptc";
const FIRST_PORT: u16 = 20_000;
const IS_ACK: u8 = 1;
const IS_DSACK: u8 = 2;
/// TCP flags for congestion marks (RFC 3168 section 6.1): ECE on acknowledgements, CWR on data.
const IS_ECN: u8 = 32;
/// The ECN field of IP: ECT and CE.
const ECT: u8 = 2;
const CE: u8 = 3;
/// Steps of the handshake.
const STEPS: [(u8, Step); 3] = [(4, Step::Syn), (8, Step::SynAck), (16, Step::Ack)];

/// A segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    /// Flow of the scenario.
    pub(crate) flow: u16,
    /// First byte.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// Number of the transmission, different for a retransmission; in place of the timestamp.
    pub(crate) no: u64,
    /// [`Ack::no`] of the latest acknowledgement.
    pub(crate) echo: u32,
    /// The ECN field of its IP header.
    pub(crate) ecn: u8,
    /// The sender reduced its window.
    pub(crate) cwr: bool,
}

/// A segment without data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    /// Flow of the scenario.
    pub(crate) flow: u16,
    /// All data before this arrived.
    pub(crate) upto: u64,
    /// Number of the acknowledgement, like [`Data::no`] for data.
    pub(crate) no: u32,
    /// [`Data::no`] of the latest arrival at the left edge of the window; in place of the timestamp's echo.
    pub(crate) echo: u64,
    /// Bytes allowed beyond `upto`.
    pub(crate) window: u64,
    /// A congestion mark arrived, and no [`Data::cwr`] since.
    pub(crate) ece: bool,
    /// The first block reports a duplicate (RFC 2883).
    pub(crate) dsack: bool,
    /// Received blocks, `start..end`, the most recent first; at most three.
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
    /// The scenario's flow.
    pub(crate) fn flow(&self) -> u16 {
        match self {
            Segment::Data(Data { flow, .. }) | Segment::Ack(Ack { flow, .. }) | Segment::Open(flow, _) => {
                *flow
            }
        }
    }
}

impl Data {
    /// ECN field of a sender's IP header.
    pub(super) fn capable(ecn: bool) -> u8 {
        if ecn { ECT } else { 0 }
    }

    /// Whether a queue has marked it.
    pub(super) fn marked(&self) -> bool {
        self.ecn == CE
    }
}

/// A packet of the handshake.
pub(super) fn open(flow: u16, step: Step) -> Vec<u8> {
    let options = if step == Step::Ack { 0 } else { SYN_OPTIONS };
    let mut p = frame(flow, HEADERS + options, step == Step::SynAck);
    p[44] = STEPS.iter().find(|(_, s)| *s == step).map_or(0, |(flag, _)| *flag);
    p
}

/// Writes the fields of an IP header by which [`read`] recognises the model's packets.
pub(crate) fn write_ip_header(packet: &mut [u8]) {
    (packet[0], packet[9]) = (0x45, 6);
}

fn frame(flow: u16, bytes: usize, is_ack: bool) -> Vec<u8> {
    let mut p = vec![0; bytes];
    let hosts = [CLIENT.octets(), SERVER.octets()];
    let ports = [FIRST_PORT.wrapping_add(flow), 9].map(u16::to_be_bytes);
    let [from, to] = if is_ack { [1, 0] } else { [0, 1] };
    write_ip_header(&mut p);
    p[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    (p[6], p[8]) = (DONT_FRAGMENT, 64);
    p[12..16].copy_from_slice(&hosts[from]);
    p[16..20].copy_from_slice(&hosts[to]);
    p[20..22].copy_from_slice(&ports[from]);
    p[22..24].copy_from_slice(&ports[to]);
    p[40..44].copy_from_slice(&MAGIC);
    p[45..47].copy_from_slice(&flow.to_be_bytes());
    p
}

impl Data {
    /// As an IP packet.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let mut p = frame(self.flow, HEADERS + self.len as usize, false);
        p[24..32].copy_from_slice(&self.start.to_be_bytes());
        p[32..36].copy_from_slice(&(self.no as u32).to_be_bytes());
        p[36..40].copy_from_slice(&self.echo.to_be_bytes());
        p[1] = self.ecn;
        p[44] = if self.cwr { IS_ECN } else { 0 };
        p
    }
}

impl Ack {
    /// As an IP packet.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let sack = if self.blocks.is_empty() { 0 } else { SACK_HEAD + 8 * self.blocks.len() };
        let mut p = frame(self.flow, HEADERS + sack, true);
        p[24..32].copy_from_slice(&self.upto.to_be_bytes());
        p[32..36].copy_from_slice(&(self.echo as u32).to_be_bytes());
        p[36..40].copy_from_slice(&self.no.to_be_bytes());
        p[47..51].copy_from_slice(&(self.window as u32).to_be_bytes());
        p[44] = IS_ACK | if self.dsack { IS_DSACK } else { 0 } | if self.ece { IS_ECN } else { 0 };
        for (place, (start, end)) in p[HEADERS..]
            .get_mut(SACK_HEAD..)
            .into_iter()
            .flat_map(|b| b.chunks_exact_mut(8))
            .zip(&self.blocks)
        {
            // A block is within a window of `upto`, before or after it.
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
    if packet.len() < HEADERS || packet[0] != 0x45 || packet[9] != 6 || packet[40..44] != MAGIC {
        return None;
    }
    let flow = u16::from_be_bytes([packet[45], packet[46]]);
    let first = u64::from_be_bytes(*packet[24..].first_chunk()?);
    let (no, echo) = (word(&packet[32..]), word(&packet[36..]));
    let flags = packet[44];
    if let Some((_, step)) = STEPS.iter().find(|(flag, _)| flags & flag != 0) {
        return Some(Segment::Open(flow, *step));
    }
    if flags & IS_ACK == 0 {
        let len = (packet.len() - HEADERS) as u32;
        return Some(Segment::Data(Data {
            flow,
            start: first,
            len,
            no: no.into(),
            echo,
            ecn: packet[1] & CE,
            cwr: flags & IS_ECN != 0,
        }));
    }
    let block = |b: &[u8]| {
        let start = first.wrapping_add_signed(i64::from(word(b).cast_signed()));
        (start, start + u64::from(word(&b[4..])))
    };
    let blocks = packet[HEADERS..].get(SACK_HEAD..).unwrap_or_default().chunks_exact(8).map(block).collect();
    let (no, echo, window) = (echo, no.into(), word(&packet[47..]).into());
    let (dsack, ece) = (flags & IS_DSACK != 0, flags & IS_ECN != 0);
    Some(Segment::Ack(Ack { flow, upto: first, no, echo, window, ece, dsack, blocks }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_real_sizes_and_are_read_back() {
        let data = Data { flow: 3, start: 1 << 40, len: 1448, no: 77, echo: 5, ecn: ECT, cwr: true };
        assert_eq!(data.packet().len(), 1500);
        assert_eq!(read(&data.packet()), Some(Segment::Data(data)));
        assert_eq!(open(3, Step::Syn).len(), 60);
        for (_, step) in STEPS {
            assert_eq!(read(&open(3, step)), Some(Segment::Open(3, step)));
        }
        let mut ack = Ack { flow: 3, upto: 1 << 40, no: 8, echo: 9, window: 1 << 20, ..Ack::default() };
        assert_eq!(ack.packet().len(), 52);
        assert_eq!(read(&ack.packet()), Some(Segment::Ack(ack.clone())));
        (ack.dsack, ack.ece) = (true, true);
        ack.blocks = vec![((1 << 40) - 1448, 1 << 40), ((1 << 40) + 1448, (1 << 40) + 2896)];
        assert_eq!(ack.packet().len(), 72);
        assert_eq!(read(&ack.packet()), Some(Segment::Ack(ack.clone())));
        assert_eq!(read(&ack.packet()[..40]), None);
    }
}
