use crate::{Reason, StreamId};

/// An event for the owner. Each event is reported only once, except that [`Event::Readable`] and
/// [`Event::Writable`] are reported again after a call has found nothing to read or no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer opened a stream, and its header has arrived. Answer with `accept` or `reset`.
    Opened(StreamId),
    /// The peer has accepted a stream opened by this end, and its answer has arrived.
    Accepted(StreamId),
    /// There are bytes to read, or the end of the stream.
    Readable(StreamId),
    /// There is room to write.
    Writable(StreamId),
    /// The peer has received everything that was written, and the end of the stream.
    Delivered(StreamId),
    /// The peer reset the stream. If all data that the peer had sent has arrived, it can still be read.
    /// Otherwise, unread data is lost.
    Reset(StreamId, Reason),
    /// The peer stopped reading the stream.
    Stopped(StreamId, Reason),
}

/// Pending events of a stream. They are reported in the order of their bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending(u8);

impl Pending {
    pub(crate) const HEADER: u8 = 1;
    pub(crate) const READABLE: u8 = 2;
    pub(crate) const WRITABLE: u8 = 4;
    pub(crate) const DELIVERED: u8 = 8;
    pub(crate) const RESET: u8 = 16;
    pub(crate) const STOPPED: u8 = 32;

    pub(crate) fn add(&mut self, bit: u8) {
        self.0 |= bit;
    }

    pub(crate) fn remove(&mut self, bits: u8) {
        self.0 &= !bits;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Removes and returns the first event.
    pub(crate) fn take(&mut self) -> Option<u8> {
        let bit = self.0 & self.0.wrapping_neg();
        self.0 &= !bit;
        (bit != 0).then_some(bit)
    }
}
