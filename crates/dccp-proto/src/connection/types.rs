use core::fmt;
use dccp_wire::{Reset, ResetCode, Seq};

/// States of RFC 4340 section 4.3 that last; LISTEN is the endpoint's. Written as there: `REQUEST`, `TIMEWAIT`. There will be no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum State {
    Request,
    Respond,
    PartOpen,
    Open,
    CloseReq,
    Closing,
    TimeWait,
    Closed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Request => "REQUEST",
            State::Respond => "RESPOND",
            State::PartOpen => "PARTOPEN",
            State::Open => "OPEN",
            State::CloseReq => "CLOSEREQ",
            State::Closing => "CLOSING",
            State::TimeWait => "TIMEWAIT",
            State::Closed => "CLOSED",
        })
    }
}

/// DCCP ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Ports {
    pub local: u16,
    pub remote: u16,
}

/// Packets to which the owner of a connection adds encoded options (multipath), every time they are (re)sent.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Request.
    Request,
    /// Response.
    Response,
    /// Every Ack and DataAck sent in PARTOPEN.
    HandshakeAck,
    /// Close and CloseReq.
    Close,
    /// Reset that this end sends, also in answer to Close.
    Reset,
}

impl Extra {
    pub(super) const COUNT: usize = 5;
}

/// What a packet did: one or the other, so this has no further cases.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Valid and processed.
    Received(Received<'a>),
    /// Not for the owner's eyes: dropped and counted.
    Dropped(DropReason),
}

/// A valid packet, for the owner: data to deliver, options to read (with [`dccp_wire::Packet::options`]).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Received<'a> {
    /// Application data, on Data and DataAck only, `None` where it was dropped or must not be read.
    pub data: Option<&'a [u8]>,
    /// The data has changed on the way ([`Config::take_corrupt`](crate::Config::take_corrupt)).
    pub corrupt: bool,
    /// Sequence number, 48 bits.
    pub seq: Seq,
    /// NDP Count if present.
    pub ndp: Option<u64>,
    /// The Reset, if it was one.
    pub reset: Option<Reset>,
}

/// Why a packet, or its data, was dropped. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DropReason {
    /// Type not allowed in this state (section 8.5).
    UnexpectedType,
    /// Short sequence numbers although they were not negotiated (section 7.6.1).
    ShortSeqno,
    /// Sequence Number outside its window (section 7.5.3).
    SequenceInvalid,
    /// Acknowledgement Number outside its window.
    AckInvalid,
    /// An option after which the connection was reset (sections 5.8.2, 6.6.8 and 6.6.9).
    BadOption,
    /// Acknowledges a packet that was never sent, after which the connection was reset (section 12.3).
    NeverSent,
    /// Data only: Data Checksum mismatch.
    DataChecksum,
    /// Data only: not covered by the header checksum as far as it should be (section 9.2.1).
    Coverage,
    /// Data only: on a type or at a time that allows none.
    DataNotAllowed,
    /// A Listen, which at most has a Request repeated (RFC 5596 section 2.2.3).
    Listen,
    /// The connection is closed.
    Closed,
}

impl DropReason {
    /// Stable, for machines.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::UnexpectedType => "unexpected_type",
            DropReason::ShortSeqno => "short_seqno",
            DropReason::SequenceInvalid => "sequence_invalid",
            DropReason::AckInvalid => "ack_invalid",
            DropReason::BadOption => "bad_option",
            DropReason::NeverSent => "never_sent",
            DropReason::DataChecksum => "data_checksum",
            DropReason::Coverage => "coverage",
            DropReason::DataNotAllowed => "data_not_allowed",
            DropReason::Listen => "listen",
            DropReason::Closed => "closed",
        }
    }
}

/// What became of data that arrived and was not delivered as it was sent, for the peer (RFC 4340 section 11.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum DropCode {
    /// The protocol forbids to take it.
    ProtocolConstraints = 0,
    /// The application listens no more: the peer sends no more data.
    NotListening = 1,
    /// No room in the receive buffer: the peer sends less.
    ReceiveBuffer = 2,
    /// Corrupt, and dropped for it.
    Corrupt = 3,
    /// Corrupt, and delivered all the same.
    DeliveredCorrupt = 7,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// Closed by this end.
    Local,
    /// Closed by the peer with Close or CloseReq.
    Peer,
    /// Reset by the peer.
    Reset(ResetCode),
    /// Reset by this end.
    Aborted(ResetCode),
    /// No answer to Request, Close or in PARTOPEN.
    TimedOut,
}

/// What the owner is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The Response is here and accepted; the HandshakeAck has not left yet.
    Responded,
    /// OPEN.
    Opened,
    /// Over; TIMEWAIT may still last.
    Closed(CloseReason),
}

/// Names of the timers, the reason with each timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Timer {
    RequestRetransmit,
    RespondExpire,
    PartOpenRetransmit,
    FeatureRetransmit,
    AckDelay,
    Sender,
    MtuProbe,
    CloseRetransmit,
    TimeWait,
}

impl Timer {
    /// Its name, for traces.
    pub const fn name(self) -> &'static str {
        match self {
            Timer::RequestRetransmit => "request_retransmit",
            Timer::RespondExpire => "respond_expire",
            Timer::PartOpenRetransmit => "part_open_retransmit",
            Timer::FeatureRetransmit => "feature_retransmit",
            Timer::AckDelay => "ack_delay",
            Timer::Sender => "sender",
            Timer::MtuProbe => "mtu_probe",
            Timer::CloseRetransmit => "close_retransmit",
            Timer::TimeWait => "time_wait",
        }
    }
}

/// Counters of one connection.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
#[non_exhaustive]
pub struct ConnectionStats {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub data_sent: u64,
    pub data_received: u64,
    /// Bytes of application data in them.
    pub bytes_received: u64,
    pub syncs_sent: u64,
    /// Syncs that probed the path MTU (RFC 8899).
    pub mtu_probes: u64,
    /// Packets by which the peer said it is a Slow Receiver (section 11.6).
    pub slow_receiver: u64,
    /// Calls of [`send_options`](super::Connection::send_options) whose options found no room.
    pub options_dropped: u64,
    /// Drops by reason.
    pub dropped: alloc::collections::BTreeMap<DropReason, u64>,
}
