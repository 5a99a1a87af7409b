//! Tests that the configurations written by `mpdccp tunnel init` and `import` make a working tunnel.

use crate::common::spaces::Spaces;
use crate::common::{able, printed, wait_for};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

/// Creates a client with two lines, and a server. If the test cannot run here, prints the reason and returns
/// `None`.
fn world() -> Option<Spaces> {
    let world = Spaces::new("mpi", &["c", "s"], &[])?;
    for (i, line) in ["eth0", "wwan0"].into_iter().enumerate() {
        world.link(("c", line), ("s", &format!("p{i}")));
        world.sh("s", &format!("ip addr add 192.168.{i}.1/24 dev p{i}; ip link set p{i} up"));
        world.sh("c", &format!("ip addr add 192.168.{i}.2/24 dev {line}; ip link set {line} up; ip route add default via 192.168.{i}.1 dev {line} metric {}", 100 + i));
    }
    world.sh("s", "ip addr add 203.0.113.1/32 dev lo");
    Some(world)
}

/// Runs `mpdccp tunnel` in the test's directory.
fn tunnel(world: &Spaces, name: &str, args: &[&str]) -> Output {
    let mut command = world.mpdccp(name, "tunnel");
    command.args(args).current_dir(world.path("")).stdin(Stdio::null()).stdout(Stdio::piped());
    command.output().unwrap()
}

/// Starts both ends with the generated configurations. The server must answer at its inner address, and both
/// paths must come up.
fn carries(world: &mut Spaces, server: &str) {
    for (name, file) in [("s", "server.toml"), ("c", "client.toml")] {
        let text = std::fs::read_to_string(world.path(file)).unwrap();
        world.up(name, &format!("state = {:?}\n{text}", world.path("state")));
    }
    wait_for("both paths", || world.is_healthy("c"));
    world.sh("c", &format!("ping -c 1 -W 5 {server}"));
}

#[test]
fn the_files_of_init_make_a_tunnel_over_the_lines_of_this_host() {
    let Some(mut world) = world() else { return };
    let init = ["init", "--server", "203.0.113.1", "--network", "10.9.0.0/24"];
    let output = tunnel(&world, "c", &init);
    let said = printed(&output);
    assert!(output.status.success(), "{said}");
    for words in [
        "Internet connections of this host: eth0 (eth0), lte (wwan0)",
        "1. ssh root@203.0.113.1 mkdir -p -m 700 /etc/mpdccp && scp -p ./server.toml root@203.0.113.1:",
        "ping 10.9.0.1",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
    for file in ["client.toml", "server.toml"] {
        assert_eq!(std::fs::metadata(world.path(file)).unwrap().permissions().mode() & 0o777, 0o600);
        let check = tunnel(&world, "c", &["check", file]);
        assert!(printed(&check).contains("no errors, no warnings"), "{}", printed(&check));
    }
    let before = std::fs::read(world.path("client.toml")).unwrap();
    let again = tunnel(&world, "c", &init);
    assert_eq!(again.status.code(), Some(2));
    assert!(printed(&again).contains("client.toml exists"), "{}", printed(&again));
    assert_eq!(std::fs::read(world.path("client.toml")).unwrap(), before);
    carries(&mut world, "10.9.0.1");
}

/// `tunnel up` refuses IPv6 addresses on a host where IPv6 is disabled.
#[test]
fn the_files_of_init_have_no_ipv6_address_where_ipv6_is_disabled() {
    let Some(mut world) = world() else { return };
    world.sh("c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
    let output = tunnel(&world, "c", &["init", "--server", "203.0.113.1", "--network", "10.9.0.0/24"]);
    assert!(output.status.success(), "{}", printed(&output));
    carries(&mut world, "10.9.0.1");
}

/// The client routes both IP versions into the tunnel, so the server must translate the addresses of both.
#[test]
fn the_steps_for_all_traffic_cover_both_ip_versions() {
    let Some(world) = world() else { return };
    let init = ["init", "--server", "203.0.113.1", "--all-traffic", "--lan", "192.168.88.0/24"];
    let said = printed(&tunnel(&world, "c", &init));
    assert_eq!(said.matches("net.ipv6.conf.all.forwarding=1").count(), 2, "{said}");
    assert_eq!(said.matches("accept_ra` prints 1").count(), 2, "{said}");
    let nat = said.lines().find_map(|line| line.split_once("at the server: nft "));
    let (_, nat) = nat.unwrap_or_else(|| panic!("no rule for the addresses\n{said}"));
    assert_eq!(nat.matches(" inet mpdccp").count(), 3, "{nat}");
    if able(&["nft"]) {
        world.sh("s", &format!("nft {nat}"));
    }
}

#[test]
fn init_says_what_is_wrong_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["--server", "not a host"][..], "--server"),
        (&["--server", "203.0.113.1", "--line", "eth0"], "expected NAME=INTERFACE"),
        (&["--server", "203.0.113.1", "--line", "a=b", "--network", "10.0.0.0/31"], "at least two hosts"),
        (
            &["--server", "203.0.113.1", "--line", "a=b", "--directory", "none"],
            "cannot write none/client.toml",
        ),
        (
            &["--server", "203.0.113.1", "--line", "a=b", "--line", "a=c", "--network", "10.9.0.0/24"],
            "is not valid",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
        let output = command.args(["tunnel", "init"]).args(args).current_dir(&directory).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            printed(&output).contains(words) && printed(&output).lines().count() == 1,
            "{}",
            printed(&output)
        );
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn two_files_of_wireguard_become_a_tunnel() {
    let Some(mut world) = world() else { return };
    let keys = [1, 2].map(|n| dccp_secure::PrivateKey::from_random([n; 32]));
    let [client, server] =
        [0, 1].map(|i: usize| (keys[i].to_base64().to_string(), keys[i].public().to_string()));
    let of_client = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.8.0.2/24\nPostUp = true\n\n[Peer]\nPublicKey = {}\nAllowedIPs = 10.8.0.0/24\nEndpoint = 203.0.113.1:51820\n",
        client.0, server.1
    );
    let of_server = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.8.0.1/24\nListenPort = 51820\n\n[Peer]\nPublicKey = {}\nAllowedIPs = 10.8.0.2/32\n",
        server.0, client.1
    );
    for (name, file, text_of, out) in
        [("c", "wg0.conf", of_client, "client.toml"), ("s", "hub.conf", of_server, "server.toml")]
    {
        std::fs::write(world.path(file), text_of).unwrap();
        let output = tunnel(&world, name, &["import", file, "--output", out]);
        assert!(output.status.success(), "{}", printed(&output));
        assert_eq!(
            printed(&output).contains("Not imported: line 4: PostUp = true"),
            name == "c",
            "{}",
            printed(&output)
        );
    }
    let wrong = tunnel(&world, "c", &["import", "client.toml"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", printed(&wrong));
    carries(&mut world, "10.8.0.1");
}
