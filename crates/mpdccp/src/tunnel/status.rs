//! What `tunnel status` shows. The JSON is a contract, see docs/formats.md.

use crate::tunnel::config::PathSpec;
use mpdccp_proto::policy::RuleStats;
use mpdccp_proto::{FecStats, PathRow, PathStatus, SessionState, SessionStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use units::Duration;

/// Raised when a key changes its meaning or goes away.
pub(crate) const VERSION: u32 = 1;

/// A running tunnel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) version: u32,
    pub(crate) program: String,
    pub(crate) role: String,
    pub(crate) interface: String,
    pub(crate) mtu: u16,
    /// Of the interface.
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    /// Why a client that gets its addresses from the server has none, or not the newest.
    #[serde(default)]
    pub(crate) no_address: Option<String>,
    /// Most that is sent to all peers together.
    #[serde(default)]
    pub(crate) rate_limit_mbps: Option<f64>,
    pub(crate) uptime_s: f64,
    pub(crate) tun: TunStatus,
    pub(crate) sockets: Vec<SocketStatus>,
    /// Packets that belong to no connection, by reason.
    pub(crate) endpoint: BTreeMap<String, u64>,
    /// `noise` or `none`.
    #[serde(default)]
    pub(crate) security: String,
    /// Datagrams that no channel took, by reason.
    #[serde(default)]
    pub(crate) channels: BTreeMap<String, u64>,
    /// The threads of a server that has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shards: Vec<ShardStatus>,
    pub(crate) peers: Vec<PeerStatus>,
}

/// One of several threads of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShardStatus {
    pub(crate) shard: u8,
    pub(crate) sessions: u64,
    /// Datagrams and handshakes that came in here and were for another.
    pub(crate) handed_over: u64,
    /// Those of them dropped since the other had too much to do.
    pub(crate) dropped: u64,
    /// Packets of the interface that it read, and those of them that were for another.
    #[serde(default)]
    pub(crate) tun_read: u64,
    #[serde(default)]
    pub(crate) tun_handed_over: u64,
}

fn add_up(sum: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (name, n) in more {
        *sum.entry(name).or_default() += n;
    }
}

impl Status {
    /// The status of a tunnel of which both are shards: sums, and each one's peers.
    pub(crate) fn merge(mut self, other: Status) -> Status {
        let (tun, more) = (&mut self.tun, other.tun);
        tun.read_packets += more.read_packets;
        tun.read_bytes += more.read_bytes;
        tun.written_packets += more.written_packets;
        tun.written_bytes += more.written_bytes;
        add_up(&mut tun.drops, more.drops);
        add_up(&mut self.endpoint, other.endpoint);
        add_up(&mut self.channels, other.channels);
        // They have the same, with the same numbers.
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

/// Traffic of the interface: `read` goes into the tunnel, `written` comes out of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TunStatus {
    pub(crate) read_packets: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_packets: u64,
    pub(crate) written_bytes: u64,
    pub(crate) drops: BTreeMap<String, u64>,
}

/// A carrier socket.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SocketStatus {
    pub(crate) socket: u32,
    pub(crate) local: String,
    pub(crate) tx_packets: u64,
    #[serde(default)]
    pub(crate) tx_bytes: u64,
    pub(crate) tx_calls: u64,
    pub(crate) rx_packets: u64,
    #[serde(default)]
    pub(crate) rx_bytes: u64,
    pub(crate) rx_calls: u64,
    pub(crate) drops: BTreeMap<String, u64>,
}

/// A configured peer and its session, if there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PeerStatus {
    /// Its place among the peers.
    #[serde(skip)]
    pub(crate) number: usize,
    pub(crate) name: String,
    /// `none`, `connecting`, `open`, `closing`, `closed`.
    pub(crate) state: String,
    pub(crate) multipath: bool,
    /// Largest inner packet its paths carry.
    pub(crate) mtu: Option<u16>,
    /// Most that is sent to it.
    #[serde(default)]
    pub(crate) rate_limit_mbps: Option<f64>,
    /// Most that is taken from it.
    #[serde(default)]
    pub(crate) receive_limit_mbps: Option<f64>,
    /// Addresses it was assigned.
    #[serde(default)]
    pub(crate) leased: Vec<String>,
    pub(crate) queue: Option<QueueStatus>,
    /// What each steering rule met, by its name.
    #[serde(default)]
    pub(crate) steering: BTreeMap<String, RuleReport>,
    pub(crate) reorder: Option<ReorderStatus>,
    #[serde(default)]
    pub(crate) fec: FecReport,
    pub(crate) drops: BTreeMap<String, u64>,
    pub(crate) paths: Vec<PathReport>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueueStatus {
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
    pub(crate) oldest_ms: f64,
    pub(crate) accepted: u64,
    pub(crate) dropped_full: u64,
    pub(crate) dropped_old: u64,
    pub(crate) dropped_early: u64,
    pub(crate) marked: u64,
    pub(crate) dropped_too_big: u64,
}

/// What a steering rule met.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RuleReport {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Of them, not sent, as the rule says.
    pub(crate) dropped: u64,
}

impl RuleReport {
    fn of(met: &RuleStats) -> RuleReport {
        RuleReport { packets: met.packets, bytes: met.bytes, dropped: met.dropped }
    }
}

/// Parities sent and received, and what came of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FecReport {
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
    pub(crate) too_large: u64,
    pub(crate) received: u64,
    pub(crate) restored: u64,
}

impl FecReport {
    fn of(stats: &FecStats) -> FecReport {
        let FecStats { sent, dropped, too_large, received, restored, .. } = *stats;
        FecReport { sent, dropped, too_large, received, restored }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReorderStatus {
    pub(crate) occupancy: u64,
    pub(crate) occupancy_bytes: u64,
    pub(crate) occupancy_max: u64,
    pub(crate) in_order: u64,
    pub(crate) held: u64,
    pub(crate) late: u64,
    pub(crate) duplicates: u64,
    pub(crate) timeouts: u64,
    pub(crate) proven: u64,
    pub(crate) overflows: u64,
    pub(crate) wait_ms: f64,
    pub(crate) held_p95_ms: Option<f64>,
}

/// One path. What is not known yet is null.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PathReport {
    pub(crate) name: String,
    pub(crate) id: Option<u32>,
    /// `connecting`, `up`, `suspect`, `down`, `standby`; `waiting` for its interface, address or name.
    pub(crate) state: String,
    /// What it waits for.
    pub(crate) why: Option<String>,
    pub(crate) priority: u8,
    /// Most that is sent on it, what it may carry in a month, what it carried of that, and what that cost, if limits or costs are set.
    pub(crate) rate_limit_mbps: Option<f64>,
    pub(crate) quota_bytes: Option<u64>,
    pub(crate) quota_used_bytes: Option<u64>,
    pub(crate) cost: Option<f64>,
    pub(crate) remote: String,
    pub(crate) ccid_tx: Option<u8>,
    pub(crate) ccid_rx: Option<u8>,
    pub(crate) mtu: u16,
    pub(crate) max_payload: usize,
    pub(crate) phase: Option<String>,
    pub(crate) cwnd_bytes: Option<u64>,
    pub(crate) inflight_bytes: Option<u64>,
    pub(crate) inflight_packets: Option<u64>,
    pub(crate) srtt_ms: Option<f64>,
    pub(crate) min_rtt_ms: Option<f64>,
    pub(crate) pacing_mbps: Option<f64>,
    pub(crate) delivery_mbps: Option<f64>,
    pub(crate) btlbw_mbps: Option<f64>,
    pub(crate) app_limited: Option<bool>,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) lost_packets: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) ce_packets: u64,
    pub(crate) timeouts: u64,
    pub(crate) drops: BTreeMap<String, u64>,
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

impl PeerStatus {
    /// Of a peer without a session.
    pub(crate) fn idle(name: &str) -> PeerStatus {
        PeerStatus {
            number: 0,
            name: name.into(),
            state: "none".into(),
            multipath: false,
            mtu: None,
            rate_limit_mbps: None,
            receive_limit_mbps: None,
            leased: Vec::new(),
            queue: None,
            steering: BTreeMap::new(),
            reorder: None,
            fec: FecReport::default(),
            drops: BTreeMap::new(),
            paths: Vec::new(),
        }
    }

    /// Of a peer with one; `place` gives a path's name and where it leads now.
    pub(crate) fn of(
        name: &str,
        status: &SessionStatus,
        rows: &[PathRow],
        place: impl Fn(&PathStatus) -> (String, SocketAddr),
    ) -> PeerStatus {
        let (queue, stats, reorder) = (&status.queue, &status.queue_stats, &status.reorder);
        PeerStatus {
            number: 0,
            name: name.into(),
            state: match status.state {
                SessionState::Connecting => "connecting",
                SessionState::Open => "open",
                SessionState::Closing => "closing",
                SessionState::Closed => "closed",
            }
            .into(),
            multipath: status.multipath,
            mtu: None,
            rate_limit_mbps: None,
            receive_limit_mbps: None,
            leased: Vec::new(),
            queue: Some(QueueStatus {
                packets: queue.packets,
                bytes: queue.bytes,
                oldest_ms: ms(queue.oldest),
                accepted: stats.accepted,
                dropped_full: stats.dropped_full,
                dropped_old: stats.dropped_old,
                dropped_early: stats.dropped_early,
                marked: stats.marked,
                dropped_too_big: stats.dropped_too_big,
            }),
            steering: status.rules.iter().map(|(name, met)| (name.clone(), RuleReport::of(met))).collect(),
            reorder: Some(ReorderStatus {
                occupancy: reorder.occupancy,
                occupancy_bytes: reorder.occupancy_bytes,
                occupancy_max: reorder.occupancy_max,
                in_order: reorder.in_order,
                held: reorder.held,
                late: reorder.late,
                duplicates: reorder.duplicates,
                timeouts: reorder.timeouts,
                proven: reorder.proven,
                wait_ms: ms(reorder.wait),
                held_p95_ms: reorder.held_p95().map(ms),
                overflows: reorder.overflows,
            }),
            fec: FecReport::of(&status.fec),
            drops: status.counters.iter().map(|(k, n)| (k.name().into(), *n)).collect(),
            paths: status
                .paths
                .iter()
                .map(|path| PathReport::of(path, rows.iter().find(|r| r.id == path.id), place(path)))
                .collect(),
        }
    }
}

impl PathReport {
    /// Of a path that is not open yet.
    pub(crate) fn waiting(spec: &PathSpec, why: &str) -> PathReport {
        PathReport {
            name: spec.name.clone(),
            state: "waiting".into(),
            why: Some(why.to_owned()),
            priority: spec.prio().0,
            remote: spec.remote.to_string(),
            ..PathReport::default()
        }
    }

    fn of(path: &PathStatus, row: Option<&PathRow>, (name, remote): (String, SocketAddr)) -> PathReport {
        let tx = path.tx.as_ref();
        PathReport {
            name,
            id: Some(path.id.0),
            state: path.state.name().into(),
            why: None,
            priority: path.prio,
            rate_limit_mbps: None,
            quota_bytes: None,
            quota_used_bytes: None,
            cost: None,
            remote: remote.to_string(),
            ccid_tx: path.ccids.map(|(tx, _)| tx),
            ccid_rx: path.ccids.map(|(_, rx)| rx),
            mtu: path.mtu,
            max_payload: path.max_payload,
            phase: tx.map(|tx| tx.phase.into()),
            cwnd_bytes: row.map(|row| row.cwnd),
            inflight_bytes: tx.map(|tx| tx.inflight.bytes),
            inflight_packets: tx.map(|tx| tx.inflight.packets),
            srtt_ms: tx.and_then(|tx| tx.rtt.srtt()).map(ms),
            min_rtt_ms: tx.and_then(|tx| tx.rtt.min()).map(|(rtt, _)| ms(rtt)),
            pacing_mbps: tx.and_then(|tx| tx.pacing).map(|r| r.mbps()),
            delivery_mbps: tx.map(|tx| tx.delivery_rate.mbps()),
            btlbw_mbps: tx.and_then(|tx| tx.bottleneck).map(|r| r.mbps()),
            app_limited: tx.map(|tx| tx.app_limited),
            sent_packets: tx.map_or(0, |tx| tx.sent.packets),
            sent_bytes: tx.map_or(0, |tx| tx.sent.bytes),
            received_packets: path.stats.data_received,
            received_bytes: path.stats.bytes_received,
            lost_packets: tx.map_or(0, |tx| tx.lost.packets),
            lost_bytes: tx.map_or(0, |tx| tx.lost.bytes),
            ce_packets: tx.map_or(0, |tx| tx.ce),
            timeouts: tx.map_or(0, |tx| tx.timeouts),
            drops: path.stats.dropped.iter().map(|(k, n)| (k.name().into(), *n)).collect(),
        }
    }
}
