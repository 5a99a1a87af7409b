//! `mpdccp perf` end to end: everything that was sent arrives and is counted, over both carriers, in both directions.
#![cfg(target_os = "linux")]

mod perf_ends;

use perf_ends::{Place, record};
use serde_json::Value;

/// Asserts that `n` messages of `size` bytes went from one end to the other, and that both say so.
fn all_arrived(sender: &[Value], receiver: &[Value], n: u64, size: u64) {
    let (sent, received) = (record(sender, "summary"), record(receiver, "summary"));
    assert_eq!(sent["sent"]["messages"], n, "{sent}");
    assert_eq!(sent["sent"]["dropped"], 0, "{sent}");
    assert_eq!(sent["end"], "closed");
    assert_eq!(received["received"]["messages"], n, "{received}");
    assert_eq!(received["received"]["bytes"], n * size, "{received}");
    assert_eq!(received["received"]["lost"], 0, "{received}");
    assert_eq!(received["end"], "closed by the peer");
    // Both ends run on one clock.
    assert!(received["received"]["latency_ms"]["p50"].as_f64().unwrap() > 0.0, "{received}");
}

#[test]
fn client_sends_over_udp() {
    let [server, client] = Place::host().exchange(
        "--listen 127.0.0.1:0 --ccid 2",
        "--connect 127.0.0.1:{port} --ccid 2 --messages 500 --size 1000",
    );
    all_arrived(&client, &server, 500, 1000);
    let open = record(&client, "open");
    assert_eq!((&open["multipath"], &open["tx_ccid"]), (&Value::Bool(false), &Value::from(2)));
}

#[test]
fn client_receives_over_udp() {
    let [server, client] = Place::host().exchange(
        "--listen 127.0.0.1:0 --send --messages 300 --size 700 --variant draft",
        "--connect 127.0.0.1:{port} --receive",
    );
    all_arrived(&server, &client, 300, 700);
    assert_eq!(record(&server, "open")["tx_ccid"], 5);
}

#[test]
fn a_constant_rate_over_two_paths() {
    let [server, client] = Place::host().exchange(
        "--listen 127.0.0.1:0 --reorder 200",
        "--connect 127.0.0.1:{port} --path 127.0.0.2 --path 127.0.0.3,4 --scheduler rr --queue 500
         --rate 4M --messages 1500 --size 500 --interval 0.5",
    );
    // 1,000 messages a second for 1.5 s.
    all_arrived(&client, &server, 1500, 500);
    assert_eq!(record(&client, "open")["multipath"], true);
    let summary = record(&client, "summary");
    for path in summary["sent"]["paths"].as_array().unwrap() {
        assert!(path["packets"].as_u64().unwrap() > 300, "{summary}");
    }
    assert!(client.iter().filter(|record| record["type"] == "interval").count() >= 2);
    assert_eq!(record(&server, "summary")["received"]["reordered"], 0);
}

#[test]
fn ipv6_over_udp() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        return perf_ends::skipped("ipv6_over_udp", "no IPv6 here");
    }
    let [server, client] =
        Place::host().exchange("--listen [::1]:0", "--connect [::1]:{port} --messages 50 --size 1424");
    all_arrived(&client, &server, 50, 1424);
}

#[test]
fn both_directions_over_raw() {
    let Some(place) = Place::namespace("raw") else { return };
    let [server, client] = place.exchange(
        "--carrier raw --listen 127.0.0.1:5003 --ccid 2 --receive",
        "--carrier raw --connect 127.0.0.1:5003 --ccid 2 --messages 500 --size 1000",
    );
    all_arrived(&client, &server, 500, 1000);
    let [server, client] = place.exchange(
        "--carrier raw --listen 127.0.0.1:5004 --send --messages 500 --size 1000",
        "--carrier raw --connect 127.0.0.1:5004 --path 127.0.0.2 --receive",
    );
    all_arrived(&server, &client, 500, 1000);
}

#[test]
fn mistakes_get_one_line_and_exit_code_2() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    for (args, words) in [
        (format!("server --listen {taken}"), "in use"),
        ("server --listen 203.0.113.7".into(), "no address 203.0.113.7"),
        ("server --listen localhost".into(), "expected an IP address"),
        ("server --listen 127.0.0.1 --rate 1M".into(), "--rate is for the end that sends"),
        ("client --connect 127.0.0.1 --size 1500".into(), "packets of 1500 bytes carry"),
        ("client --connect 127.0.0.1 --path ::1".into(), "IP version"),
        ("client --connect 127.0.0.1 --size 3".into(), "at least 4 bytes"),
        ("client --connect 127.0.0.1 --ccid 1".into(), "expected one of: 2, "),
        ("client --connect 127.0.0.1 --rate fast".into(), "500k"),
        ("server --listen 127.0.0.1:0 --pcap /nowhere/x".into(), "/nowhere/x"),
    ] {
        let output = Place::host().run(&args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {complaint}");
        assert!(complaint.lines().next().unwrap().contains(words), "{args}: {complaint}");
    }
}

#[test]
fn a_wrong_dccp_port_is_refused() {
    let place = Place::host();
    let args = "client --connect 127.0.0.1:{port} --dccp-port 1 --messages 1";
    let refused = place.against_server("--listen 127.0.0.1:0", args);
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("no connection to") && complaint.contains("ConnectionRefused"), "{complaint}");
}
