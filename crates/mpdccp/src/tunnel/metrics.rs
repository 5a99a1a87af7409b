//! The status as Prometheus metrics, over HTTP. Every number of the status is there: what is added to it shows here by itself.

use crate::fault::Fault;
use crate::tunnel::http::{self, Response};
use crate::tunnel::shards::Shards;
use crate::tunnel::status::Status;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::AtomicU64;

/// Numbers that go up and down; all others only go up.
const GAUGES: &[&str] = &[
    "mtu",
    "uptime_s",
    "queue_packets",
    "queue_bytes",
    "queue_oldest_ms",
    "reorder_occupancy",
    "reorder_occupancy_bytes",
    "reorder_occupancy_max",
    "reorder_wait_ms",
    "reorder_held_p95_ms",
    "id",
    "priority",
    "ccid_tx",
    "ccid_rx",
    "max_payload",
    "cwnd_bytes",
    "inflight_bytes",
    "inflight_packets",
    "srtt_ms",
    "min_rtt_ms",
    "pacing_mbps",
    "delivery_mbps",
    "btlbw_mbps",
    "app_limited",
    "multipath",
    "up",
    "rate_limit_mbps",
    "receive_limit_mbps",
    "quota_bytes",
    "quota_used_bytes",
    "cost",
    "sessions",
];

/// The library writes labels as they are.
fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

type Labels = Vec<(String, String)>;

/// Metrics by name, each with its values.
#[derive(Default)]
struct Metrics(BTreeMap<String, Vec<(Labels, f64)>>);

impl Metrics {
    /// All numbers below a value of the status.
    fn walk(&mut self, prefix: &str, name: &str, labels: &Labels, value: &Value) {
        let mut put = |n: f64| {
            self.0.entry(format!("{prefix}{name}")).or_default().push((labels.clone(), n));
        };
        match value {
            Value::Number(n) => put(n.as_f64().unwrap_or(f64::NAN)),
            Value::Bool(b) => put(f64::from(u8::from(*b))),
            // Reasons are labels.
            Value::Object(reasons) if name.ends_with("drops") || matches!(name, "endpoint" | "channels") => {
                for (reason, n) in reasons {
                    let labels = [labels.clone(), vec![("reason".into(), reason.clone())]].concat();
                    self.walk(prefix, &format!("{name}_by_reason"), &labels, n);
                }
            }
            Value::Object(rules) if name == "steering" => {
                for (rule, met) in rules {
                    let labels = [labels.clone(), vec![("rule".into(), escape(rule))]].concat();
                    self.walk(prefix, "rule", &labels, met);
                }
            }
            Value::Object(fields) => {
                // What only numbers the thing is no measure of it.
                for (field, value) in
                    fields.iter().filter(|(field, _)| !matches!(&***field, "socket" | "shard"))
                {
                    let name = if name.is_empty() { field.clone() } else { format!("{name}_{field}") };
                    self.walk(prefix, &name, labels, value);
                }
            }
            _ => {}
        }
    }

    fn each(&mut self, prefix: &str, label: &str, labels: &Labels, items: &Value, key: &str) {
        for item in items.as_array().into_iter().flatten() {
            let name = item[key].as_str().map_or_else(|| item[key].to_string(), String::from);
            let labels = [labels.clone(), vec![(label.to_owned(), escape(&name))]].concat();
            if let Some(state) = item["state"].as_str() {
                let up = matches!(state, "up" | "open");
                self.walk(prefix, "up", &labels, &up.into());
            }
            self.walk(prefix, "", &labels, item);
            if !item["paths"].is_null() {
                self.each("path_", "path", &labels, &item["paths"], "name");
            }
        }
    }
}

/// The status in the text format of OpenMetrics.
pub(crate) fn render(status: &Status) -> String {
    let value = serde_json::to_value(status).unwrap_or_default();
    let mut metrics = Metrics::default();
    let Value::Object(mut fields) = value else { return String::new() };
    let (peers, sockets) = (fields.remove("peers"), fields.remove("sockets"));
    let shards = fields.remove("shards");
    fields.remove("version");
    metrics.walk("", "", &Labels::new(), &Value::Object(fields));
    metrics.each("peer_", "peer", &Labels::new(), &peers.unwrap_or_default(), "name");
    metrics.each("socket_", "socket", &Labels::new(), &sockets.unwrap_or_default(), "local");
    metrics.each("shard_", "shard", &Labels::new(), &shards.unwrap_or_default(), "shard");
    let mut registry = Registry::with_prefix("mpdccp");
    for (name, values) in metrics.0 {
        let bare = ["peer_", "path_", "socket_", "shard_"]
            .iter()
            .find_map(|p| name.strip_prefix(p))
            .unwrap_or(&name);
        let help = format!("`{bare}` of `mpdccp tunnel status --json`");
        if GAUGES.contains(&bare) {
            let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
            for (labels, n) in values {
                family.get_or_create(&labels).set(n);
            }
            registry.register(&name, help, family);
        } else {
            let family = Family::<Labels, Counter<u64>>::default();
            for (labels, n) in values {
                family.get_or_create(&labels).inc_by(n as u64);
            }
            registry.register(&name, help, family);
        }
    }
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text.replace("{} ", " ")
}

/// Answers Prometheus.
pub(crate) fn serve(listener: TcpListener, shards: Shards) -> Result<(), Fault> {
    http::serve("metrics", listener, false, move |path| match path {
        "/metrics" => {
            let status = shards.status(None);
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            status.map_or_else(Response::ending, |status| Response::ok(kind, render(&status)))
        }
        _ => Response::not_here("metrics are at /metrics"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::status::{
        PathReport, PeerStatus, QueueStatus, ReorderStatus, ShardStatus, SocketStatus,
    };

    fn status() -> Status {
        let path = |name: &str| PathReport {
            name: name.into(),
            state: "up".into(),
            srtt_ms: Some(12.5),
            min_rtt_ms: Some(12.0),
            cwnd_bytes: Some(1),
            inflight_bytes: Some(1),
            delivery_mbps: Some(1.0),
            sent_packets: 7,
            drops: [("sequence_invalid".to_string(), 3)].into(),
            ..PathReport::default()
        };
        let peer = PeerStatus {
            state: "open".into(),
            queue: Some(QueueStatus::default()),
            reorder: Some(ReorderStatus::default()),
            paths: vec![path("dsl"), path("lte \"5\"")],
            ..PeerStatus::idle("hub")
        };
        let socket = SocketStatus { socket: 3, local: "0.0.0.0:6511".into(), ..SocketStatus::default() };
        let shard = ShardStatus { shard: 1, ..ShardStatus::default() };
        Status {
            mtu: 1412,
            peers: vec![peer],
            sockets: vec![socket],
            shards: vec![shard],
            ..Status::default()
        }
    }

    #[test]
    fn every_number_is_there_with_its_labels() {
        let text = render(&status());
        for line in [
            "mpdccp_mtu 1412.0",
            "mpdccp_tun_read_packets_total 0",
            "mpdccp_peer_up{peer=\"hub\"} 1.0",
            "mpdccp_peer_queue_dropped_full_total{peer=\"hub\"} 0",
            "mpdccp_path_srtt_ms{peer=\"hub\",path=\"dsl\"} 12.5",
            "mpdccp_path_sent_packets_total{peer=\"hub\",path=\"dsl\"} 7",
            "mpdccp_path_drops_by_reason_total{peer=\"hub\",path=\"dsl\",reason=\"sequence_invalid\"} 3",
            "mpdccp_path_up{peer=\"hub\",path=\"lte \\\"5\\\"\"} 1.0",
            "# TYPE mpdccp_path_srtt_ms gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "no `{line}` in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// What is added to the status and goes down too belongs among the gauges; what only grows, here.
    #[test]
    fn counters_are_what_only_grows() {
        let text = render(&status());
        let counters =
            text.lines().filter_map(|l| l.strip_prefix("# TYPE mpdccp_")?.strip_suffix(" counter"));
        let mut counters: Vec<_> = counters.collect();
        counters.sort_unstable();
        let known = "
            path_ce_packets path_drops_by_reason path_lost_bytes path_lost_packets path_received_bytes
            path_received_packets path_sent_bytes path_sent_packets path_timeouts peer_fec_dropped peer_fec_received
            peer_fec_restored peer_fec_sent peer_fec_too_large peer_queue_accepted peer_queue_dropped_early
            peer_queue_dropped_full peer_queue_dropped_old peer_queue_dropped_too_big peer_queue_marked
            peer_reorder_duplicates peer_reorder_held peer_reorder_in_order peer_reorder_late peer_reorder_overflows
            peer_reorder_proven peer_reorder_timeouts shard_dropped shard_handed_over shard_tun_handed_over
            shard_tun_read socket_rx_bytes socket_rx_calls socket_rx_packets socket_tx_bytes socket_tx_calls
            socket_tx_packets tun_read_bytes tun_read_packets tun_written_bytes tun_written_packets";
        assert_eq!(counters, known.split_whitespace().collect::<Vec<_>>());
        assert!(!text.contains("socket_socket") && !text.contains("shard_shard"), "{text}");
    }

    #[test]
    fn the_dashboard_asks_for_what_there_is() {
        let text = render(&status());
        let file = include_str!("../../../../packaging/grafana/mpdccp.json");
        let dashboard: Value = serde_json::from_str(file).unwrap();
        let mut asked = 0;
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                for word in target["expr"].as_str().unwrap().split(|c: char| !c.is_alphanumeric() && c != '_')
                {
                    if word.starts_with("mpdccp_") {
                        asked += 1;
                        let there =
                            text.contains(&format!("\n{word} ")) || text.contains(&format!("\n{word}{{"));
                        assert!(there || word.ends_with("_by_reason_total"), "no metric {word}");
                    }
                }
            }
        }
        assert!(asked >= 10);
    }
}
