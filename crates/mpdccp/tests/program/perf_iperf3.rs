//! Tests iperf3 features that need both ends: files, server limits, the server's output, interfaces and
//! columns.

use crate::common::printed;
use crate::perf_ends::{Place, record};
use serde_json::Value;
use std::fs;

#[test]
fn a_file_arrives_in_either_direction() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let data: Vec<u8> = (0..100_001u32).map(|n| ((n * 7) >> 3) as u8).collect();
    fs::write(&from, &data).unwrap();
    let (source, store) = (format!("-F {}", from.display()), format!("-F {}", to.display()));
    for (server, client) in [(&store, format!("{source} -b 8M/4")), (&source, format!("{store} -R -b 8M"))] {
        let _ = fs::remove_file(&to);
        let [_, client] = Place::host().exchange(
            &format!("-s -B 127.0.0.1 -p 0 --queue 500 {server}"),
            &format!("-c 127.0.0.1:{{port}} --queue 500 {client}"),
        );
        assert!(fs::read(&to).unwrap() == data, "{client:?}");
        let summary = record(&client, "summary");
        let sent = summary["sent"]["bytes"].as_u64().or(summary["received"]["bytes"].as_u64());
        // Each message begins with a header of 16 bytes, which is sent in addition to the file.
        assert_eq!(sent, Some(100_001 + 100_001_u64.div_ceil(1184) * 16), "{summary}");
    }
}

/// The client's data fits into its buffer, so the write fails only after the server has closed the
/// connection.
#[test]
fn a_full_disk_at_the_end_is_an_error() {
    for (server, client) in [("", "-R -k 2"), ("--send -k 2", "--receive")] {
        let client = format!("-c 127.0.0.1:{{port}} -F /dev/full {client}");
        let output = Place::host().against_server(&format!("-s -B 127.0.0.1 -p 0 {server}"), &client);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(printed(&output).contains("cannot write the file of --file"), "{output:?}");
        assert!(printed(&output).contains(" received "), "the results are reported: {output:?}");
    }
}

#[test]
fn a_server_has_its_limits() {
    for (server, client, code, why) in [
        ("--server-max-duration 1", "-t 5", 2, "the server's limit is 1 s; give at most this time with -t"),
        ("--server-max-duration 1", "-t 0", 2, "the server's limit is 1 s; give at most this time with -t"),
        ("--server-max-duration 1", "-n 1G -b 1M", 1, "longer than the server's limit of 1 s"),
        (
            "--server-bitrate-limit 1M",
            "-b 2M",
            2,
            "the rate of the test is above the server's limit of 1.000 Mbit/s",
        ),
        (
            "--server-bitrate-limit 1M/0.5",
            "-t 60",
            1,
            "all connections together exceeded the server's limit of 1.000 Mbit/s",
        ),
        (
            "--server-bitrate-limit 1M/0.5",
            "-t 60 -R",
            1,
            "all connections together exceeded the server's limit of 1.000 Mbit/s",
        ),
    ] {
        let client = format!("-c 127.0.0.1:{{port}} {client}");
        let output = Place::host().against_server(&format!("-s -B 127.0.0.1 -p 0 {server}"), &client);
        assert!(output.status.code() == Some(code) && printed(&output).contains(why), "{server}: {output:?}");
    }
    // A test that exceeds no limit succeeds.
    let server = "-s -B 127.0.0.1 -p 0 --server-max-duration 2 --server-bitrate-limit 10M --idle-timeout 5";
    let output = Place::host().against_server(server, "-c 127.0.0.1:{port} -t 1 -b 1M");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn idle_connections_and_servers_end() {
    // This client never requests a test.
    let server = "-s -B 127.0.0.1 -p 0 --idle-timeout 0.5";
    let [server, client] = Place::host().both(server, "-c 127.0.0.1:{port} --receive");
    assert!(client.status.success(), "{client:?}");
    assert!(printed(&server).contains("it carried no data for 0.5 s"), "{server:?}");
    let alone = Place::host().run("-s -1 -B 127.0.0.1 -p 0 --idle-timeout 0.5");
    assert!(
        alone.status.code() == Some(1) && printed(&alone).contains("no client connected for 0.5 s"),
        "{alone:?}"
    );
}

#[test]
fn a_client_can_have_the_servers_output() {
    for direction in ["", "-R", "--bidir", "--echo"] {
        let client = format!("-c 127.0.0.1:{{port}} -k 50 -b 4M --queue 500 --get-server-output {direction}");
        let server = "-s -B 127.0.0.1 -p 0 -i 0.05 --queue 500";
        let output = Place::host().against_server(server, &client);
        let text = printed(&output);
        let (_, served) = text.split_once("output of the server:\n").unwrap_or_else(|| panic!("{text}"));
        let way = if direction == "-R" { "sent" } else { "received" };
        let lines = |part: &str| served.lines().filter(|line| line.contains(part)).count();
        // The output has a line for each interval and one for the total.
        assert!(
            lines("[ ID] ") == 1 && lines(way) >= 2 && lines("the test is over") == 1,
            "{direction}: {text}"
        );
        assert!(served.contains(" 0/50 (0.00 %)"), "{direction}: {text}");
    }
    let client = "-c 127.0.0.1:{port} -k 50 -b 4M --get-server-output -J";
    let output = Place::host().against_server("-s -B 127.0.0.1 -p 0", client);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(all["server_output_text"].as_str().unwrap().contains("received"), "{all}");
}

#[test]
fn an_interface_is_the_only_one() {
    let Some(place) = Place::namespace() else { return };
    place.command_output("ip", "link add out type veth peer name in");
    let ends = |server: &str, client: &str| {
        let client = format!("-c 127.0.0.1:{{port}} -k 5 --connect-timeout 300 {client}");
        place.against_server(&format!("-s -B 127.0.0.1 -p 0 {server}"), &client).status.code()
    };
    assert_eq!(ends("--bind-dev lo", "--bind-dev lo"), Some(0));
    assert_eq!(ends("--bind-dev out", ""), Some(2));
    assert_eq!(ends("", "--bind-dev out"), Some(2));
    // There is no route. If the device is given, the system expects the peer to be on this link.
    place.command_output("ip", "link set out up");
    for (device, why) in [("", "no route to 10.77.0.1"), ("--bind-dev out", "no answer from 10.77.0.1")] {
        let output = place.run(&format!("-c 10.77.0.1 {device} --connect-timeout 300"));
        assert!(printed(&output).contains(why), "{output:?}");
    }
}

#[test]
fn lines_have_one_layout() {
    let client = "-c 127.0.0.1:{port} -P 2 -t 1 -b 2M -i 0.3 --bidir -O 1";
    let output = Place::host().against_server("-s -B 127.0.0.1 -p 0", client);
    let text = String::from_utf8(output.stdout).unwrap();
    let head = text.lines().find(|line| line.starts_with("[ ID] ")).unwrap();
    let mut sums = 0;
    for line in text.lines().filter(|line| line.starts_with('[')) {
        assert!(line.len() <= 100, "{line}");
        if line.contains("bit/s") {
            assert_eq!(line.find("bit/s").unwrap() + 5, head.find("Rate").unwrap() + 4, "{text}");
            sums += usize::from(line.starts_with("[SUM] "));
        }
    }
    // For each of the two directions, there is a sum in at least two intervals and in the total.
    assert!(sums >= 6 && text.contains("(omitted)") && text.contains(" arrived "), "{text}");
    assert_eq!(text.matches("[ ID]").count(), 1, "{text}");
}
