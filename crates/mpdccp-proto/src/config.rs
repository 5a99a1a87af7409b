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

/// The local addresses from which a session joins an address that the peer advertises (MP_ADDADDR). Only
/// local addresses of the same family can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinFrom {
    /// Do not join. The advertised address only appears in the session's status.
    #[default]
    Nowhere,
    /// The local address of the subflow on which the advertisement arrived.
    One,
    /// The local address of every path of this end, which gives a full mesh.
    All,
}

/// Settings of a session. They are the same for all its paths.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Template of each path's connection. MTU and overhead come from the path.
    pub connection: Config,
    /// Whether to offer and accept Multipath DCCP (RFC 9897). If off, the session is a plain DCCP connection
    /// with one path.
    pub multipath: bool,
    /// Only for plain connections: application data in a client's Request or a server's Response, at most a
    /// few hundred bytes (RFC 4340 sections 8.1.1 and 8.1.3). If the peer has set [`Config::early_data`], it
    /// accepts the data and delivers it first.
    pub early_data: Vec<u8>,
    /// How to treat a peer without RFC 9897.
    pub fallback: Fallback,
    /// Key types that a client offers and a server accepts, in order of preference (RFC 9897 section 3.2.4).
    /// Every implementation understands type 0. To require another type, leave out type 0. Otherwise a host
    /// on the path could remove the other types from the offer.
    pub key_types: Vec<KeyType>,
    /// Share one congestion state between connections of all sessions that set this. The connections must
    /// have the same endpoint, socket and CCID, and the same two hosts. Once open, they together take the
    /// share of one connection. CCIDs 3 and 4 do not support sharing.
    pub share_congestion: bool,
    /// Couple paths of the session that share a bottleneck. Their round-trip times reveal such paths.
    /// Together, coupled paths take the share of one flow. Not available with
    /// [`share_congestion`](Self::share_congestion), nor for CCIDs 3, 4 and 250.
    pub coupling: bool,
    /// Chooses the path of each packet.
    pub scheduler: SchedulerKind,
    /// Rules by which some packets are scheduled differently.
    pub policy: Policy,
    /// How to restore the order of arriving packets.
    pub reorder: ReorderConfig,
    /// Retransmit lost packets on the best path, if the peer is also an mpdccp program and waits for
    /// retransmissions.
    pub repair: bool,
    /// Tell the peer to hold packets behind a loss until the retransmission arrives. If off, retransmissions
    /// arrive out of order. Inner flows that ignore loss (BBR) then have shorter round trips. Flows that
    /// reduce their rate on loss (CUBIC) lose the benefit of retransmissions.
    pub wait_for_repairs: bool,
    /// Datagrams are IP packets. Put each inner flow in order separately, so that losses of one flow do not
    /// delay another. If the receiver's reorderer is `adaptive`, each packet carries the distance to the
    /// previous packet of its flow, in four bytes. Both ends must set this.
    pub flow_order: bool,
    /// Carry reliable byte streams next to datagrams (docs/streams.md), if the peer supports them.
    pub streams: bool,
    /// Maximum time to wait for a retransmission.
    pub repair_max: Duration,
    /// The send queue.
    pub queue: QueueConfig,
    /// Client only: whether the server may begin subflows too (RFC 9897 section 3.2.2: either host may do
    /// so). The client's endpoint must listen.
    pub joinable: bool,
    /// How to join addresses that the peer advertises. This is for applications without their own path
    /// manager.
    pub join_advertised: JoinFrom,
    /// Pass MP_EXP options of the peer's application to this application ([`crate::SessionEvent::Private`]).
    /// If off, they are ignored.
    pub private_options: bool,
    /// Maximum number of paths at a time. Further joins are refused with Reset code 9.
    pub max_paths: usize,
    /// Probe a path after this time without a packet from the peer. Probes keep NAT bindings alive and detect
    /// dead paths. The server waits twice as long.
    pub keepalive: Duration,
    /// Client with several paths: how long the first subflow may take before the next path is tried. The time
    /// doubles each time all paths were tried, up to three seconds, so that a slow path can answer in time
    /// too.
    pub first_attempt: Duration,
    /// How long the session lives while no path is up.
    pub survive: Duration,
    /// Duration of TIMEWAIT. The default is two maximum segment lifetimes (RFC 4340 section 8.3). During this
    /// time, a client does not reuse the connection's ports, and late packets are answered with a Reset.
    pub time_wait: Duration,
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
            repair_max: Duration::from_millis(500),
            queue: QueueConfig::default(),
            joinable: false,
            join_advertised: JoinFrom::Nowhere,
            private_options: false,
            max_paths: 8,
            keepalive: Duration::from_secs(12),
            first_attempt: Duration::from_secs(3),
            survive: Duration::from_secs(60),
            time_wait: Duration::from_secs(240),
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
    /// Name for policy rules. This end sends the name to the peer.
    pub name: PathName,
    /// Priority 0 to 15 (RFC 9897 section 3.2.10), 3 by default.
    pub prio: u8,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// IP and UDP header bytes that the encapsulation adds.
    pub overhead: u16,
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
    /// Whether a peer that the encapsulation authenticates may connect even if `peers` does not list its
    /// `id`. The limit per source also applies to such peers, because a new key costs nothing.
    pub strangers: bool,
    /// MTU of incoming paths, through any socket of this endpoint.
    pub mtu: u16,
    /// Length of IP and UDP headers over IPv4, bytes. With IPv6, it is 20 bytes more.
    pub overhead: u16,
    /// Maximum number of sessions at a time. Further Requests are refused with Reset code 9, Too Busy.
    pub max_sessions: usize,
    /// Maximum number of sessions of one source at a time. A source is an IPv4 address, or the first 64 bits
    /// of an IPv6 address. Further Requests are refused with Reset code 9. The limit applies in full while
    /// all sessions are free. The fewer sessions are free, the lower it is. Half-open sessions do not count,
    /// because their source may be forged. The limit does not apply to `peers` that the encapsulation
    /// authenticates.
    pub max_sessions_per_source: usize,
}
