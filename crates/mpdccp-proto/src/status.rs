use crate::policy::RuleStats;
use crate::queue::{QueueStats, QueueView};
use crate::reorder::ReorderStats;
use crate::{Counters, PathId, PathName, PathState};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::{ConnectionStats, Ports, Route, ccid::TxView};
use mpdccp_units::Time;

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SessionState {
    Connecting,
    Open,
    Closing,
    Closed,
}

/// A session as shown in status output and traces.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionStatus {
    /// State.
    pub state: SessionState,
    /// Whether RFC 9897 is in use. If not, the connection is plain.
    pub multipath: bool,
    /// Connection identifiers of this end and of the peer.
    pub ci: (u32, u32),
    /// Service Code. If the listener has several codes, this is the one that the client requested
    /// (RFC 4340 section 8.1.2).
    pub service_code: u32,
    /// Error Text of the peer's last Reset (RFC 4340 section 5.6).
    pub error_text: Option<String>,
    /// All paths, including closed ones for as long as they are kept.
    pub paths: Vec<PathStatus>,
    /// Size of the largest datagram that every path that is up can carry (RFC 9897 section 3.9). `None` while
    /// no path is up.
    pub max_payload: Option<usize>,
    /// Addresses that the peer advertised by MP_ADDADDR: Address ID, address, port.
    pub peer_addresses: Vec<(u8, IpAddr, Option<u16>)>,
    /// Send queue.
    pub queue: QueueView,
    /// Counters of the send queue.
    pub queue_stats: QueueStats,
    /// Data packets that congestion control considers lost, on all connections that the session has had.
    pub lost: u64,
    /// Counters of each policy rule, by name.
    pub rules: Vec<(String, RuleStats)>,
    /// Reordering buffer.
    pub reorder: ReorderStats,
    /// Loss repair.
    pub repair: RepairStats,
    /// FEC packets.
    pub fec: FecStats,
    /// Byte streams, if both ends support them.
    pub streams: Option<StreamsStatus>,
    /// How often each kind of drop or unexpected event occurred (bad HMAC, unknown option, data without
    /// MP_SEQ, ...).
    pub counters: Counters,
}

/// Counters of loss repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairStats {
    /// Datagrams retransmitted.
    pub sent: u64,
    /// Lost datagrams that were already too old to retransmit when the loss was noticed.
    pub given_up: u64,
    /// Sent datagrams that were not kept for repair because memory was short.
    pub forgotten: u64,
    /// Bytes currently kept: packets that may need a retransmission, and retransmissions waiting for a path.
    pub bytes: u64,
}

/// Counters of forward error correction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FecStats {
    /// FEC packets sent.
    pub sent: u64,
    /// FEC packets that found no path in time.
    pub dropped: u64,
    /// Packets sent without protection, because their FEC packet would be too large for every path.
    pub too_large: u64,
    /// FEC packets that arrived.
    pub received: u64,
    /// Lost packets restored by means of FEC packets.
    pub restored: u64,
    /// FEC packets kept now, and data packets kept in order to restore others.
    pub held: u64,
}

/// The byte streams of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamsStatus {
    /// Streams that have not ended.
    pub open: usize,
    /// Bytes of all streams that are waiting to be sent for the first time.
    pub backlog: u64,
    /// Counters since the session opened.
    pub stats: dccp_streams::Stats,
}

/// A path as shown in status output and traces.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathStatus {
    /// Identifier.
    pub id: PathId,
    /// State.
    pub state: PathState,
    /// Priority in force.
    pub prio: u8,
    /// Socket and peer.
    pub route: Route,
    /// DCCP ports.
    pub ports: Ports,
    /// CCIDs of this end's and of the peer's sending half, once negotiated.
    pub ccids: Option<(u8, u8)>,
    /// Maximum size of an IP packet on the path, bytes, as far as known.
    pub mtu: u16,
    /// Size of the largest payload. In PARTOPEN, packets with the largest payloads wait until the connection
    /// is open.
    pub max_payload: usize,
    /// This end's sending half, once it exists.
    pub tx: Option<TxView>,
    /// The connection's counters.
    pub stats: ConnectionStats,
    /// Name of the path for policy rules, at both ends.
    pub name: PathName,
    /// Time at which a packet last arrived or, if none has, at which the path opened.
    pub heard: Time,
    /// Time at which the peer's acknowledgements last covered a new packet or, if they have not yet, at which
    /// the path opened.
    pub answered: Time,
    /// Time at which the first unanswered packet was sent, if its answer is overdue; otherwise `None`.
    pub unanswered_since: Option<Time>,
}
