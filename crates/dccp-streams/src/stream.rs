use crate::Reason;
use crate::event::Pending;
use crate::place::Place;
use crate::recv::RecvHalf;
use crate::send::SendHalf;

/// Pending control frames of a stream.
pub(crate) mod control {
    pub(crate) const RESET: u8 = 1;
    pub(crate) const STOP: u8 = 2;
    pub(crate) const WINDOW: u8 = 4;
    pub(crate) const BLOCKED: u8 = 8;
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) send: SendHalf,
    pub(crate) recv: RecvHalf,
    pub(crate) place: Place,
    /// The class in which the stream waits to be sent, and the DSCP for its packets.
    pub(crate) class: usize,
    pub(crate) dscp: u8,
    /// Whether this end has opened or accepted the stream. If so, its header has been written.
    pub(crate) accepted: bool,
    /// Bits of [`control`].
    pub(crate) control: u8,
    /// Whether the stream is in the queue of streams with control frames.
    pub(crate) in_control: bool,
    /// Whether the stream is waiting for the session's window, or until fewer bytes are in flight.
    pub(crate) starved: bool,
    /// Number of the stream's bytes in [`Class::ready`](crate::class::Class).
    pub(crate) ready: u64,
    pub(crate) events: Pending,
    /// Whether the stream is in the queue of streams with events.
    pub(crate) in_events: bool,
    /// Whether the application found nothing to read and is waiting for an event.
    pub(crate) wants_read: bool,
    /// Whether the application found no room to write and is waiting for an event.
    pub(crate) wants_write: bool,
    /// The reason for a reset that waits until the peer has received everything.
    pub(crate) reset_later: Option<Reason>,
}

impl Stream {
    pub(crate) fn new(priority: u8) -> Stream {
        Stream {
            send: SendHalf::new(),
            recv: RecvHalf::default(),
            place: Place::new(priority),
            class: 0,
            dscp: 0,
            accepted: false,
            control: 0,
            in_control: false,
            starved: false,
            ready: 0,
            events: Pending::default(),
            in_events: false,
            wants_read: true,
            wants_write: false,
            reset_later: None,
        }
    }

    /// Returns whether both halves are done and all events have been reported.
    pub(crate) fn is_over(&self) -> bool {
        self.send.is_done() && self.recv.is_done() && self.events.is_empty()
    }
}
