use crate::MpOption;
use alloc::vec::Vec;

/// One option (RFC 4340 section 5.8). Padding never appears here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opt<'a> {
    /// The next option must be understood (section 5.8.2).
    Mandatory,
    /// Section 11.6.
    SlowReceiver,
    /// Feature, value (section 6).
    ChangeL(u8, &'a [u8]),
    /// Feature, value; an empty value refuses.
    ConfirmL(u8, &'a [u8]),
    /// Feature, value.
    ChangeR(u8, &'a [u8]),
    /// Feature, value; an empty value refuses.
    ConfirmR(u8, &'a [u8]),
    /// Section 8.1.4.
    InitCookie(&'a [u8]),
    /// Non-data packets before this one (section 7.7), up to 48 bits.
    NdpCount(u64),
    /// The nonce echo is bit 0 of the option type (38 or 39); runs of state and length (section 11.4).
    AckVector(bool, &'a [u8]),
    /// Section 11.7.
    DataDropped(&'a [u8]),
    /// In 10 microseconds (section 13.1).
    Timestamp(u32),
    /// The echoed value, and the elapsed time in 10 microseconds, 0 if absent (section 13.3).
    TimestampEcho(u32, u32),
    /// In 10 microseconds (section 13.2).
    ElapsedTime(u32),
    /// CRC-32C over the application data (section 9.3).
    DataChecksum(u32),
    /// Option 46 (RFC 9897).
    Mp(MpOption<'a>),
    /// Types 128 to 255: type and data, meant for the CCID (section 10.3).
    Ccid(u8, &'a [u8]),
    /// Any other type and its data.
    Unknown(u8, &'a [u8]),
}

/// An option that is malformed; the rest of the area cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// Its type byte.
    pub option: u8,
    /// Up to two of the bytes that follow, for the Reset (RFC 4340 section 5.6).
    pub data: [u8; 2],
}

/// Iterator over an option area. After an error it ends.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Over the bytes between header and payload.
    pub fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, OptionError>;
    fn next(&mut self) -> Option<Self::Item> {
        let _ = &self.rest;
        todo!()
    }
}

/// An option area being written; kept and cleared between packets so that nothing is allocated a packet.
#[derive(Clone, Debug, Default)]
pub struct OptionBuf(Vec<u8>);

impl OptionBuf {
    /// Empty.
    pub fn new() -> OptionBuf {
        OptionBuf::default()
    }

    /// Appends one option. A value too long for its length byte is cut by the caller, never here: debug-asserted.
    pub fn push(&mut self, option: &Opt<'_>) {
        let _ = (option, &mut self.0);
        todo!()
    }

    /// Appends options already encoded.
    pub fn extend(&mut self, encoded: &[u8]) {
        self.0.extend_from_slice(encoded);
    }

    /// Forgets what was written, keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What was written so far, without final padding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Nothing written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
