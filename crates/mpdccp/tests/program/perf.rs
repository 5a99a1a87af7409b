//! Tests `mpdccp perf` with both ends. Everything that is sent must arrive and be counted, with either
//! encapsulation and in both directions.

use crate::perf_ends::{Place, record};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::Duration;

/// Asserts that `n` messages of `size` bytes went from the sender to the receiver, and that both ends report
/// this.
fn all_arrived(sender: &[Value], receiver: &[Value], n: u64, size: u64) {
    let (sent, received) = (record(sender, "summary"), record(receiver, "summary"));
    assert_eq!(sent["sent"]["messages"], n, "{sent}");
    assert_eq!(sent["sent"]["dropped"], 0, "{sent}");
    assert_eq!(sent["end"], "closed");
    assert_eq!(received["received"]["messages"], n, "{received}");
    assert_eq!(received["received"]["bytes"], n * size, "{received}");
    assert_eq!(received["received"]["lost"], 0, "{received}");
    assert_eq!(received["end"], "closed by the peer");
    // Both ends use the same clock, so the latency is known.
    assert!(received["received"]["latency_ms"]["p50"].as_f64().unwrap() > 0.0, "{received}");
}

#[test]
fn client_sends_over_udp() {
    let [server, client] = Place::host()
        .exchange("-s -B 127.0.0.1 -p 0 --ccid 2", "-c 127.0.0.1:{port} --ccid 2 --messages 500 --size 1000");
    all_arrived(&client, &server, 500, 1000);
    let open = record(&client, "open");
    assert_eq!((&open["multipath"], &open["tx_ccid"]), (&Value::Bool(false), &Value::from(2)));
}

#[test]
fn client_receives_over_udp() {
    let [server, client] = Place::host().exchange(
        "-s -B 127.0.0.1 -p 0 --send --messages 300 --size 700 --variant draft",
        "-c 127.0.0.1:{port} --receive",
    );
    all_arrived(&server, &client, 300, 700);
    assert_eq!(record(&server, "open")["tx_ccid"], 5);
}

#[test]
fn a_constant_rate_over_two_paths() {
    let [server, client] = Place::host().exchange(
        "-s -B 127.0.0.1 -p 0 --reordering active-fixed,200",
        "-c 127.0.0.1:{port} --path 127.0.0.2 --path 127.0.0.3,4 --scheduler rr --queue 500
         --rate 4M --messages 1500 --size 500 --interval 0.5",
    );
    // 1,000 messages per second for 1.5 s.
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
        return crate::common::skipped("no IPv6 here");
    }
    let [server, client] =
        Place::host().exchange("-s -B ::1 -p 0 -6", "-c [::1]:{port} -6 --messages 50 --size 1424");
    all_arrived(&client, &server, 50, 1424);
}

#[test]
fn both_directions_over_raw() {
    let Some(place) = Place::namespace() else { return };
    let [server, client] = place.exchange(
        "--encapsulation raw -s -B 127.0.0.1 -p 5003 --ccid 2 --receive",
        "--encapsulation raw -c 127.0.0.1:5003 --ccid 2 --messages 500 --size 1000",
    );
    all_arrived(&client, &server, 500, 1000);
    let [server, client] = place.exchange(
        "--encapsulation raw -s -B 127.0.0.1 -p 5004 --send --messages 500 --size 1000",
        "--encapsulation raw -c 127.0.0.1:5004 -B 127.0.0.2 --receive",
    );
    all_arrived(&server, &client, 500, 1000);
    let [server, client] = place.exchange(
        "--encapsulation raw -s -B 127.0.0.1 -p 5005 --coverage 1 --receive",
        "--encapsulation raw -c 127.0.0.1:5005 --coverage 1 --messages 500 --size 1000",
    );
    all_arrived(&client, &server, 500, 1000);
}

#[test]
fn mistakes_get_one_line_and_exit_code_2() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let mut wrong = Vec::new();
    for (args, words) in [
        (format!("-s -B {} -p {}", taken.ip(), taken.port()), "in use"),
        ("-s -B 203.0.113.7".into(), "no address 203.0.113.7"),
        ("-c 127.0.0.1:http".into(), "expected a host or an IP address"),
        ("-c 127.0.0.1 --reverse --send".into(), "cannot be combined with --send"),
        ("-s -B 127.0.0.1 --rate 1M".into(), "--rate is only for a sender"),
        ("-c 127.0.0.1 --size 1500".into(), "a packet of 1500 bytes carries"),
        ("-c 127.0.0.1 --path ::1".into(), "IP version"),
        ("-c 127.0.0.1 --size 3".into(), "at least 4 bytes"),
        ("-c 224.0.0.1".into(), "not the address of a host"),
        ("-c 0.0.0.0".into(), "not the address of a host"),
        ("-c 127.0.0.1:0".into(), "a port from 1 to 65535"),
        ("-c 127.0.0.1 --path 127.0.0.1@224.0.0.1".into(), "not a unicast address"),
        ("-c 127.0.0.1 -6".into(), "remove -6"),
        ("-s -B ::1 -4".into(), "remove -4"),
        ("-s --qlog /nowhere/x".into(), "/nowhere/x"),
        ("-c 127.0.0.1 --coverage 1".into(), "--coverage needs --encapsulation raw"),
        ("-c 127.0.0.1 --ccid 1".into(), "expected one of: 2, "),
        ("-c 127.0.0.1 --rate fast".into(), "500k"),
        ("-s -B 127.0.0.1 -p 0 --pcap /nowhere/x".into(), "/nowhere/x"),
        ("-s --private-key-file /nowhere/key".into(), "--private-key-file: cannot read /nowhere/key"),
        ("-c 127.0.0.1 --public-key AAAA".into(), "the base64 decodes to 3 bytes; a key has 32 bytes"),
        ("-c 127.0.0.1 --omit 1 --send".into(), "cannot be combined with --send"),
        ("-c 127.0.0.1 --echo --receive".into(), "cannot be combined with --send"),
        ("-c 127.0.0.1 --receive --time 1".into(), "--time is only for a sender"),
        ("-c 127.0.0.1 --receive --messages 1".into(), "--messages is only for a sender"),
        ("-s -B 127.0.0.1 --bytes 1K".into(), "--bytes is only for a sender"),
        ("-c 127.0.0.1 --reordering adaptive,60001".into(), "0 to 60000 ms"),
        ("-c 127.0.0.1 -t 1000001".into(), "expected seconds"),
        ("-c 127.0.0.1 -t=-1".into(), "expected seconds"),
        ("-c 127.0.0.1 --path 127.0.0.1,16".into(), "expected 0 to 15"),
    ] {
        let output = Place::host().run(&args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        let first = complaint.lines().next().unwrap_or_default();
        if output.status.code() != Some(2) || !first.contains(words) {
            wrong.push(format!("{args}: {:?}: {complaint}", output.status.code()));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_server_keeps_connections_for_other_clients() {
    let place = Place::host();
    let server = place.serve("--json-stream -s -B 127.0.0.1 -p 0");
    let client = format!("-c 127.0.0.1:{} -P 64", server.port);
    let mut first = place.start(&format!("{client} --json-stream -t 60 -b 8k"));
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines().map_while(Result::ok);
    let opened = lines.by_ref().filter(|line| line.contains(r#""type":"open""#)).take(64);
    assert_eq!(opened.count(), 64);
    // A client may have a quarter of the free sessions. It reaches this limit at 102 sessions, because 410 of
    // the 512 are then free.
    let second = place.run(&format!("{client} -k 1"));
    for mut child in [first, server.child] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let complaint = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("too many sessions from this client's address"), "{complaint}");
}

#[test]
fn a_client_hears_what_the_server_received() {
    let [server, client] =
        Place::host().exchange("-s -B 127.0.0.1 -p 0", "-c localhost:{port} --messages 200 --size 500");
    all_arrived(&client, &server, 200, 500);
    for end in [&client, &server] {
        let summary = record(end, "summary");
        assert!(summary["peer_cpu"]["total"].is_f64(), "{summary}");
    }
    let heard = &record(&client, "summary")["peer_received"];
    assert_eq!((&heard["messages"], &heard["lost"]), (&Value::from(200), &Value::from(0)), "{heard}");
    assert!(heard["jitter_ms"].as_f64().is_some() && heard["mbps"].as_f64().unwrap() > 0.0, "{heard}");
}

#[test]
fn the_server_sends_when_it_is_asked_to() {
    let [server, client] =
        Place::host().exchange("-s -B 127.0.0.1 -p 0", "-c 127.0.0.1:{port} -R -n 210000 -l 700");
    all_arrived(&server, &client, 300, 700);
    assert_eq!(record(&server, "summary")["peer_received"]["messages"], 300);
}

/// A server reports at its interval, counted from the first of the sessions that are open.
#[test]
fn a_later_client_has_no_empty_intervals() {
    let place = Place::host();
    let mut server = place.serve("--json-stream -s -B 127.0.0.1 -p 0 -i 0.5");
    let client = format!("-c 127.0.0.1:{} -k 1", server.port);
    for _ in 0..2 {
        let output = place.run(&client);
        assert!(output.status.success(), "{output:?}");
        // Without a session, the server's next report becomes overdue.
        std::thread::sleep(Duration::from_millis(600));
    }
    let records = server.stop();
    assert_eq!(records.iter().filter(|record| record["type"] == "summary").count(), 2, "{records:?}");
    let span = |record: &Value| record["to_s"].as_f64().unwrap() - record["from_s"].as_f64().unwrap();
    let short = |record: &&Value| record["type"] == "interval" && span(record) < 0.1;
    assert_eq!(records.iter().find(short), None, "{records:?}");
}

#[test]
fn both_send() {
    let [server, client] = Place::host().exchange(
        "-s -B 127.0.0.1 -p 0 --queue 500",
        "-c 127.0.0.1:{port} --bidir -k 300 -l 700 -b 8M --queue 500",
    );
    for end in [server, client] {
        let summary = record(&end, "summary");
        for what in ["sent", "received", "peer_received"] {
            assert_eq!(summary[what]["messages"], 300, "{what}: {summary}");
        }
    }
}

#[test]
fn echoes_come_back() {
    let [server, client] = Place::host().exchange(
        "-s -B 127.0.0.1 -p 0 --queue 500",
        "-c 127.0.0.1:{port} --echo -b 1M -k 100 -l 250 --queue 500",
    );
    assert_eq!(record(&server, "summary")["received"]["messages"], 100);
    let summary = record(&client, "summary");
    assert_eq!(summary["received"]["messages"], 100, "{summary}");
    let received = &summary["received"];
    let ms = |pointer: &str| received.pointer(pointer).and_then(Value::as_f64).unwrap();
    let (p50, max) = (ms("/latency_ms/p50"), ms("/latency_ms/max"));
    assert!(p50 > 0.0, "{summary}");
    assert!((ms("/one_way_ms/estimate/p50") - p50 / 2.0).abs() < 1e-9, "{summary}");
    for way in ["forward", "reverse"] {
        let (mean, most) = (ms(&format!("/one_way_ms/{way}/mean")), ms(&format!("/one_way_ms/{way}/max")));
        // The delay variation of neither direction exceeds the round-trip time. The percentiles are rounded
        // to three digits.
        assert!(0.0 <= mean && mean <= most && most <= max * 1.01, "{way}: {summary}");
    }
    // The messages that the server receives are not echoes, so it reports no one-way latency.
    assert_eq!(record(&server, "summary")["received"]["one_way_ms"], Value::Null);
}

#[test]
fn the_beginning_can_be_left_out() {
    // 1,000 messages per second during the omitted 0.5 s and the measured 1 s.
    let [server, client] = Place::host()
        .exchange("-s -B 127.0.0.1 -p 0", "-c 127.0.0.1:{port} -O 0.5 -t 1 -b 4M -l 500 --queue 500 -i 0.1");
    let (sent, received) = (record(&client, "summary"), record(&server, "summary"));
    assert!(received["received"]["messages"].as_u64().unwrap() < 1_400, "{received}");
    assert!(sent["sent"]["messages"].as_u64().unwrap() < 1_400, "{sent}");
    // The interval reports include the omitted messages.
    let intervals = client.iter().filter(|record| record["type"] == "interval");
    let all: u64 = intervals.clone().map(|interval| interval["sent"]["messages"].as_u64().unwrap()).sum();
    assert!(all > sent["sent"]["messages"].as_u64().unwrap(), "{client:?}");
    assert!([true, false].into_iter().all(|omitted| intervals.clone().any(|one| one["omitted"] == omitted)));
    assert_eq!(received["received"]["lost"], 0, "{received}");
}

#[test]
fn several_connections_with_the_flags_of_iperf3() {
    let place = Place::host();
    let output = place.against_server(
        "-s -B 127.0.0.1 -p 0",
        "-c 127.0.0.1 -p {port} -B 127.0.0.2 -P 3 -k 50 --json-stream",
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summaries: Vec<_> = records.iter().filter(|record| record["type"] == "summary").collect();
    assert_eq!(summaries.len(), 3, "{text}");
    assert!(summaries.iter().all(|summary| summary["peer_received"]["messages"] == 50), "{text}");
    let sum = records.last().unwrap();
    assert!(sum["type"] == "sum" && sum["sent_mbps"].as_f64().unwrap() > 0.0, "{text}");
}

#[test]
fn one_json_document_has_the_fields_of_iperf3() {
    let client = "-c 127.0.0.1 -p {port} -P 2 -R -t 1.2 -i 0.5 -b 2M -J --title here";
    let output = Place::host().against_server("-s -B 127.0.0.1 -p 0", client);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (start, end) = (&all["start"], &all["end"]);
    assert_eq!(
        (&start["test_start"]["num_streams"], &start["test_start"]["reverse"]),
        (&2.into(), &1.into()),
        "{all}"
    );
    assert_eq!((start["connected"].as_array().unwrap().len(), &all["title"]), (2, &"here".into()), "{all}");
    for name in ["local_host", "remote_host"] {
        assert_eq!(start["connected"][0][name], "127.0.0.1");
    }
    assert!(start["connected"][0]["local_port"].as_u64() > Some(0), "{all}");
    assert!(start["system_info"].as_str().unwrap().starts_with("Linux "), "{all}");
    assert!(start["timestamp"]["time"].is_string() && start["target_bitrate"] == 2_000_000, "{all}");
    let interval = &all["intervals"][0];
    assert!(
        interval["streams"].as_array().unwrap().len() == 2 && interval["sum"]["sender"] == false,
        "{all}"
    );
    assert_eq!(end["streams"].as_array().unwrap().len(), 2, "{all}");
    let bytes: u64 = (0..2).map(|n| end["streams"][n]["udp"]["bytes"].as_u64().unwrap()).sum();
    assert!(bytes > 0 && end["sum_received"]["bytes"] == bytes, "{all}");
    assert!(end["cpu_utilization_percent"]["host_total"].is_f64(), "{all}");
    assert!(all.get("error").is_none());
}

#[test]
fn a_json_document_says_why_there_is_no_more_of_it() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    // An error can occur before the transfer or during it.
    for (args, why) in
        [(format!("-c {silent} -J"), "no answer from 127.0.0.1"), ("-c 0.0.0.0 -J".into(), "not the address")]
    {
        let output = Place::host().run(&args);
        assert_eq!(output.status.code(), Some(2));
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(all["error"].as_str().unwrap().contains(why) && all["end"].is_object(), "{all}");
    }
}

#[test]
fn nobody_there_is_said_soon() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let args = format!("-c {} --json-stream --title here", silent.local_addr().unwrap());
    let output = Place::host().run(&args);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("no answer from 127.0.0.1"), "{complaint}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["type"] == "error" && json["title"] == "here", "{json}");
    assert!(json["error"].as_str().unwrap().contains("no answer from 127.0.0.1"), "{json}");
}

/// A silent peer is reported long before the connection is given up. This also holds for a plain connection
/// and for JSON. If the peer's program was killed, the peer's host reports that nothing listens; if the
/// program was stopped, there is no answer at all.
#[test]
fn a_peer_that_falls_silent_is_told_of_and_given_up() {
    for signal in [Signal::STOP, Signal::KILL] {
        let end = |server: &mut Child| kill_process(Pid::from_child(server), signal).is_ok();
        let (records, output) = Place::host().with_server(
            "-s -B 127.0.0.1 -p 0",
            "-c 127.0.0.1:{port} -b 1M -t 0 --rcv-timeout 1500",
            end,
        );
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{signal:?}: {complaint}");
        assert_eq!(record(&records, "path")["state"], "suspect", "{records:?}");
        assert!(record(&records, "summary")["sent"]["messages"].as_u64().unwrap() > 0, "{records:?}");
        let last = records.last().unwrap();
        assert_eq!(last["type"], "error", "{records:?}");
        assert!(
            last["error"].as_str().unwrap().contains("ended early: no packet from the peer for too long"),
            "{last}"
        );
    }
}

/// The server listens only on the second address of its name.
#[test]
fn all_addresses_of_a_name_are_tried() {
    let Some(place) = Place::namespace() else { return };
    place.hosts("::1 there\n127.0.0.1 there\n");
    for more in ["", " -P 3", " -4"] {
        let client = place
            .against_server("-s -B 127.0.0.1 -p 0", &format!("-c there:{{port}} -k 5 --json-stream{more}"));
        let text = String::from_utf8_lossy(&client.stdout);
        assert!(client.status.success(), "{client:?}");
        assert!(text.contains("\"messages\":5,"), "{text}");
        assert!(!text.contains("\"type\":\"error\""), "{text}");
    }
}

/// If an address fails or does not answer, its sockets are closed before the next address is tried.
#[test]
fn addresses_that_fail_leave_no_sockets_behind() {
    let Some(place) = Place::namespace() else { return };
    // Messages of this size fit only into IPv4 packets, so the first address fails, but only after its socket
    // has been opened.
    place.hosts("::1 there\n127.0.0.1 there\n");
    let mut sockets = String::new();
    let (_, output) = place.with_server("-s -B 127.0.0.1 -p 0", "-c there:{port} -l 1440 -b 1M -t 2", |_| {
        sockets = place.command_output("ss", "-Huan");
        true
    });
    assert!(output.status.success(), "{output:?}");
    assert!(sockets.contains("127.0.0.1:") && !sockets.contains("[::1]:"), "{sockets}");
    // Nothing listens at the first address, which the resolver returns first because it is nearest to the
    // source address.
    place.hosts("127.0.0.1 there\n127.0.0.7 there\n");
    let (_, output) = place.with_server("-s -B 127.0.0.7 -p 0", "-c there:{port} -b 1M -t 2 -P 2", |_| {
        sockets = place.command_output("ss", "-Huan state established");
        true
    });
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sockets.matches(" 127.0.0.7:").count(), 2, "{sockets}");
    assert_eq!(sockets.lines().count(), 2, "{sockets}");
}

#[test]
fn a_peer_that_takes_no_part_is_told_of() {
    let output = Place::host().against_server("-s -B 127.0.0.1 -p 0 --send", "-c 127.0.0.1:{port} -k 5");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("the other end is not `mpdccp perf -s`"), "{complaint}");
}

#[test]
fn a_wrong_dccp_port_is_refused() {
    let place = Place::host();
    let args = "-c 127.0.0.1:{port} --dccp-port 1 --messages 1";
    let refused = place.against_server("-s -B 127.0.0.1 -p 0", args);
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("no connection to") && complaint.contains("ConnectionRefused"), "{complaint}");
}
