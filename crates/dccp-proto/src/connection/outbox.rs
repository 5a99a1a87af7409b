//! Non-data packets waiting to be sent.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_wire::{Reset, Seq};

/// Longest NDP Count, bytes.
pub(super) const NDP_ROOM: usize = 8;

/// A packet that opens or closes the connection. A timer retransmits it until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    Request,
    Response,
    CloseReq,
    Close,
}

/// A Reset to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutReset {
    pub(super) reset: Reset,
    /// Sequence Number of the Reset; `None` means the connection's next number.
    pub(super) seq: Option<Seq>,
    pub(super) ack: Seq,
}

/// Packets to send. Each slot holds at most one packet, so input cannot make them pile up.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) control: Option<Control>,
    pub(super) reset: Option<OutReset>,
    /// Acknowledgement Number of a Sync to send.
    pub(super) sync: Option<Seq>,
    /// The newest Sync to answer.
    pub(super) sync_ack: Option<Seq>,
    /// Whether to send an Ack, even if the receiving half does not require one.
    pub(super) ack: bool,
    /// Whether data from the peer has triggered an acknowledgement since the sending half last requested
    /// [`AckPeer`](crate::ccid::SenderRequest::AckPeer).
    pub(super) acked_data: bool,
    /// Whether to send a Sync after the Ack of PARTOPEN, because a Sync forces the peer to answer.
    pub(super) ask: bool,
    /// The owner's option lists waiting for an Ack.
    pub(super) options: VecDeque<Vec<u8>>,
}
