//! Tests policy rules, FEC packets and the order of flows through the tunnel, between two network namespaces.

use crate::common::stream::Stream;
use crate::common::{Bed, SERVER, able, bed, run, wait_for};

/// The client's rule for the stream. It initially says `paths = "two"`.
const RULE: &str = r#"
            [[policy_rule]]
            name = "stream"
            dscp = 0
            protocol = "udp"
            ports = 7000
            paths = "two"
            otherwise = "wait"
"#;

/// Changes an end's configuration and reloads it.
fn reload(bed: &Bed, end: &str, from: &str, to: &str) {
    bed.edit(end, from, to);
    bed.reload(end);
}

/// Returns how many packets an end has sent on each path. Path two uses IPv6.
fn sent(bed: &Bed, end: &str) -> [u64; 2] {
    let status = bed.status(end);
    let paths = status["peers"][0]["paths"].as_array().unwrap();
    [false, true].map(|ipv6| {
        let path = paths.iter().find(|path| path["remote"].as_str().unwrap().contains('[') == ipv6).unwrap();
        path["sent_packets"].as_u64().unwrap()
    })
}

/// Returns how many packets an end sends on each path while `act` runs.
fn meanwhile(bed: &Bed, end: &str, act: impl FnOnce()) -> [u64; 2] {
    let before = sent(bed, end);
    act();
    let after = sent(bed, end);
    [0, 1].map(|i| after[i] - before[i])
}

fn counter(bed: &Bed, end: &str, pointer: &str) -> u64 {
    let status = bed.status(end);
    let counter = status["peers"][0].pointer(pointer).and_then(serde_json::Value::as_u64);
    counter.unwrap_or_else(|| panic!("no {pointer} in {status}"))
}

/// Each end has rules for the packets that it sends. The rules change while datagrams are flowing. A datagram
/// is lost only if a rule drops it.
#[test]
fn rules_are_reloaded_while_datagrams_run() {
    let Some(mut bed) = bed() else { return };
    bed.up_with("", RULE);
    let stream = Stream::start(&bed);
    stream.more(100);
    // A few of these packets are acknowledgements and probes.
    let [one, two] = meanwhile(&bed, "c", || stream.more(300));
    assert!(one < 100 && two > 250, "over path two: {one} {two}");
    reload(&bed, "c", "paths = \"two\"", "paths = \"one\"");
    let [one, two] = meanwhile(&bed, "c", || stream.more(300));
    assert!(one > 250 && two < 100, "over path one: {one} {two}");
    reload(&bed, "c", "paths = \"one\"", "scheduler = \"redundant\"");
    let [one, two] = meanwhile(&bed, "c", || stream.more(300));
    assert!(one > 250 && two > 250, "over both: {one} {two}");
    assert_eq!(counter(&bed, "c", "/policy_rules/stream/dropped"), 0);
    reload(&bed, "c", "scheduler = \"redundant\"", "max_rtt_ms = 5000");
    stream.more(100);
    let (sent, received) = stream.finish();
    assert!(received <= sent && sent - received < 50, "{received} of {sent}, each once");

    let other = "[[policy_rule]]\nname = \"pings\"\nprotocol = \"icmp\"\npaths = \"two\"\n[[peer]]";
    reload(&bed, "s", "[[peer]]", other);
    let ping = format!("ping -c 50 -i 0.01 {}", SERVER[0]);
    let [one, two] = meanwhile(&bed, "s", || {
        let output = bed.at_client(&ping);
        assert!(output.status.success(), "{output:?}");
    });
    assert!(
        one < 25 && two >= 50,
        "the server sends over path two, whose name comes from the client: {one} {two}"
    );
    assert!(counter(&bed, "s", "/policy_rules/pings/packets") >= 50);
    reload(&bed, "s", "paths = \"two\"", "drop = true");
    assert!(!bed.at_client(&ping).status.success());
    assert!(counter(&bed, "s", "/policy_rules/pings/dropped") >= 50);
    bed.down();
}

/// The network drops every tenth packet on path one. The receiver restores these packets from FEC packets.
#[test]
fn fec_packets_pass_the_tunnel() {
    let Some(mut bed) = bed() else { return };
    if !able(&["nft"]) {
        return;
    }
    // Nothing is retransmitted, so if a packet arrives although the network has dropped it, it was restored
    // from FEC packets.
    bed.up_with("repair = false", &RULE.replace("paths = \"two\"", "scheduler = \"rr\"\nfec = 4"));
    assert_eq!(bed.status("c")["mtu"], 1500 - 40 - 8 - 32 - 16 - 12 - 4, "the flow option takes four bytes");
    for rule in ["add table ip t", "add chain ip t in { type filter hook input priority 0; }"] {
        let output = run("ip", &format!("netns exec {} nft {rule}", bed.space[1]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let lose = "nft add rule ip t in iifname p0 udp length > 500 numgen inc mod 10 0 drop";
    let output = run("ip", &format!("netns exec {} {lose}", bed.space[1]));
    if !output.status.success() {
        return crate::common::skipped(String::from_utf8_lossy(&output.stderr));
    }
    let stream = Stream::start(&bed);
    wait_for("lost packets are restored", || counter(&bed, "s", "/fec/restored") >= 20);
    stream.finish();
    assert!(counter(&bed, "c", "/fec/sent") >= counter(&bed, "s", "/fec/received"));
    bed.down();
}
