//! Tests of scenarios in virtual time.

use crate::sim_common::{parse, run, seeded};
use mpdccp_lab::scenario::Scenario;
use mpdccp_lab::sim::Sim;
use mpdccp_lab::{Backend, Fate, LabError, Plan, RunRecord};

/// A scenario with every kind of randomness.
const MIXED: &str = r#"
name = "mixed"
title = "t"
duration_s = 3
[tunnel]
scheduler = "cpf"
reordering = "active-fixed"
[[path]]
name = "a"
rate = "10 Mbit/s"
owd = "10 ms"
queue = "100 packets"
discipline = { kind = "red", min = "20 packets", max = "60 packets" }
jitter = { by = "2 ms", reorder = true }
[[path]]
name = "b"
rate = "5 Mbit/s"
owd = "20 ms"
queue = "125000 B"
burst_loss = { begin = "0.5 %", end = "30 %" }
[[variant]]
label = "ccid5"
ccid = 5
[[flow]]
name = "udp"
kind = "udp"
payload = 900
rate = "5 Mbit/s"
source = { kind = "poisson" }
[[flow]]
name = "tcp"
kind = "tcp"
cc = "cubic"
[[flow]]
name = "beside"
kind = "tcp"
cc = "bbr"
via = "b"
"#;

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let scenario = parse(MIXED);
    let bytes = |seed| format!("{:?}", seeded(&scenario, "ccid5", "base", seed).0);
    assert!(bytes(1) == bytes(1));
    assert!(bytes(1) != bytes(2));
}

#[test]
fn flows_get_what_their_paths_have() {
    let scenario = parse(MIXED);
    let (record, stats) = run(&scenario, "ccid5", "base");
    for flow in &record.flows {
        assert!(flow.received.len() > 100, "{}: {}", flow.name, flow.received.len());
        assert!(flow.received.iter().all(|p| (p.seq as usize) < flow.sent.len()), "{}", flow.name);
    }
    let total = stats.metrics["total_mbps"];
    assert!(total > 8.0 && total < 15.0, "{total}");
}

/// Returns the phases that the first path's congestion controller is in after `t` seconds.
fn phases(record: &RunRecord, t: f64) -> Vec<&str> {
    let rows = record.trace.iter().filter(|row| row.path == 0);
    let after = rows.filter(|row| row.at.as_secs_f64() - record.start.as_secs_f64() > t);
    after.map(|row| row.phase.as_str()).collect()
}

#[test]
fn ccid5_leaves_startup_within_a_second_of_the_drop() {
    let scenario = Scenario::find("paper/multipath-udp").unwrap();
    for label in ["ccid5", "ccid5-draft"] {
        let (record, _) = run(&scenario, label, "125kB-10ms");
        let after = phases(&record, 6.0);
        assert!(after.len() > 1_000);
        assert!(!after.contains(&"startup"), "{label}");
    }
}

/// Returns the sorted gaps, in milliseconds, between consecutive data packets that enter the first path
/// during a time span.
fn gaps(record: &RunRecord, from: f64, to: f64) -> Vec<f64> {
    let t = |p: &mpdccp_lab::LinkPacket| p.entered.as_secs_f64() - record.start.as_secs_f64();
    let data = record.paths[0].forward.packets.iter().filter(|p| p.data.is_some());
    let times: Vec<f64> = data.map(t).filter(|t| *t > from && *t < to).collect();
    let mut gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) * 1e3).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

#[test]
fn ccid5_paces_its_packets_onto_the_link() {
    let scenario = Scenario::find("paper/single-path").unwrap();
    let (paced, _) = run(&scenario, "ccid5", "125kB-10ms");
    let gaps = gaps(&paced, 7.0, 10.0);
    // At 10 Mbit/s, a packet of about 1,350 bytes takes 1.1 ms. BBR is a quarter faster while probing.
    let at = |q: f64| gaps[(gaps.len() as f64 * q) as usize];
    assert!((0.9..1.3).contains(&at(0.5)), "median {}", at(0.5));
    assert!(at(0.02) > 0.5, "packets are sent in bursts: {}", at(0.02));
}

#[test]
fn paths_that_share_a_link_share_its_rate() {
    let text = r#"
name = "shared"
title = "t"
duration_s = 10
tunnel = { scheduler = "rr" }
path = [
  { name = "a", rate = "10 Mbit/s", owd = "10 ms", queue = "125000 B" },
  { name = "b", shares = "a" },
]
variant = [{ label = "ccid5", ccid = 5 }]
flow = [{ name = "udp", kind = "udp", payload = 1300, source = { kind = "bulk" } }]
"#;
    let (record, stats) = run(&parse(text), "ccid5", "base");
    let rx = stats.metrics["rx_mbps"];
    assert!(rx > 8.5 && rx < 10.0, "{rx}");
    for path in &record.paths {
        let arrived = path.forward.packets.iter().filter(|p| matches!(p.fate, Fate::Delivered(_))).count();
        assert!(arrived > 1_000, "{}: {arrived}", path.name);
    }
}

#[test]
fn a_tcp_flow_beside_the_tunnel_competes_for_the_link() {
    let text = r#"
name = "beside"
title = "t"
duration_s = 20
path = [{ name = "a", rate = "10 Mbit/s", owd = "10 ms", queue = "60000 B" }]
variant = [{ label = "ccid2", ccid = 2 }]
flow = [
  { name = "udp", kind = "udp", payload = 1300, source = { kind = "bulk" } },
  { name = "tcp", kind = "tcp", cc = "reno", via = "a" },
]
"#;
    let (_, stats) = run(&parse(text), "ccid2", "base");
    let rates: Vec<f64> = stats.flows.iter().map(|f| f.phases[0].rx_mbps).collect();
    let total: f64 = rates.iter().sum();
    assert!(total > 8.5 && total < 10.0, "{rates:?}");
    // Both flows use the same algorithm, so they must share the link fairly, although DCCP and TCP
    // acknowledge differently.
    assert!(stats.metrics["jain"] > 0.8, "{rates:?}");
}

#[test]
fn equal_flows_in_direct_mode_share_a_link() {
    let text = r#"
name = "fair"
title = "t"
mode = "direct"
duration_s = 20
path = [{ name = "a", rate = "20 Mbit/s", owd = "10 ms", queue = "125000 B" }]
variant = [{ label = "ccid2", ccid = 2 }]
flow = [{ name = "f", kind = "udp", count = 4, payload = 1300, source = { kind = "bulk" } }]
"#;
    let (_, stats) = run(&parse(text), "ccid2", "base");
    assert_eq!(stats.flows.len(), 4);
    assert_eq!(stats.flows[3].name, "f-4");
    assert!(stats.metrics["total_mbps"] > 18.0, "{:?}", stats.metrics);
    assert!(stats.metrics["jain"] > 0.8, "{:?}", stats.metrics);
}

#[test]
fn a_threshold_of_three_suffers_from_two_unequal_paths_and_rack_does_not() {
    let text = |detection: &str| {
        format!(
            r#"
name = "nested"
title = "t"
duration_s = 10
tunnel = {{ scheduler = "rr", reordering = "passive" }}
path = [
  {{ name = "a", rate = "10 Mbit/s", owd = "10 ms", queue = "60000 B" }},
  {{ name = "b", rate = "10 Mbit/s", owd = "30 ms", queue = "60000 B" }},
]
variant = [{{ label = "ccid5", ccid = 5 }}]
flow = [{{ name = "tcp", kind = "tcp", cc = "cubic", loss_detection = "{detection}" }}]
"#
        )
    };
    let of = |detection| run(&parse(&text(detection)), "ccid5", "base").1;
    let (rack, three) = (of("rack"), of("three"));
    assert!(rack.metrics["rx_mbps"] > 1.5 * three.metrics["rx_mbps"], "{rack:?} {three:?}");
    // Compare the numbers of spurious retransmissions per Mbit/s received.
    let spurious = |dsack: f64, mbps: f64| dsack / mbps;
    let [of_rack, of_three] =
        [&rack, &three].map(|run| spurious(run.metrics["dsack"], run.metrics["rx_mbps"]));
    assert!(of_three > of_rack, "{of_three} {of_rack}");
}

#[test]
fn a_mirror_sends_back_each_packet_once_over_a_line_of_its_own() {
    let text = r#"
name = "mirror"
title = "t"
duration_s = 2
path = [
  { name = "a", rate = "10 Mbit/s", owd = "10 ms", queue = "125000 B", loss = "1 %" },
  { name = "back", rate = "1 Gbit/s", owd = "2 ms", queue = "125000 B", outside = true },
]
variant = [{ label = "ccid5", ccid = 5 }]
flow = [{ name = "f", kind = "udp", payload = 1000, rate = "2 Mbit/s", mirror = "back" }]
"#;
    let scenario = parse(text);
    let (record, stats) = run(&scenario, "ccid5", "base");
    let flow = &record.flows[0];
    assert!(flow.received.len() > 400);
    let seqs = |packets: &[mpdccp_lab::ReceivedPacket]| packets.iter().map(|p| p.seq).collect::<Vec<_>>();
    assert_eq!(seqs(&flow.mirrored), seqs(&flow.received));
    // A packet of 1,028 bytes takes 8 µs at 1 Gbit/s.
    let offset = stats.metrics["mirror_offset_ms"];
    assert!((2.0..2.1).contains(&offset), "{offset}");
    assert!(record.paths[1].forward.packets.is_empty(), "the tunnel used the path of the mirror");
}

#[test]
fn short_flows_complete_in_the_time_their_bytes_and_round_trips_take() {
    let scenario = crate::sim_common::parse(
        r#"
name = "t"
title = "t"
duration_s = 20
path = [{ name = "a", rate = "20 Mbit/s", owd = "20 ms", queue = "200 kB" }]
variant = [
  { label = "tunnel" },
  { label = "plain", baseline = { kind = "plain" } },
]
flow = [{ name = "web", kind = "short", cc = "cubic", sizes = ["10 kB", "100 kB"], every = "200 ms" }]
"#,
    );
    let mut asked = None;
    for label in ["tunnel", "plain"] {
        let (record, stats) = crate::sim_common::run(&scenario, label, "base");
        let web = &record.flows[0];
        // The expected number of connections is 100; the limits are five standard deviations away. Both
        // variants have the same connections.
        let sizes: Vec<u32> = web.sent.iter().map(|sent| sent.bytes).collect();
        assert!(
            (50..150).contains(&sizes.len()) && sizes.iter().all(|size| [10_000, 100_000].contains(size))
        );
        assert_eq!(*asked.get_or_insert(sizes.clone()), sizes);
        assert!(stats.metrics["fct_missing_pct"] < 3.0, "{:?}", stats.metrics);
        // A connection needs a handshake, and then sends one window of ten packets. This takes three one-way
        // delays, 60 ms in total, plus the transmission time at 20 Mbit/s.
        for whole in &web.received {
            let sent = web.sent[whole.seq as usize];
            let took = whole.at.since(sent.at).as_secs_f64() * 1e3;
            assert!(took > 60.0 + f64::from(sent.bytes) * 8.0 / 20e3, "{took} {sent:?}");
        }
        let (p50, p95) = (stats.metrics["fct_p50_ms"], stats.metrics["fct_p95_ms"]);
        assert!(p50 < p95 && (64.0..220.0).contains(&p50), "{label}: {p50} {p95}");
    }
}

#[test]
fn no_short_flow_starts_after_the_end_of_the_traffic() {
    let scenario = parse(
        r#"
name = "t"
title = "t"
duration_s = 4
host = { start_within = "2 s" }
path = [{ name = "a", rate = "20 Mbit/s", queue = "200 kB" }]
variant = [{ label = "plain", baseline = { kind = "plain" } }]
flow = [{ name = "web", count = 3, kind = "short", cc = "cubic", sizes = ["1 kB"], every = "20 ms" }]
"#,
    );
    let (record, _) = run(&scenario, "plain", "base");
    let end = record.start + core::time::Duration::from_secs(4);
    assert!(record.flows.iter().all(|web| web.sent.iter().all(|connection| connection.at < end)));
}

/// Packets carry the number of their connection in 15 bits.
#[test]
fn more_short_connections_than_numbers_are_refused() {
    let text = r#"
name = "t"
title = "t"
duration_s = 10
path = [{ name = "a", rate = "20 Mbit/s", queue = "200 kB" }]
variant = [{ label = "plain", baseline = { kind = "plain" } }]
flow = [{ name = "web", count = 4, kind = "short", cc = "cubic", sizes = ["1 kB"], every = "1 ms" }]
"#;
    let scenario = parse(text);
    let (variant, cell) = (&scenario.variants[0], scenario.headline());
    let plan = Plan { scenario: &scenario, variant, cell, repeat: 0, seed: 1 };
    match Sim::default().run(&plan, &mut |_| {}) {
        Err(LabError::Wrong(why)) => assert!(why.contains("fewer than 32768"), "{why}"),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn chances_belong_to_paths_and_flows_and_not_to_who_runs() {
    let scenario = parse(
        &MIXED
            .replace(
                "[[flow]]\nname = \"udp\"",
                "[[variant]]\nlabel = \"other\"\nccid = 2\nflows = [\"udp\"]\n[[flow]]\nname = \"udp\"",
            )
            .replace("[tunnel]", "[host]\nstart_within = \"50 ms\"\n[tunnel]"),
    );
    let sent = |label: &str, seed| {
        let (record, _) = seeded(&scenario, label, "base", seed);
        let flow = record.flows.into_iter().find(|flow| flow.name == "udp").unwrap();
        flow.sent.iter().map(|p| p.at.since(record.start).as_nanos()).collect::<Vec<_>>()
    };
    // The variant with fewer flows and a different congestion control must send its datagrams at the same
    // times.
    let (one, other) = (sent("ccid5", 1), sent("other", 1));
    assert_eq!(one, other);
    assert!(one[0] > 0 && one[0] < 60_000_000, "{}", one[0]);
    assert_ne!(one, sent("ccid5", 2));
}

#[test]
fn traffic_begins_after_the_idle_time() {
    let text = MIXED.replace("duration_s = 3", "duration_s = 1\nidle_s = 7.5");
    let (record, _) = run(&parse(&text), "ccid5", "base");
    assert_eq!(record.start, mpdccp_units::Time::from_millis(8_500));
    let first = record.flows.iter().flat_map(|flow| flow.sent.first()).map(|p| p.at).min().unwrap();
    assert!(first >= record.start && first < record.start + core::time::Duration::from_millis(50));
    // The paths are up long before t = 0.
    assert!(
        record
            .paths
            .iter()
            .all(|path| path.reverse.packets[0].entered < mpdccp_units::Time::from_millis(1_000))
    );
}

#[test]
fn flows_of_programs_are_left_out_of_virtual_time() {
    let with = |rest: &str| {
        parse(&MIXED.replace("[[flow]]\nname = \"udp\"", &format!("[[flow]]\nname = \"curl\"\nkind = \"command\"\nclient = \"true\"\n{rest}[[flow]]\nname = \"udp\"")))
    };
    let scenario = with("");
    let plan = |scenario: &Scenario| {
        let plan =
            Plan { scenario, variant: &scenario.variants[0], cell: scenario.headline(), repeat: 0, seed: 1 };
        (Sim::default().lacks(&plan), Sim::default().leaves_out(&plan))
    };
    let (lacks, left_out) = plan(&scenario);
    assert_eq!(
        (lacks, left_out.as_deref()),
        (None, Some("`curl`: only namespaces can run external programs"))
    );
    let (record, stats) = run(&scenario, "ccid5", "base");
    assert_eq!(record.flows.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["udp", "tcp", "beside"]);
    // The variant does not carry the first flow, which is the measured one, so the metrics of the measured
    // flow are absent.
    assert!(!stats.metrics.contains_key("rx_mbps") && stats.metrics.contains_key("total_mbps"));
    assert_eq!(plan(&parse(MIXED)), (None, None));
}
