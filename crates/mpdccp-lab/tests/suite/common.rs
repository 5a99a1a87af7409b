//! Makes a synthetic run for the tests of metrics, figures and reports.

use core::time::Duration;

use mpdccp_lab::{
    Fate, FlowRecord, LinkPacket, LinkRecord, PathRecord, ReceivedPacket, RunRecord, SentPacket, TraceRow,
};
use mpdccp_units::{Rate, Time};

/// Returns a run with one packet of 1,250 bytes per millisecond (10 Mbit/s) for 10 s. From the fifth second
/// on, every third packet takes the second path. The latency is 10 ms, growing by 1 ms per second from the
/// fifth second on.
pub(crate) fn run(label: &str) -> RunRecord {
    let start = Time::from_millis(1_000);
    let mut flow = FlowRecord {
        name: "udp".to_owned(),
        kind: "udp".to_owned(),
        offered: Some(Rate::from_mbps(10.0)),
        dropped_at_sender: Some(0),
        ..FlowRecord::default()
    };
    let mut paths =
        ["path1", "path2"].map(|name| PathRecord { name: name.to_owned(), ..PathRecord::default() });
    let mut trace = Vec::new();
    for i in 0..10_000u64 {
        let at = start + Duration::from_millis(i);
        let second = i >= 5_000 && i % 3 == 0;
        let delay = Duration::from_micros(10_000 + i.saturating_sub(5_000));
        flow.sent.push(SentPacket { at, bytes: 1250 });
        flow.received.push(ReceivedPacket {
            seq: i,
            at: at + delay + Duration::from_micros(100),
            bytes: 1250,
        });
        let packet = LinkPacket {
            entered: at,
            fate: Fate::Delivered(at + delay),
            bytes: 1310,
            data: Some((0, i)),
            queue_bytes: 1310 + (i as u32 % 7) * 1310,
            ce: false,
        };
        paths[usize::from(second)].forward.packets.push(packet);
        if i % 50 == 0 {
            for path in 0..2 {
                trace.push(TraceRow {
                    at,
                    path,
                    phase: "probe-bw".to_owned(),
                    cwnd_bytes: 30_000 + 1_000 * (i / 50 % 8),
                    inflight_bytes: 12_500,
                    pacing_mbps: Some(9.0 + (i / 50 % 3) as f64),
                    srtt_ms: Some(20.0),
                    min_rtt_ms: Some(20.0),
                    ..TraceRow::default()
                });
            }
        }
    }
    paths[0].reverse =
        LinkRecord { packets: Vec::new(), lateness_ns: vec![20_000; 100], ..LinkRecord::default() };
    RunRecord {
        label: label.to_owned(),
        cell: "a".to_owned(),
        start,
        flows: vec![flow],
        paths: paths.into(),
        trace,
        ..RunRecord::default()
    }
}

/// The scenario that the synthetic run belongs to.
#[allow(dead_code, reason = "not every test needs the scenario")]
pub(crate) const SCENARIO: &str = r#"
name = "made-up"
title = "Made up"
duration_s = 10
[[path]]
name = "path1"
rate = "100 Mbit/s"
queue = "125000 B"
events = [{ at_s = 5, rate = "10 Mbit/s" }]
[[path]]
name = "path2"
rate = "100 Mbit/s"
queue = "125000 B"
[[cell]]
name = "a"
[[variant]]
label = "ccid2"
ccid = 2
[[variant]]
label = "ccid5"
ccid = 5
[[flow]]
name = "udp"
kind = "udp"
payload = 1222
rate = "10 Mbit/s"
[[reference]]
source = "somebody"
label = "ccid5"
values = { rx_mbps = 9.0, app_p50_ms = 30 }
[[aim]]
label = "ccid5"
metric = "app_p95_ms"
max = 25
[[aim]]
label = "ccid5"
metric = "rx_mbps"
min = 11
"#;
