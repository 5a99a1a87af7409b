//! Tests of plain connections in virtual time: echoes, data in both directions, acknowledgements.

use crate::sim_common::{parse, run};
use mpdccp_lab::sim::Sim;
use mpdccp_lab::{Backend as _, Fate, LinkPacket, Plan};

fn scenario(path: &str, variant: &str, flows: &str) -> String {
    format!(
        "name = \"t\"\ntitle = \"t\"\nduration_s = 10\nmode = \"direct\"\n[tunnel]\nqueue_packets = 100\nqueue = \"10 s\"\n\
         [[path]]\nname = \"link\"\nrate = \"10 Mbit/s\"\nowd = \"50 ms\"\nqueue = \"125 packets\"\n{path}\n\
         [[variant]]\nlabel = \"c\"\n{variant}\n{flows}"
    )
}

/// A flow that always has data to send.
const BULK: &str =
    "[[flow]]\nname = \"bulk\"\nkind = \"udp\"\npayload = 1300\nsource = { kind = \"bulk\" }\n";

#[test]
fn everything_comes_back_and_a_window_takes_rounds() {
    const TEN: &str = "[[flow]]\nname = \"ten\"\nkind = \"udp\"\npayload = 1400\nrate = \"100 Mbit/s\"\nstop_s = 0.00111\necho = true\n";
    let total = |variant: &str, path: &str| {
        let (record, stats) = run(&parse(&scenario(path, variant, TEN)), "c", "base");
        assert_eq!(record.flows[0].sent.len(), 10);
        (record.flows[0].received.len(), stats.metrics["all_back_ms"])
    };
    // Ten packets of 1,428 bytes take 11.4 ms on the link. Then only the last packet's echo has to cross the
    // return path.
    let (n, ms) = total("udp = true", "");
    assert_eq!(n, 10);
    assert!((112.0..114.0).contains(&ms), "{ms}");
    // The smallest initial windows are three or four packets in each direction, so the exchange takes more
    // than one but fewer than ten round trips.
    for variant in ["ccid = 2", "ccid = 3"] {
        let (n, ms) = total(variant, "");
        assert_eq!(n, 10, "{variant}");
        assert!((200.0..600.0).contains(&ms), "{variant}: {ms}");
    }
    // Like the kernel's TCP, the model starts with ten packets in each direction.
    let (n, ms) = total("tcp = \"reno\"", "");
    assert_eq!(n, 10);
    assert!((112.0..116.0).contains(&ms), "{ms}");
    // TCP retransmits lost packets.
    assert_eq!(total("tcp = \"cubic\"", "loss = \"20 %\"").0, 10);
}

#[test]
fn a_flow_that_begins_later_lasts_as_long() {
    const TEN: &str =
        "[[flow]]\nname = \"ten\"\nkind = \"udp\"\npayload = 1400\nrate = \"100 Mbit/s\"\nstop_s = 0.00111\n";
    let text =
        scenario("", "udp = true", TEN).replace("[tunnel]", "[host]\nstart_within = \"20 ms\"\n[tunnel]");
    let (record, _) = run(&parse(&text), "c", "base");
    assert_eq!(record.flows[0].received.len(), 10);
    assert!(record.flows[0].sent[0].at > record.start);
}

#[test]
fn each_direction_has_its_ccid_and_its_rate() {
    const BOTH: &str = "[[flow]]\nname = \"there\"\nkind = \"udp\"\npayload = 1000\nrate = \"20 Mbit/s\"\n\
                        [[flow]]\nname = \"back\"\nkind = \"udp\"\npayload = 500\nrate = \"512 kbit/s\"\nreverse = true\n";
    let path = "reverse = { rate = \"256 kbit/s\", queue = \"20 packets\" }";
    let (record, stats) = run(&parse(&scenario(path, "ccid = 3\nreverse_ccid = 2", BOTH)), "c", "base");
    let (there, total) = (stats.metrics["rx_mbps"], stats.metrics["total_mbps"]);
    assert!(there > 1.0, "{there}");
    assert!((0.1..0.256).contains(&(total - there)), "{}", total - there);
    // CCID 3 is rate-based, so the trace has pacing rates. The reverse flow's packets are on the reverse
    // link.
    assert!(record.trace.iter().any(|row| row.pacing_mbps.is_some()));
    let back = &record.paths[0].reverse.packets;
    assert!(back.iter().any(|p| matches!((p.data, p.fate), (Some((1, _)), Fate::Delivered(_)))));
}

#[test]
fn goodput_of_records_over_tcp_ends_with_the_flow() {
    const FLOW: &str = "[[flow]]\nname = \"app\"\nkind = \"udp\"\npayload = 1000\nrate = \"20 Mbit/s\"\n";
    let (record, stats) = run(&parse(&scenario("", "tcp = \"cubic\"", FLOW)), "c", "base");
    let end = record.start + core::time::Duration::from_secs(10);
    let received = &record.flows[0].received;
    // The records that are still in the queue at the end arrive later.
    assert!(received.iter().any(|p| p.at > end));
    let in_time: f64 = received.iter().filter(|p| p.at <= end).map(|p| f64::from(p.bytes)).sum();
    let goodput = stats.metrics["goodput_mbps"];
    assert!((goodput - in_time * 8e-6 / 10.0).abs() < 1e-9, "{goodput}");
}

#[test]
fn a_reverse_tcp_flow_fills_the_return_path() {
    const BOTH: &str = "[[flow]]\nname = \"bulk\"\nkind = \"udp\"\npayload = 1000\nsource = { kind = \"bulk\" }\n\
                        [[flow]]\nname = \"upload\"\nkind = \"tcp\"\ncc = \"cubic\"\nreverse = true\n";
    let path = "reverse = { rate = \"2 Mbit/s\", queue = \"20 packets\" }";
    for variant in ["ccid = 2", "tcp = \"cubic\""] {
        let (record, stats) = run(&parse(&scenario(path, variant, BOTH)), "c", "base");
        let upload = stats.flows[1].phases[0].rx_mbps;
        assert!((1.0..2.0).contains(&upload), "{variant}: {upload}");
        let path = &record.paths[0];
        let of_upload = |p: &&LinkPacket| matches!(p.data, Some((1, _)));
        assert!(path.reverse.packets.iter().any(|p| of_upload(&p)), "{variant}");
        assert!(!path.forward.packets.iter().any(|p| of_upload(&p)), "{variant}");
    }
}

#[test]
fn a_higher_ack_ratio_sends_less_back() {
    const BULK: &str = "[[flow]]\nname = \"bulk\"\nkind = \"udp\"\npayload = 1000\nrate = \"20 Mbit/s\"\n";
    let back = |variant: &str| run(&parse(&scenario("", variant, BULK)), "c", "base").1.metrics["reverse_packets_pct"];
    let (two, eight) = (back("ccid = 2"), back("ccid = 2\ntunnel = { ack_ratio = 8 }"));
    assert!((45.0..55.0).contains(&two), "{two}");
    assert!((12.0..16.0).contains(&eight), "{eight}");
    // CCID 3 sends acknowledgements once per round-trip time (RFC 4342 section 6).
    let rounds = back("ccid = 3");
    assert!(rounds < 2.0, "{rounds}");
}

#[test]
fn packets_that_overtake_each_other_leave_no_path_empty() {
    // Some packets are late by more than the round-trip time of fast packets, from which the RTT samples
    // come.
    let path = "forward = { jitter = { by = \"20 ms\", reorder = true } }";
    for ccid in [2, 7] {
        let text = scenario(path, &format!("ccid = {ccid}"), BULK);
        let text = text
            .replace("10 Mbit/s", "50 Mbit/s")
            .replace("50 ms", "30 ms")
            .replace("125 packets", "280 packets");
        let rate = run(&parse(&text), "c", "base").1.metrics["rx_mbps"];
        println!("CCID {ccid}: {rate} Mbit/s");
        assert!(rate > 30.0, "CCID {ccid}: {rate}");
    }
}

#[test]
fn short_flows_go_beside_a_plain_connection() {
    const WEB: &str = "[[flow]]\nname = \"web\"\nkind = \"short\"\ncc = \"cubic\"\nsizes = [\"10 kB\"]\nevery = \"500 ms\"\n";
    const BULK: &str = "[[flow]]\nname = \"bulk\"\nkind = \"udp\"\npayload = 1000\nrate = \"20 Mbit/s\"\n";
    let alone = run(&parse(&scenario("", "udp = true", WEB)), "c", "base").1.metrics["fct_p50_ms"];
    // A short connection takes as long as a handshake, half a round trip, and the sending of 10 kB at 10
    // Mbit/s.
    assert!((158.0..175.0).contains(&alone), "{alone}");
    let (_, stats) = run(&parse(&scenario("", "ccid = 2", &format!("{WEB}{BULK}"))), "c", "base");
    let [web, bulk] = &stats.flows[..] else { panic!("two flows") };
    assert!(web.sent.unwrap() > 5 && web.received > 5, "{web:?}");
    // The short connections wait in the queue that the DCCP connection fills.
    assert!(bulk.phases[0].rx_mbps > 5.0 && stats.metrics["fct_p50_ms"] > alone, "{stats:?}");
}

#[test]
fn unbounded_sources_are_left_out() {
    let lacks = |variant: &str| {
        let scenario = parse(&scenario("", variant, BULK));
        let (variant, cell) = (&scenario.variants[0], scenario.headline());
        Sim::default().lacks(&Plan { scenario: &scenario, variant, cell, repeat: 0, seed: 1 })
    };
    assert!(lacks("udp = true").is_some_and(|why| why.contains("flow `bulk`")));
    assert_eq!(lacks("ccid = 5"), None);
}

/// The sender's queue may have room for fewer packets than a backlogged source usually keeps in it.
#[test]
fn a_short_queue_does_not_keep_a_bulk_source_busy_for_ever() {
    let text = scenario("", "ccid = 5", BULK).replace("queue_packets = 100", "queue_packets = 1");
    let (_, stats) = run(&parse(&text), "c", "base");
    assert!(stats.metrics["rx_mbps"] > 8.0 && stats.metrics["lost_pct"] < 5.0, "{stats:?}");
}

/// TCP cuts records into segments and numbers the segments separately, so segment n is not record n.
#[test]
fn no_record_of_tcp_has_the_latency_of_another_ones_segment() {
    const PACED: &str = "[[flow]]\nname = \"f\"\nkind = \"udp\"\npayload = 700\nrate = \"8 Mbit/s\"\n";
    let video = PACED.replace(
        "rate = \"8 Mbit/s\"",
        "source = { kind = \"video\", frames_per_s = 30, ladder = [\"4 Mbit/s\", \"8 Mbit/s\"] }",
    );
    for flow in [PACED, video.as_str()] {
        let (record, stats) = run(&parse(&scenario("loss = \"1 %\"", "tcp = \"cubic\"", flow)), "c", "base");
        let dir = tempfile::tempdir().unwrap();
        mpdccp_lab::series::write_csv(&record, 10.0, dir.path()).unwrap();
        let csv = std::fs::read_to_string(dir.path().join("packets-f.csv")).unwrap();
        let wire = csv.lines().skip(1).map(|row| row.split(',').nth(5).unwrap());
        assert!(csv.lines().count() > 1_000 && wire.clone().all(str::is_empty), "{flow}");
        // Metrics use the packets on the link.
        assert!((50.0..80.0).contains(&stats.metrics["wire_p50_ms"]), "{}", stats.metrics["wire_p50_ms"]);
    }
}

/// The sender must not mistake delay on the return path for its own queue.
#[test]
fn a_loaded_return_path_does_not_slow_bbr() {
    let mbps = |ccid: u8| {
        let reverse = "reverse = { jitter = { by = \"100 ms\", memory = \"500 ms\" } }";
        let text = scenario(reverse, &format!("ccid = {ccid}"), BULK);
        let text =
            text.replace("rate = \"10 Mbit/s\"\nowd = \"50 ms\"", "rate = \"50 Mbit/s\"\nowd = \"10 ms\"");
        run(&parse(&text), "c", "base").1.metrics["rx_mbps"]
    };
    for ccid in [5, 250] {
        let loaded = mbps(ccid);
        println!("CCID {ccid}: {loaded:.1} Mbit/s");
        assert!(loaded > 30.0, "CCID {ccid}: {loaded}");
    }
}

/// The links tested have varying rates, or a return path that thins out, loses or delays acknowledgements.
#[test]
fn access_links_are_used_about_as_tcp_uses_them() {
    const FAST: &str = "rate = \"50 Mbit/s\"\nowd = \"20 ms\"\nqueue = \"1 BDP\"\n";
    let mbps = |link: &str, variant: &str| {
        let text = format!(
            "name = \"t\"\ntitle = \"t\"\nduration_s = 15\nmode = \"direct\"\n[[path]]\nname = \"link\"\n{link}\n\
             [[variant]]\nlabel = \"c\"\n{variant}\n{BULK}"
        );
        run(&parse(&text), "c", "base").1.metrics["rx_mbps"]
    };
    for (name, link, ccid, tcp, least) in [
        ("LTE", "model = \"lte\"\nqueue = \"75000 B\"".into(), 5, "bbr", 0.9),
        (
            "thinned Acks",
            format!(
                "{FAST}reverse = {{ thin_acks = \"100 B\", rate = \"500 kbit/s\", queue = \"50 packets\" }}"
            ),
            5,
            "bbr",
            0.95,
        ),
        (
            "bursts of lost Acks",
            format!("{FAST}reverse = {{ burst_loss = {{ begin = \"1 %\", end = \"10 %\" }} }}"),
            5,
            "bbr",
            0.75,
        ),
        (
            "slow return path",
            format!("{FAST}reverse = {{ rate = \"300 kbit/s\", queue = \"50 packets\" }}"),
            2,
            "reno",
            0.85,
        ),
    ] {
        let (ours, theirs) =
            (mbps(&link, &format!("ccid = {ccid}")), mbps(&link, &format!("tcp = \"{tcp}\"")));
        println!("{name}: CCID {ccid} {ours:.1}, {tcp} {theirs:.1} Mbit/s");
        assert!(ours > least * theirs, "{name}: {ours} {theirs}");
    }
}
