use crate::bytes::number;
use crate::{MAX_OPTIONS, Options, PacketType, ResetCode, Seq};

/// The Reset Code and its three data bytes (RFC 4340 section 5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Reset {
    pub code: ResetCode,
    pub data: [u8; 3],
}

/// The fixed fields of a packet. The packet type determines which of `ack`, `service_code` and `reset` are
/// present. [`Header::emit`] writes zeros for a required field that is `None`, and leaves out fields that the
/// type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// DCCP source port.
    pub src_port: u16,
    /// DCCP destination port.
    pub dst_port: u16,
    /// CCVal: 4 bits for use by the sending CCID.
    pub ccval: u8,
    /// Checksum coverage, 4 bits (RFC 4340 section 9.2): 0 covers everything.
    pub cscov: u8,
    /// Packet type.
    pub ptype: PacketType,
    /// Whether `X` is 0, in which case `seq` and `ack` have only 24 bits; extend them with [`Seq::extend`].
    /// Types that must use long numbers ignore this field.
    pub short: bool,
    /// Sequence Number.
    pub seq: Seq,
    /// Acknowledgement Number, present on all types except Request, Data and Listen.
    pub ack: Option<Seq>,
    /// Service Code, present on Request, Response and Listen.
    pub service_code: Option<u32>,
    /// Reset Code and data, present only on Reset.
    pub reset: Option<Reset>,
}

/// A received packet, borrowed from its datagram.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The fixed fields.
    pub header: Header,
    /// The option area, padding included.
    pub option_bytes: &'a [u8],
    /// The application data area.
    pub payload: &'a [u8],
}

/// Error for bytes that are not a DCCP packet (RFC 4340 section 8.5 step 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ParseError {
    /// The packet is shorter than the header of its type.
    Truncated,
    /// Data Offset is too small for the type, or points beyond the packet.
    BadDataOffset,
    /// Short sequence numbers are used on a type that does not allow them.
    ShortNotAllowed,
    /// A reserved packet type.
    ReservedType,
    /// Checksum coverage beyond the packet.
    BadCoverage,
}

impl ParseError {
    /// Returns the name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ParseError::Truncated => "truncated",
            ParseError::BadDataOffset => "bad_data_offset",
            ParseError::ShortNotAllowed => "short_not_allowed",
            ParseError::ReservedType => "reserved_type",
            ParseError::BadCoverage => "bad_coverage",
        }
    }
}

/// Returns the length of a type's fixed fields, in bytes.
fn fixed_len(ptype: PacketType, short: bool) -> usize {
    // RFC 4340 section 5.1: lengths of the generic header and the acknowledgement subheader.
    let (generic, ack) = if short { (12, 4) } else { (16, 8) };
    generic
        + if ptype.has_ack() { ack } else { 0 }
        + if ptype.has_service_code() || matches!(ptype, PacketType::Reset) { 4 } else { 0 }
}

impl Header {
    /// Returns a header with long numbers and without optional fields. `ports` are the source and destination
    /// ports.
    pub const fn new(ports: (u16, u16), ptype: PacketType, seq: Seq) -> Header {
        Header {
            src_port: ports.0,
            dst_port: ports.1,
            ccval: 0,
            cscov: 0,
            ptype,
            short: false,
            seq,
            ack: None,
            service_code: None,
            reset: None,
        }
    }

    fn is_short(&self) -> bool {
        self.short && self.ptype.allows_short()
    }

    /// Returns the length of this header without options, in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        fixed_len(self.ptype, self.is_short())
    }

    /// Returns the total length of a packet with `options` bytes of options (padded to a multiple of four)
    /// and `payload` bytes of data.
    pub fn packet_len(&self, options: usize, payload: usize) -> usize {
        self.len() + options.next_multiple_of(4) + payload
    }

    /// Writes header, options and padding into `buf`, and returns the rest of `buf` for the payload. The
    /// length of `buf` must be exactly `packet_len(options.len(), payload)`. The checksum stays zero, as
    /// RFC 6773 section 3.3 requires. For native encapsulation, the caller fills it in with
    /// [`crate::checksum::fill`].
    ///
    /// # Panics
    /// If `buf` is too short, or if `options` is longer than [`MAX_OPTIONS`], which an [`crate::OptionBuf`]
    /// never is.
    pub fn emit<'b>(&self, options: &[u8], buf: &'b mut [u8]) -> &'b mut [u8] {
        assert!(options.len() <= MAX_OPTIONS);
        let header_len = self.packet_len(options.len(), 0);
        let (head, payload) = buf.split_at_mut(header_len);
        let mut out = Writer { buf: head, at: 0 };
        let ([p1, p0], [q1, q0]) = (self.src_port.to_be_bytes(), self.dst_port.to_be_bytes());
        out.put([p1, p0, q1, q0, (header_len / 4) as u8, self.ccval << 4 | self.cscov & 15, 0, 0]);
        let [.., s5, s4, s3, s2, s1, s0] = self.seq.value().to_be_bytes();
        if self.is_short() {
            out.put([self.ptype.number() << 1, s2, s1, s0]);
        } else {
            out.put([self.ptype.number() << 1 | 1, 0, s5, s4, s3, s2, s1, s0]);
        }
        if self.ptype.has_ack() {
            let [.., a5, a4, a3, a2, a1, a0] = self.ack.unwrap_or_default().value().to_be_bytes();
            if self.is_short() {
                out.put([0, a2, a1, a0]);
            } else {
                out.put([0, 0, a5, a4, a3, a2, a1, a0]);
            }
        }
        if self.ptype.has_service_code() {
            out.put(self.service_code.unwrap_or_default().to_be_bytes());
        }
        if self.ptype == PacketType::Reset {
            let reset = self.reset.unwrap_or(Reset { code: ResetCode::Unspecified, data: [0; 3] });
            let [d1, d2, d3] = reset.data;
            out.put([reset.code.number(), d1, d2, d3]);
        }
        let Writer { buf, at } = out;
        let (place, padding) = buf[at..].split_at_mut(options.len());
        place.copy_from_slice(options);
        // Padding follows the options, up to a word boundary (RFC 4340 section 5.8.1).
        padding.fill(0);
        payload
    }
}

struct Writer<'b> {
    buf: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.buf[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
    }
}

/// Reads the first `n` bytes as a number, and returns it with the remaining bytes.
fn take_number(bytes: &[u8], n: usize) -> Result<(u64, &[u8]), ParseError> {
    let (field, rest) = bytes.split_at_checked(n).ok_or(ParseError::Truncated)?;
    Ok((number(field), rest))
}

impl<'a> Packet<'a> {
    /// Parses one packet, without verifying the checksum; see [`crate::checksum::verify`].
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let &[s1, s0, d1, d0, offset, cc, _, _, kind, ref rest @ ..] = bytes else {
            return Err(ParseError::Truncated);
        };
        let ptype = PacketType::from_number(kind >> 1);
        let short = kind & 1 == 0;
        // RFC 4340 section 5.1: packets of reserved types must be ignored.
        if let PacketType::Reserved(_) = ptype {
            return Err(ParseError::ReservedType);
        }
        if short && !ptype.allows_short() {
            return Err(ParseError::ShortNotAllowed);
        }
        // With X = 1, a reserved byte precedes the Sequence Number, so keep only the low 48 bits. The same
        // applies to the Acknowledgement Number.
        let (seq, rest) = match (short, rest) {
            (false, &[_, a, b, c, d, e, f, ref rest @ ..]) => ([0, 0, a, b, c, d, e, f], rest),
            (true, &[d, e, f, ref rest @ ..]) => ([0, 0, 0, 0, 0, d, e, f], rest),
            _ => return Err(ParseError::Truncated),
        };
        let (ack, rest) = match (ptype.has_ack(), short) {
            (false, _) => (None, rest),
            (true, true) => take_number(rest, 4).map(|(n, rest)| (Some(Seq::new(n & 0xff_ffff)), rest))?,
            (true, false) => take_number(rest, 8).map(|(n, rest)| (Some(Seq::new(n)), rest))?,
        };
        let (service_code, rest) = match ptype.has_service_code() {
            false => (None, rest),
            true => take_number(rest, 4).map(|(n, rest)| (Some(n as u32), rest))?,
        };
        let reset = match (ptype, rest) {
            (PacketType::Reset, &[code, d1, d2, d3, ..]) => {
                Some(Reset { code: ResetCode::from_number(code), data: [d1, d2, d3] })
            }
            (PacketType::Reset, _) => return Err(ParseError::Truncated),
            _ => None,
        };
        // RFC 4340 section 5.1: Data Offset must be at least the length of the fixed fields, and must not
        // exceed the packet.
        let option_bytes =
            bytes.get(fixed_len(ptype, short)..usize::from(offset) * 4).ok_or(ParseError::BadDataOffset)?;
        let payload = bytes.get(usize::from(offset) * 4..).ok_or(ParseError::BadDataOffset)?;
        // RFC 4340 section 9.2: the checksum coverage must not exceed the packet.
        let cscov = cc & 15;
        if cscov > 0 && usize::from(cscov - 1) * 4 > payload.len() {
            return Err(ParseError::BadCoverage);
        }
        let header = Header {
            src_port: u16::from_be_bytes([s1, s0]),
            dst_port: u16::from_be_bytes([d1, d0]),
            ccval: cc >> 4,
            cscov,
            ptype,
            short,
            seq: Seq::new(u64::from_be_bytes(seq)),
            ack,
            service_code,
            reset,
        };
        Ok(Packet { header, option_bytes, payload })
    }

    /// Iterates over the options in order, and skips padding.
    pub fn options(&self) -> Options<'a> {
        Options::new(self.option_bytes)
    }
}
