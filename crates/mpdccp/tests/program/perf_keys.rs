//! Tests `mpdccp perf` with keys: both ends encrypt, and identify each other by their keys.

use crate::common::{set_mode, wait_for};
use crate::perf_ends::{Place, record};
use dccp_secure::{PrivateKey, PublicKey};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use tempfile::TempDir;

/// A directory with private key files.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    /// Writes a private key to a file. Returns the flag that refers to the file, and the public key.
    fn key(&self, number: u8) -> (String, PublicKey) {
        let key = PrivateKey::from_random([number; 32]);
        (self.write(number, &key.to_base64(), 0o600), key.public())
    }

    fn write(&self, number: u8, text: &str, mode: u32) -> String {
        let path = self.0.path().join(number.to_string());
        fs::write(&path, format!("{text}\n")).unwrap();
        set_mode(&path, mode);
        format!("--private-key-file {}", path.display())
    }
}

#[test]
fn a_server_with_a_key_serves_every_client_that_has_one_and_tells_which() {
    let files = Files::new();
    let ((server_key, server_public), (client_key, client_public)) = (files.key(1), files.key(2));
    let capture = files.0.path().join("pcap");
    for more in ["", "--path 127.0.0.2 --path 127.0.0.3 --scheduler rr", "--echo", "--ccid 3 -R"] {
        let [server, client] = Place::host().exchange(
            &format!("-s -B 127.0.0.1 -p 0 {server_key} --queue 500 --pcap {}", capture.display()),
            &format!("-c 127.0.0.1:{{port}} {client_key} --public-key {server_public} -k 300 -l 1000 {more}"),
        );
        assert_eq!(record(&server, "listening")["public_key"], server_public.to_string());
        assert_eq!(record(&server, "open")["peer_key"], client_public.to_string());
        assert_eq!(record(&client, "open")["peer_key"], server_public.to_string());
        for summary in [record(&server, "summary"), record(&client, "summary")] {
            for direction in ["sent", "received"].map(|name| &summary[name]).iter().filter(|d| d.is_object())
            {
                assert_eq!(direction["messages"], 300, "{more}: {summary}");
            }
        }
    }
    // Messages contain zeros, so a run of zeros in the capture would be plaintext.
    let captured = fs::read(&capture).unwrap();
    assert!(captured.len() > 300_000 && !captured.windows(64).any(|part| part == [0; 64]));
}

#[test]
fn a_server_that_names_clients_serves_no_other() {
    let files = Files::new();
    let [(server_key, server), (one, one_public), (two, two_public), (stranger, stranger_public)] =
        [1, 2, 3, 4].map(|n| files.key(n));
    let place = Place::host();
    let serve =
        format!("-s -B 127.0.0.1 -p 0 {server_key} --public-key {one_public} --public-key {two_public}");
    let connect = |key: &str| format!("-c 127.0.0.1:{{port}} {key} --public-key {server} -k 20");
    for key in [one, two] {
        place.exchange(&serve, &connect(&key));
    }
    let refused = [
        // Three clients are refused: the server does not know the first client's key, the second client
        // expects a different server key, and the third client has no key.
        (connect(&stranger), stranger_public.to_string()),
        (
            format!("-c 127.0.0.1:{{port}} {stranger} --public-key {one_public}"),
            format!("server's public key must be {one_public}"),
        ),
        ("-c 127.0.0.1:{port}".into(), "--private-key-file".into()),
    ];
    for (client, words) in refused {
        let [served, output] = place.both(&serve, &format!("{client} --connect-timeout 700"));
        let complaint = String::from_utf8_lossy(&output.stderr);
        let word = String::from_utf8_lossy(&served.stderr);
        assert_eq!(word.contains("was refused"), client.contains("--private-key-file"), "{word}");
        assert_eq!(output.status.code(), Some(2), "{client}: {complaint}");
        assert!(complaint.contains("no answer") && complaint.contains(&words), "{client}: {complaint}");
    }
}

/// A server logs refused datagrams on standard error. It must keep running even if nobody reads standard
/// error.
#[test]
fn a_refused_datagram_does_not_end_a_server_whose_log_nobody_reads() {
    let files = Files::new();
    let ((server_key, server), (client_key, _)) = (files.key(1), files.key(2));
    let place = Place::host();
    let serve = format!("-s -B 127.0.0.1 -p 0 {server_key}");
    // Sends the server a message with which a peer says that it does not know the server's key. Then runs a
    // client, which the server must still serve.
    let stranger = |port: &str| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagram = *b"\x52\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
        socket.send_to(&datagram, format!("127.0.0.1:{port}")).unwrap();
        let client = place.run(&format!("-c 127.0.0.1:{port} {client_key} --public-key {server} -k 20"));
        assert!(client.status.success(), "{client:?}");
    };
    let mut foreground = place.serve(&format!("--json-stream {serve}"));
    drop(foreground.child.stderr.take());
    stranger(&foreground.port);
    foreground.child.kill().unwrap();
    foreground.child.wait().unwrap();

    let [pid, log] = ["pid", "log"].map(|name| files.0.path().join(name));
    for more in [String::new(), format!("--logfile {}", log.display())] {
        let started = place.run(&format!("-D {serve} --pidfile {} {more}", pid.display()));
        let stdout = String::from_utf8(started.stdout).unwrap();
        stranger(stdout.split(':').nth(1).unwrap().split(',').next().unwrap());
        let number = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(number).unwrap(), Signal::TERM).unwrap();
        wait_for("the server has ended", || !pid.exists());
    }
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("was refused") && log.contains("listening"), "{log}");
}

#[test]
fn an_encrypted_client_hears_of_a_closed_port_at_once() {
    let files = Files::new();
    let ((key, _), (_, server)) = (files.key(1), files.key(2));
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = Place::host()
        .run(&format!("-c 127.0.0.1:{port} {key} --public-key {server} --connect-timeout 50000"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && complaint.contains("nothing listens"), "{output:?}");
}

#[test]
fn encrypted_over_raw() {
    let Some(place) = Place::namespace() else { return };
    let files = Files::new();
    let ((server_key, server), (client_key, _)) = (files.key(1), files.key(2));
    let [_, client] = place.exchange(
        &format!("--encapsulation raw -s -B 127.0.0.1 -p 5003 {server_key}"),
        &format!("--encapsulation raw -c 127.0.0.1:5003 {client_key} --public-key {server} -k 100"),
    );
    assert_eq!(record(&client, "summary")["peer_received"]["messages"], 100);
}

#[test]
fn wrong_keys_get_one_line_and_exit_code_2() {
    let files = Files::new();
    let ((own, own_public), (_, other)) = (files.key(1), files.key(2));
    let secret = PrivateKey::from_random([1; 32]).to_base64();
    let [open, empty, short] = [(3, &**secret, 0o644), (4, "", 0o600), (5, "AAAA", 0o600)]
        .map(|(n, text, mode)| files.write(n, text, mode));
    for (args, words) in [
        (format!("-s {open}"), "chmod 600"),
        (format!("-s {empty}"), "the base64 decodes to 0 bytes"),
        (format!("-s {short}"), "the base64 decodes to 3 bytes"),
        (format!("-s --private-key-file {}", files.0.path().display()), "is a directory"),
        (format!("-s --public-key {other}"), "--private-key-file"),
        (format!("-c 127.0.0.1 {own}"), "--public-key KEY"),
        (format!("-c 127.0.0.1 {own} --public-key {own_public}"), "of this end"),
        (format!("-c 127.0.0.1 {own} --public-key {}", *secret), "secret private key"),
        (
            format!("-c 127.0.0.1 {own} --public-key {other} --public-key {}", PublicKey([9; 32])),
            "one server",
        ),
        (format!("-s {own} --rendezvous 127.0.0.1:9"), "cannot be used with"),
        (format!("-s -B 127.0.0.1 {own} --encapsulation raw --coverage 1"), "--coverage"),
        (format!("-c 127.0.0.1 {own} --public-key {other} --size 1442"), "--size 1442"),
    ] {
        let output = Place::host().run(&args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {complaint}");
        assert!(complaint.contains(words) && !complaint.contains(&**secret), "{args}: {complaint}");
    }
}
