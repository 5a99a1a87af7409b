use crate::bytes::number;
use crate::{MpOption, OptionBuf};

const MANDATORY: u8 = 1;
const SLOW_RECEIVER: u8 = 2;
const CHANGE_L: u8 = 32;
const CONFIRM_L: u8 = 33;
const CHANGE_R: u8 = 34;
const CONFIRM_R: u8 = 35;
const INIT_COOKIE: u8 = 36;
const NDP_COUNT: u8 = 37;
const ACK_VECTOR_0: u8 = 38;
const ACK_VECTOR_1: u8 = 39;
const DATA_DROPPED: u8 = 40;
const TIMESTAMP: u8 = 41;
const TIMESTAMP_ECHO: u8 = 42;
const ELAPSED_TIME: u8 = 43;
const DATA_CHECKSUM: u8 = 44;
const MULTIPATH: u8 = 46;

/// One option (RFC 4340 section 5.8). Padding never appears here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opt<'a> {
    /// The next option must be understood (section 5.8.2).
    Mandatory,
    /// The receiver cannot keep up (section 11.6).
    SlowReceiver,
    /// Feature number, value (section 6).
    ChangeL(u8, &'a [u8]),
    /// Feature number, value. An empty value refuses the change.
    ConfirmL(u8, &'a [u8]),
    /// Feature number, value.
    ChangeR(u8, &'a [u8]),
    /// Feature number, value. An empty value refuses the change.
    ConfirmR(u8, &'a [u8]),
    /// Opaque state of the server (section 8.1.4).
    InitCookie(&'a [u8]),
    /// Number of non-data packets directly before this packet (section 7.7), up to 48 bits.
    NdpCount(u64),
    /// The nonce echo, which is bit 0 of the option type (38 or 39), and the cells, which can be read with
    /// [`crate::ack_vector::runs`] (section 11.4).
    AckVector(bool, &'a [u8]),
    /// Blocks of Drop Codes and run lengths (section 11.7).
    DataDropped(&'a [u8]),
    /// Time in units of 10 microseconds (section 13.1).
    Timestamp(u32),
    /// The echoed value, and the elapsed time in units of 10 microseconds (section 13.3), which is 0 if
    /// absent.
    TimestampEcho(u32, u32),
    /// Time in units of 10 microseconds (section 13.2).
    ElapsedTime(u32),
    /// CRC-32C of the application data, as computed by [`crate::checksum::crc32c`] (section 9.3).
    DataChecksum(u32),
    /// Option 46 (RFC 9897).
    Mp(MpOption<'a>),
    /// Types 128 to 255: type and data, for use by the CCID (section 10.3).
    Ccid(u8, &'a [u8]),
    /// One of the types above with invalid data. Receivers must ignore it, unless Mandatory precedes it or
    /// the option has its own rule (section 5.8). For a malformed MP option, the type is 46, and the first
    /// data byte is the subtype.
    Invalid(u8, &'a [u8]),
    /// Any other type and its data.
    Unknown(u8, &'a [u8]),
}

/// An option with a malformed length byte. Receivers must ignore this option and the rest of the area
/// (RFC 4340 section 5.8). [`Options::culprit`] also uses this type, to name the option that a Reset refers
/// to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option's type byte.
    pub option: u8,
    /// The first two bytes of the option's data, for the Reset (RFC 4340 section 5.6); missing bytes are
    /// zero.
    pub data: [u8; 2],
}

/// Iterator over an option area, which ends after an error.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
    /// The last returned option. If its end is unknown, this is everything from its start to the end of the
    /// area.
    last: &'a [u8],
}

impl<'a> Options<'a> {
    /// Iterates over the bytes between header and payload, or over the options inside MP_CONFIRM.
    pub fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes, last: &[] }
    }

    /// Returns the last returned option, for a Reset with the code Option Error or Mandatory Error.
    pub fn culprit(&self) -> OptionError {
        let byte = |i| self.last.get(i).copied().unwrap_or(0);
        OptionError { option: byte(0), data: [byte(2), byte(3)] }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        // RFC 4340 section 5.8.1: padding may be anywhere. Section 5.8.2: Mandatory followed by padding is
        // also padding, but not if it is itself the option that another Mandatory marks.
        let marked = matches!(self.last, [MANDATORY]);
        loop {
            self.rest = match *self.rest {
                [0, ref rest @ ..] => rest,
                [MANDATORY, 0, ref rest @ ..] if !marked => rest,
                _ => break,
            };
        }
        let kind = *self.rest.first()?;
        let len = match *self.rest {
            // RFC 4340 section 5.8: options of types below 32 are single bytes. Other options have a length
            // byte, which counts the whole option.
            [0..=31, ..] => 1,
            [_, len, ..] if len >= 2 => usize::from(len),
            _ => usize::MAX,
        };
        let Some((option, rest)) = self.rest.split_at_checked(len) else {
            (self.last, self.rest) = (self.rest, &[]);
            return Some(Err(self.culprit()));
        };
        (self.last, self.rest) = (option, rest);
        Some(Ok(Opt::parse(kind, option.get(2..).unwrap_or_default())))
    }
}

impl<'a> Opt<'a> {
    fn parse(kind: u8, data: &'a [u8]) -> Opt<'a> {
        Opt::parse_valid(kind, data).unwrap_or(Opt::Invalid(kind, data))
    }

    /// Returns `None` if a known type has invalid data.
    fn parse_valid(kind: u8, data: &'a [u8]) -> Option<Opt<'a>> {
        Some(match kind {
            MANDATORY => Opt::Mandatory,
            SLOW_RECEIVER => Opt::SlowReceiver,
            CHANGE_L..=CONFIRM_R => {
                let (&feature, value) = data.split_first()?;
                match kind {
                    CHANGE_L => Opt::ChangeL(feature, value),
                    CONFIRM_L => Opt::ConfirmL(feature, value),
                    CHANGE_R => Opt::ChangeR(feature, value),
                    _ => Opt::ConfirmR(feature, value),
                }
            }
            INIT_COOKIE => Opt::InitCookie(data),
            NDP_COUNT if (1..=6).contains(&data.len()) => Opt::NdpCount(number(data)),
            ACK_VECTOR_0 | ACK_VECTOR_1 => Opt::AckVector(kind == ACK_VECTOR_1, data),
            DATA_DROPPED => Opt::DataDropped(data),
            TIMESTAMP => Opt::Timestamp(u32::from_be_bytes(data.try_into().ok()?)),
            TIMESTAMP_ECHO => match data.len() {
                4 | 6 | 8 => Opt::TimestampEcho(number(&data[..4]) as u32, number(&data[4..]) as u32),
                _ => return None,
            },
            ELAPSED_TIME => match data.len() {
                2 | 4 => Opt::ElapsedTime(number(data) as u32),
                _ => return None,
            },
            // RFC 4340 section 9.3 refers to SCTP, which sends the low byte of the CRC first.
            DATA_CHECKSUM => Opt::DataChecksum(u32::from_le_bytes(data.try_into().ok()?)),
            MULTIPATH => Opt::Mp(MpOption::parse(data)?),
            NDP_COUNT => return None,
            128.. => Opt::Ccid(kind, data),
            _ => Opt::Unknown(kind, data),
        })
    }
}

/// Returns the elapsed time in two bytes if it fits, otherwise in four (RFC 4340 section 13.2).
fn elapsed_bytes(bytes: &[u8; 4]) -> &[u8] {
    match bytes {
        [0, 0, low @ ..] => low,
        all => all,
    }
}

impl OptionBuf {
    /// Appends one option. If the data is too long for the length byte, or the option does not fit into the
    /// area ([`crate::MAX_OPTIONS`]), returns false and writes nothing.
    pub fn push(&mut self, option: &Opt<'_>) -> bool {
        match *option {
            Opt::Mandatory => self.push_byte(MANDATORY),
            Opt::SlowReceiver => self.push_byte(SLOW_RECEIVER),
            Opt::ChangeL(feature, value) => self.push_parts(CHANGE_L, &[&[feature], value]),
            Opt::ConfirmL(feature, value) => self.push_parts(CONFIRM_L, &[&[feature], value]),
            Opt::ChangeR(feature, value) => self.push_parts(CHANGE_R, &[&[feature], value]),
            Opt::ConfirmR(feature, value) => self.push_parts(CONFIRM_R, &[&[feature], value]),
            Opt::InitCookie(cookie) => self.push_parts(INIT_COOKIE, &[cookie]),
            Opt::NdpCount(count @ 0..=255) => self.push_whole([NDP_COUNT, 3, count as u8]),
            Opt::NdpCount(count) => {
                // RFC 4340 section 7.7: the count has one to six bytes, and no more than it needs. Larger
                // counts are sent as 2^48 - 1.
                let bytes = count.min((1 << 48) - 1).to_be_bytes();
                let zeros = (count.leading_zeros() as usize / 8).clamp(2, 7);
                self.push_parts(NDP_COUNT, &[&bytes[zeros..]])
            }
            Opt::AckVector(nonce, cells) => self.push_parts(ACK_VECTOR_0 + u8::from(nonce), &[cells]),
            Opt::DataDropped(blocks) => self.push_parts(DATA_DROPPED, &[blocks]),
            Opt::Timestamp(time) => self.push_parts(TIMESTAMP, &[&time.to_be_bytes()]),
            Opt::TimestampEcho(echo, elapsed) => {
                let elapsed = elapsed.to_be_bytes();
                // RFC 4340 section 13.3: an absent elapsed time means zero.
                let elapsed = if elapsed == [0; 4] { &[] } else { elapsed_bytes(&elapsed) };
                self.push_parts(TIMESTAMP_ECHO, &[&echo.to_be_bytes(), elapsed])
            }
            Opt::ElapsedTime(elapsed) => {
                self.push_parts(ELAPSED_TIME, &[elapsed_bytes(&elapsed.to_be_bytes())])
            }
            Opt::DataChecksum(crc) => self.push_parts(DATA_CHECKSUM, &[&crc.to_le_bytes()]),
            Opt::Mp(MpOption::Seq(seq)) => {
                let [_, _, a, b, c, d, e, f] = seq.value().to_be_bytes();
                self.push_whole([MULTIPATH, 9, 4, a, b, c, d, e, f])
            }
            Opt::Mp(mp) => mp.emit(|parts| self.push_parts(MULTIPATH, parts)),
            Opt::Unknown(kind @ 0..=31, data) => data.is_empty() && self.push_byte(kind),
            Opt::Ccid(kind, data) | Opt::Invalid(kind, data) | Opt::Unknown(kind, data) => {
                self.push_parts(kind, &[data])
            }
        }
    }
}
