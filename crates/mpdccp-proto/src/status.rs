use crate::policy::RuleStats;
use crate::queue::{QueueStats, QueueView};
use crate::reorder::ReorderStats;
use crate::{Counters, PathId, PathName, PathState};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::{ConnectionStats, Ports, Route, ccid::TxView};
use mpdccp_units::Time;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SessionState {
    Connecting,
    Open,
    Closing,
    Closed,
}

/// A session as status and traces show it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionStatus {
    /// Where it stands.
    pub state: SessionState,
    /// RFC 9897 is in use (not a plain connection).
    pub multipath: bool,
    /// Our connection identifier and the peer's.
    pub ci: (u32, u32),
    /// Service Code, of several that a listener takes the one that the client asked for (RFC 4340 section 8.1.2).
    pub service_code: u32,
    /// What the peer's last Reset said in words (RFC 4340 section 5.6, Error Text).
    pub error_text: Option<String>,
    /// All paths, closed ones too while they are kept.
    pub paths: Vec<PathStatus>,
    /// Largest datagram that every path that is up can carry (RFC 9897 section 3.9); `None` while none is.
    pub max_payload: Option<usize>,
    /// What the peer has advertised by MP_ADDADDR: Address ID, address, port.
    pub peer_addresses: Vec<(u8, IpAddr, Option<u16>)>,
    /// Send queue.
    pub queue: QueueView,
    /// Its counters.
    pub queue_stats: QueueStats,
    /// What each policy rule met, by its name.
    pub rules: Vec<(String, RuleStats)>,
    /// Reordering buffer.
    pub reorder: ReorderStats,
    /// Loss repair.
    pub repair: RepairStats,
    /// FEC packets.
    pub fec: FecStats,
    /// Byte streams, where both ends have them.
    pub streams: Option<StreamsStatus>,
    /// How often each drop and oddity occurred (bad HMAC, unknown option, data without MP_SEQ, ...).
    pub counters: Counters,
}

/// Counters of loss repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairStats {
    /// Datagrams sent once more.
    pub sent: u64,
    /// Lost, but too old to be of use when they could have been sent.
    pub given_up: u64,
    /// Not kept, for want of memory.
    pub forgotten: u64,
    /// Bytes kept now: what may have to be sent again, and what waits for a path to be.
    pub bytes: u64,
}

/// Counters of forward error correction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FecStats {
    /// FEC packets sent.
    pub sent: u64,
    /// That found no path in time.
    pub dropped: u64,
    /// Packets not protected, for no path would carry their FEC packet.
    pub too_large: u64,
    /// FEC packets that arrived.
    pub received: u64,
    /// Packets made from others.
    pub restored: u64,
    /// Packets that FEC packets may need and FEC packets, kept now.
    pub held: u64,
}

/// The byte streams of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamsStatus {
    /// Streams that are not over.
    pub open: usize,
    /// Bytes of all streams that wait to be sent for the first time.
    pub backlog: u64,
    /// Counts since the session opened.
    pub stats: dccp_streams::Stats,
}

/// A path as status and traces show it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathStatus {
    /// Which.
    pub id: PathId,
    /// How it fares.
    pub state: PathState,
    /// Priority in force.
    pub prio: u8,
    /// Socket and peer.
    pub route: Route,
    /// DCCP ports.
    pub ports: Ports,
    /// (ours, the peer's), once negotiated.
    pub ccids: Option<(u8, u8)>,
    /// Largest IP packet of the path, bytes, as far as it is known.
    pub mtu: u16,
    /// Largest payload. In PARTOPEN the largest wait until the connection is open.
    pub max_payload: usize,
    /// Our sending half, once there is one.
    pub tx: Option<TxView>,
    /// The connection's counters.
    pub stats: ConnectionStats,
    /// What rules call it, at both ends.
    pub name: PathName,
    /// When something last arrived, or the path opened.
    pub heard: Time,
    /// When something newer of ours was last acknowledged, or the path opened.
    pub answered: Time,
}
