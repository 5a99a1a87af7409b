//! Tests the whole tunnel between two network namespaces.

use crate::common::stream::Stream;
use crate::common::{
    Bed, CLIENT, LOCAL, REMOTE, SERVER, bed, ip, run, set_mode, socket, udp_payloads, wait_for,
};
use serde_json::Value;

/// Checks the whole session, from the handshake to the close, with tshark, which is an independent decoder.
fn decodes(bed: &Bed) {
    let Some(all) = bed.decoded("") else { return };
    for word in ["[Request]", "[Response]", "MP_KEY", "MP_JOIN", "MP_HMAC", "MP_SEQ", "MP_CLOSE", "[Reset]"] {
        assert!(all.contains(word), "no {word} in the capture");
    }
    let bad = bed.decoded("_ws.malformed || dccp.checksum.status == \"Bad\"").unwrap();
    assert!(bad.is_empty(), "{bad}");
}

fn pings(bed: &Bed) {
    for address in SERVER {
        // Also send a full-size packet in each direction, because the tunnel must carry packets as large as
        // the interface's MTU.
        let mtu = bed.status("c")["mtu"].as_u64().unwrap();
        let headers = if address.contains(':') { 48 } else { 28 };
        for size in [56, mtu - headers] {
            let output = bed.at_client(&format!("ping -c 3 -i 0.2 -M do -s {size} {address}"));
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains(" 0% packet loss"), "{text}");
        }
    }
}

#[test]
fn the_mtu_follows_that_of_the_paths() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    for (path_mtu, mtu) in [(1400, 1400 - 20 - 8 - 32 - 16 - 16), (1500, 1500 - 40 - 8 - 32 - 16 - 16)] {
        for space in &bed.space {
            run("ip", &format!("-n {space} link set p0 mtu {path_mtu}"));
        }
        wait_for("the new MTU at both ends", || ["c", "s"].iter().all(|end| bed.status(end)["mtu"] == mtu));
        pings(&bed);
    }
    bed.down();
}

/// A path silently drops large packets, like a router that sends no ICMP errors: here, the far end of a link
/// accepts only 1400 bytes. The tunnel finds the path MTU, reports it to inner senders, and clamps the MSS of
/// TCP.
#[test]
fn a_black_hole_for_large_packets_is_found() {
    let Some(mut bed) = bed() else { return };
    // Large packets use path one, which the scheduler prefers. Black hole detection needs losses on this
    // path.
    bed.up("scheduler = \"cpf\"");
    let mtu = bed.status("c")["mtu"].as_u64().unwrap();
    run("ip", &format!("-n {} link set p0 mtu 1400", bed.space[1]));
    let large = format!("ping -c 1 -W 1 -M do -s {} {}", mtu - 28, SERVER[0]);
    wait_for("the smaller MTU of path one", || {
        bed.at_client(&large);
        let mtu = bed.client_path("one")["mtu"].as_u64().unwrap();
        // The link accepts four more bytes, for a VLAN tag.
        (1390..=1404).contains(&mtu)
    });
    let now = bed.status("c")["mtu"].as_u64().unwrap();
    assert!(now < mtu, "the interface has the smaller MTU");
    let fits = bed.at_client(&format!("ping -c 3 -i 0.2 -W 5 -M do -s {} {}", now - 28, SERVER[0]));
    assert!(String::from_utf8_lossy(&fits.stdout).contains(" 0% packet loss"));
    bed.down();
}

#[test]
fn traffic_survives_a_path_and_uses_it_again() {
    let Some(mut bed) = bed() else { return };
    // The preferred path carries traffic again as soon as it is back.
    bed.up("scheduler = \"cpf\"");
    // 1500 minus the sizes of IPv6, UDP, record, DCCP, and MP_SEQ with the flow option. The path with the
    // smaller MTU determines the size.
    assert_eq!(bed.status("c")["mtu"], 1500 - 40 - 8 - 32 - 16 - 16);
    pings(&bed);
    assert!(ip(&format!("-n {} route show dev tunC", bed.space[0])).contains("10.72.0.0/16"));

    let stream = Stream::start(&bed);
    stream.more(500);
    assert!(
        bed.client_path("one")["sent_packets"].as_u64() > Some(400),
        "the preferred path carries all datagrams"
    );
    let c = bed.space[0].clone();
    run("ip", &format!("-n {c} link set p0 down"));
    wait_for("path one leaves", || bed.client_path("one")["state"] != "up");
    stream.more(500);
    run("ip", &format!("-n {c} link set p0 up"));
    wait_for("path one returns", || bed.client_path("one")["state"] == "up");
    let before = bed.client_path("one")["sent_packets"].as_u64().unwrap();
    wait_for("path one is used", || bed.client_path("one")["sent_packets"].as_u64().unwrap() > before + 100);
    stream.more(500);
    let (sent, received) = stream.finish();
    // The only losses are packets that were in flight when the link failed, and a few others.
    assert!(sent - received < 200, "{} of {sent} lost", sent - received);
    let status = bed.status("s");
    assert_eq!(status["peers"][0]["state"], "open");
    bed.down();
    let trace = std::fs::read_to_string(bed.path("c.csv")).unwrap();
    let columns = trace.lines().next().unwrap().split(',').count();
    assert!(trace.lines().count() > 100 && trace.lines().all(|line| line.split(',').count() == columns));
}

/// A route into the tunnel that would capture the tunnel's own packets causes a warning, unless the path is
/// bound to an interface.
#[test]
fn a_remote_behind_the_tunnel_itself_is_warned_of() {
    let Some(mut bed) = bed() else { return };
    bed.allowed = "\"192.168.0.0/16\", \"fd00::/8\"".into();
    bed.up("");
    let log = bed.log("c");
    let warning = format!("path two: its remote {} is within fd00::/8", REMOTE[1]);
    assert!(log.contains(&warning) && !log.contains("path one: its remote"), "{log}");
    bed.down();
}

#[test]
fn interfaces_and_addresses_may_go_and_come_back() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    let c = bed.space[0].clone();
    let state = |path: &str| bed.client_path(path)["state"].clone();
    // The server may notice the failure only when it sends a packet, which is then lost.
    let lives = || wait_for("an echo", || bed.ping(SERVER[0]));
    // Path one is bound to its interface, path two to its address. There is no traffic now.
    run("ip", &format!("-n {c} link del p0"));
    wait_for("path one leaves with its interface", || state("one") != "up");
    lives();
    bed.link(0);
    wait_for("path one returns with its interface", || state("one") == "up");
    run("ip", &format!("-n {c} addr del {}/64 dev p1", LOCAL[1]));
    wait_for("path two leaves with its address", || state("two") != "up");
    lives();
    run("ip", &format!("-n {c} addr add {}/64 dev p1 nodad", LOCAL[1]));
    wait_for("path two returns with its address", || state("two") == "up");
    bed.down();
}

/// A path whose interface is missing waits for the interface. A path whose name does not resolve waits for an
/// address. If the address stops working, the tunnel looks the name up again.
#[test]
fn paths_wait_for_what_is_missing() {
    let Some(mut bed) = bed() else { return };
    let c = bed.space[0].clone();
    run("ip", &format!("-n {c} link del p0"));
    // There is no name server, so that looking up a name that is not in the file fails at once.
    bed.spaces.etc("c", "resolv.conf", "");
    bed.spaces.etc("c", "hosts", "");
    bed.remote[1] = "hub.example.org:6511".into();
    bed.launch("");
    let why = |path: &str| bed.client_path(path)["why"].as_str().unwrap_or_default().to_owned();
    wait_for("path one waits", || why("one").contains("no interface `p0`"));
    wait_for("path two waits", || why("two").contains("cannot look up hub.example.org"));
    bed.spaces.etc("c", "hosts", &format!("{} hub.example.org\n", REMOTE[1]));
    wait_for("path two joins", || bed.client_path("two")["state"] == "up");
    bed.link(0);
    wait_for("path one joins", || bed.client_path("one")["state"] == "up");
    // The server moves, so its name resolves to a new address.
    let s = bed.space[1].clone();
    run("ip", &format!("-n {s} addr add fd71::9/64 dev p1 nodad"));
    run("ip", &format!("-n {s} addr del {}/64 dev p1", REMOTE[1]));
    bed.spaces.etc("c", "hosts", "fd71::9 hub.example.org\n");
    wait_for("path two follows its name", || {
        let path = bed.client_path("two");
        path["state"] == "up" && path["remote"] == "[fd71::9]:6511"
    });
    // The cable is unplugged at the other end. The interface loses its link, and the log says so.
    run("ip", &format!("-n {s} link set p0 down"));
    wait_for("path one leaves", || bed.client_path("one")["state"] != "up");
    wait_for("the log line with the reason", || bed.log("c").contains("p0 has no link"));
    bed.down();
}

/// A path whose `interface` is a pattern uses a new interface that matches it. If that interface disappears,
/// the path moves to another matching interface.
#[test]
fn interfaces_that_appear_join_by_a_pattern() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    let [c, s] = [bed.space[0].clone(), bed.space[1].clone()];
    let plug = |n: usize| {
        let name = format!("stick{n}");
        run("ip", &format!("link add {name} netns {c} type veth peer name {name} netns {s}"));
        for (space, end) in [(&s, 2), (&c, 1)] {
            run("ip", &format!("-n {space} addr add 192.168.{}.{end}/24 dev {name}", 80 + n));
            run("ip", &format!("-n {space} link set {name} up"));
        }
        run(
            "ip",
            &format!("-n {c} route add {} via 192.168.{}.2 dev {name} metric {}", REMOTE[0], 80 + n, 9 + n),
        );
    };
    let stick = || bed.client_path("stick");
    let goes_through = |n: usize| {
        wait_for("the path", || {
            let seen = bed.status("s")["peers"][0]["paths"].to_string();
            stick()["state"] == "up" && seen.contains(&format!("192.168.{}.1:", 80 + n))
        });
    };
    let added = bed.tunnel("c", &["path", "add", "stick", "--interface", "stick*", "--remote", REMOTE[0]]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    wait_for("the path reports that it waits", || {
        stick()["why"].as_str().is_some_and(|why| why.contains("no interface `stick*`"))
    });
    plug(0);
    goes_through(0);
    plug(1);
    run("ip", &format!("-n {c} link del stick0"));
    goes_through(1);
    pings(&bed);
    bed.down();
}

#[test]
fn native_dccp_carries_it_too() {
    let Some(mut bed) = bed() else { return };
    bed.up("security = \"none\"\nencapsulation = \"raw\"\nccid = 2");
    assert_eq!(bed.status("c")["mtu"], 1500 - 40 - 16 - 16);
    pings(&bed);
    let stream = Stream::start(&bed);
    stream.more(300);
    let (sent, received) = stream.finish();
    assert!(sent - received < 50, "{received} of {sent}");
    // The checksum covers the source address, which has changed.
    let moved = "192.168.71.9";
    for command in [format!("addr del {}/24 dev p0", LOCAL[0]), format!("addr add {moved}/24 dev p0")] {
        run("ip", &format!("-n {} {command}", bed.space[0]));
    }
    wait_for("the path from the new address", || {
        let seen = bed.status("s")["peers"][0]["paths"].to_string();
        seen.contains(moved) && bed.client_path("one")["state"] == "up"
    });
    pings(&bed);
    let sockets = bed.status("s")["sockets"].as_array().unwrap().clone();
    assert!(sockets.iter().all(|s| s["drops"]["rx_bad_checksum"].is_null()), "{sockets:?}");
    bed.down();
    decodes(&bed);
}

/// Records are carried as IP protocol 33. The network carries nothing but records, and they arrive unchanged.
#[test]
fn records_travel_without_udp_too() {
    let Some(mut bed) = bed() else { return };
    bed.up("encapsulation = \"raw\"");
    assert_eq!(bed.status("c")["mtu"], 1500 - 40 - 32 - 16 - 16);
    pings(&bed);
    let stream = Stream::start(&bed);
    stream.more(300);
    // The source address of the records does not matter.
    let moved = "192.168.71.9";
    for command in [format!("addr del {}/24 dev p0", LOCAL[0]), format!("addr add {moved}/24 dev p0")] {
        run("ip", &format!("-n {} {command}", bed.space[0]));
    }
    stream.more(300);
    let (sent, received) = stream.finish();
    assert!(sent - received < 50, "{received} of {sent}");
    wait_for("the server follows the client", || bed.log("s").contains(&format!("moved to {moved}")));
    for end in ["c", "s"] {
        let status = bed.status(end);
        assert!(status["channels"]["forged"].is_null(), "{}", status["channels"]);
        assert!(
            status["sockets"].as_array().unwrap().iter().all(|s| s["drops"]["rx_bad_checksum"].is_null())
        );
    }
    bed.down();
    let capture = std::fs::read(bed.path("c.pcap")).unwrap();
    let packets = crate::common::ip_payloads(&capture);
    assert!(packets.len() > 600 && packets.iter().all(|p| p.0 == 33 && p.1[0] == 0x52 && p.1.len() >= 32));
}

#[test]
fn paths_come_and_go_by_command() {
    let Some(mut bed) = bed() else { return };
    bed.up("security = \"none\"");
    let ok = |args: &[&str]| {
        let output = bed.tunnel("c", args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    ok(&["path", "del", "one"]);
    wait_for("path one is gone", || bed.client_path("one")["state"] != "up");
    pings(&bed);
    ok(&["path", "add", "again", "--local", LOCAL[0], "--remote", REMOTE[0], "--priority", "4"]);
    wait_for("the new path is up", || bed.client_path("again")["state"] == "up");
    assert_eq!(bed.client_path("again")["priority"], 4);
    // If a path is removed and added again under its old name, the name is listed only once.
    ok(&["path", "del", "again"]);
    ok(&["path", "add", "again", "--local", LOCAL[0], "--remote", REMOTE[0], "--priority", "4"]);
    let named = || {
        let paths = bed.status("c")["peers"][0]["paths"].as_array().unwrap().clone();
        paths.iter().filter(|path| path["name"] == "again").count()
    };
    assert_eq!(named(), 1, "{}", bed.status("c")["peers"][0]["paths"]);
    wait_for("the path that was added again is up", || bed.client_path("again")["state"] == "up");
    assert_eq!(named(), 1);
    ok(&["path", "prio", "again", "2"]);
    wait_for("the new priority of the path", || bed.client_path("again")["priority"] == 2);
    pings(&bed);
    for (args, words) in [
        (&["path", "del", "nine"][..], "again"),
        (&["path", "add", "two", "--local", LOCAL[0], "--remote", REMOTE[0]], "already"),
        (&["path", "add", "x", "--local", "192.0.2.9", "--remote", REMOTE[0]], "no address 192.0.2.9"),
        (&["path", "add", "x", "--remote", REMOTE[0]], "no source"),
        (&["path", "prio", "two", "16"], "0 to 15"),
        (&["path", "del", "two", "--peer", "nobody"], "server"),
    ] {
        let output = bed.tunnel("c", args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && message.contains(words), "{args:?}: {message}");
    }
    let text = bed.tunnel("c", &["status"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("again"));
    bed.down();
    assert!(
        !bed.log("c").contains("did not answer the close"),
        "the peer answers the close, so the path does not wait for the timeout"
    );
    decodes(&bed);
}

/// RFC 9897 section 3.2.8: the client joins advertised addresses. A path to such an address can carry the
/// session on its own. The client gives up on an address that does not answer (section 3.4).
#[test]
fn advertised_addresses_are_joined() {
    let Some(mut bed) = bed() else { return };
    let s = bed.space[1].clone();
    run("ip", &format!("-n {s} addr add 192.168.71.3/32 dev p0"));
    let told = "advertise = [\"192.168.71.3\", \"192.168.71.4\"]\nrole = \"server\"";
    bed.change.push(("s", "role = \"server\"".into(), told.into()));
    let join = "join_advertised = \"mesh\"\nrole = \"client\"";
    bed.change.push(("c", "role = \"client\"".into(), join.into()));
    bed.launch("");
    wait_for("the address is joined", || bed.client_path("one@192.168.71.3")["state"] == "up");
    assert!(bed.client_path("two@192.168.71.3").is_null(), "IPv6");
    wait_for("the client gives up the other address", || {
        bed.log("c").contains("cannot connect path one@192.168.71.4")
    });
    // Now only the path to the advertised address is left.
    for change in ["route add 192.168.71.1/32 dev p0", "addr del 192.168.71.2/24 dev p0", "link set p1 down"]
    {
        assert!(run("ip", &format!("-n {s} {change}")).status.success(), "{change}");
    }
    wait_for("the other paths are down", || {
        bed.ping(SERVER[0]);
        ["one", "two"].iter().all(|name| bed.client_path(name)["state"] != "up")
    });
    pings(&bed);
    bed.down();
}

#[test]
fn garbage_and_strangers_are_counted_and_change_nothing() {
    let Some(mut bed) = bed() else { return };
    bed.up("security = \"none\"");
    let garbage = socket(&bed.space[0], &format!("{}:0", LOCAL[0]));
    for len in 0..200usize {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 37 + len * 11) as u8).collect();
        garbage.send_to(&bytes, format!("{}:6511", REMOTE[0])).unwrap();
    }
    let counted = || {
        let status = bed.status("s");
        let sum =
            |counters: &Value| counters.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
        let sockets = status["sockets"].as_array().unwrap();
        sum(&status["endpoint"]) + sockets.iter().map(|socket| sum(&socket["drops"])).sum::<u64>()
    };
    wait_for("all dropped packets are counted", || counted() == 200);
    // This inner source address does not belong to the client.
    run("ip", &format!("-n {} addr add 10.71.0.99/32 dev tunC", bed.space[0]));
    socket(&bed.space[0], "10.71.0.99:0").send_to(b"not mine", format!("{}:7000", SERVER[0])).unwrap();
    wait_for("bad_source", || bed.status("s")["tun"]["drops"]["bad_source"] == 1);
    pings(&bed);
    // Start a second tunnel with the same interface and control socket.
    let config = bed.path("c.toml");
    let again =
        bed.at_client(&format!("{} tunnel up --config {}", env!("CARGO_BIN_EXE_mpdccp"), config.display()));
    let message = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.code() == Some(2) && message.contains("another mpdccp is running"), "{message}");
    bed.down();
}

/// Wireshark recognises the records, and decrypts them with the key log.
#[test]
fn records_are_shown_and_opened_with_their_keys() {
    opened_with_their_keys("ccid = 2", "dccpudp", 40);
}

/// The same works with native DCCP, which needs a checksum.
#[test]
fn records_without_udp_are_shown_and_opened_too() {
    opened_with_their_keys("ccid = 2\nencapsulation = \"raw\"", "dccp", 32);
}

/// Checks that captured records can be decrypted with the key log and cannot be read without it. `empty` is
/// the size of an empty record including the UDP header, in bytes.
fn opened_with_their_keys(common: &str, protocol: &str, empty: usize) {
    let Some(mut bed) = bed() else { return };
    let keylog = bed.path("keys");
    // These files exist and all users can read them, which the program must change.
    let open = bed.path("open.pcap");
    for file in [&keylog, &open] {
        std::fs::write(file, "").unwrap();
        set_mode(file, 0o644);
    }
    let mode = |file: &std::path::Path| {
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(file).unwrap()) & 0o777
    };
    bed.up_with(common, &format!("keylog = {keylog:?}"));
    pings(&bed);
    bed.down();
    let shown = |filter: &str| bed.decoded(filter).map(|text| text.lines().count());
    let Some(records) = shown("mpdccprec.kind == 0") else { return };
    assert!(
        records > 20 && shown("mpdccprec.kind == 1") >= Some(2) && shown("mpdccprec.kind == 2") >= Some(2)
    );
    assert_eq!(shown(protocol), Some(0), "no packet is readable without keys");
    assert_eq!(mode(&keylog), 0o600);
    let sealed = bed.path("c.pcap");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    command.args(["tunnel", "decrypt", "--keylog"]).arg(&keylog).arg(&sealed).arg(&open);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(mode(&open), 0o600);
    std::fs::rename(open, sealed).unwrap();
    let left = format!("mpdccprec.kind == 0 && (ip.len > {} || ipv6.plen > {empty})", empty + 20);
    assert_eq!(shown(&left), Some(0), "no record is left undecrypted");
    assert!(shown(&format!("{protocol} && mpdccp.seq")) > Some(20));
    let bad = "_ws.malformed || ip.checksum.status == \"Bad\" || dccp.checksum.status == \"Bad\"";
    let bad = bed.decoded(bad).unwrap();
    assert!(bad.is_empty(), "{bad}");
}

/// Packets on the wire reveal nothing and cannot be replayed. Packets without a valid key get no answer. If
/// the peer moves, the server follows it.
#[test]
fn an_encrypted_tunnel_is_closed_to_others_and_follows_its_peer() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    let word = "a word that must not be seen on the wire";
    socket(&bed.space[0], &format!("{}:0", CLIENT[0]))
        .send_to(word.as_bytes(), format!("{}:7", SERVER[0]))
        .unwrap();
    pings(&bed);
    // From another address, replay everything that the client has sent. No packet may get an answer.
    run("ip", &format!("-n {} addr add 192.168.71.66/24 dev p0", bed.space[0]));
    let stranger = socket(&bed.space[0], "192.168.71.66:0");
    stranger.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let datagrams = udp_payloads(&std::fs::read(bed.path("c.pcap")).unwrap());
    assert!(datagrams.len() > 20);
    for bytes in datagrams.iter().chain([&vec![0x52; 188], &vec![1, 2, 3]]) {
        assert!(!bytes.windows(word.len()).any(|w| w == word.as_bytes()), "plaintext on the wire");
        stranger.send_to(bytes, format!("{}:6511", REMOTE[0])).unwrap();
    }
    assert!(stranger.recv_from(&mut [0; 2000]).is_err(), "a stranger was answered");
    let dropped =
        || bed.status("s")["channels"].as_object().map_or(0, |c| c.values().filter_map(Value::as_u64).sum());
    wait_for("the count of replayed packets", || dropped() >= 20u64);
    pings(&bed);
    // The address changes while the tunnel is running.
    run("ip", &format!("-n {} addr del 192.168.71.66/24 dev p0", bed.space[0]));
    for change in ["add 192.168.71.77/24", &format!("del {}/24", LOCAL[0])] {
        run("ip", &format!("-n {} addr {change} dev p0", bed.space[0]));
    }
    run("ip", &format!("-n {} addr add 192.168.71.77/24 dev p0", bed.space[0]));
    let seen = || bed.status("s")["peers"][0]["paths"].to_string();
    wait_for("the server sees the new address", || seen().contains("192.168.71.77:"));
    wait_for("the path is up at the new address", || bed.client_path("one")["state"] == "up");
    pings(&bed);
    bed.down();
}
