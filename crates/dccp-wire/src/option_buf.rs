use alloc::vec::Vec;

/// Length of the longest header that Data Offset can express, 255 words (RFC 4340 section 5).
pub const MAX_HEADER: usize = 1020;
/// Number of option bytes that fit after the fixed fields of every packet type. The longest fixed fields,
/// those of Response and Reset, have 28 bytes.
pub const MAX_OPTIONS: usize = MAX_HEADER - 28;

/// A buffer for an option area, which callers reuse for each packet to avoid allocations. It never exceeds
/// [`MAX_OPTIONS`], so it fits after any header.
#[derive(Clone, Debug, Default)]
pub struct OptionBuf(Vec<u8>);

impl OptionBuf {
    /// Returns an empty buffer.
    pub fn new() -> OptionBuf {
        OptionBuf::default()
    }

    /// Appends encoded options. If they do not fit, returns false and writes nothing.
    pub fn extend(&mut self, encoded: &[u8]) -> bool {
        let fits = encoded.len() <= self.room();
        if fits {
            self.0.extend_from_slice(encoded);
        }
        fits
    }

    pub(crate) fn push_byte(&mut self, kind: u8) -> bool {
        self.push_whole([kind])
    }

    /// Appends an encoded option of constant length. This is fast, for options that go on every data packet.
    pub(crate) fn push_whole<const N: usize>(&mut self, option: [u8; N]) -> bool {
        let fits = N <= self.room();
        if fits {
            self.0.extend_from_slice(&option);
        }
        fits
    }

    /// Appends an option: type, length and the parts of the data.
    pub(crate) fn push_parts(&mut self, kind: u8, parts: &[&[u8]]) -> bool {
        let len = 2 + parts.iter().map(|part| part.len()).sum::<usize>();
        let Ok(len_byte) = u8::try_from(len) else { return false };
        if len > self.room() {
            return false;
        }
        self.0.extend_from_slice(&[kind, len_byte]);
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
        true
    }

    /// Appends Padding options (RFC 4340 section 5.8.1) until the area has `len` bytes or is full.
    pub fn pad(&mut self, len: usize) {
        let len = len.min(MAX_OPTIONS).max(self.0.len());
        self.0.resize(len, 0);
    }

    /// Returns the number of bytes that can still be written.
    pub fn room(&self) -> usize {
        MAX_OPTIONS - self.0.len()
    }

    /// Removes the options and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the options so far, without final padding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the number of bytes written so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
