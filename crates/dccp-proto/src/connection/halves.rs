//! The half-connections, and the negotiated values that each packet depends on.

use crate::ccid::{ReceiverHalf, SenderHalf};
use alloc::boxed::Box;

/// The negotiated values, cached so that the data path need not search the features.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Negotiated {
    /// Whether data may be sent, which requires that the peer has agreed to send the acknowledgements that
    /// our CCID needs (RFC 4341 section 4).
    pub(super) may_send: bool,
    /// Whether data may be accepted, which requires that the peer knows whether this end can read ECN bits
    /// (RFC 4340 section 12.1).
    pub(super) may_accept: bool,
    /// Whether we send NDP Count.
    pub(super) ndp: bool,
    /// Whether we put a Timestamp on each Ack.
    pub(super) timestamps: bool,
    /// Whether we send Data Checksum.
    pub(super) checksum: bool,
    /// Whether packets leave as ECN-capable.
    pub(super) ect: bool,
    /// Whether the peer may send short sequence numbers.
    pub(super) short: bool,
    /// Whether we send short sequence numbers.
    pub(super) send_short: bool,
    /// Minimum Checksum Coverage of accepted data. With 0, the checksum must cover all data.
    pub(super) min_coverage: u8,
    /// Checksum Coverage of sent data. 0 covers all data.
    pub(super) coverage: u8,
}

/// The two half-connections at this end, and the feature values that were passed to them.
#[derive(Debug)]
pub(super) struct Halves {
    pub(super) tx: Box<dyn SenderHalf>,
    pub(super) rx: Box<dyn ReceiverHalf>,
    pub(super) tx_ccid: u8,
    pub(super) rx_ccid: u8,
    pub(super) ack_ratio: u16,
    pub(super) peer_ack_ratio: u16,
    pub(super) send_ack_vector: bool,
}
