use dccp_cc::{Remembered, ResumePhase};
use mpdccp_proto::{PathId, PathState};
use mpdccp_units::Rate;
use std::net::SocketAddr;
use std::time::Duration;

/// Counters and state of a connection. They keep their last values after the connection has ended, so later
/// losses are not included.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of datagrams accepted from the application.
    pub sent: u64,
    /// Number of bytes in the datagrams counted by `sent`.
    pub sent_bytes: u64,
    /// How many of `sent` are waiting in the queue.
    pub queued: u64,
    /// How many of `sent` were dropped because no path could carry their size any more, because the peer's
    /// application no longer listens, because thousands of connections filled the memory for queues, or
    /// because the connection failed before sending them.
    pub dropped: u64,
    /// How many of `sent` were dropped because the queue was full
    /// ([`Options::send_policy`](crate::Options::send_policy)).
    pub displaced: u64,
    /// How many of `sent` expired before they were sent
    /// ([`Delivery::expires_in`](crate::Delivery::expires_in)).
    pub expired: u64,
    /// Data packets that congestion control considers lost. With several paths, some of them may have been
    /// retransmitted. CCIDs 3 and 4 count loss events instead of packets: all losses within one round-trip
    /// time are one event.
    pub lost: u64,
    /// Number of datagrams that arrived.
    pub received: u64,
    /// Number of bytes in the datagrams counted by `received`.
    pub received_bytes: u64,
    /// How many of `received` were dropped because the application did not fetch them.
    pub unread: u64,
    /// Measured rate of all paths together, or `None` while [`app_limited`](Self::app_limited), because the
    /// capacity of the paths is then unknown.
    pub rate: Option<Rate>,
    /// Rate that congestion control currently allows. A sender that has been slower than this must send more
    /// to find the real capacity.
    pub allowed: Rate,
    /// Whether the application sends less than congestion control allows.
    pub app_limited: bool,
    /// Age of the oldest datagram in the queue; `None` if the queue is empty.
    pub oldest: Option<Duration>,
    /// The paths.
    pub paths: Vec<PathStats>,
}

/// A path of a connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// Identifier of the path.
    pub id: PathId,
    /// Current address of the peer.
    pub peer: SocketAddr,
    /// State of the path.
    pub state: PathState,
    /// CCIDs for data sent by this end and for data sent by the peer, once negotiated.
    pub ccids: Option<(u8, u8)>,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Largest IP packet that the path is known to carry, in bytes, according to probes
    /// ([`Options::mtu_probing`](crate::Options::mtu_probing)) or the system.
    pub path_mtu: u16,
    /// Measured rate; `None` while the application sends less on this path than congestion control allows.
    pub rate: Option<Rate>,
    /// Rate that congestion control currently allows on this path.
    pub allowed: Rate,
    /// Capacity to store for the next connection ([`Options::resume`](crate::Options::resume)), known once
    /// the path has carried more than a few initial windows.
    pub capacity: Option<Remembered>,
    /// Phase of the resumption started by [`Options::resume`](crate::Options::resume), if any.
    pub resumption: Option<ResumePhase>,
    /// Number of data packets sent since the path last opened.
    pub sent: u64,
    /// Data packets that congestion control considers lost, since the path last opened; for CCIDs 3 and 4,
    /// see [`Stats::lost`].
    pub lost: u64,
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A path is up, or up again.
    PathUp(PathId),
    /// A path is suspect: no packets arrive on it, or its link is down. The connection continues without it.
    PathSuspect(PathId),
    /// A path was closed.
    PathDown(PathId, mpdccp_proto::Reason),
    /// [`Connection::max_datagram_size`](crate::Connection::max_datagram_size) has changed to this number of
    /// bytes.
    Size(usize),
    /// The rate that congestion control allows ([`Stats::allowed`]) has changed by the percentage set with
    /// [`Options::tell_rate`](crate::Options::tell_rate).
    Rate(Rate),
    /// The first path uses the second path's interface instead of the interface that has the first path's
    /// address, so both paths use the same Internet connection. Set the first path's interface
    /// ([`Path::interface`](crate::Path::interface)), or add a route for its address.
    PathStrays(PathId, PathId),
    /// The connection has ended.
    Closed(mpdccp_proto::Reason),
}
