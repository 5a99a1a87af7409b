//! Limits on rates and volumes, set while the tunnel runs.

use crate::common::{Bed, CLIENT, REMOTE, SERVER, bed, socket, wait_for};
use dccp_secure::PrivateKey;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Changes an end's file and has it read again.
fn reload(bed: &Bed, end: &str, from: &str, to: &str) {
    let file = bed.path(&format!("{end}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from));
    std::fs::write(file, text.replacen(from, to, 1)).unwrap();
    let output = bed.tunnel(end, &["reload"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// About 8 Mbit/s from one end to the other until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start(bed: &Bed, end: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let (from, to) = if end == 0 { (CLIENT[0], SERVER[0]) } else { (SERVER[0], CLIENT[0]) };
        let sender = socket(&bed.space[end], &format!("{from}:0"));
        let stopped = stop.clone();
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let _ = sender.send_to(&[0; 1000], format!("{to}:9"));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Load(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn sent(bed: &Bed, end: &str, path: usize) -> u64 {
    bed.status(end)["peers"][0]["paths"][path]["sent_bytes"].as_u64().unwrap()
}

/// Waits until a path has sent `bytes` more; whether it kept to `bps`.
fn keeps_to(bed: &Bed, end: &str, path: usize, bytes: u64, bps: f64) {
    let (since, before) = (Instant::now(), sent(bed, end, path));
    wait_for("it sends", || sent(bed, end, path) > before + bytes);
    let carried = (sent(bed, end, path) - before) as f64;
    let allowed = since.elapsed().as_secs_f64() * bps / 8.0 + 3_000.0;
    assert!(carried <= allowed, "{carried} of {allowed}");
}

#[test]
fn rates_are_kept_to() {
    let Some(mut bed) = bed() else { return };
    // Each path gets its turn; the default may do without one that is this slow.
    bed.up("scheduler = \"rr\"");
    reload(&bed, "c", "priority = 5", "priority = 5\nrate = \"1M\"");
    let load = Load::start(&bed, 0);
    keeps_to(&bed, "c", 0, 200_000, 1e6);
    // The other path takes the rest.
    let before = sent(&bed, "c", 1);
    wait_for("the other path carries the rest", || sent(&bed, "c", 1) > before + 300_000);
    assert_eq!(bed.client_path("one")["rate_limit_mbps"], 1.0);
    drop(load);
    // A peer's, over both paths; lifted again.
    reload(&bed, "s", "name = \"client\"", "name = \"client\"\nrate = \"1M\"");
    assert_eq!(bed.status("s")["peers"][0]["rate_limit_mbps"], 1.0);
    let _load = Load::start(&bed, 1);
    // It counts inner packets, paths count outer ones.
    let both = || {
        let paths = bed.status("s")["peers"][0]["paths"].as_array().unwrap().clone();
        let number = |path: &Value, key: &str| path[key].as_u64().unwrap();
        let headers = |path: &Value| if path["remote"].as_str().unwrap().starts_with('[') { 108 } else { 88 };
        let inner = paths
            .iter()
            .map(|path| number(path, "sent_bytes") - headers(path) * number(path, "sent_packets"));
        inner.sum::<u64>()
    };
    wait_for("it sends", || both() > 100_000);
    let (since, before) = (Instant::now(), both());
    wait_for("it goes on", || both() > before + 200_000);
    let carried = (both() - before) as f64;
    // A test that is kept waiting allows more, never less.
    let allowed = since.elapsed().as_secs_f64() * 1e6 / 8.0 + 3_000.0;
    assert!(carried <= allowed, "{carried} of {allowed}");
    reload(&bed, "s", "rate = \"1M\"", "");
    let before = bed.status("s")["peers"][0]["queue"]["accepted"].as_u64().unwrap();
    wait_for("nothing waits", || {
        let queue = bed.status("s")["peers"][0]["queue"].clone();
        queue["accepted"].as_u64().unwrap() > before + 1_000 && queue["packets"].as_u64().unwrap() < 10
    });
    bed.down();
}

#[test]
fn no_more_is_taken_from_a_peer_than_it_may_send() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    reload(&bed, "s", "name = \"client\"", "name = \"client\"\nreceive_rate = \"1M\"");
    assert_eq!(bed.status("s")["peers"][0]["receive_limit_mbps"], 1.0);
    let _load = Load::start(&bed, 0);
    let written = || bed.status("s")["tun"]["written_bytes"].as_u64().unwrap();
    wait_for("it arrives", || written() > 50_000);
    let (since, before) = (Instant::now(), written());
    wait_for("it goes on", || written() > before + 200_000);
    let carried = (written() - before) as f64;
    let allowed = since.elapsed().as_secs_f64() * 1e6 / 8.0 + 3_000.0;
    assert!(carried <= allowed, "{carried} of {allowed}");
    let status = bed.status("s");
    let of_peer = status["peers"][0]["drops"]["over_rate"].as_u64().unwrap();
    assert!(of_peer > 0 && status["tun"]["drops"]["over_rate"].as_u64() >= Some(of_peer), "{status}");
    bed.down();
}

/// Two clients of a server that may send 4 Mbit/s in all: one is flooded, the other gets all that is for it.
#[test]
fn a_peer_that_is_flooded_takes_nothing_from_another() {
    const OTHER: &str = "10.71.0.3";
    let Some(mut bed) = bed() else { return };
    let [key, server] = [3, 2].map(|n| PrivateKey::from_random([n; 32]));
    let peer = format!(
        "[[peer]]\nname = \"other\"\nallowed_ips = [\"{OTHER}/32\"]\npublic_key = \"{}\"",
        key.public()
    );
    bed.change = vec![("s", "[[peer]]".into(), format!("rate = \"4M\"\n{peer}\n[[peer]]"))];
    bed.launch("");
    let file = format!(
        r#"
        role = "client"
        interface = "tunD"
        control = {:?}
        addresses = ["{OTHER}/24"]
        private_key = "{}"
        routes = false
        [[peer]]
        name = "server"
        allowed_ips = ["{}/32"]
        public_key = "{}"
        [[peer.path]]
        name = "one"
        interface = "p0"
        remote = "{}:6511"
        "#,
        bed.path("d.sock"),
        *key.to_base64(),
        SERVER[0],
        server.public(),
        REMOTE[0]
    );
    std::fs::write(bed.path("d.toml"), file).unwrap();
    bed.start("d");
    let open = |bed: &Bed| ["c", "d"].iter().all(|end| bed.status(end)["peers"][0]["state"] == "open");
    wait_for("both sessions", || open(&bed));
    let _flood = Load::start(&bed, 1);
    // Where it waits, at the server, in the queue of the peer it is for.
    let dropped = |bed: &Bed, i: usize| {
        let queue = &bed.status("s")["peers"][i]["queue"];
        ["dropped_full", "dropped_old", "dropped_early"]
            .iter()
            .map(|why| queue[why].as_u64().unwrap())
            .sum::<u64>()
    };
    wait_for("the flood is more than may leave", || dropped(&bed, 1) > 100);
    // 0.8 Mbit/s, less than half. A machine that pauses us makes bursts of it, of which CoDel drops some.
    let sender = socket(&bed.space[1], &format!("{}:0", SERVER[0]));
    let before = bed.status("d")["tun"]["written_packets"].as_u64().unwrap();
    for _ in 0..200 {
        sender.send_to(&[0; 1000], format!("{OTHER}:9")).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    wait_for("it arrives", || bed.status("d")["tun"]["written_packets"].as_u64().unwrap() >= before + 180);
    assert!(dropped(&bed, 0) <= 20, "{}", bed.status("s")["peers"][0]);
    bed.down();
}

#[test]
fn a_path_whose_volume_is_used_up_is_standby_also_after_a_restart() {
    let Some(mut bed) = bed() else { return };
    let state = format!("state = {:?}", bed.path("state"));
    bed.up(&state);
    reload(&bed, "c", "priority = 5", "priority = 5\nquota = \"1MB\"\ncost = 1000");
    let load = Load::start(&bed, 0);
    let spent = || bed.client_path("one")["priority"] == 1;
    wait_for("the volume is used up", spent);
    let path = bed.client_path("one");
    let used = path["quota_used_bytes"].as_u64().unwrap();
    assert!(used >= 1_000_000 && path["quota_bytes"] == 1_000_000, "{path}");
    assert!((path["cost"].as_f64().unwrap() - used as f64 / 1e6).abs() < 1.0, "{path}");
    assert!(bed.log("c").contains("path one has used up its volume of the month"));
    let at_server = || {
        let paths = bed.status("s")["peers"][0]["paths"].as_array().unwrap().clone();
        paths.iter().any(|path| path["priority"] == 1)
    };
    wait_for("the server knows", at_server);
    let before = sent(&bed, "c", 1);
    wait_for("the other path carries it", || sent(&bed, "c", 1) > before + 300_000);
    drop(load);
    bed.signal("c", rustix::process::Signal::INT);
    wait_for("the client is gone", || !bed.path("c.sock").exists());
    bed.again("c");
    wait_for("it is remembered", || bed.client_path("one")["priority"] == 1);
    // More volume is bought.
    reload(&bed, "c", "quota = \"1MB\"", "quota = \"1GB\"");
    wait_for("it is used again", || bed.client_path("one")["priority"] == 5);
    bed.down();
}
