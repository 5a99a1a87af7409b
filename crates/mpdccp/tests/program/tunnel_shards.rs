//! Tests a server with two shards. Each session, with all its paths, is on one shard. Clients notice no
//! difference.

use crate::common::{Bed, CLIENT, REMOTE, SERVER, bed, run, socket, wait_for};
use dccp_secure::PrivateKey;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Inner address of the second client.
const SECOND: &str = "10.71.0.3";

/// Returns a peer for the server's configuration, with key and address number `n`.
fn peer(name: &str, n: u8) -> String {
    let key = PrivateKey::from_random([n; 32]).public();
    format!("[[peer]]\nname = \"{name}\"\nallowed_ips = [\"10.71.0.{n}/32\"]\npublic_key = \"{key}\"\n")
}

/// Starts two clients with two paths each. The first peer in the configuration is on shard 0; the bed's
/// client is on shard 1.
fn two_clients(of_server: &str) -> Option<Bed> {
    let mut bed = bed()?;
    let role = "role = \"server\"";
    bed.change = vec![
        ("s", role.into(), format!("{role}\nshards = 2\n{of_server}")),
        ("s", "[[peer]]".into(), format!("{}[[peer]]", peer("second", 3))),
    ];
    bed.launch("");
    let control = bed.path("c2.sock");
    let (own, server) = (PrivateKey::from_random([3; 32]), PrivateKey::from_random([2; 32]).public());
    let text = format!(
        r#"
        role = "client"
        interface = "tunD"
        control = {control:?}
        addresses = ["{SECOND}/32"]
        routes = false
        private_key = "{}"
        [[peer]]
        name = "server"
        public_key = "{server}"
        allowed_ips = ["10.71.0.0/24"]
        [[peer.path]]
        name = "one"
        interface = "p0"
        remote = "{}:6511"
        [[peer.path]]
        name = "two"
        interface = "p1"
        remote = "[{}]:6511"
        "#,
        *own.to_base64(),
        REMOTE[0],
        REMOTE[1]
    );
    std::fs::write(bed.path("c2.toml"), text).unwrap();
    bed.start("c2");
    run("ip", &format!("-n {} route add 10.71.0.1/32 dev tunD src {SECOND} table 7", bed.space[0]));
    run("ip", &format!("-n {} rule add from {SECOND} table 7", bed.space[0]));
    wait_for("all paths of both clients", || {
        let status = bed.status("s");
        (0..2).all(|n| up(&status["peers"][n]) == 2)
    });
    Some(bed)
}

fn up(peer: &Value) -> usize {
    let paths = peer["paths"].as_array();
    paths.map_or(0, |paths| paths.iter().filter(|path| path["state"] == "up").count())
}

fn sessions(bed: &Bed) -> Vec<u64> {
    let status = bed.status("s");
    status["shards"].as_array().unwrap().iter().map(|s| s["sessions"].as_u64().unwrap()).collect()
}

/// Sends datagrams from the server to both clients in turn. Returns the numbers of the datagrams
/// that each client received, by the client's address.
fn down(bed: &Bed, each: u32) -> BTreeMap<String, Vec<u32>> {
    let sender = socket(&bed.space[1], &format!("{}:0", SERVER[0]));
    let to = [CLIENT[0], SECOND].map(|address| format!("{address}:7000"));
    let sinks = to.clone().map(|address| socket(&bed.space[0], &address));
    let receive = |sink: std::net::UdpSocket| {
        std::thread::spawn(move || {
            sink.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let (mut got, mut packet) = (Vec::new(), [0; 2000]);
            while sink.recv(&mut packet).is_ok() {
                got.push(u32::from_be_bytes(*packet.first_chunk().unwrap()));
            }
            got
        })
    };
    let threads = sinks.map(receive);
    for number in 0..each {
        let mut packet = [0; 1000];
        packet[..4].copy_from_slice(&number.to_be_bytes());
        for address in &to {
            let _ = sender.send_to(&packet, address);
        }
        if number % 10 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    to.into_iter().zip(threads.map(|thread| thread.join().unwrap())).collect()
}

#[test]
fn sessions_of_two_clients_are_on_two_shards() {
    let Some(mut bed) = two_clients("") else { return };
    assert_eq!(sessions(&bed), [1, 1]);
    let names: Vec<Value> = (0..2).map(|n| bed.status("s")["peers"][n]["name"].clone()).collect();
    assert_eq!(names, ["second", "client"], "in the order of the file");
    // Send packets in both directions, large and small.
    for from in [CLIENT[0], SECOND] {
        let ping = bed.at_client(&format!("ping -c 5 -i 0.01 -s 1300 -W 5 -I {from} {}", SERVER[0]));
        assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stdout));
    }
    for (address, got) in down(&bed, 1_000) {
        assert!(got.is_sorted(), "{address}: a flow was reordered");
        assert!(got.len() > 500, "{address}: {} of 1000", got.len());
    }
    // If the kernel can select the shard's socket, only the first messages of handshakes arrive at the wrong
    // shard.
    let status = bed.status("s");
    let handed_over: u64 = (0..2).map(|n| status["shards"][n]["handed_over"].as_u64().unwrap()).sum();
    assert!(handed_over < 50 || bed.log("s").contains("cannot select the shard"), "{handed_over}");
    // Each shard reads its own peers' packets from the interface.
    if bed.log("s").contains("cannot select the queue") {
        crate::common::skipped("in part: no queue for each shard here (it takes CAP_BPF)");
    } else {
        for shard in status["shards"].as_array().unwrap() {
            assert!(shard["tun_read"].as_u64() >= Some(1_000), "{shard}");
            assert_eq!(shard["tun_handed_over"], 0, "{shard}");
        }
    }
    let tun = &status["tun"];
    assert!(
        tun["read_packets"].as_u64() > Some(1_000) && tun["written_packets"].as_u64() >= Some(10),
        "{tun}"
    );
    // A peer's status comes from the peer's shard.
    for name in ["second", "client"] {
        let output = bed.tunnel("s", &["status", "--json", "--peer", name]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        let names: Vec<&Value> = status["peers"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
        assert_eq!(names, [name]);
    }
    let output = bed.tunnel("s", &["status", "--peer", "nobody"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no peer `nobody`"), "{output:?}");
    assert_eq!(bed.tunnel("s", &["health"]).status.code(), Some(0));
    bed.down();
}

#[test]
fn reload_and_drain_reach_all_shards() {
    let Some(mut bed) = two_clients("metrics = \"127.0.0.1:9586\"") else { return };
    let file = bed.path("s.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    // Add a peer on shard 0 and remove one.
    std::fs::write(&file, format!("{}{}", text.replace(&peer("second", 3), ""), peer("third", 4))).unwrap();
    let words = bed.reload("s");
    assert!(words.contains("1 peer(s) added, 1 removed"), "{words}");
    wait_for("the session of the removed peer has ended", || sessions(&bed) == [0, 1]);
    wait_for("its client hears of it", || bed.log("c2").contains("session closed: aborted by the peer"));
    let status = bed.status("s");
    assert_eq!(
        (&status["peers"][0]["name"], &status["peers"][1]["name"]),
        (&"client".into(), &"third".into())
    );
    assert_eq!(up(&status["peers"][0]), 2, "the other client keeps its paths");
    // The new peer connects with the second client's configuration but its own key.
    let text = std::fs::read_to_string(bed.path("c2.toml")).unwrap();
    let [before, after] = [3, 4].map(|n| PrivateKey::from_random([n; 32]).to_base64().to_string());
    let text = text.replace(&before, &after).replace(SECOND, "10.71.0.4").replace("tunD", "tunE");
    let text = text.replace("c2.sock", "c3.sock");
    std::fs::write(bed.path("c3.toml"), text).unwrap();
    bed.start("c3");
    wait_for("the session of the third client", || sessions(&bed) == [1, 1]);
    let metrics = run("ip", &format!("netns exec {} curl -s http://127.0.0.1:9586/metrics", bed.space[1]));
    let metrics = String::from_utf8_lossy(&metrics.stdout).into_owned();
    assert!(metrics.is_empty() || metrics.contains("mpdccp_shard_sessions{shard=\"1\"} 1.0"), "{metrics}");
    // Neither client knows another server, so both stay connected.
    let drain = bed.tunnel("s", &["drain", "--seconds", "1"]);
    assert_eq!(drain.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&drain.stdout).contains("2 client(s) still connected"), "{drain:?}");
    bed.down();
}

#[test]
fn addresses_are_given_once_whichever_shard_is_asked() {
    let Some(mut bed) = bed() else { return };
    let state = format!("state = {:?}", bed.path("state"));
    let role = "role = \"server\"";
    let of_client = format!("addresses = [\"{}/24\", \"{}/64\"]", CLIENT[0], CLIENT[1]);
    let allowed = format!("allowed_ips = [\"{}/32\", \"{}/128\"]", CLIENT[0], CLIENT[1]);
    let first = peer("first", 3).replace("allowed_ips = [\"10.71.0.3/32\"]\n", "");
    bed.change = vec![
        ("s", role.into(), format!("{role}\nshards = 2\n{state}\nassign = {{ pool = [\"10.71.0.0/28\"] }}")),
        ("s", "[[peer]]".into(), format!("{first}[[peer]]")),
        ("s", allowed, String::new()),
        ("c", of_client, "addresses = \"auto\"".into()),
    ];
    bed.launch("");
    wait_for("an address from the first shard", || bed.status("c")["addresses"][0] == "10.71.0.2/24");
    wait_for("an echo", || bed.ping(SERVER[0]));
    assert_eq!(bed.status("s")["peers"][1]["leased"][0], "10.71.0.2");
    bed.down();
}
