//! Output of `tunnel status`, and metrics. The JSON is a stable interface, see docs/formats.md.

mod session;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Type of a status field for metrics.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Not numeric: a name or a state.
    Label,
    /// Goes up and down.
    Gauge,
    /// Only increases; a table contains one counter per reason.
    Counter,
    /// A nested part, or a list or table of such parts.
    Part(&'static [(&'static str, Kind)]),
}

/// A part of the status.
pub trait Fields {
    /// Its fields, in order.
    const FIELDS: &'static [(&'static str, Kind)];
}

impl<T: Fields> Fields for Option<T> {
    const FIELDS: &'static [(&'static str, Kind)] = T::FIELDS;
}

impl<T: Fields> Fields for Vec<T> {
    const FIELDS: &'static [(&'static str, Kind)] = T::FIELDS;
}

impl<T: Fields> Fields for BTreeMap<String, T> {
    const FIELDS: &'static [(&'static str, Kind)] = T::FIELDS;
}

macro_rules! kind {
    (Part $type:ty) => {
        Kind::Part(<$type as Fields>::FIELDS)
    };
    ($kind:ident $type:ty) => {
        Kind::$kind
    };
}

/// Declares parts of the status: each field with its kind, name and type.
macro_rules! report {
    ($($(#[$doc:meta])* $part:ident { $($(#[$note:meta])* $kind:ident $name:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[allow(missing_docs)]
        pub struct $part {
            $($(#[$note])* pub $name: $type,)*
        }

        impl Fields for $part {
            const FIELDS: &'static [(&'static str, Kind)] = &[$((stringify!($name), kind!($kind $type))),*];
        }
    )*};
}

/// Increased when a key changes its meaning or is removed.
pub const VERSION: u32 = 1;

report! {
    /// A running tunnel.
    Status {
        Label version: u32,
        Label program: String,
        Label role: String,
        Label interface: String,
        Gauge mtu: u16,
        /// Addresses of the interface.
        #[serde(default)]
        Label addresses: Vec<String>,
        /// Why a client that requests addresses from the server has none, or outdated ones.
        #[serde(default)]
        Label no_address: Option<String>,
        /// Rate limit to all peers together.
        #[serde(default)]
        Gauge rate_limit_mbps: Option<f64>,
        Gauge uptime_s: f64,
        Part tun: TunStatus,
        /// TCP connections carried as streams, if this host supports that.
        #[serde(default)]
        Part tcp: Option<TcpStatus>,
        Part sockets: Vec<SocketStatus>,
        /// Packets that belong to no connection, by reason.
        Counter endpoint: BTreeMap<String, u64>,
        /// `noise` or `none`.
        #[serde(default)]
        Label security: String,
        /// Datagrams rejected by all channels, by reason.
        #[serde(default)]
        Counter channels: BTreeMap<String, u64>,
        /// The threads of a server that has several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        Part shards: Vec<ShardStatus>,
        Part peers: Vec<PeerStatus>,
    }

    /// A thread of a server with several.
    ShardStatus {
        Label shard: u8,
        Gauge sessions: u64,
        /// Datagrams and handshakes received here for another shard.
        Counter handed_over: u64,
        /// Datagrams and handshakes that were dropped because the other shard was overloaded.
        Counter dropped: u64,
        /// Packets that it read from the interface, and those for another shard.
        #[serde(default)]
        Counter tun_read: u64,
        #[serde(default)]
        Counter tun_handed_over: u64,
    }

    /// Traffic of the interface: `read` goes into the tunnel, `written` comes out of it.
    TunStatus {
        Counter read_packets: u64,
        Counter read_bytes: u64,
        Counter written_packets: u64,
        Counter written_bytes: u64,
        Counter drops: BTreeMap<String, u64>,
    }

    /// TCP connections of hosts, carried as streams.
    TcpStatus {
        Gauge flows: u64,
        /// Opened by hosts of this end, and by hosts of the other.
        Counter opened: u64,
        Counter accepted: u64,
        /// Connections that could not be established.
        Counter refused: u64,
        Counter resets: u64,
        /// Bytes read from the hosts of this end, and written to them.
        Counter read_bytes: u64,
        Counter written_bytes: u64,
        /// Connections that travel as packets, by reason.
        Counter as_packets: BTreeMap<String, u64>,
    }

    /// A socket of an encapsulation.
    SocketStatus {
        Label socket: u32,
        Label local: String,
        /// `udp`, `raw` or `tls`.
        #[serde(default)]
        Label encapsulation: String,
        Counter tx_packets: u64,
        #[serde(default)]
        Counter tx_bytes: u64,
        Counter tx_calls: u64,
        Counter rx_packets: u64,
        #[serde(default)]
        Counter rx_bytes: u64,
        Counter rx_calls: u64,
        Counter drops: BTreeMap<String, u64>,
    }

    /// A configured peer and its session, if there is one.
    PeerStatus {
        /// Its index among the peers.
        #[serde(skip)]
        Label number: usize,
        Label name: String,
        /// `none`, `connecting`, `open`, `closing`, `closed`.
        Label state: String,
        Gauge multipath: bool,
        /// Largest inner packet that its paths carry.
        Gauge mtu: Option<u16>,
        /// Rate limit for data to the peer.
        #[serde(default)]
        Gauge rate_limit_mbps: Option<f64>,
        /// Rate limit for data from the peer.
        #[serde(default)]
        Gauge receive_limit_mbps: Option<f64>,
        /// Addresses assigned to the peer.
        #[serde(default)]
        Label leased: Vec<String>,
        Part queue: Option<QueueStatus>,
        /// Counters of each policy rule, by name.
        #[serde(default)]
        Part policy_rules: BTreeMap<String, RuleReport>,
        Part reorder: Option<ReorderStatus>,
        #[serde(default)]
        Part fec: FecReport,
        Counter drops: BTreeMap<String, u64>,
        Part paths: Vec<PathReport>,
    }

    /// The send queue.
    QueueStatus {
        Gauge packets: u32,
        Gauge bytes: u64,
        Gauge oldest_ms: f64,
        Counter accepted: u64,
        Counter dropped_full: u64,
        Counter dropped_old: u64,
        Counter dropped_early: u64,
        Counter marked: u64,
        Counter dropped_too_big: u64,
    }

    /// Counters of a policy rule.
    RuleReport {
        Counter packets: u64,
        Counter bytes: u64,
        /// Packets dropped because of the rule.
        Counter dropped: u64,
    }

    /// FEC packets sent and received, and packets restored.
    FecReport {
        Counter sent: u64,
        Counter dropped: u64,
        Counter too_large: u64,
        Counter received: u64,
        Counter restored: u64,
    }

    /// The reordering buffer.
    ReorderStatus {
        Gauge occupancy: u64,
        Gauge occupancy_bytes: u64,
        Gauge occupancy_max: u64,
        Counter in_order: u64,
        Counter held: u64,
        Counter late: u64,
        Counter duplicates: u64,
        Counter timeouts: u64,
        Counter proven: u64,
        Counter overflows: u64,
        Gauge wait_ms: f64,
        Gauge held_p95_ms: Option<f64>,
    }

    /// One path. Values that are unknown, or invalid while the path does not answer, are null.
    PathReport {
        Label name: String,
        Gauge id: Option<u32>,
        /// `connecting`, `up`, `suspect`, `down`, `standby`; down with `why` if it waits for its interface,
        /// address or name.
        Label state: String,
        /// Reason for waiting.
        Label why: Option<String>,
        /// Since when it is up, or down.
        #[serde(default)]
        Gauge since_s: Option<f64>,
        /// Encapsulation in use: `udp`, `raw` or `tls`; empty if the path is not open.
        #[serde(default)]
        Label encapsulation: String,
        /// Its packets take TLS.
        #[serde(default)]
        Gauge over_tls: bool,
        /// The socket or channel of its route.
        #[serde(skip)]
        Label socket: Option<u32>,
        Gauge priority: u8,
        /// Rate limit, monthly quota, volume of this month and its cost, if limits or costs are set.
        Gauge rate_limit_mbps: Option<f64>,
        Gauge quota_bytes: Option<u64>,
        Gauge quota_used_bytes: Option<u64>,
        Gauge cost: Option<f64>,
        Label remote: String,
        Gauge ccid_tx: Option<u8>,
        Gauge ccid_rx: Option<u8>,
        Gauge mtu: u16,
        Gauge max_payload: usize,
        Label phase: Option<String>,
        Gauge cwnd_bytes: Option<u64>,
        Gauge inflight_bytes: Option<u64>,
        Gauge inflight_packets: Option<u64>,
        Gauge srtt_ms: Option<f64>,
        Gauge min_rtt_ms: Option<f64>,
        Gauge pacing_mbps: Option<f64>,
        Gauge delivery_mbps: Option<f64>,
        Gauge btlbw_mbps: Option<f64>,
        Gauge app_limited: Option<bool>,
        Counter sent_packets: u64,
        Counter sent_bytes: u64,
        Counter received_packets: u64,
        Counter received_bytes: u64,
        Counter lost_packets: u64,
        Counter lost_bytes: u64,
        /// Recent loss of this end's packets.
        #[serde(default)]
        Gauge loss_percent: Option<f64>,
        Counter ce_packets: u64,
        Counter timeouts: u64,
        Counter drops: BTreeMap<String, u64>,
    }
}

fn add_up(sum: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (name, n) in more {
        *sum.entry(name).or_default() += n;
    }
}

impl Status {
    /// Merges the status of two shards: sums, and the peers of both.
    pub fn merge(mut self, other: Status) -> Status {
        let (tun, more) = (&mut self.tun, other.tun);
        tun.read_packets += more.read_packets;
        tun.read_bytes += more.read_bytes;
        tun.written_packets += more.written_packets;
        tun.written_bytes += more.written_bytes;
        add_up(&mut tun.drops, more.drops);
        if let (Some(tcp), Some(more)) = (&mut self.tcp, other.tcp) {
            tcp.flows += more.flows;
            tcp.opened += more.opened;
            tcp.accepted += more.accepted;
            tcp.refused += more.refused;
            tcp.resets += more.resets;
            tcp.read_bytes += more.read_bytes;
            tcp.written_bytes += more.written_bytes;
            add_up(&mut tcp.as_packets, more.as_packets);
        }
        add_up(&mut self.endpoint, other.endpoint);
        add_up(&mut self.channels, other.channels);
        // All shards have the same sockets, with the same numbers.
        for (socket, more) in self.sockets.iter_mut().zip(other.sockets) {
            socket.tx_packets += more.tx_packets;
            socket.tx_bytes += more.tx_bytes;
            socket.tx_calls += more.tx_calls;
            socket.rx_packets += more.rx_packets;
            socket.rx_bytes += more.rx_bytes;
            socket.rx_calls += more.rx_calls;
            add_up(&mut socket.drops, more.drops);
        }
        self.shards.extend(other.shards);
        self.peers.extend(other.peers);
        self.peers.sort_by_key(|peer| peer.number);
        self
    }
}
