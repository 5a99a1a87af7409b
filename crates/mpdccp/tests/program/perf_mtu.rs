//! Tests `mpdccp perf` over a network that drops large packets without an ICMP error.

use crate::perf_ends::{Place, record};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::process::Output;

/// Size of the largest IP packet that the network carries.
const CARRIES: usize = 1300;
/// Size of the IPv4 and UDP headers.
const OVERHEAD: usize = 28;

/// Forwards packets that the network carries. The thread runs until the test process ends.
fn carry(from: UdpSocket, mut pass: impl FnMut(&[u8], SocketAddr) + Send + 'static) {
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        loop {
            // Once the server has ended, its host refuses packets, which shows up as an error here.
            match from.recv_from(&mut buffer) {
                Ok((len, sender)) if len + OVERHEAD <= CARRIES => pass(&buffer[..len], sender),
                _ => {}
            }
        }
    });
}

/// Forwards packets between the server and the clients that connect to a port. Returns the port.
fn narrow(server: &str) -> u16 {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (server, port) = (format!("127.0.0.1:{server}"), front.local_addr().unwrap().port());
    let (down, mut clients) = (front.try_clone().unwrap(), BTreeMap::new());
    carry(front, move |packet, client| {
        let back = clients.entry(client).or_insert_with(|| {
            let (back, down) = (UdpSocket::bind("127.0.0.1:0").unwrap(), down.try_clone().unwrap());
            back.connect(&server).unwrap();
            carry(back.try_clone().unwrap(), move |packet, _| drop(down.send_to(packet, client)));
            back
        });
        let _ = back.send(packet);
    });
    port
}

/// Runs a client over the network.
fn run(args: &str) -> (Vec<Value>, Output) {
    let place = Place::host();
    let mut server = place.serve("--json-stream -s -B 127.0.0.1 -p 0");
    let output = place.run(&format!("--json-stream -c 127.0.0.1:{} {args}", narrow(&server.port)));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), output)
}

#[test]
fn messages_wait_for_the_size_that_the_path_carries() {
    // This size is larger than the size that a path falls back to after an MTU black hole.
    let (records, output) = run("--messages 20 --size 1200");
    assert!(output.status.success(), "{output:?}");
    let summary = record(&records, "summary");
    assert_eq!(summary["peer_received"]["messages"], 20, "{summary}");
    let mtu = |record: &Value| record["path_mtu"].as_u64().unwrap();
    let found = mtu(&summary["sent"]["paths"][0]);
    assert!(found > 1200 && found <= 1300, "{summary}");
    assert!(records.iter().any(|record| record["type"] == "path_mtu" && mtu(record) == found));
}

#[test]
fn the_time_of_a_test_begins_when_its_messages_can_leave() {
    // The search for the path MTU takes longer than the test.
    for args in ["--rate 1M -t 0.5", "-t 0.5", "-R --rate 1M -t 0.5"] {
        let (records, output) = run(args);
        assert!(output.status.success(), "{args}: {output:?}");
        let summary = record(&records, "summary");
        let arrived =
            [&summary["received"], &summary["peer_received"]].map(|count| count["messages"].as_u64());
        let arrived = arrived.into_iter().flatten().max();
        assert!(arrived > Some(0), "{args}: {summary}");
        assert!(summary["sent"]["dropped"].as_u64().unwrap_or(0) == 0, "{args}: {summary}");
    }
}

#[test]
fn a_receivers_first_interval_begins_with_the_first_message() {
    for args in ["-R --rate 1M -t 0.5", "-R -P 2 --rate 1M -t 0.5"] {
        // The search for the path MTU takes longer than several intervals.
        let (records, output) = run(&format!("{args} -i 0.1"));
        let first = records.iter().find(|record| record["type"] == "interval");
        let first = first.unwrap_or_else(|| panic!("{output:?}"));
        assert!(first["from_s"] == 0.0 && first["received"]["messages"].as_u64() > Some(0), "{records:?}");
        assert!(first["to_s"].as_f64() >= Some(0.1), "{records:?}");
        let sum = records.iter().find(|record| record["type"] == "sum");
        assert!(sum.is_none_or(|sum| sum["received_mbps"].as_f64() > Some(0.0)), "{records:?}");
    }
}

#[test]
fn messages_that_no_path_carries_end_the_test_with_their_largest_size() {
    for direction in ["", "-R"] {
        let (_, output) = run(&format!("{direction} --size 1400"));
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            complaint.contains("--size 1400: too large; the path carries messages of at most"),
            "{output:?}"
        );
        assert_ne!(output.status.code(), Some(0), "{complaint}");
    }
}
