//! Tests `mpdccp tunnel doctor` in namespaces: a client with two lines behind NATs, and a server. Each test
//! causes a fault that the doctor must find.

use crate::common::spaces::Spaces;
use crate::common::{able, skipped, wait_for};
use dccp_secure::PrivateKey;
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

const SERVER: &str = "203.0.113.1";

/// Creates client `c`, routers `r0` (DSL) and `r1` (LTE), server `s`, and the configurations of both ends. If
/// the test cannot run here, prints the reason and returns `None`.
fn world() -> Option<Spaces> {
    let world = Spaces::new("mpd", &["c", "r0", "r1", "s"], &["nft", "tc"])?;
    world.sh(
        "s",
        &format!("ip link add net type bridge && ip addr add {SERVER}/24 dev net && ip link set net up"),
    );
    for (i, line) in ["dsl", "lte"].into_iter().enumerate() {
        let (net, router) = (format!("192.168.{}", 10 * (i + 1)), format!("r{i}"));
        world.link(("c", line), (&router, "lan"));
        world.link((&router, "wan"), ("s", &format!("port{i}")));
        world.sh("s", &format!("ip link set port{i} master net up"));
        world.sh(&router, &format!("ip addr add {net}.1/24 dev lan; ip link set lan up; ip addr add 203.0.113.{}/24 dev wan; ip link set wan up; sysctl -qw net.ipv4.ip_forward=1; nft add table ip nat; nft add chain ip nat post '{{ type nat hook postrouting priority srcnat; }}'; nft add rule ip nat post oifname wan masquerade; nft add table ip t; nft add chain ip t f '{{ type filter hook forward priority 0; }}'", i + 2));
        let metric = 100 * (i + 1);
        world.sh("c", &format!("ip addr add {net}.2/24 dev {line}; ip link set {line} up; ip route add default via {net}.1 dev {line} metric {metric}"));
    }
    world.sh("c", "sysctl -qw net.ipv4.conf.all.rp_filter=2");
    world.sh("s", "sysctl -qw net.ipv4.ip_forward=1");
    world.write("c", &client(&world));
    let key = PrivateKey::from_random([1; 32]).public();
    let server = format!(
        "role = \"server\"\nprivate_key = \"{}\"\nlisten = [\"{SERVER}:6511\"]\naddresses = [\"10.9.0.1/24\"]\n\
         [[peer]]\nname = \"van\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.9.0.2/32\"]\n",
        *PrivateKey::from_random([2; 32]).to_base64()
    );
    world.write("s", &server);
    Some(world)
}

/// Returns the client's configuration.
fn client(world: &Spaces) -> String {
    let mut text = format!(
        "role = \"client\"\nprivate_key = \"{}\"\naddresses = [\"10.9.0.2/24\"]\nstate = {:?}\n[[peer]]\nname = \"hub\"\n\
         public_key = \"{}\"\nallowed_ips = [\"10.9.0.0/24\", \"10.50.0.0/24\"]\n",
        *PrivateKey::from_random([1; 32]).to_base64(),
        world.path("state"),
        PrivateKey::from_random([2; 32]).public()
    );
    for (line, more) in [("dsl", "priority = 5"), ("lte", "quota = \"5GB\"")] {
        text += &format!(
            "[[peer.path]]\nname = \"{line}\"\ninterface = \"{line}\"\nremote = \"{SERVER}:6511\"\n{more}\n"
        );
    }
    text
}

/// Returns the command that runs the doctor on an end.
fn doctor_command(world: &Spaces, name: &str, args: &[&str]) -> Command {
    let mut command = world.mpdccp(name, "tunnel doctor --config");
    command.arg(world.path(&format!("{name}.toml"))).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn doctor(world: &Spaces, name: &str, args: &[&str]) -> Output {
    doctor_command(world, name, args).output().unwrap()
}

/// Returns all findings except notes, each with the name of the test and of the line.
fn found(output: &Output) -> Vec<(String, String)> {
    let all: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let wrong = all["findings"].as_array().unwrap().iter().filter(|f| f["severity"] != "note");
    let wrong: Vec<_> = wrong.map(|f| (text(&f["check"]), text(&f["line"]))).collect();
    assert_eq!(output.status.code(), Some(i32::from(!wrong.is_empty())));
    assert_eq!(all["healthy"], wrong.is_empty());
    wrong
}

/// Causes a fault with shell commands in a namespace. Expects the doctor to find it.
fn finds((space, commands): (&str, &str), args: &[&str], check: &str, line: &str) {
    let Some(mut world) = world() else { return };
    world.sh(space, commands);
    world.start("s");
    let output = doctor(&world, "c", args);
    let text = String::from_utf8_lossy(&output.stdout);
    let found = found(&output);
    assert!(found.contains(&(check.to_owned(), line.to_owned())), "{commands}\n{text}");
    assert!(found.iter().all(|(other, _)| other == check), "{commands}\n{text}");
}

const QUICK: &[&str] = &["--json", "--load", "none", "--silence", "0"];

#[test]
fn a_healthy_setup_has_no_findings_with_and_without_a_running_tunnel() {
    let Some(mut world) = world() else { return };
    world.start("s");
    let output = doctor(&world, "c", &["--silence", "5"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for words in [
        "Nothing is wrong.",
        "the tunnel is not running",
        "dsl: reaches 203.0.113.1:6511 through dsl",
        "through a NAT that shows 203.0.113.2 instead of 192.168.10.2",
        "largest packets 1500 bytes up and 1500 down; up ",
        "lte: no load test, because it has a quota; --load all runs it",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    world.start("c");
    wait_for("a session", || world.status("c")["peers"][0]["state"] == "open");
    let output = doctor(&world, "c", QUICK);
    assert_eq!(found(&output), []);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&all["running"], &all["lines"][0]["reached"]), (&true.into(), &true.into()));
    assert_eq!(world.status("c")["peers"][0]["state"], "open");
    let log = std::fs::read_to_string(world.path("s.log")).unwrap();
    assert!(!log.contains("replaces"), "{log}");
    // On a server, the doctor checks the server's host.
    assert_eq!(found(&doctor(&world, "s", &["--json"])), []);
    world.sh("s", "sysctl -qw net.ipv4.ip_forward=0; nft add table ip t; nft add chain ip t in '{ type filter hook input priority 0; policy drop; }'; nft add rule ip t in tcp dport 22 accept");
    let wrong = found(&doctor(&world, "s", &["--json"]));
    assert!(wrong.contains(&("firewall".into(), String::new())), "{wrong:?}");
}

#[test]
fn faults_of_lines_and_hosts_are_found() {
    if !able(&["nft"]) {
        return;
    }
    let udp = "nft add rule ip t f udp dport 6511 drop";
    let loss = "nft add rule ip t f udp dport 6511 numgen random mod 100 '<' 5 drop";
    let faults: [((&str, &str), &str, &str); 11] = [
        (("r0", "ip link set lan down"), "carrier", "dsl"),
        (("c", "ip link set lte down"), "carrier", "lte"),
        (
            ("c", "ip route del default dev lte; ip route add default via 192.168.20.1 dev lte metric 50"),
            "metric",
            "lte",
        ),
        (("c", "ip route del default dev lte"), "route", "lte"),
        (("c", "sysctl -qw net.ipv4.conf.all.rp_filter=1"), "rp_filter", "lte"),
        (("s", "sysctl -qw net.ipv4.ip_forward=0"), "forwarding", ""),
        (("r1", udp), "udp", "lte"),
        (("r0", "nft add rule ip t f ip length '>' 1300 udp dport 6511 drop"), "mtu", "dsl"),
        (("r1", "nft add rule ip t f ip length '>' 1450 udp sport 6511 drop"), "mtu", "lte"),
        (("r0", loss), "loss", "dsl"),
        (("r1", "nft add rule ip t f udp sport 6511 numgen random mod 100 '<' 8 drop"), "loss", "lte"),
    ];
    std::thread::scope(|scope| {
        for (plant, check, line) in faults {
            scope.spawn(move || finds(plant, QUICK, check, line));
        }
    });
}

#[test]
fn lines_without_udp_are_tested_over_tls() {
    let Some(mut world) = world() else { return };
    let server = std::fs::read_to_string(world.path("s.toml")).unwrap();
    let state = world.path("server");
    std::fs::write(world.path("s.toml"), format!("encapsulation = \"auto\"\nstate = {state:?}\n{server}"))
        .unwrap();
    world.start("s");
    for router in ["r0", "r1"] {
        world.sh(router, "nft add rule ip t f meta l4proto udp drop");
    }
    world.write("c", &format!("encapsulation = \"auto\"\n{}", client(&world)));
    let output = doctor(&world, "c", QUICK);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found(&output), [], "{all}");
    assert_eq!([&all["lines"][0]["over_tls"], &all["lines"][1]["over_tls"]], [true, true]);
    assert!(all["findings"].to_string().contains(
        "does not answer UDP over this Internet connection; the tunnel uses TLS over TCP port 443"
    ));
    // The second line carries neither UDP nor TLS.
    world.sh("r1", "nft add rule ip t f tcp dport 443 reject with tcp reset");
    let client = format!("encapsulation = \"tls\"\n{}", client(&world).replace(":6511\"", "\""));
    world.write("c", &client);
    let output = doctor(&world, "c", QUICK);
    assert_eq!(found(&output), [("tls".to_owned(), "lte".to_owned())]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("Connection refused"));
    let wrong = PrivateKey::from_random([9; 32]).to_base64();
    world.write("c", &client.replace(&*PrivateKey::from_random([1; 32]).to_base64(), &wrong));
    let output = doctor(&world, "c", QUICK);
    let faults = [("key", "dsl"), ("tls", "lte")].map(|(check, line)| (check.to_owned(), line.to_owned()));
    assert_eq!(found(&output), faults, "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_nat_that_forgets_soon_is_found() {
    let short = "sysctl -qw net.netfilter.nf_conntrack_udp_timeout=20 net.netfilter.nf_conntrack_udp_timeout_stream=20";
    finds(("r0", short), &["--json", "--load", "none", "--silence", "30"], "nat_timeout", "dsl");
}

#[test]
fn a_buffer_of_two_seconds_is_found_and_metered_lines_are_spared() {
    let Some(mut world) = world() else { return };
    let slow = "tc qdisc add dev wan root tbf rate 4mbit burst 4kb latency 2s";
    finds(("r0", slow), &["--json", "--silence", "0"], "buffer", "dsl");
    world.sh("r1", "tc qdisc add dev lan root tbf rate 4mbit burst 4kb latency 2s");
    world.start("s");
    let output = doctor(&world, "c", &["--json", "--silence", "0"]);
    assert_eq!(found(&output), [], "lte has a quota");
    let output = doctor(&world, "c", &["--json", "--silence", "0", "--load", "all"]);
    assert_eq!(found(&output), [("buffer".to_owned(), "lte".to_owned())]);
}

#[test]
fn wrong_keys_are_found() {
    let Some(mut world) = world() else { return };
    world.start("s");
    let client = client(&world);
    let own = PrivateKey::from_random([1; 32]).to_base64().to_string();
    let of_server = PrivateKey::from_random([2; 32]).public().to_string();
    let wrong = PrivateKey::from_random([9; 32]);
    let psk = "preshared_key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=\"\nallowed_ips";
    for text in [
        client.replace(&own, &wrong.to_base64()),
        client.replace(&of_server, &wrong.public().to_string()),
        client.replacen("allowed_ips", psk, 1),
    ] {
        world.write("c", &text);
        let output = doctor(&world, "c", QUICK);
        let keys = ["dsl", "lte"].map(|line| ("key".to_owned(), line.to_owned()));
        assert_eq!(found(&output), keys, "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Builds a library that shifts its process's clock by `CLOCK_SHIFT` seconds. Returns `None` if there is no C
/// compiler.
fn clock_shift(world: &Spaces) -> Option<String> {
    let (source, library) = (world.path("clock.c"), world.path("clock.so"));
    let code = "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <time.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
        int clock_gettime(clockid_t id, struct timespec *t) {\n int r = syscall(SYS_clock_gettime, id, t);\n\
        if (id == CLOCK_REALTIME) t->tv_sec += atol(getenv(\"CLOCK_SHIFT\"));\n return r;\n}\n";
    std::fs::write(&source, code).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    built.is_ok_and(|status| status.success()).then(|| library.to_str().unwrap().to_owned())
}

#[test]
fn a_clock_that_is_off_by_a_day_is_found() {
    let Some(mut world) = world() else { return };
    let Some(library) = clock_shift(&world) else { return skipped("no C compiler") };
    let doctor = |world: &Spaces, shift: i64| {
        let mut command = doctor_command(world, "c", QUICK);
        command.env("LD_PRELOAD", &library).env("CLOCK_SHIFT", shift.to_string()).output().unwrap()
    };
    // The server does not answer, but file times show that the clock is behind.
    let output = doctor(&world, -86_400);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(found(&output).contains(&("clock".to_owned(), String::new())), "{text}");
    assert!(text.contains("24.0 hours behind the times of files that this host wrote"), "{text}");
    world.start("s");
    for (shift, words) in
        [(-86_400, "24.0 hours behind the server's"), (86_400, "24.0 hours ahead of the server's")]
    {
        let output = doctor(&world, shift);
        assert_eq!(found(&output), [("clock".to_owned(), String::new())]);
        assert!(String::from_utf8_lossy(&output.stdout).contains(words), "{words}");
        // The clock is right again. The doctor's handshakes must still be newer than its earlier ones.
        assert_eq!(found(&doctor(&world, 0)), []);
    }
}

/// A user at a terminal decides whether to load a line that costs money. Without a terminal, the doctor does
/// not ask.
#[test]
fn a_metered_line_is_loaded_only_with_permission() {
    let Some(mut world) = world() else { return };
    world.start("s");
    let text = client(&world).replace("priority = 5", "cost = 2.5");
    world.write("c", &text);
    let at_terminal = |args: &[&str], answers: &str| {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let mut person = std::fs::File::from(terminal.master);
        person.write_all(answers.as_bytes()).unwrap();
        let mut command = doctor_command(&world, "c", &[&["--silence", "0"], args].concat());
        command.stdin(terminal.slave.try_clone().unwrap()).stderr(terminal.slave);
        let output = command.output().unwrap();
        drop(command);
        // Read what the terminal shows. Reading fails once the program has ended.
        let mut shown = Vec::new();
        let _ = person.read_to_end(&mut shown);
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(shown).unwrap())
    };
    let asked = |shown: &str| {
        let all = [("dsl", "cost"), ("lte", "quota")];
        all.map(|(line, key)| {
            shown.matches(&format!("{line} has a {key}. Load it for a few seconds")).count()
        })
    };
    for (answers, loads) in
        [("y\nn\n", [true, false]), ("\nyes\n", [false, true]), ("no\n\x04", [false, false])]
    {
        let (text, shown) = at_terminal(&[], answers);
        assert_eq!(asked(&shown), [1, 1], "{shown}");
        assert_eq!(["dsl", "lte"].map(|line| loaded(&text, line)), loads, "{answers:?}: {text}");
        for (line, key, loads) in [("dsl", "cost", loads[0]), ("lte", "quota", loads[1])] {
            assert_ne!(
                text.contains(&format!("{line}: no load test, because it has a {key}")),
                loads,
                "{text}"
            );
        }
    }
    // The doctor does not ask if a flag decides, or if the output is JSON.
    let (text, shown) = at_terminal(&["--load", "all"], "");
    assert_eq!((asked(&shown), loaded(&text, "dsl"), loaded(&text, "lte")), ([0, 0], true, true), "{text}");
    let (text, shown) = at_terminal(&["--load", "none"], "y\ny\n");
    assert_eq!((asked(&shown), loaded(&text, "dsl"), loaded(&text, "lte")), ([0, 0], false, false), "{text}");
    let (text, shown) = at_terminal(&["--json"], "y\ny\n");
    assert!(asked(&shown) == [0, 0] && text.contains("\"load_up\": null"), "{text}");
    let output = doctor(&world, "c", &["--silence", "0"]);
    let (text, shown) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let loads = ["dsl", "lte"].map(|line| loaded(&text, line));
    assert_eq!((asked(&shown), loads), ([0, 0], [false, false]), "no terminal: {text}");
}

/// Returns whether the text contains the line's rates, which only a load test measures.
fn loaded(text: &str, line: &str) -> bool {
    text.lines().any(|l| l.starts_with(&format!("{line}: reaches")) && l.contains("Mbit/s"))
}

#[test]
fn missing_name_servers_are_found() {
    let Some(mut world) = world() else { return };
    world.start("s");
    let named = client(&world).replace(&format!("{SERVER}:6511"), "hub.invalid:6511");
    world.write("c", &named);
    for (servers, words) in
        [("nameserver 203.0.113.77\n", "no name server answers"), ("", "has no name server")]
    {
        world.etc("c", "resolv.conf", servers);
        let output = doctor(&world, "c", QUICK);
        let dns = ["dsl", "lte"].map(|line| ("dns".to_owned(), line.to_owned()));
        assert_eq!(found(&output), dns);
        assert!(String::from_utf8_lossy(&output.stdout).contains(words));
    }
}

#[test]
fn wrong_input_is_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    std::fs::write(&file, "role = \"client\"\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    let output = command.args(["tunnel", "doctor", "--config"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("c.toml") && text.contains("addresses") && text.lines().count() == 1, "{text}");
}
