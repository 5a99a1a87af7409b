use core::fmt;
use dccp_wire::{Reset, ResetCode, Seq};

mpdccp_units::named! {
    /// Persistent states of RFC 4340 section 4.3, except LISTEN, which the endpoint handles. The names are
    /// those of the RFC, such as `TIMEWAIT`. The list is complete.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub enum State {
        Request = "REQUEST",
        Respond = "RESPOND",
        PartOpen = "PARTOPEN",
        Open = "OPEN",
        CloseReq = "CLOSEREQ",
        Closing = "CLOSING",
        TimeWait = "TIMEWAIT",
        Closed = "CLOSED",
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// DCCP ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Ports {
    pub local: u16,
    pub remote: u16,
}

/// Packets that can carry encoded options of the connection's owner (multipath). Every transmission and
/// retransmission carries them.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Request.
    Request,
    /// Response.
    Response,
    /// Every Ack, DataAck, Sync and SyncAck sent in PARTOPEN.
    HandshakeAck,
    /// Close and CloseReq.
    Close,
    /// Every Reset that this end sends, including answers to Close.
    Reset,
}

impl Extra {
    pub(super) const COUNT: usize = 5;
}

/// Result of handling a packet. The list of cases is complete.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Valid and processed.
    Received(Received<'a>),
    /// The packet was dropped and counted. The owner need not do anything.
    Dropped(DropReason),
}

/// A valid packet. The owner delivers its data and reads its options (with [`dccp_wire::Packet::options`]).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Received<'a> {
    /// Application data of a Data or DataAck packet, or `None` if the data was dropped or must not be read.
    pub data: Option<&'a [u8]>,
    /// Whether the data was corrupted in transit ([`Config::take_corrupt`](crate::Config::take_corrupt)).
    pub corrupt: bool,
    /// Sequence number, 48 bits.
    pub seq: Seq,
    /// NDP Count if present.
    pub ndp: Option<u64>,
    /// The Reset, if the packet was one.
    pub reset: Option<Reset>,
}

mpdccp_units::named! {
    /// Reason for dropping a packet or its data. Each reason has a counter. Sections without a document are
    /// those of RFC 4340.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum DropReason {
        /// The type is not allowed in this state (section 8.5).
        UnexpectedType = "unexpected_type",
        /// Short sequence numbers were not negotiated (section 7.6.1).
        ShortSeqno = "short_seqno",
        /// The Sequence Number is outside its window (section 7.5.3).
        SequenceInvalid = "sequence_invalid",
        /// The Acknowledgement Number is outside its window.
        AckInvalid = "ack_invalid",
        /// An invalid option; the connection was reset (sections 5.8.2, 6.6.8 and 6.6.9).
        BadOption = "bad_option",
        /// The packet acknowledges a packet that was never sent; the connection was reset (section 12.3).
        NeverSent = "never_sent",
        /// Only the data was dropped: the Data Checksum does not match.
        DataChecksum = "data_checksum",
        /// Only the data was dropped: the Checksum Coverage is less than required (section 9.2.1).
        Coverage = "coverage",
        /// Only the data was dropped: data is not allowed on this packet type or in this state.
        DataNotAllowed = "data_not_allowed",
        /// A Listen, which at most makes the client retransmit its Request (RFC 5596 section 2.2.3).
        Listen = "listen",
        /// The connection is closed.
        Closed = "closed",
    }
}

/// Fate of data that was not delivered as sent, as reported to the peer (RFC 4340 section 11.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum DropCode {
    /// The protocol does not allow the data.
    ProtocolConstraints = 0,
    /// The application no longer receives data, so the peer should stop sending it.
    NotListening = 1,
    /// The receive buffer was full, so the peer should slow down.
    ReceiveBuffer = 2,
    /// The data was corrupt and dropped.
    Corrupt = 3,
    /// The data was corrupt but delivered.
    DeliveredCorrupt = 7,
}

/// Reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// This end closed the connection.
    Local,
    /// The peer closed the connection with Close or CloseReq.
    Peer,
    /// The peer reset the connection.
    Reset(ResetCode),
    /// This end reset the connection.
    Aborted(ResetCode),
    /// The peer did not answer a Request or a Close, or PARTOPEN never ended.
    TimedOut,
}

/// An event for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The client has accepted the Response but has not sent the HandshakeAck yet.
    Responded,
    /// The connection is OPEN.
    Opened,
    /// The connection has ended. TIMEWAIT may still last.
    Closed(CloseReason),
}

mpdccp_units::named! {
    /// A connection's timers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    #[non_exhaustive]
    pub enum Timer {
        RequestRetransmit = "request_retransmit",
        RespondExpire = "respond_expire",
        PartOpenRetransmit = "part_open_retransmit",
        FeatureRetransmit = "feature_retransmit",
        AckDelay = "ack_delay",
        Sender = "sender",
        MtuProbe = "mtu_probe",
        CloseRetransmit = "close_retransmit",
        TimeWait = "time_wait",
    }
}

/// Counters of one connection.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
#[non_exhaustive]
pub struct ConnectionStats {
    pub data_sent: u64,
    pub data_received: u64,
    /// Bytes of application data received.
    pub bytes_received: u64,
    pub syncs_sent: u64,
    /// Syncs that probed the path MTU (RFC 8899).
    pub mtu_probes: u64,
    /// Packets with the peer's Slow Receiver option (RFC 4340 section 11.6).
    pub slow_receiver: u64,
    /// Number of [`send_options`](super::Connection::send_options) calls whose options did not fit.
    pub options_dropped: u64,
    /// Drops by reason.
    pub dropped: alloc::collections::BTreeMap<DropReason, u64>,
}
