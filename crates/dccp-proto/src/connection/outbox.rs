//! What waits to leave apart from data.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_wire::{Reset, Seq};

/// NDP Count at its longest.
pub(super) const NDP_ROOM: usize = 8;

/// A packet that begins or ends the connection, repeated by its timer.
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
    /// `None`: the next of the connection.
    pub(super) seq: Option<Seq>,
    pub(super) ack: Seq,
}

/// What must leave. Each slot holds one packet, so that nothing received can make it grow.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) control: Option<Control>,
    pub(super) reset: Option<OutReset>,
    /// Acknowledgement Number of a Sync.
    pub(super) sync: Option<Seq>,
    /// The newest Sync to answer.
    pub(super) sync_ack: Option<Seq>,
    /// An Ack, whatever the receiving half thinks.
    pub(super) ack: bool,
    /// A Sync after the Ack of PARTOPEN, for its answer.
    pub(super) ask: bool,
    /// Options of the owner for Acks.
    pub(super) options: VecDeque<Vec<u8>>,
}
