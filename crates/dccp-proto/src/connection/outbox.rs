//! Pending packets other than data.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_wire::{Reset, Seq};

/// Longest NDP Count, bytes.
pub(super) const NDP_ROOM: usize = 8;

/// A packet that opens or closes the connection; its timer retransmits it.
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
    /// `None`: the connection's next number.
    pub(super) seq: Option<Seq>,
    pub(super) ack: Seq,
}

/// Pending packets. Each slot has one packet, so input cannot make it grow.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) control: Option<Control>,
    pub(super) reset: Option<OutReset>,
    /// Acknowledgement Number of a Sync.
    pub(super) sync: Option<Seq>,
    /// The newest Sync to answer.
    pub(super) sync_ack: Option<Seq>,
    /// An Ack, even if the receiving half does not require it.
    pub(super) ack: bool,
    /// A Sync after the Ack of PARTOPEN, to get an answer.
    pub(super) ask: bool,
    /// The owner's options for Acks.
    pub(super) options: VecDeque<Vec<u8>>,
}
