//! Tests paths over TLS, for networks that block UDP.

use crate::common::{Bed, REMOTE, bed, inside, run, skipped, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Creates a bed for paths over TLS. If `udp` is false, addresses have no port. `of_path` is added to the
/// client's first path.
fn tls_bed(udp: bool, of_path: &str) -> Option<Bed> {
    let mut bed = bed()?;
    if !udp {
        bed.remote = REMOTE.map(Into::into);
        let listen = |port: &str| {
            format!("listen = [\"0.0.0.0{port}\", \"{}\"]", if port.is_empty() { "::" } else { "[::]:6511" })
        };
        bed.change.push(("s", listen(":6511"), listen("")));
    }
    bed.change.push(("c", "priority = 5".into(), format!("priority = 5\n{of_path}")));
    // Keep the server's certificate in this directory across restarts.
    let state = format!("role = \"server\"\nstate = {:?}", bed.path("server"));
    bed.change.push(("s", "role = \"server\"".into(), state));
    Some(bed)
}

/// Returns the encapsulation that each of the client's paths is using.
fn over(bed: &Bed) -> [Value; 2] {
    ["one", "two"].map(|name| bed.client_path(name)["encapsulation"].clone())
}

fn ping(bed: &Bed) -> bool {
    bed.at_client("ping -c 3 -i 0.2 -W 5 10.71.0.1").status.success()
}

/// Starts or stops dropping the UDP datagrams that arrive at the server. Returns false if nft is not
/// installed.
fn block_udp(bed: &Bed, on: bool) -> bool {
    let rules = if on {
        "add table inet block; add chain inet block in { type filter hook input priority 0; }; add rule inet block in iifname \"p*\" meta l4proto udp drop"
    } else {
        "delete table inet block"
    };
    let script = bed.path("rules.nft");
    std::fs::write(&script, rules.replace("; add", "\nadd")).unwrap();
    run("ip", &format!("netns exec {} nft -f {}", bed.space[1], script.display())).status.success()
}

/// The server has two shards. Each connection reaches the shard of its session, even if another shard has
/// accepted it.
#[test]
fn tls_carries_both_paths_and_outlives_the_restart_of_either_end() {
    let Some(mut bed) = tls_bed(false, "") else { return };
    bed.change.push(("s", "role = \"server\"".into(), "role = \"server\"\nshards = 2".into()));
    bed.up("encapsulation = \"tls\"");
    assert_eq!(over(&bed), ["tls", "tls"]);
    assert!(ping(&bed));
    let large = bed.at_client("ping -c 2 -W 5 -M do -s 1360 10.71.0.1");
    assert!(large.status.success(), "{}", String::from_utf8_lossy(&large.stdout));
    for end in ["s", "c"] {
        bed.signal(end, Signal::KILL);
        bed.again(end);
        // The other end may still believe at first that its old session is open.
        wait_for("both paths after kill -9", || {
            ping(&bed) && bed.has_both_paths("c") && over(&bed) == ["tls", "tls"]
        });
    }
    let capture = std::fs::read(bed.path("c.pcap")).unwrap();
    assert!(!capture.is_empty());
    bed.down();
}

#[test]
fn auto_takes_tls_while_udp_is_blocked_and_returns() {
    let Some(mut bed) = tls_bed(true, "") else { return };
    if !block_udp(&bed, true) {
        return skipped("no nft");
    }
    bed.launch("encapsulation = \"auto\"");
    wait_for("TLS on both paths", || bed.has_both_paths("c") && over(&bed) == ["tls", "tls"]);
    assert!(ping(&bed));
    assert!(block_udp(&bed, false));
    let uses = |encapsulation: &str| {
        wait_for(&format!("{encapsulation} on both paths"), || {
            ping(&bed);
            over(&bed) == [encapsulation; 2]
        });
    };
    uses("udp");
    assert!(block_udp(&bed, true));
    uses("tls");
    wait_for("an echo", || ping(&bed));
    assert!(block_udp(&bed, false));
    uses("udp");
    // When the interface returns, its path gets a new UDP socket.
    run("ip", &format!("-n {} link del p0", bed.space[0]));
    wait_for("path one leaves with its interface", || bed.client_path("one")["state"] != "up");
    bed.link(0);
    wait_for("path one returns by UDP", || bed.has_both_paths("c") && over(&bed) == ["udp", "udp"]);
    bed.down();
    let log = bed.log("c");
    assert!(log.contains("path one: no answer over UDP; falling back to TLS over TCP"), "{log}");
    assert!(log.contains("path one: UDP works again; leaving TLS"), "{log}");
}

/// Runs a proxy that accepts CONNECT with the login ann:secret. Returns the requests that it gets.
fn proxy(space: &str, at: &str) -> std::sync::mpsc::Receiver<String> {
    let (tell, told) = std::sync::mpsc::channel();
    let (at, space) = (at.to_owned(), space.to_owned());
    let listener = inside(&space, move || TcpListener::bind(at).unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (tell, space) = (tell.clone(), space.clone());
            std::thread::spawn(move || {
                let (mut client, mut head) = (client, Vec::new());
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    client.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let to = head.split(' ').nth(1).unwrap().to_owned();
                let has_password = head.contains("\r\nProxy-Authorization: Basic YW5uOnNlY3JldA==\r\n");
                let _ = tell.send(head);
                if !has_password {
                    let wanted =
                        b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n";
                    return client.write_all(wanted).unwrap();
                }
                // If the server is not listening yet, the client will try again.
                let Ok(server) = inside(&space, move || TcpStream::connect(to)) else {
                    return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").unwrap();
                };
                client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n").unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                let (mut from, mut to) = (server, client);
                let _ = std::io::copy(&mut from, &mut to);
            });
        }
    });
    told
}

#[test]
fn a_path_passes_an_http_proxy() {
    let own = format!("encapsulation = \"tls\"\nproxy = \"http://ann:secret@{}:3128\"", REMOTE[0]);
    let Some(mut bed) = tls_bed(true, &own) else { return };
    // The other path keeps UDP. The server accepts UDP and TLS.
    bed.remote[0] = REMOTE[0].into();
    bed.change.push(("s", "role = \"server\"".into(), "role = \"server\"\nencapsulation = \"auto\"".into()));
    let asked = proxy(&bed.space[1], &format!("{}:3128", REMOTE[0]));
    bed.up("");
    assert_eq!(over(&bed), ["tls", "udp"]);
    let head = asked.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(head.starts_with(&format!("CONNECT {}:443 HTTP/1.1\r\n", REMOTE[0])), "{head}");
    bed.down();
}

/// Clients that are silent, stop during the handshake or do not speak TLS are counted and do not disturb the
/// tunnel.
#[test]
fn strangers_get_no_more_than_their_share() {
    let Some(mut bed) = tls_bed(false, "") else { return };
    bed.up("encapsulation = \"tls\"");
    let at = format!("{}:443", REMOTE[0]);
    let many: Vec<TcpStream> =
        inside(&bed.space[0], move || (0..80).filter_map(|_| TcpStream::connect(&at).ok()).collect());
    // This client does not speak TLS.
    (&many[0]).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // This client sends only half of a handshake.
    (&many[1]).write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    let drops = |why: &str| -> u64 {
        let status = bed.status("s");
        status["sockets"].as_array().unwrap().iter().filter_map(|s| s["drops"][why].as_u64()).sum()
    };
    wait_for("the number per source is limited", || drops("tls_refused_source") > 0);
    wait_for("the count of failed handshakes", || drops("tls_handshake_failed") > 0);
    wait_for("silent connections time out", || drops("tls_timed_out") > 10);
    assert!(bed.has_both_paths("c") && ping(&bed));
    drop(many);
    bed.down();
}
