use dccp_cc::{Remembered, ResumePhase};
use mpdccp_proto::{PathId, PathState};
use mpdccp_units::Rate;
use std::net::SocketAddr;
use std::time::Duration;

/// Counters and state of a connection. After its end, those of the last look at it: what was lost after that is not in it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Datagrams taken from the application.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Of them, still waiting for the window.
    pub queued: u64,
    /// Of them, dropped since no path could carry their size any more, or since the connection broke before they left.
    pub dropped: u64,
    /// Of them, dropped because the queue was full, as [`Options::send_policy`](crate::Options::send_policy) has it.
    pub displaced: u64,
    /// Of them, dropped because they had not left in time ([`Delivery::expires_in`](crate::Delivery::expires_in)).
    pub expired: u64,
    /// Packets with data that congestion control takes for lost; with several paths they may have been repaired.
    pub lost: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Of them, dropped because the application did not fetch them.
    pub unread: u64,
    /// What all paths together were seen to carry. Known only while congestion control is what limits the sender: `None` while
    /// [`app_limited`](Self::app_limited), since nobody knows then how much more there is.
    pub rate: Option<Rate>,
    /// What congestion control would let leave now. A sender that has been slower finds out only by sending more.
    pub allowed: Rate,
    /// The application sends less than congestion control would let it.
    pub app_limited: bool,
    /// How long the oldest datagram has waited in the queue; `None` while it is empty.
    pub oldest: Option<Duration>,
    /// The paths.
    pub paths: Vec<PathStats>,
}

/// One path of a connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// Which.
    pub id: PathId,
    /// Where the peer is.
    pub peer: SocketAddr,
    /// How it fares.
    pub state: PathState,
    /// Congestion control of what this end sends and of what the peer sends, once agreed.
    pub ccids: Option<(u8, u8)>,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Congestion window, bytes.
    pub window: u64,
    /// What it was seen to carry; `None` while the application limits what leaves on it.
    pub rate: Option<Rate>,
    /// What congestion control would let leave on it now.
    pub allowed: Rate,
    /// What to remember of it for the next connection ([`Options::resume`](crate::Options::resume)), once it has been seen to carry more than a few
    /// initial windows.
    pub capacity: Option<Remembered>,
    /// How it fares with what [`Options::resume`](crate::Options::resume) gave it, if anything.
    pub resumption: Option<ResumePhase>,
    /// Packets with data that left.
    pub sent: u64,
    /// Packets with data that congestion control takes for lost.
    pub lost: u64,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A path carries data (again).
    PathUp(PathId),
    /// A path is silent, or its link is down; the connection goes on without it.
    PathSuspect(PathId),
    /// A path is gone.
    PathDown(PathId, mpdccp_proto::Reason),
    /// The largest datagram ([`Connection::max_datagram_size`](crate::Connection::max_datagram_size)) has so many bytes now.
    Size(usize),
    /// What congestion control lets leave ([`Stats::allowed`]) has changed by as much as [`Options::tell_rate`](crate::Options::tell_rate) says.
    Rate(Rate),
    /// The first path leaves through the interface of the second, and not through the one that has its address: they are one line. Name the
    /// interface ([`Path::interface`](crate::Path::interface)), or add a route for the address.
    PathStrays(PathId, PathId),
    /// It is over.
    Closed(mpdccp_proto::Reason),
}
