//! Serves the status as Prometheus metrics over HTTP. Every number in the status becomes a metric, so new
//! status fields need no change here.

use crate::error::Error;
use crate::tunnel::face::http::{self, Response};
use crate::tunnel::shards::Shards;
use mpdccp_tunnel::status::{Fields, Kind, Status};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::AtomicU64;

/// Escapes a label value, because the library does not.
fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

type Labels = Vec<(String, String)>;

/// One metric.
struct Metric {
    gauge: bool,
    /// Name of the field in the status.
    field: String,
    values: Vec<(Labels, f64)>,
}

/// The metrics by name.
#[derive(Default)]
struct Metrics(BTreeMap<String, Metric>);

impl Metrics {
    fn put(&mut self, prefix: &str, field: &str, gauge: bool, labels: &Labels, n: f64) {
        let metric = || Metric { gauge, field: field.to_owned(), values: Vec::new() };
        let metric = self.0.entry(format!("{prefix}{field}")).or_insert_with(metric);
        metric.values.push((labels.clone(), n));
    }

    /// Adds all numbers in a status field as metrics, descending into nested parts.
    fn walk(&mut self, prefix: &str, name: &str, labels: &Labels, kind: Kind, value: &Value) {
        let with = |label: &str, value: &str| [&labels[..], &[(label.to_owned(), escape(value))]].concat();
        match (kind, value) {
            (Kind::Gauge | Kind::Counter, Value::Number(n)) => {
                let gauge = matches!(kind, Kind::Gauge);
                self.put(prefix, name, gauge, labels, n.as_f64().unwrap_or(f64::NAN));
            }
            (Kind::Gauge, Value::Bool(b)) => self.put(prefix, name, true, labels, f64::from(u8::from(*b))),
            (Kind::Counter, Value::Object(reasons)) => {
                for (reason, n) in reasons {
                    self.walk(prefix, &format!("{name}_by_reason"), &with("reason", reason), kind, n);
                }
            }
            (Kind::Part(_), Value::Object(rules)) if name == "policy_rules" => {
                for (rule, met) in rules {
                    self.walk(prefix, "rule", &with("rule", rule), kind, met);
                }
            }
            (Kind::Part(fields), Value::Object(part)) => {
                for (field, kind) in fields {
                    let below = if name.is_empty() { (*field).to_owned() } else { format!("{name}_{field}") };
                    self.walk(prefix, &below, labels, *kind, part.get(*field).unwrap_or(&Value::Null));
                }
            }
            (Kind::Part(_), Value::Array(things)) => {
                let (prefix, label, key) = match name {
                    "peers" => ("peer_", "peer", "name"),
                    "paths" => ("path_", "path", "name"),
                    "sockets" => ("socket_", "socket", "local"),
                    _ => ("shard_", "shard", "shard"),
                };
                for (i, thing) in things.iter().enumerate() {
                    // A path that is closed may still be listed before the path that replaced it. Their sum
                    // would decrease once the closed path is gone, which a counter must not.
                    let is_same = |later: &Value| name == "paths" && later[key] == thing[key];
                    if things[i + 1..].iter().any(is_same) {
                        continue;
                    }
                    let id = thing[key].as_str().map_or_else(|| thing[key].to_string(), String::from);
                    let labels = with(label, &id);
                    if let Some(state) = thing["state"].as_str() {
                        // A session may be open without any path.
                        let some = thing["paths"].as_array().is_none_or(|paths| !paths.is_empty());
                        let up = matches!(state, "up" | "standby" | "open") && some;
                        self.put(prefix, "up", true, &labels, f64::from(u8::from(up)));
                    }
                    self.walk(prefix, "", &labels, kind, thing);
                }
            }
            // Labels, and values of an unknown type, are not metrics.
            _ => {}
        }
    }
}

/// Formats the status as OpenMetrics text.
pub(crate) fn render(status: &Status) -> String {
    let value = serde_json::to_value(status).unwrap_or_default();
    let mut metrics = Metrics::default();
    metrics.walk("", "", &Labels::new(), Kind::Part(Status::FIELDS), &value);
    let mut registry = Registry::with_prefix("mpdccp");
    for (name, Metric { gauge, field, values }) in metrics.0 {
        let help = format!("`{field}` of `mpdccp tunnel status --json`");
        if gauge {
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
    // Ignore the result: writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text.replace("{} ", " ")
}

/// Answers the requests of Prometheus.
pub(crate) fn serve(listener: TcpListener, shards: Shards) -> Result<(), Error> {
    http::serve("metrics", listener, move |path| match path {
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
    use mpdccp_tunnel::status::{
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

    #[test]
    fn a_closed_path_does_not_count_with_its_successor() {
        let mut status = status();
        let mut again = status.peers[0].paths[0].clone();
        again.sent_packets = 2;
        status.peers[0].paths.push(again);
        let text = render(&status);
        assert!(text.contains("\nmpdccp_path_sent_packets_total{peer=\"hub\",path=\"dsl\"} 2\n"), "{text}");
    }

    #[test]
    fn a_peer_without_a_path_is_not_up() {
        let mut status = status();
        status.peers[0].paths.clear();
        let text = render(&status);
        assert!(text.contains("\nmpdccp_peer_up{peer=\"hub\"} 0.0\n"), "{text}");
    }

    /// A status field that can decrease must be a gauge. This test lists all counters. Add only fields to the
    /// list that never decrease.
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
        let file = include_str!("../../../../../packaging/grafana/mpdccp.json");
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
