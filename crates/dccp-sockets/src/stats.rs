use dccp_cc::{Remembered, ResumePhase};
use mpdccp_proto::{PathId, PathState};
use mpdccp_units::Rate;
use std::net::SocketAddr;
use std::time::Duration;

/// Counters and state of a connection. After its end they stay as of the last update: later losses are
/// missing.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Datagrams accepted from the application.
    pub sent: u64,
    /// Bytes of `sent`.
    pub sent_bytes: u64,
    /// Datagrams of `sent` that wait in the queue.
    pub queued: u64,
    /// Datagrams of `sent` that were dropped because no path could carry their size any more, or because the
    /// connection broke before they left.
    pub dropped: u64,
    /// Datagrams of `sent` that were dropped because the queue was full
    /// ([`Options::send_policy`](crate::Options::send_policy)).
    pub displaced: u64,
    /// Datagrams of `sent` that expired before they left
    /// ([`Delivery::expires_in`](crate::Delivery::expires_in)).
    pub expired: u64,
    /// Data packets that congestion control considers lost; with several paths they may have been repaired.
    /// CCID 3 and 4 do not report packets but loss events: all losses within a round-trip time count as one.
    pub lost: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Bytes of `received`.
    pub received_bytes: u64,
    /// Datagrams of `received` that were dropped because the application did not fetch them.
    pub unread: u64,
    /// Measured rate of all paths together. `None` while [`app_limited`](Self::app_limited), since the paths'
    /// capacity is unknown then.
    pub rate: Option<Rate>,
    /// Rate that congestion control would allow now. A sender that has been slower must send more to find out
    /// the real capacity.
    pub allowed: Rate,
    /// The application sends less than congestion control allows.
    pub app_limited: bool,
    /// Age of the oldest datagram in the queue; `None` while it is empty.
    pub oldest: Option<Duration>,
    /// The paths.
    pub paths: Vec<PathStats>,
}

/// One path of a connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// The path's id.
    pub id: PathId,
    /// The peer's current address.
    pub peer: SocketAddr,
    /// The path's state.
    pub state: PathState,
    /// CCIDs of the data that this end sends and of the data that the peer sends, once agreed.
    pub ccids: Option<(u8, u8)>,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Congestion window, bytes.
    pub window: u64,
    /// Largest IP packet that the path carries as far as known, bytes: probed
    /// ([`Options::mtu_probing`](crate::Options::mtu_probing)), or the system's.
    pub path_mtu: u16,
    /// Measured rate; `None` while the application limits the sending on the path.
    pub rate: Option<Rate>,
    /// Rate that congestion control would allow on it now.
    pub allowed: Rate,
    /// Capacity to remember for the next connection ([`Options::resume`](crate::Options::resume)), once the
    /// path has carried more than a few initial windows.
    pub capacity: Option<Remembered>,
    /// Phase of the resumption from [`Options::resume`](crate::Options::resume), if any.
    pub resumption: Option<ResumePhase>,
    /// Data packets that left.
    pub sent: u64,
    /// Data packets that congestion control considers lost; with CCID 3 and 4 see [`Stats::lost`].
    pub lost: u64,
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A path carries data (again).
    PathUp(PathId),
    /// A path is silent, or its link is down; the connection continues without it.
    PathSuspect(PathId),
    /// A path is gone.
    PathDown(PathId, mpdccp_proto::Reason),
    /// The largest datagram ([`Connection::max_datagram_size`](crate::Connection::max_datagram_size)) is now
    /// this many bytes.
    Size(usize),
    /// The rate that congestion control allows ([`Stats::allowed`]) has changed by the percentage of
    /// [`Options::tell_rate`](crate::Options::tell_rate).
    Rate(Rate),
    /// The first path leaves through the second path's interface instead of the interface that has its
    /// address: both use one line. Name the interface ([`Path::interface`](crate::Path::interface)), or add a
    /// route for the address.
    PathStrays(PathId, PathId),
    /// The connection is over.
    Closed(mpdccp_proto::Reason),
}
