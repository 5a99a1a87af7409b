//! Builds the status of a session and its paths.

use super::{FecReport, PathReport, PeerStatus, QueueStatus, ReorderStatus, RuleReport, Status, VERSION};
use crate::DropReason;
use crate::client::quota::Quotas;
use crate::config::{Config, PathSpec};
use crate::peer::Peer;
use mpdccp_proto::policy::RuleStats;
use mpdccp_proto::{Endpoint, FecStats, PathRow, PathState, PathStatus, SessionState, SessionStatus};
use mpdccp_units::{Duration, Time};
use std::net::SocketAddr;

impl Status {
    /// Creates a status whose fields are filled in from the configuration.
    pub(crate) fn of(cfg: &Config) -> Status {
        Status {
            version: VERSION,
            role: if cfg.is_client() { "client" } else { "server" }.into(),
            interface: cfg.interface.clone(),
            rate_limit_mbps: cfg.rate.map(|rate| rate.0.mbps()),
            security: cfg.security.name().into(),
            ..Status::default()
        }
    }
}

impl RuleReport {
    fn of(met: &RuleStats) -> RuleReport {
        RuleReport { packets: met.packets, bytes: met.bytes, dropped: met.dropped }
    }
}

impl FecReport {
    fn of(stats: &FecStats) -> FecReport {
        let FecStats { sent, dropped, too_large, received, restored, .. } = *stats;
        FecReport { sent, dropped, too_large, received, restored }
    }
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

impl PeerStatus {
    /// Returns the status of a peer without a session.
    pub fn idle(name: &str) -> PeerStatus {
        PeerStatus { name: name.into(), state: "none".into(), ..PeerStatus::default() }
    }

    /// Returns the status of a peer. Includes settings from this end's configuration.
    pub(crate) fn of_peer(
        endpoint: &Endpoint,
        now: Time,
        number: usize,
        peer: &Peer,
        quotas: &Quotas,
    ) -> PeerStatus {
        let session = peer.session.and_then(|s| Some((endpoint.status(now, s)?, endpoint.rows(now, s))));
        let mut status = match session {
            None => PeerStatus::idle(peer.name()),
            Some((status, rows)) => PeerStatus::of(peer.name(), &status, &rows, |path| {
                (peer.path_name(path), peer.place(&path.route))
            }),
        };
        status.number = number;
        status.mtu = peer.carried.map(|carried| carried.most);
        status.leased = peer.leased.iter().map(|ip| ip.to_string()).collect();
        status.rate_limit_mbps = peer.cfg.rate.map(|rate| rate.0.mbps());
        status.receive_limit_mbps = peer.cfg.receive_rate.map(|rate| rate.0.mbps());
        if peer.policer.dropped > 0 {
            status.drops.insert(DropReason::OverRate.name().into(), peer.policer.dropped);
        }
        for report in &mut status.paths {
            let up = matches!(&*report.state, "up" | "standby");
            report.since_s = peer.histories.since(&report.name, up).map(|at| now.since(at).as_secs_f64());
            let mut specs =
                peer.paths.iter().map(|p| &p.spec).chain(peer.cfg.paths.iter().map(|p| p.get_ref()));
            if let Some(spec) = specs.find(|spec| spec.name == report.name) {
                quotas.report(peer.name(), spec, report);
            }
        }
        status.paths.extend(peer.waiting.iter().map(|p| PathReport::waiting(&p.spec, &p.why)));
        status
    }

    /// Returns the status of a peer with a session. `place` returns the name and the current address of a
    /// path.
    fn of(
        name: &str,
        status: &SessionStatus,
        rows: &[PathRow],
        place: impl Fn(&PathStatus) -> (String, SocketAddr),
    ) -> PeerStatus {
        let (queue, stats, reorder) = (&status.queue, &status.queue_stats, &status.reorder);
        PeerStatus {
            name: name.into(),
            state: match status.state {
                SessionState::Connecting => "connecting",
                SessionState::Open => "open",
                SessionState::Closing => "closing",
                SessionState::Closed => "closed",
            }
            .into(),
            multipath: status.multipath,
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
            policy_rules: status
                .rules
                .iter()
                .map(|(name, met)| (name.clone(), RuleReport::of(met)))
                .collect(),
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
            ..PeerStatus::default()
        }
    }
}

impl PathReport {
    /// Returns the status of a path that is not open yet.
    pub(crate) fn waiting(spec: &PathSpec, why: &str) -> PathReport {
        PathReport {
            name: spec.name.clone(),
            state: PathState::Down.name().into(),
            why: Some(why.to_owned()),
            priority: spec.prio().0,
            remote: spec.remote.to_string(),
            ..PathReport::default()
        }
    }

    fn of(path: &PathStatus, row: Option<&PathRow>, (name, remote): (String, SocketAddr)) -> PathReport {
        let tx = path.tx.as_ref();
        // While a path does not answer, its measurements are outdated, so they are left out.
        let live = tx.filter(|_| path.state.is_up());
        let row = row.filter(|_| live.is_some());
        PathReport {
            name,
            id: Some(path.id.0),
            state: path.state.name().into(),
            priority: path.prio,
            remote: remote.to_string(),
            socket: Some(path.route.socket),
            ccid_tx: path.ccids.map(|(tx, _)| tx),
            ccid_rx: path.ccids.map(|(_, rx)| rx),
            mtu: path.mtu,
            max_payload: path.max_payload,
            phase: live.map(|tx| tx.phase.into()),
            cwnd_bytes: row.map(|row| row.cwnd),
            inflight_bytes: live.map(|tx| tx.inflight.bytes),
            inflight_packets: live.map(|tx| tx.inflight.packets),
            srtt_ms: live.and_then(|tx| tx.rtt.srtt()).map(ms),
            min_rtt_ms: live.and_then(|tx| tx.rtt.min()).map(|(rtt, _)| ms(rtt)),
            pacing_mbps: live.and_then(|tx| tx.pacing).map(|r| r.mbps()),
            delivery_mbps: live.map(|tx| tx.delivery_rate.mbps()),
            btlbw_mbps: live.and_then(|tx| tx.bottleneck).map(|r| r.mbps()),
            app_limited: live.map(|tx| tx.app_limited),
            sent_packets: tx.map_or(0, |tx| tx.sent.packets),
            sent_bytes: tx.map_or(0, |tx| tx.sent.bytes),
            received_packets: path.stats.data_received,
            received_bytes: path.stats.bytes_received,
            lost_packets: tx.map_or(0, |tx| tx.lost.packets),
            lost_bytes: tx.map_or(0, |tx| tx.lost.bytes),
            loss_percent: row.map(|row| f64::from(row.loss) * 100.0),
            ce_packets: tx.map_or(0, |tx| tx.ce),
            timeouts: tx.map_or(0, |tx| tx.timeouts),
            drops: path.stats.dropped.iter().map(|(k, n)| (k.name().into(), *n)).collect(),
            ..PathReport::default()
        }
    }
}
