//! Tests features of `mpdccp perf` that users of iperf3 expect, other than measurements.

use crate::common::{packets, wait_for};
use crate::perf_ends::Place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;

#[test]
fn a_server_in_the_background_logs_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (log, pid) = (dir.path().join("log"), dir.path().join("pid"));
    let files = format!("--logfile {} --pidfile {}", log.display(), pid.display());
    let started = Place::host().run(&format!("-D -f k --title there -s -B 127.0.0.1 -p 0 {files}"));
    assert!(started.status.success(), "{started:?}");
    let stdout = String::from_utf8(started.stdout).unwrap();
    let port = stdout.split(':').nth(1).unwrap().split(',').next().unwrap();
    let number: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    assert!(String::from_utf8(started.stderr).unwrap().contains(&number.to_string()));

    let client = Place::host().run(&format!("-c 127.0.0.1 -p {port} -k 20 -l 1K -C cubic -u -f M"));
    let text = String::from_utf8_lossy(&client.stdout);
    assert!(client.status.success() && text.contains("CCID 7") && text.contains(" MiB/s"), "{client:?}");

    // A second server on this port fails to start, and leaves the file of the first one alone.
    let second = Place::host().run(&format!("-s -B 127.0.0.1 -p {port} {files}"));
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    assert_eq!(fs::read_to_string(&pid).unwrap(), format!("{number}\n"));

    kill_process(Pid::from_raw(number).unwrap(), Signal::TERM).unwrap();
    wait_for("the end of the server", || !pid.exists());
    let log = fs::read_to_string(log).unwrap();
    assert!(log.lines().all(|line| line.starts_with("there: ")), "{log}");
    assert!(log.contains("] open: plain DCCP with 127.0.0.1:"), "{log}");
    assert!(log.contains("listening") && log.contains(" received ") && log.contains(" kbit/s"), "{log}");
    assert!(log.contains(" 0/20 (0.00 %)") && log.contains("Jitter/RTT"), "{log}");
    // If the start fails, the error is reported at once, and only once.
    for (format, in_output) in [("", 0), ("-V", 0), ("-J", 1), ("--json-stream", 1)] {
        let failed = Place::host().run(&format!("-D -s -B 192.0.2.1 -p 7 {format}"));
        let [stdout, complaint] = [&failed.stdout, &failed.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(failed.status.code() == Some(2) && complaint.contains("no address 192.0.2.1"), "{failed:?}");
        assert_eq!(stdout.matches("no address 192.0.2.1").count(), in_output, "{failed:?}");
    }
}

#[test]
fn a_client_that_is_interrupted_before_it_has_a_connection_fails() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let args = format!("-c 127.0.0.1 -p {port} --connect-timeout 60000 --pidfile {}", pid.display());
    let client = Place::host().start(&args);
    // The file is complete only once it has a line.
    wait_for("the client's start", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    kill_process(Pid::from_child(&client), Signal::INT).unwrap();
    let output = client.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("interrupted before the connection to 127.0.0.1"), "{complaint}");
}

#[test]
fn lines_say_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let pcap = dir.path().join("pcap");
    let [_, client] = Place::host().exchange(
        "-s -B 127.0.0.1 -p 0",
        &format!(
            "-c 127.0.0.1:{{port}} -k 20 -S 0xb8 -V --title here --timestamps --pcap {}",
            pcap.display()
        ),
    );
    let settings = crate::perf_ends::record(&client, "settings");
    assert_eq!((&settings["ccid"], &settings["dscp"]), (&Value::from(5), &Value::from(46)));
    assert!(client.iter().all(|record| record["title"] == "here"), "{client:?}");
    let time = |record: &Value| record["time"].as_str().unwrap().to_owned();
    assert!(client.iter().all(|record| time(record).starts_with("20") && time(record).ends_with('Z')));
    // The UDP packets with DCCP port 5001 belong to this test.
    let bytes = fs::read(pcap).unwrap();
    let mut ours = packets(&bytes);
    ours.retain(|packet| packet[30..32] == 5001u16.to_be_bytes());
    assert!(ours.iter().all(|packet| packet[1] & 0xfc == 0xb8), "the DSCP of {ours:?}");
    assert!(ours.len() > 20, "{} packets", ours.len());
}

#[test]
fn flags_of_iperf3_without_a_meaning_here_say_what_to_use() {
    for (args, instead) in [
        ("-c 127.0.0.1 -w 64K", "-w, --window: congestion control sets the window"),
        ("-c 127.0.0.1 --set-mss 1000", "--mtu"),
        ("-s --bind-dev no-such-dev", "--bind-dev no-such-dev: there is no such interface"),
        ("-c 127.0.0.1 -F /nowhere/file", "--file /nowhere/file: No such file"),
        ("-c 127.0.0.1 -F /proc", "--file /proc: not a file"),
        ("-c 127.0.0.1 -F /dev/zero --bidir", "not both"),
        ("-c 127.0.0.1 -F /dev/zero --echo", "echoes carry no file"),
        ("-c 127.0.0.1 -F /dev/zero -l 16", "larger --size"),
        ("-c 127.0.0.1 -F /dev/null -R -P 2", "remove -P"),
        ("-c 127.0.0.1 -b 10M/0", "1 to 1000 messages"),
        ("-s --server-bitrate-limit fast", "500k"),
        ("-s --idle-timeout 0", "more than 0 seconds"),
        ("-c 127.0.0.1 --send --get-server-output", "cannot be combined with --send"),
        ("-c 127.0.0.1 -S 0xb9", "ECN"),
        ("-c 127.0.0.1 --dscp gold", "af11"),
        ("-s -R", "cannot be used with"),
        ("-s --dccp-port 0", "invalid DCCP port 0"),
        ("-s --encapsulation raw -p 0", "invalid DCCP port 0"),
        ("-s --rendezvous [::1]:9", "same IP version as that of the server, 0.0.0.0"),
        ("-s --rendezvous 127.0.0.1:0", "a port from 1 to 65535"),
        ("-c 127.0.0.1 --logfile /nowhere/log", "--logfile /nowhere/log"),
        (
            "-c 127.0.0.1 --pcap /nowhere/one --qlog /nowhere/one",
            "--qlog /nowhere/one: --pcap names the same",
        ),
        ("-s -B 127.0.0.1 -p 0 --pidfile /nowhere/pid", "--pidfile /nowhere/pid"),
    ] {
        let output = Place::host().run(args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && complaint.contains(instead), "{args}: {output:?}");
    }
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let output = Place::host().run(&format!("-c 127.0.0.1 -p {port} --connect-timeout 100"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
