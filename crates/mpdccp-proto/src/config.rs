use crate::PathName;
use crate::policy::Policy;
use crate::queue::QueueConfig;
use crate::reorder::ReorderConfig;
use crate::sched::SchedulerKind;
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::{Config, Ports, Route};
use dccp_wire::KeyType;
use mpdccp_units::Duration;

/// How to treat a peer that does not speak Multipath DCCP (RFC 9897 section 3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Close the connection.
    #[default]
    Refuse,
    /// Continue as a plain DCCP connection.
    Plain,
}

/// Which local addresses a session uses to join an address that the peer advertises (MP_ADDADDR). Only local
/// addresses of the same family can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinFrom {
    /// Do not join: the advertised address is only shown in the session's status.
    #[default]
    Nowhere,
    /// The local address of the subflow that the advertisement arrived on.
    One,
    /// The local address of every path at this end, for a full mesh.
    All,
}

/// Settings of a session, shared by all its paths.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Template for each path's connection. The path supplies MTU and overhead.
    pub connection: Config,
    /// Whether to offer and accept Multipath DCCP (RFC 9897). If off, the session is a plain DCCP connection
    /// with one path.
    pub multipath: bool,
    /// Only for plain connections: application data for a client's Request or a server's Response, at most a
    /// few hundred bytes (RFC 4340 sections 8.1.1 and 8.1.3). A peer that has set [`Config::early_data`]
    /// accepts the data and delivers it first.
    pub early_data: Vec<u8>,
    /// How to treat a peer that does not support RFC 9897.
    pub fallback: Fallback,
    /// Key types that a client offers and a server accepts, in order of preference (RFC 9897 section 3.2.4).
    /// Every implementation understands type 0. To require another type, leave out type 0. Otherwise a host
    /// on the path could remove the other types from the offer.
    pub key_types: Vec<KeyType>,
    /// Share one congestion state among the connections of all sessions that set this. These connections must
    /// have the same endpoint, socket and CCID, and run between the same two hosts. Once open, they together
    /// take the share of one connection. CCIDs 3 and 4 do not support sharing.
    pub share_congestion: bool,
    /// Couple those paths of the session that share a bottleneck, as revealed by their round-trip times.
    /// Together, coupled paths take the share of one flow. Not available with
    /// [`share_congestion`](Self::share_congestion), nor for CCIDs 3, 4 and 250.
    pub coupling: bool,
    /// Chooses the path of each packet.
    pub scheduler: SchedulerKind,
    /// Rules that schedule some packets differently.
    pub policy: Policy,
    /// How to put arriving packets back in order.
    pub reorder: ReorderConfig,
    /// Retransmit lost packets on the best path, provided the peer is also an mpdccp program and waits for
    /// retransmissions.
    pub repair: bool,
    /// Tell the peer to hold packets behind a loss until the retransmission arrives. If off, retransmissions
    /// arrive out of order: inner flows that ignore loss (BBR) then have shorter round trips, but flows that
    /// reduce their rate on loss (CUBIC) lose the benefit of retransmissions.
    pub wait_for_repairs: bool,
    /// Datagrams are IP packets: put each inner flow in order separately, so that losses in one flow do not
    /// delay another. If the receiver's reorderer is `adaptive`, each packet also carries four bytes that
    /// give the distance to the previous packet of its flow. Both ends must set this option.
    pub flow_order: bool,
    /// Carry reliable byte streams alongside datagrams (docs/streams.md), if the peer supports them.
    pub streams: bool,
    /// The send queue.
    pub queue: QueueConfig,
    /// Client only: whether the server may open subflows too (RFC 9897 section 3.2.2: either host may do so).
    /// The client's endpoint must then listen.
    pub joinable: bool,
    /// How to join addresses that the peer advertises. This is for applications without their own path
    /// manager.
    pub join_advertised: JoinFrom,
    /// Pass MP_EXP options from the peer's application to the local application
    /// ([`crate::SessionEvent::Private`]). If off, they are ignored.
    pub private_options: bool,
    /// Maximum number of paths at a time. Further joins are refused with Reset code 9.
    pub max_paths: usize,
    /// Probe a path when nothing has arrived from the peer for this long. Probes keep NAT bindings alive and
    /// detect dead paths. The server waits twice as long.
    pub keepalive: Duration,
    /// Client with several paths: how long the first subflow may take to open before the next path is tried.
    /// A time below three seconds doubles up to that after each round through all paths, so that a slow path
    /// also has time to answer.
    pub first_attempt: Duration,
    /// How long the session survives with no path up.
    pub survive: Duration,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            connection: Config::default(),
            multipath: true,
            early_data: Vec::new(),
            fallback: Fallback::Refuse,
            key_types: alloc::vec![KeyType::Plain],
            share_congestion: false,
            coupling: true,
            scheduler: SchedulerKind::default(),
            policy: Policy::default(),
            reorder: ReorderConfig::passive(),
            repair: true,
            wait_for_repairs: true,
            flow_order: false,
            streams: false,
            queue: QueueConfig::default(),
            joinable: false,
            join_advertised: JoinFrom::Nowhere,
            private_options: false,
            max_paths: 8,
            keepalive: Duration::from_secs(12),
            first_attempt: Duration::from_secs(3),
            survive: Duration::from_secs(60),
        }
    }
}

/// One path of a client session.
#[derive(Clone, Copy, Debug)]
pub struct PathConfig {
    /// Socket and peer address.
    pub route: Route,
    /// DCCP ports.
    pub ports: Ports,
    /// Name for use in policy rules. This end sends it to the peer.
    pub name: PathName,
    /// Priority 0 to 15 (RFC 9897 section 3.2.10), 3 by default.
    pub prio: u8,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// IP and UDP header bytes that the encapsulation adds.
    pub overhead: u16,
}

impl PathConfig {
    /// Creates a path without a name, of the default priority.
    pub fn new(route: Route, ports: Ports, mtu: u16, overhead: u16) -> PathConfig {
        PathConfig { route, ports, name: PathName::default(), prio: 3, mtu, overhead }
    }
}

/// A peer that may open sessions.
#[derive(Clone, Debug)]
pub struct PeerFilter {
    /// Identifier of the peer. [`crate::SessionEvent::Accepted`] contains it.
    pub id: u32,
    /// Addresses from which the peer may open the first subflow. An empty list allows any address.
    pub remotes: Vec<IpAddr>,
}

/// A listening DCCP port.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// DCCP port.
    pub port: u16,
    /// Settings of the sessions accepted here.
    pub session: SessionConfig,
    /// Peers that may connect. The first matching entry decides. An empty list admits no peer.
    pub peers: Vec<PeerFilter>,
    /// Whether to admit a peer that the encapsulation has authenticated even if its `id` is not listed in
    /// `peers`. The per-source limit also applies to such peers, because a new key costs nothing.
    pub strangers: bool,
    /// MTU of incoming paths on any socket of this endpoint.
    pub mtu: u16,
    /// Length of the IP and UDP headers over IPv4, bytes. Over IPv6, they are 20 bytes longer.
    pub overhead: u16,
    /// Maximum number of sessions at a time. Further Requests are refused with Reset code 9, Too Busy.
    pub max_sessions: usize,
    /// Maximum number of simultaneous sessions from one source, which is an IPv4 address or the first 64 bits
    /// of an IPv6 address. Further Requests are refused with Reset code 9. The full limit applies only while
    /// all sessions are free; it shrinks as fewer are left. Half-open sessions do not count, because their
    /// source may be forged. The limit does not apply to `peers` that the encapsulation authenticates.
    pub max_sessions_per_source: usize,
}

impl ListenConfig {
    /// Creates the settings of a port at which any peer, with `id` 0, may open up to `max_sessions` sessions,
    /// on paths with an MTU of 1,500 bytes.
    pub fn for_anyone(port: u16, session: SessionConfig, overhead: u16, max_sessions: usize) -> ListenConfig {
        ListenConfig {
            port,
            session,
            peers: alloc::vec![PeerFilter { id: 0, remotes: Vec::new() }],
            strangers: false,
            mtu: 1500,
            overhead,
            max_sessions,
            max_sessions_per_source: max_sessions,
        }
    }
}
