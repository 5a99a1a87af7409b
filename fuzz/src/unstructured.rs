//! Derives decisions from the bytes of the input. Once the input is used up, every decision takes the first
//! choice.

use dccp_wire::Seq;

pub(crate) struct Unstructured<'a>(&'a [u8]);

impl<'a> Unstructured<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Unstructured<'a> {
        Unstructured(bytes)
    }

    /// Splits off the last bytes of the input for additional decisions. These then do not change the
    /// decisions that are derived from the first bytes of stored inputs.
    pub(crate) fn end(&mut self, len: usize) -> Unstructured<'a> {
        let (story, end) = self.0.split_at(self.0.len().saturating_sub(len));
        self.0 = story;
        Unstructured(end)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    pub(crate) fn number(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    pub(crate) fn long(&mut self) -> u64 {
        u64::from(self.number()) << 32 | u64::from(self.number())
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        let value = if n > 256 { self.number() as usize } else { self.byte().into() };
        value % n.max(1)
    }

    /// Returns true with a probability of one in `n`, or false once the input is used up.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.byte()).collect()
    }

    /// Returns a number near `seq`, or sometimes an arbitrary number.
    pub(crate) fn near(&mut self, seq: Seq) -> Seq {
        match self.below(8) {
            0..=4 => seq.add(self.below(8) as u64),
            5 => seq.sub(self.below(128) as u64),
            6 => seq.add(self.below(4096) as u64),
            _ => Seq::new(self.long()),
        }
    }
}
