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
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Fallback {
    /// Close the connection.
    #[default]
    Refuse,
    /// Continue as a plain DCCP connection.
    Plain,
}

/// The local addresses from which a session joins an address that the peer advertises (MP_ADDADDR). Only
/// addresses of the same family count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinFrom {
    /// No address; the session's status lists the advertised address.
    #[default]
    Nowhere,
    /// The local address of the subflow that advertised the address.
    One,
    /// The local address of every path of this end: full mesh.
    All,
}

/// Settings of a session, the same for all its paths.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Template of each path's connection; MTU and overhead come from the path.
    pub connection: Config,
    /// Offer and accept RFC 9897; off makes a plain DCCP connection of one path.
    pub multipath: bool,
    /// Application data in the Request of a client, or the Response of a server, of a plain connection: a few
    /// hundred bytes at most (RFC 4340 sections 8.1.1 and 8.1.3). The peer accepts the data if its
    /// [`Config::early_data`] is set, and delivers it first.
    pub early_data: Vec<u8>,
    /// How to treat a peer without RFC 9897.
    pub fallback: Fallback,
    /// Key types that a client offers and a server accepts, in order of preference (RFC 9897 section 3.2.4).
    /// Every implementation understands type 0. To require another type, leave type 0 out; otherwise a host
    /// on the path could strip the other types.
    pub key_types: Vec<KeyType>,
    /// Share one congestion state between connections of all sessions that have this set, the same endpoint,
    /// socket and CCID, and the same two hosts. Once open, they take the share of one connection together.
    /// CCIDs 3 and 4 do not support this.
    pub share_congestion: bool,
    /// Paths of the session that share a bottleneck, as far as round-trip times show it, together take the
    /// share of one flow there. Not available with [`share_congestion`](Self::share_congestion), nor for
    /// CCIDs 3, 4 and 250.
    pub coupling: bool,
    /// Chooses the path of each packet.
    pub scheduler: SchedulerKind,
    /// Rules for packets that are scheduled differently.
    pub policy: Policy,
    /// How arriving packets are put in order.
    pub reorder: ReorderConfig,
    /// Retransmit lost packets on the best path, if the peer is an mpdccp too and waits for retransmissions.
    pub repair: bool,
    /// The peer holds packets behind a loss until the retransmission arrives. Without this, retransmissions
    /// arrive out of order: inner flows that ignore loss (BBR) then have shorter round trips, and flows that
    /// reduce their rate on loss (CUBIC) lose the benefit of retransmissions.
    pub wait_for_repairs: bool,
    /// Tell the peer in each packet the distance to the previous packet of the same inner flow, so that
    /// losses of one flow do not delay another. Both ends must set this. It costs four bytes per packet.
    pub flow_order: bool,
    /// Carry reliable byte streams next to datagrams (docs/streams.md), if the peer does too.
    pub streams: bool,
    /// Longest wait for a retransmission.
    pub repair_max: Duration,
    /// The send queue.
    pub queue: QueueConfig,
    /// Client: whether the server may join too (RFC 9897 section 3.2.2: either host may begin subflows). The
    /// endpoint must listen.
    pub joinable: bool,
    /// How to join addresses that the peer advertises, for ends without their own path manager.
    pub join_advertised: JoinFrom,
    /// Pass MP_EXP options of the application to it ([`crate::SessionEvent::Private`]); otherwise they are
    /// ignored.
    pub private_options: bool,
    /// Maximum number of paths at a time; further joins are refused with Reset code 9.
    pub max_paths: usize,
    /// A path is probed after this time without a packet from the peer. Probes keep NAT bindings alive and
    /// find dead paths. The server waits twice as long.
    pub keepalive: Duration,
    /// Client with several paths: how long the first subflow may take before the next path is tried. The time
    /// doubles in each round, up to three seconds, so that a slow path still gets its chance.
    pub first_attempt: Duration,
    /// How long the session lives while no path is up.
    pub survive: Duration,
    /// Time in TIMEWAIT, two maximum segment lifetimes (RFC 4340 section 8.3). Meanwhile a client does not
    /// reuse the connection's ports, and late packets are answered with a Reset.
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
    /// Name for policy rules; the peer learns it.
    pub name: PathName,
    /// Priority 0 to 15 (RFC 9897 section 3.2.10), 3 by default.
    pub prio: u8,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// IP and UDP header bytes the encapsulation adds.
    pub overhead: u16,
}

/// A peer that may open sessions.
#[derive(Clone, Debug)]
pub struct PeerFilter {
    /// Returned in [`crate::SessionEvent::Accepted`].
    pub id: u32,
    /// Addresses allowed for the first subflow; empty allows any.
    pub remotes: Vec<IpAddr>,
}

/// A listening DCCP port.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// DCCP port.
    pub port: u16,
    /// Settings of the sessions accepted here.
    pub session: SessionConfig,
    /// Peers that may connect; the first match counts; an empty list admits no peer.
    pub peers: Vec<PeerFilter>,
    /// Whether peers that the encapsulation authenticates may connect even if `peers` does not list their
    /// number. They count by source, as unauthenticated peers do, because a new key costs nothing.
    pub strangers: bool,
    /// MTU of incoming paths, through any socket of this endpoint.
    pub mtu: u16,
    /// IP and UDP header bytes for IPv4; IPv6 adds 20.
    pub overhead: u16,
    /// Maximum number of sessions at a time; more are refused with Reset code 9, Too Busy.
    pub max_sessions: usize,
    /// Maximum number of sessions of one source at a time, an IPv4 address or the first 64 bits of an IPv6
    /// address; more are refused with Reset code 9. The limit shrinks in proportion to the free sessions.
    /// Half-open sessions do not count, because their source may be forged. Not for `peers` that the
    /// encapsulation authenticates.
    pub max_sessions_per_source: usize,
}
