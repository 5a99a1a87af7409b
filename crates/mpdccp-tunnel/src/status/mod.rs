//! The data of `tunnel status` and of the metrics. The JSON is a stable interface; docs/formats.md
//! describes it.

mod session;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Type of a status field, for the metrics.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A text, such as a name or a state.
    Label,
    /// A number that can decrease.
    Gauge,
    /// A number that only increases, or a table of such numbers by reason.
    Counter,
    /// A nested part, or a list or table of nested parts.
    Part(&'static [(&'static str, Kind)]),
}

/// A part of the status.
pub trait Fields {
    /// The fields of the part, in order.
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

/// Declares parts of the status. Each field has a kind, a name and a type.
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

/// Version of the format. It increases when a key is removed or changes its meaning.
pub const VERSION: u32 = 1;

report! {
    /// The status of a running tunnel.
    Status {
        Label version: u32,
        Label program: String,
        Label role: String,
        Label interface: String,
        Gauge mtu: u16,
        /// Addresses of the interface.
        #[serde(default)]
        Label addresses: Vec<String>,
        /// Why a client that requests addresses from the server has none, or only outdated ones.
        #[serde(default)]
        Label no_address: Option<String>,
        /// Rate limit for data to all peers together.
        #[serde(default)]
        Gauge rate_limit_mbps: Option<f64>,
        Gauge uptime_s: f64,
        Part tun: TunStatus,
        /// TCP connections carried as streams, if this host supports streams.
        #[serde(default)]
        Part tcp: Option<TcpStatus>,
        Part sockets: Vec<SocketStatus>,
        /// Packets that belong to no connection, by reason.
        Counter endpoint: BTreeMap<String, u64>,
        /// `noise` or `none`.
        #[serde(default)]
        Label security: String,
        /// Datagrams that channels rejected, by reason.
        #[serde(default)]
        Counter channels: BTreeMap<String, u64>,
        /// The shards of the server, if it has several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        Part shards: Vec<ShardStatus>,
        Part peers: Vec<PeerStatus>,
    }

    /// A shard of a server that has several.
    ShardStatus {
        Label shard: u8,
        Gauge sessions: u64,
        /// Datagrams, handshakes and connections that arrived here for another shard.
        Counter handed_over: u64,
        /// Datagrams, handshakes and connections that were for another shard but were dropped because that
        /// shard was overloaded.
        Counter dropped: u64,
        /// Packets that the shard read from the interface, and how many of them were for another shard.
        #[serde(default)]
        Counter tun_read: u64,
        #[serde(default)]
        Counter tun_handed_over: u64,
    }

    /// Traffic of the interface. `read` packets enter the tunnel, `written` packets leave it.
    TunStatus {
        Counter read_packets: u64,
        Counter read_bytes: u64,
        Counter written_packets: u64,
        Counter written_bytes: u64,
        Counter drops: BTreeMap<String, u64>,
    }

    /// The TCP connections that the tunnel carries as streams.
    TcpStatus {
        Gauge flows: u64,
        /// Connections opened by hosts at this end, and connections opened by hosts at the other end.
        Counter opened: u64,
        Counter accepted: u64,
        /// Connections that could not be established.
        Counter refused: u64,
        Counter resets: u64,
        /// Bytes read from hosts at this end, and bytes written to them.
        Counter read_bytes: u64,
        Counter written_bytes: u64,
        /// Connections that are carried as packets, by reason.
        Counter as_packets: BTreeMap<String, u64>,
    }

    /// A socket for DCCP packets.
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
        /// Index of the peer.
        #[serde(skip)]
        Label number: usize,
        Label name: String,
        /// `none`, `connecting`, `open`, `closing`, `closed`.
        Label state: String,
        Gauge multipath: bool,
        /// Size of the largest inner packet that the peer's paths carry.
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
        /// Counters of each policy rule, by rule name.
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

    /// A path. A value is null if it is unknown, or outdated because the path does not answer.
    PathReport {
        Label name: String,
        Gauge id: Option<u32>,
        /// `connecting`, `up`, `suspect`, `down` or `standby`. A path that is waiting for its interface,
        /// address or name is `down`, and `why` gives the reason.
        Label state: String,
        /// Why the path waits.
        Label why: Option<String>,
        /// Seconds since the path came up, or since it went down.
        #[serde(default)]
        Gauge since_s: Option<f64>,
        /// Encapsulation in use: `udp`, `raw` or `tls`; empty if the path is not open.
        #[serde(default)]
        Label encapsulation: String,
        /// Whether packets are sent over TLS.
        #[serde(default)]
        Gauge over_tls: bool,
        /// The socket or channel of the path's route.
        #[serde(skip)]
        Label socket: Option<u32>,
        Gauge priority: u8,
        /// Rate limit, monthly quota, this month's volume, and the cost of that volume. Each is null unless
        /// configured.
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
        /// Recent loss of packets that this end sent.
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
    /// Merges the status of two shards: adds the counters, and lists the peers of both shards.
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
        // All shards have the same sockets with the same numbers, so pair the sockets by position.
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
