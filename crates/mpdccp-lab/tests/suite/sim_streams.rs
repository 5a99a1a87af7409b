//! Tests of TCP carried as streams by the simulated tunnel. The flow table, the proxy logic and the stream
//! layer are the program's own code; models replace the kernel's sockets.

use crate::sim_common::{parse, run};
use mpdccp_lab::RunRecord;
use mpdccp_lab::scenario::Scenario;

/// Returns a scenario with two paths and a TCP flow, which one variant carries as packets and the other as
/// streams.
fn text(flow: &str, path: &str, more: &str) -> String {
    let path = |name: &str| {
        format!(
            "[[path]]\nname = \"{name}\"\nrate = \"10 Mbit/s\"\nowd = \"10 ms\"\nqueue = \"50 packets\"\n{path}\n"
        )
    };
    format!(
        "name = \"x\"\ntitle = \"x\"\nduration_s = 6\n{}{}\
         [[variant]]\nlabel = \"packets\"\n[[variant]]\nlabel = \"streams\"\ntunnel = {{ tcp = \"streams\" }}\n\
         [[flow]]\nname = \"tcp\"\n{flow}\n{more}",
        path("a"),
        path("b")
    )
}

const BULK: &str = "kind = \"tcp\"\ncc = \"cubic\"";

/// Returns how many inner packets from the client crossed the paths.
fn inner_packets(record: &RunRecord) -> usize {
    record.paths.iter().flat_map(|path| &path.forward.packets).filter(|p| p.data.is_some()).count()
}

fn last_arrival_s(record: &RunRecord) -> f64 {
    let at = record.flows[0].received.iter().map(|p| p.at).max().unwrap();
    at.as_secs_f64() - record.start.as_secs_f64()
}

#[test]
fn losses_on_the_paths_do_not_reach_the_hosts_tcp() {
    let scenario = parse(&text(BULK, "loss = \"1 %\"", ""));
    let [packets, streams] = ["packets", "streams"].map(|label| run(&scenario, label, "base"));
    let retransmits = |record: &RunRecord| record.flows[0].tcp.unwrap().retransmits;
    assert!(retransmits(&packets.0) > 0 && inner_packets(&packets.0) > 1_000);
    assert_eq!((retransmits(&streams.0), inner_packets(&streams.0)), (0, 0));
    let [slow, fast] = [&packets, &streams].map(|(_, stats)| stats.metrics["goodput_mbps"]);
    assert!(fast > 16.0 && fast > slow, "{slow} {fast}");
    assert_eq!([&packets, &streams].map(|(_, stats)| stats.flows[0].streams), [Some(0), Some(1)]);
}

#[test]
fn all_data_arrives_once_and_in_order() {
    let (record, _) = run(&parse(&text(BULK, "loss = \"2 %\"", "stop_s = 3\n")), "streams", "base");
    let flow = &record.flows[0];
    let arrived: Vec<u64> = flow.received.iter().map(|p| p.seq).collect();
    assert!(arrived.iter().copied().eq(0..flow.sent.len() as u64), "{} {}", arrived.len(), flow.sent.len());
    let bytes: u64 = flow.received.iter().map(|p| u64::from(p.bytes) - 52).sum();
    assert!(bytes >= flow.stream_bytes.unwrap() && bytes > 5_000_000, "{bytes}");
}

#[test]
fn a_host_sends_no_faster_than_the_other_end_receives() {
    let slow = BULK.to_owned() + "\nstop_s = 6";
    let text = text(&slow, "", "").replace("10 Mbit/s", "500 kbit/s");
    let (record, _) = run(&parse(&text), "streams", "base");
    let flow = &record.flows[0];
    // The limit is the sum of the windows of the host's kernel, the proxy and the stream.
    let waiting = (flow.sent.len() - flow.received.len()) * 1_400;
    assert!(waiting < 1 << 20, "{waiting}");
    assert!(flow.received.len() * 1_400 > 500_000, "{}", flow.received.len());
}

#[test]
fn short_connections_are_streams_of_their_own() {
    let short = "kind = \"short\"\ncc = \"cubic\"\nsizes = [\"20 kB\"]\nevery = \"100 ms\"";
    let (record, stats) = run(&parse(&text(short, "loss = \"1 %\"", "")), "streams", "base");
    let flow = &record.flows[0];
    assert_eq!(inner_packets(&record), 0);
    // The last connection may be incomplete.
    assert!(flow.sent.len() > 50, "{}", flow.sent.len());
    assert!(flow.received.len() + 1 >= flow.sent.len(), "{} {}", flow.received.len(), flow.sent.len());
    assert!(stats.flows[0].streams.unwrap() >= flow.received.len() as u64);
}

#[test]
fn a_connection_ends_with_the_end_that_carried_it() {
    for end in ["client", "server"] {
        let event = format!("[[event]]\nat_s = 2\nkill = \"{end}\"\naway = \"500 ms\"\n");
        let scenario = parse(&text(BULK, "", &event));
        let [packets, streams] = ["packets", "streams"].map(|label| run(&scenario, label, "base").0);
        assert!(last_arrival_s(&packets) > 5.9, "{end}");
        let last = last_arrival_s(&streams);
        assert!(last > 1.9 && last < 2.5, "{end} {last}");
    }
}

#[test]
fn connections_that_begin_after_a_restart_are_streams_of_the_new_program() {
    let short = "kind = \"short\"\ncc = \"cubic\"\nsizes = [\"20 kB\"]\nevery = \"100 ms\"";
    for end in ["client", "server"] {
        let event = format!("[[event]]\nat_s = 2\nkill = \"{end}\"\naway = \"100 ms\"\n");
        let (record, _) = run(&parse(&text(short, "", &event)), "streams", "base");
        let flow = &record.flows[0];
        let after = record.start + core::time::Duration::from_secs(5);
        let late: Vec<u64> = (0..).zip(&flow.sent).filter(|(_, p)| p.at >= after).map(|(n, _)| n).collect();
        let arrived = late.iter().filter(|seq| flow.received.iter().any(|p| p.seq == **seq));
        assert!(late.len() > 5 && arrived.count() == late.len(), "{end}");
    }
}

#[test]
fn flows_other_than_tcp_travel_as_packets() {
    let quic = BULK.to_owned() + "\nloss_detection = \"three\"";
    let (record, stats) = run(&parse(&text(&quic, "", "")), "streams", "base");
    assert!(inner_packets(&record) > 1_000);
    assert_eq!(stats.flows[0].streams, Some(0));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let scenario = parse(&text(BULK, "loss = \"1 %\"", ""));
    let [a, b] = [0, 1].map(|_| run(&scenario, "streams", "base").0);
    assert_eq!(a.paths[1].forward.packets, b.paths[1].forward.packets);
    assert_eq!(a.flows[0].received.len(), b.flows[0].received.len());
}

#[test]
fn streams_where_they_cannot_be_are_refused_with_a_line() {
    let valid = text(BULK, "", "");
    let reload = valid.clone() + "[[event]]\nat_s = 1\nreload = { tunnel = { tcp = \"packets\" } }\n";
    let direct = "name = \"x\"\ntitle = \"x\"\nduration_s = 6\nmode = \"direct\"\n\
         [[path]]\nname = \"a\"\nrate = \"10 Mbit/s\"\nowd = \"10 ms\"\nqueue = \"50 packets\"\n\
         [[variant]]\nlabel = \"x\"\nccid = 5\ntunnel = { tcp = \"streams\" }\n\
         [[flow]]\nname = \"udp\"\nkind = \"udp\"\nrate = \"1 Mbit/s\"\npayload = 1000\n";
    for (text, why) in [
        (valid.replace("\"streams\" }", "\"stream\" }"), "expected \"streams\" or \"packets\""),
        (reload, "`tcp` cannot change while the tunnel runs"),
        (direct.to_owned(), "`tcp` needs mode = \"tunnel\""),
    ] {
        let error = Scenario::parse("t.toml", &text).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.line.is_some(), "{error}");
    }
}
