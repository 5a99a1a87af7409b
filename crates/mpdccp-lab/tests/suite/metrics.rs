//! Tests of metrics on synthetic runs, with expected values calculated by hand.

use core::time::Duration;

use mpdccp_lab::metrics::run_stats;
use mpdccp_lab::summary::Run;
use mpdccp_lab::{Fate, Plan, ReceivedPacket, RunRecord, Scenario};

fn stats(run: &RunRecord) -> Run {
    stats_of(crate::common::SCENARIO, run)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn phases_split_at_the_event_and_rates_count_what_arrived_inside() {
    let run = stats(&crate::common::run("ccid5"));
    let flow = &run.flows[0];
    assert_eq!(
        (flow.sent, flow.received, flow.lost, flow.reordered),
        (Some(10_000), 10_000, Some(0), Some(0))
    );
    let [before, after] = flow.phases[..] else { panic!("two phases") };
    assert_eq!((before.from_s, before.to_s, after.from_s, after.to_s), (0.0, 5.0, 5.0, 10.0));
    // Packets take 10.1 ms, so ten packets sent before the event arrive after it. In the 5 s before the
    // event, 4,990 packets of 1,250 bytes arrive.
    let arrived = (0..5_000u64).filter(|i| *i as f64 + 10.1 < 5_000.0).count() as f64;
    assert!(near(before.rx_mbps, arrived * 1250.0 * 8.0 / 5e6), "{}", before.rx_mbps);
    assert!(near(before.app_latency_ms.unwrap().p50, 10.1));
    assert!(near(before.wire_latency_ms.unwrap().max, 10.0));
    // Latencies are 10.1 ms plus 0 to 5 ms, in steps of a microsecond per packet, so by nearest rank the 95th
    // percentile of 5,000 packets is the latency of packet 4,750.
    assert!(near(after.app_latency_ms.unwrap().p95, 10.1 + 4.749));
    assert!(near(after.app_latency_ms.unwrap().max, 10.1 + 4.999));
}

#[test]
fn paths_count_outer_bytes_drops_and_losses() {
    let mut record = crate::common::run("ccid5");
    let second = &mut record.paths[1].forward.packets;
    second[0].fate = Fate::QueueDrop;
    second[1].fate = Fate::Lost;
    second[2].ce = true;
    let run = stats(&record);
    let [before, after] = run.paths[1].phases[..] else { panic!("two phases") };
    assert_eq!((before.tx_mbps, before.latency_ms), (0.0, None));
    let sent = (5_000..10_000).filter(|i| i % 3 == 0).count() as f64;
    assert!(near(after.tx_mbps, sent * 1310.0 * 8.0 / 5e6));
    assert_eq!((after.queue_drops, after.lost, after.ce), (1, 1, 1));
    assert_eq!(run.link_lateness_us_p99, Some(20.0));
}

#[test]
fn reordering_after_rfc_4737_and_duplicates_apart() {
    let mut record = crate::common::run("ccid5");
    let received = &mut record.flows[0].received;
    // Packets arrive in the order 0 1 3 2 2 4 and so on. Packet 2 counts as reordered once, because its
    // second copy is a duplicate. Packet 7 never arrives.
    received.swap(2, 3);
    let copy = received[3];
    received.insert(4, copy);
    received.retain(|p: &ReceivedPacket| p.seq != 7);
    let flow = stats(&record).flows.remove(0);
    assert_eq!(
        (flow.reordered, flow.duplicates, flow.lost, flow.received),
        (Some(1), Some(1), Some(1), 9_999)
    );
    assert!(near(flow.lost_pct.unwrap(), 0.01));
}

#[test]
fn windows_find_the_gap_and_the_moment_the_second_path_starts() {
    let mut record = crate::common::run("ccid5");
    // One packet arrives per millisecond, except during a gap of 50 ms, so the worst window of 200 ms has at
    // most 150 packets.
    let start = record.start;
    let hole = |p: &ReceivedPacket| {
        let at = p.at.since(start);
        !(Duration::from_millis(7_000)..Duration::from_millis(7_050)).contains(&at)
    };
    record.flows[0].received.retain(hole);
    record.paths[1].forward.packets.retain(|p| p.entered.since(start) >= Duration::from_millis(6_000));
    let metrics = stats(&record).metrics;
    // The second path carries a third of 10.48 Mbit/s, which is 3.49 Mbit/s. A window of 100 ms exceeds 3
    // Mbit/s if it has 29 of its 33 packets, so the first window after the start already does.
    let rises = metrics["second_path_ms"];
    assert!((1_000.0..1_100.0).contains(&rises), "{rises}");
    assert!((7.0..8.0).contains(&metrics["min_200ms_mbps"]), "{}", metrics["min_200ms_mbps"]);
    assert!((9.0..9.6).contains(&metrics["min_1s_mbps"]), "{}", metrics["min_1s_mbps"]);
    // If the gap is during ProbeRTT, windows that contain it do not count.
    let mut probing = record.trace[0].clone();
    probing.phase = "ProbeRTT".to_owned();
    probing.at = start + Duration::from_millis(6_900);
    record.trace.push(probing);
    let metrics = stats(&record).metrics;
    assert!(metrics["min_1s_mbps"] > 9.9, "{}", metrics["min_1s_mbps"]);
}

#[test]
fn losses_of_tcp_are_those_of_the_links() {
    let mut record = crate::common::run("ccid5");
    let metrics = stats(&record).metrics;
    assert!(metrics["link_lost_pct"] == 0.0 && metrics.contains_key("net_lost_pct"));
    let flow = &mut record.flows[0];
    flow.kind = "tcp".to_owned();
    record.paths[1].forward.packets[0].fate = Fate::QueueDrop;
    // The link lost a packet, but TCP retransmitted it, so every record arrived.
    let metrics = stats(&record).metrics;
    assert!(near(metrics["link_lost_pct"], 0.01), "{}", metrics["link_lost_pct"]);
    assert!(!metrics.contains_key("net_lost_pct"));
}

#[test]
fn a_first_packet_is_a_packet_and_not_the_start_of_a_bin() {
    let mut record = crate::common::run("ccid5");
    let start = record.start;
    record.paths[1].forward.packets.retain(|p| p.entered.since(start) >= Duration::from_millis(5_031));
    let metrics = stats(&record).metrics;
    assert!(near(metrics["second_path_first_ms"], 31.0), "{}", metrics["second_path_first_ms"]);
    // The path cannot exceed a rate before its first packet.
    assert!(metrics["second_path_ms"] > 31.0);
    // If a path was in use before the event, there is no first packet after the event.
    record.paths[1].forward.packets[0].entered = start + Duration::from_millis(4_500);
    assert!(!stats(&record).metrics.contains_key("second_path_first_ms"));
}

#[test]
fn packets_that_never_left_are_known_with_two_flows() {
    let mut record = crate::common::run("ccid5");
    let mut second = record.flows[0].clone();
    second.name = "b".to_owned();
    second.sent.truncate(100);
    record.flows[0].dropped_at_sender = None;
    second.dropped_at_sender = None;
    record.flows.push(second);
    let dropped = record.paths[0].forward.packets.remove(10);
    assert_eq!(dropped.data.unwrap().0, 0);
    for i in 0..90 {
        let mut packet = dropped;
        packet.data = Some((1, i));
        record.paths[0].forward.packets.push(packet);
    }
    let flows = stats(&record).flows;
    assert_eq!((flows[0].dropped_at_sender, flows[1].dropped_at_sender), (Some(1), Some(10)));
}

/// Returns a run with a second flow like the first, except that its packets arrive 5 ms later and half of
/// them are lost.
fn two_flows() -> RunRecord {
    let mut record = crate::common::run("ccid5");
    let mut second = record.flows[0].clone();
    second.name = "udp2".to_owned();
    second.received.retain(|p| p.seq % 2 == 0);
    second.received.iter_mut().for_each(|p| p.at += Duration::from_millis(5));
    record.flows.push(second);
    record
}

fn stats_of(text: &str, record: &RunRecord) -> Run {
    let scenario = Scenario::parse("made-up", text).unwrap();
    let variant = scenario.variant(&record.label).unwrap();
    run_stats(&Plan { scenario: &scenario, variant, cell: &scenario.cells[0], repeat: 0, seed: 7 }, record)
}

const SECOND: &str =
    "[[flow]]\nname = \"udp2\"\nkind = \"udp\"\npayload = 1222\nrate = \"10 Mbit/s\"\n[[reference]]";

#[test]
fn metrics_are_of_the_flow_that_the_scenario_names() {
    let both = crate::common::SCENARIO.replace("[[reference]]", SECOND);
    let measured =
        |name: &str| both.replace("duration_s = 10", &format!("duration_s = 10\nmeasured = \"{name}\""));
    let record = two_flows();
    let (first, second) = (stats_of(&both, &record).metrics, stats_of(&measured("udp2"), &record).metrics);
    assert!(near(first["lost_pct"], 0.0) && near(second["lost_pct"], 50.0));
    // The difference is not exactly 5 ms, because the latency grows by 1 µs from packet to packet.
    assert!((second["app_p50_ms"] - first["app_p50_ms"] - 5.0).abs() < 0.01);
    assert!(near(first["total_mbps"], second["total_mbps"]));
    // A variant that does not carry the measured flow has no metrics of a single flow, even if it carries
    // other flows.
    let mut other = record.clone();
    other.flows.remove(1);
    let none = stats_of(&measured("udp2"), &other).metrics;
    assert!(!none.contains_key("rx_mbps") && !none.contains_key("app_p50_ms"));
}

#[test]
fn flows_of_one_entry_are_taken_together() {
    let mut record = two_flows();
    (record.flows[0].name, record.flows[1].name) = ("udp-1".to_owned(), "udp-2".to_owned());
    let text = crate::common::SCENARIO.replace("name = \"udp\"\n", "name = \"udp\"\ncount = 2\n");
    let alone = stats_of(&text, &record).metrics;
    let all =
        stats_of(&text.replace("duration_s = 10", "duration_s = 10\nmeasured = \"udp\""), &record).metrics;
    // Each flow has 10,000 packets, and half of the second flow's are lost.
    assert!(near(alone["lost_pct"], 0.0) && near(all["lost_pct"], 25.0));
    assert!(near(all["rx_mbps"], all["total_mbps"]) && !all.contains_key("share_pct"));
    assert!(near(alone["share_pct"], alone["rx_mbps"] * 100.0 / (alone["total_mbps"] - alone["rx_mbps"])));
    // Metrics of packet order are not defined for several flows.
    assert!(alone.contains_key("displaced_pct") && !all.contains_key("displaced_pct"));
}

#[test]
fn metrics_exclude_the_warm_up() {
    let record = crate::common::run("ccid5");
    let text = crate::common::SCENARIO.replace("duration_s = 10", "duration_s = 10\nwarm_up_s = 8");
    let run = stats_of(&text, &record);
    let spans: Vec<_> = run.flows[0].phases.iter().map(|p| (p.from_s, p.to_s)).collect();
    assert_eq!(spans, [(0.0, 5.0), (5.0, 8.0), (8.0, 10.0)]);
    // Latency grows by 1 ms per second from the fifth second on.
    assert!(
        run.metrics["app_p50_ms"] > 14.0
            && stats_of(crate::common::SCENARIO, &record).metrics["app_p50_ms"] < 13.0
    );
}

#[test]
fn the_lowest_rate_of_a_late_flow_is_not_that_before_its_start() {
    let mut record = crate::common::run("ccid5");
    record.flows[0].received.retain(|p| p.seq >= 7_000);
    let text = crate::common::SCENARIO.replace("kind = \"udp\"", "kind = \"udp\"\nstart_s = 7");
    let metrics = stats_of(&text, &record).metrics;
    assert!(metrics["min_200ms_mbps"] > 9.0 && metrics["min_1s_mbps"] > 9.0, "{metrics:?}");
}
