//! Tests the operation of a running tunnel: reload, status, metrics and health.

use crate::common::spaces::Spaces;
use crate::common::{Bed, LOCAL, REMOTE, SERVER, bed, http, ip, printed, run, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn edit(bed: &Bed, end: &str, change: impl Fn(&str) -> String) {
    let file = bed.path(&format!("{end}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, change(&text)).unwrap();
}

#[test]
fn a_reload_changes_what_the_file_says_and_drops_no_session() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    let reload = |end: &str| {
        let output = bed.tunnel(end, &["reload"]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let before = std::fs::read_to_string(bed.path("c.toml")).unwrap();
    // The reload changes a path, a priority and the scheduler.
    let third =
        format!("[[peer.path]]\nname = \"three\"\nlocal = \"{}\"\nremote = \"{}\"\n", LOCAL[0], REMOTE[0]);
    edit(&bed, "c", |text| {
        let text = text.replace("priority = 5", "priority = 4");
        format!("scheduler = \"rr\"\n{text}\n{third}")
    });
    assert_eq!(reload("c"), (Some(0), String::new()));
    wait_for("the new path is up", || bed.client_path("three")["state"] == "up");
    assert_eq!(bed.client_path("one")["priority"], 4);
    assert!(bed.ping(SERVER[0]));
    // A file with an error is refused as a whole: none of its changes takes effect.
    let good = std::fs::read_to_string(bed.path("c.toml")).unwrap();
    for (from, to, words) in [
        ("priority = 4", "priority = 99", "0 to 15"),
        ("priority = 4", "priority = 2\nmtu = 5", "576 to 9000"),
        ("interface = \"tunC\"", "interface = \"tunX\"", "interface cannot change"),
        ("10.72.0.0/16", "10.72.0.0/40", "10.72.0.0/40"),
        ("role = \"client\"", "role = \"client", "c.toml"),
    ] {
        edit(&bed, "c", |_| good.replace(from, to));
        let (code, message) = reload("c");
        assert!(code == Some(2) && message.contains(words), "{to}: {message}");
        assert_eq!(bed.client_path("one")["priority"], 4);
    }
    // Add a peer on the server, then remove it. Meanwhile, change the networks of the other peer.
    let server = std::fs::read_to_string(bed.path("s.toml")).unwrap();
    let key = dccp_secure::PrivateKey::from_random([9; 32]).public();
    let other =
        format!("[[peer]]\nname = \"other\"\nallowed_ips = [\"10.71.0.9/32\"]\npublic_key = \"{key}\"\n");
    edit(&bed, "s", |text| format!("{text}\n{other}"));
    assert_eq!(reload("s"), (Some(0), String::new()));
    assert_eq!(bed.status("s")["peers"].as_array().unwrap().len(), 2);
    edit(&bed, "s", |_| server.replace("10.71.0.2/32\", ", "10.75.0.0/16\", "));
    assert_eq!(reload("s"), (Some(0), String::new()));
    assert_eq!(bed.status("s")["peers"].as_array().unwrap().len(), 1);
    assert!(ip(&format!("-n {} route show dev tunS", bed.space[1])).contains("10.75.0.0/16"));
    assert!(!bed.ping(SERVER[0]), "its address is not the client's any more");
    // On SIGHUP, the ends reload their configurations, which are the original ones again.
    std::fs::write(bed.path("s.toml"), &server).unwrap();
    std::fs::write(bed.path("c.toml"), &before).unwrap();
    for end in ["s", "c"] {
        bed.signal(end, rustix::process::Signal::HUP);
    }
    wait_for("path three leaves", || bed.client_path("three")["state"] != "up");
    wait_for("an echo", || bed.ping(SERVER[0]));
    assert_eq!(bed.client_path("one")["priority"], 5);
    for end in ["c", "s"] {
        assert!(!bed.log(end).contains("session closed"), "{}", bed.log(end));
    }
    // When a peer is removed from the configuration, its session ends at once.
    edit(&bed, "s", |text| {
        let key = dccp_secure::PrivateKey::from_random([1; 32]).public().to_string();
        text.replace(&key, &dccp_secure::PrivateKey::from_random([8; 32]).public().to_string())
    });
    assert_eq!(reload("s"), (Some(0), String::new()));
    wait_for("the server has no session", || bed.status("s")["peers"][0]["state"] == "none");
    assert!(!bed.ping(SERVER[0]));
    bed.down();
}

/// Some hosts keep each version of a file under another name, and switch a symbolic link.
#[test]
fn a_reload_follows_a_symbolic_link_that_was_switched() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    bed.signal("c", rustix::process::Signal::KILL);
    let [file, first, second] = ["c.toml", "first.toml", "second.toml"].map(|name| bed.path(name));
    std::fs::rename(&file, &first).unwrap();
    let text = std::fs::read_to_string(&first).unwrap();
    std::fs::write(&second, text.replace("priority = 5", "priority = 4")).unwrap();
    std::os::unix::fs::symlink(&first, &file).unwrap();
    bed.again("c");
    wait_for("path one is up", || bed.client_path("one")["state"] == "up");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&second, &file).unwrap();
    assert!(bed.tunnel("c", &["reload"]).status.success());
    assert_eq!(bed.client_path("one")["priority"], 4);
    bed.down();
}

fn fetch(bed: &Bed, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    http(&bed.space[0], "127.0.0.1:9586", request)
}

#[test]
fn a_tunnel_tells_how_it_fares() {
    let Some(mut bed) = bed() else { return };
    bed.up("metrics = \"127.0.0.1:9586\"");
    assert!(bed.ping(SERVER[0]));
    let metrics = fetch(&bed, "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 ") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(metrics.contains("mpdccp_path_up{peer=\"server\",path=\"one\"} 1.0\n"), "{metrics}");
    let received = |text: &str| -> u64 {
        let line =
            text.lines().find(|l| l.starts_with("mpdccp_tun_written_packets_total ")).unwrap().to_owned();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert!(received(&metrics) >= 1);
    assert!(fetch(&bed, "/").starts_with("HTTP/1.1 404 "));

    let health = |args: &[&str]| bed.tunnel("c", &[&["health"], args].concat());
    assert_eq!(health(&["--all-paths"]).status.code(), Some(0));
    run("ip", &format!("-n {} link set p0 down", bed.space[0]));
    wait_for("path one leaves", || bed.client_path("one")["state"] != "up");
    assert_eq!(health(&[]).status.code(), Some(0));
    let output = health(&["--all-paths"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("path one is"));

    let events = String::from_utf8(bed.tunnel("c", &["events", "--json"]).stdout).unwrap();
    let events: Vec<serde_json::Value> = events.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let told = |words: &str| events.iter().any(|e| e["message"].as_str().unwrap().contains(words));
    assert!(told("session open") && told("fails: "), "{events:?}");
    bed.down();
}

/// Writes the configuration `d` of a second client, which differs from the first only in its interface and
/// files.
fn write_second_client(bed: &Bed) {
    let text = std::fs::read_to_string(bed.path("c.toml")).unwrap();
    let mut other = text.replace("tunC", "tunD");
    for name in ["c.sock", "c.pcap", "state"] {
        other = other.replace(&format!("/{name}"), &format!("/d{name}"));
    }
    std::fs::write(bed.path("d.toml"), other.replace("/dc.sock", "/d.sock")).unwrap();
}

/// Two clients with the same key keep taking the session from each other, at growing intervals. Both ends
/// report this.
#[test]
fn two_clients_with_one_key_are_told_of() {
    let Some(mut bed) = bed() else { return };
    bed.up("routes = false");
    write_second_client(&bed);
    bed.start("d");
    let told = "4 sessions in a row";
    wait_for("the warnings of both clients", || ["c", "d"].iter().all(|end| bed.log(end).contains(told)));
    wait_for("the warning of the server", || {
        bed.log("s").contains("check that only one client has this key")
    });
    // When only one client is left, its session is stable.
    bed.signal("d", rustix::process::Signal::INT);
    wait_for("the second client has ended", || !bed.path("d.sock").exists());
    wait_for("the first client has a session again", || bed.ping(SERVER[0]));
    bed.down();
}

/// A router whose clock was set back can connect again (docs/security.md).
#[test]
fn handshakes_go_on_from_the_last_one() {
    let Some(mut bed) = bed() else { return };
    let file = bed.path("state/tunC.handshake.json");
    let known = || std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u64>().ok());
    bed.up("");
    wait_for("the file with the time", || known().is_some());
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!((now - 3_600..=now + 1).contains(&known().unwrap()), "{:?}", known());
    // The last handshake appears to be a day in the future, so the clock appears to be a day behind.
    let ahead = now + 86_400;
    bed.signal("c", rustix::process::Signal::KILL);
    std::fs::write(&file, ahead.to_string()).unwrap();
    bed.again("c");
    wait_for("both paths are up", || bed.has_both_paths("c"));
    wait_for("a handshake with a later time", || known() > Some(ahead));
    assert!(bed.log("c").contains("behind the last handshake"));
    bed.down();
}

/// All traffic goes through the tunnel, except the tunnel's own packets and local traffic. Nothing bypasses
/// the tunnel, even after the tunnel is killed.
#[test]
fn a_default_route_and_a_kill_switch() {
    let Some(mut bed) = bed() else { return };
    let [c, s] = bed.space.clone();
    // This distant host can also be reached without the tunnel.
    ip(&format!("-n {s} addr add 198.18.0.1/32 dev lo"));
    ip(&format!("-n {c} route add default via {}", REMOTE[0]));
    // This distant host is not behind any peer.
    ip(&format!("-n {c} addr add 2001:db8::2/64 dev p0 nodad"));
    ip(&format!("-n {c} route add default via 2001:db8::1"));
    let way_to = |address: &str| printed(&run("ip", &format!("-n {c} route get {address}")));
    let (way, way6) = (|| way_to("198.18.0.1"), || way_to("2001:db8:ffff::1"));
    assert!(way6().contains("dev p0"), "{}", way6());
    assert!(way().contains("dev p0"), "{}", way());
    bed.allowed = "\"0.0.0.0/0\"".into();
    bed.up_with("", "default_route = true\nkill_switch = true");
    assert!(way().contains("dev tunC"), "{}", way());
    assert!(
        bed.log("c").contains("blocks all IPv6 traffic") && !bed.log("c").contains("blocks all IPv4 traffic")
    );
    assert!(!way6().contains("dev p0"), "{}", way6());
    let far = |bed: &Bed| bed.ping("198.18.0.1");
    wait_for("the host far away answers through the tunnel", || far(&bed));
    assert!(bed.status("s")["tun"]["read_packets"].as_u64() >= Some(1));
    assert!(bed.ping(REMOTE[0]), "a local host is reachable");
    // A new path needs a mark on its socket. The tunnel has dropped the capability to set it, so the helper
    // must do that.
    let more = ["path", "add", "three", "--interface", "p0", "--remote", REMOTE[0]];
    assert_eq!(bed.tunnel("c", &more).status.code(), Some(0));
    wait_for("a new path is up", || bed.client_path("three")["state"] == "up");
    bed.signal("c", rustix::process::Signal::KILL);
    wait_for("the interface is gone", || !run("ip", &format!("-n {c} link show tunC")).status.success());
    assert!(way().contains("unreachable") || way().contains("No route"), "{}", way());
    assert!(!far(&bed), "no packet bypasses the tunnel");
    assert!(!way6().contains("dev p0"), "{}", way6());
    // `down` lifts the block of a killed tunnel; starting the tunnel and killing it again brings the block
    // back.
    let tunnel = |bed: &Bed, command: &str, file: &str| {
        let program = env!("CARGO_BIN_EXE_mpdccp");
        bed.at_client(&format!("{program} tunnel {command} --config {}", bed.path(file).display()))
            .status
            .code()
    };
    assert_eq!(tunnel(&bed, "down", "c.sock"), Some(0));
    assert!(way().contains("dev p0") && way6().contains("dev p0"), "{} {}", way(), way6());
    assert_eq!(tunnel(&bed, "down", "c.sock"), Some(2), "there is nothing to lift");
    bed.again("c");
    wait_for("the tunnel is back", || way().contains("dev tunC"));
    bed.signal("c", rustix::process::Signal::KILL);
    wait_for("the block is back", || !way().contains("dev"));
    // Check that nothing bypasses the tunnel while it restarts.
    let stop = Arc::new(AtomicBool::new(false));
    let leaks = {
        let (stop, space) = (stop.clone(), c.clone());
        std::thread::spawn(move || {
            let (mut leaks, mut pings) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                let way = printed(&run("ip", &format!("-n {space} route get 198.18.0.1")));
                pings += 1;
                leaks += usize::from(way.contains("dev p0"));
            }
            (leaks, pings)
        })
    };
    // The block also holds after the tunnel has failed. Lifting it does not need the configuration.
    bed.again("c");
    wait_for("the tunnel is back", || far(&bed));
    assert_eq!(tunnel(&bed, "down", "other.sock"), Some(2), "a running tunnel keeps its rules");
    assert!(!way6().contains("dev p0"), "{}", way6());
    ip(&format!("-n {c} link del tunC"));
    assert_eq!(bed.wait("c").code(), Some(1));
    assert!(!way().contains("dev p0") && !way6().contains("dev p0"), "{} {}", way(), way6());
    // A start that fails after the rules have been set keeps the block, too.
    ip(&format!("-n {c} route add 10.72.0.0/16 via {}", REMOTE[0]));
    assert_eq!(tunnel(&bed, "up", "c.toml"), Some(2));
    ip(&format!("-n {c} route del 10.72.0.0/16"));
    edit(&bed, "c", |text| format!("bypass = {{ users = [\"nobody-at-all\"] }}\n{text}"));
    assert_eq!(tunnel(&bed, "up", "c.toml"), Some(2));
    edit(&bed, "c", |text| text.split_once('\n').unwrap().1.into());
    assert!(!way().contains("dev p0") && !way6().contains("dev p0"), "{} {}", way(), way6());
    stop.store(true, Ordering::Relaxed);
    let (leaks, asked) = leaks.join().unwrap();
    assert!(leaks == 0 && asked > 0, "{leaks} of {asked} lookups found a route past the tunnel");
    // Hide the control sockets of other tests.
    let script = "mount -t tmpfs none /run && XDG_RUNTIME_DIR=/run exec $0 tunnel down";
    let mut down = std::process::Command::new("ip");
    down.args(["netns", "exec", &c, "sh", "-c", script, env!("CARGO_BIN_EXE_mpdccp")]);
    assert_eq!(down.status().unwrap().code(), Some(0));
    assert!(way().contains("dev p0") && way6().contains("dev p0"), "{} {}", way(), way6());
    // A tunnel without a kill switch lifts the whole block, even for the IP version that it does not carry.
    bed.again("c");
    wait_for("the tunnel is back", || way().contains("dev tunC"));
    bed.signal("c", rustix::process::Signal::KILL);
    wait_for("the block is back", || !way().contains("dev") && !way6().contains("dev p0"));
    edit(&bed, "c", |text| text.replace("kill_switch = true", "kill_switch = false"));
    bed.again("c");
    wait_for("the tunnel is back", || far(&bed));
    assert!(way6().contains("dev p0"), "{}", way6());
    edit(&bed, "c", |text| text.replace("kill_switch = false", "kill_switch = true"));
    bed.signal("c", rustix::process::Signal::KILL);
    wait_for("the interface is gone", || !run("ip", &format!("-n {c} link show tunC")).status.success());
    // After a restart and a clean stop, nothing is left behind.
    bed.again("c");
    wait_for("both paths are up again", || bed.has_both_paths("c"));
    wait_for("the tunnel is back", || far(&bed));
    bed.down();
    assert!(way().contains("dev p0"), "{}", way());
    assert!(way6().contains("dev p0"), "{}", way6());
    for family in ["-4", "-6"] {
        assert!(!ip(&format!("-n {c} {family} rule")).contains("0x6d70"));
    }
}

/// Only one tunnel of a host can have the default route. A second one must not take it over, nor remove the
/// first one's kill switch when it ends.
#[test]
fn a_second_default_route_is_refused() {
    let Some(mut bed) = bed() else { return };
    bed.allowed = "\"0.0.0.0/0\"".into();
    bed.up_with("routes = false", "default_route = true\nkill_switch = true");
    let c = bed.space[0].clone();
    let shown = || {
        ["-4 rule", "-6 rule", "-4 route show table 28016", "-6 route show table 28016"]
            .map(|what| String::from_utf8(run("ip", &format!("-n {c} {what}")).stdout).unwrap())
    };
    let before = shown();
    assert!(before[2].contains("default dev tunC") && before[2].contains("unreachable"), "{before:?}");
    // When systemd-networkd starts, it deletes the rules and routes of all other protocols.
    for what in ["rule show pref 28015", "rule show pref 28016", "route show table 28016"] {
        let shown = String::from_utf8(run("ip", &format!("-d -4 -n {c} {what}")).stdout).unwrap();
        let kept = shown.lines().filter(|line| line.contains("proto kernel")).count();
        assert!(kept > 0 && kept == shown.lines().count(), "{what}: {shown}");
    }
    write_second_client(&bed);
    edit(&bed, "d", |text| text.replace("kill_switch = true", ""));
    // `timeout` ends a tunnel that is not refused.
    let (program, file) = (env!("CARGO_BIN_EXE_mpdccp"), bed.path("d.toml"));
    let up = bed.at_client(&format!("timeout 60 {program} tunnel up --config {}", file.display()));
    let complaint = String::from_utf8_lossy(&up.stderr);
    assert_eq!(up.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("default_route: the tunnel tunC already"), "{complaint}");
    assert_eq!(shown(), before);
    bed.down();
}

/// The process that reads the log through a pipe may end before the tunnel.
#[test]
fn a_tunnel_outlives_the_reader_of_its_log() {
    let Some(mut spaces) = Spaces::new("gone", &["s"], &[]) else { return };
    let [key, peer] = [8, 9].map(|byte| dccp_secure::PrivateKey::from_random([byte; 32]));
    let text = format!(
        "role = \"server\"\ninterface = \"tunS\"\nstate = {:?}\nlisten = [\"127.0.0.1:6511\"]\n\
         addresses = [\"10.71.0.1/24\"]\nprivate_key = \"{}\"\n\
         [[peer]]\nname = \"c\"\nallowed_ips = [\"10.71.0.2/32\"]\npublic_key = \"{}\"\n",
        spaces.path("state"),
        *key.to_base64(),
        peer.public(),
    );
    spaces.write("s", &text);
    let mut command = spaces.mpdccp("s", "tunnel up --config");
    let mut tunnel = command.arg(spaces.path("s.toml")).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(tunnel.stderr.take());
    spaces.ends.push(tunnel);
    let control = spaces.path("s.sock");
    wait_for("control socket", || control.exists());
    // A reload is logged.
    for _ in 0..2 {
        let mut reload = spaces.mpdccp("s", "tunnel reload --config");
        assert!(reload.arg(&control).status().unwrap().success());
    }
    assert_eq!(spaces.ends[0].try_wait().unwrap(), None);
}
