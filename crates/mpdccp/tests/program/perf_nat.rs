//! Simultaneous open (RFC 5596) through two NATs, each of which lets in only answers to what passed outwards.

use crate::common::{missing, run};
use std::process::{Child, Command, Stdio};

/// A client behind `na`, a server behind `nb`, and the network between the NATs in `net`.
const SPACES: [&str; 5] = ["a", "na", "net", "nb", "b"];
const NA: &str = "203.0.113.1";
const NB: &str = "203.0.113.2";
/// UDP and DCCP port of the client.
const PORT: &str = "50111";

struct World(String, Option<Child>);

impl World {
    fn new() -> World {
        let world = World(format!("mpi{}", std::process::id()), None);
        SPACES.iter().for_each(|name| drop(run("ip", &format!("netns add {}", world.space(name)))));
        world.sh("net", "ip link add name bridge0 type bridge && ip link set bridge0 up");
        for (nat, host, public, i) in [("na", "a", NA, 1), ("nb", "b", NB, 2)] {
            let [net, nat_space, host_space] = ["net", nat, host].map(|name| world.space(name));
            run("ip", &format!("link add wan netns {nat_space} type veth peer name {nat} netns {net}"));
            run("ip", &format!("link add lan netns {nat_space} type veth peer name eth netns {host_space}"));
            world.sh("net", &format!("ip link set {nat} master bridge0 up"));
            world.sh(host, &format!("ip addr add 10.0.{i}.2/24 dev eth && ip link set eth up && ip route add default via 10.0.{i}.1"));
            world.sh(
                nat,
                &format!(
                    "ip addr add {public}/24 dev wan && ip addr add 10.0.{i}.1/24 dev lan && ip link set wan up && ip link set lan up
                    sysctl -qw net.ipv4.ip_forward=1; nft -f - <<'END'
table ip t {{
  chain out {{ type nat hook postrouting priority srcnat; oifname wan masquerade; }}
  chain in {{ type filter hook input priority 0; iifname wan ct state established,related accept; iifname wan drop; }}
  chain through {{ type filter hook forward priority 0; iifname wan ct state established,related accept; iifname wan drop; }}
}}
END
"
                ),
            );
        }
        world
    }

    fn space(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }

    fn sh(&self, name: &str, commands: &str) {
        let args = ["netns", "exec", &self.space(name), "sh", "-ec", commands];
        let output = Command::new("ip").args(args).output().unwrap();
        assert!(output.status.success(), "{commands}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    fn perf(&self, name: &str, args: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(name), env!("CARGO_BIN_EXE_mpdccp"), "perf"]);
        command.args(args.split_whitespace()).stdout(Stdio::null());
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(server) = &mut self.1 {
            let _ = server.kill();
            let _ = server.wait();
        }
        SPACES.iter().for_each(|name| drop(run("ip", &format!("netns del {}", self.space(name)))));
    }
}

#[test]
fn a_server_behind_a_nat_is_reached_by_a_client_behind_another() {
    if let Some(why) = missing() {
        return crate::common::skipped(why);
    }
    if Command::new("nft").arg("--version").output().is_err() {
        return crate::common::skipped("no program `nft`");
    }
    let mut world = World::new();
    let client = |world: &World| {
        world
            .perf("a", &format!("-c {NB} --cport {PORT} -k 50 --ccid 2"))
            .stderr(Stdio::null())
            .status()
            .unwrap()
    };
    world.1 = Some(world.perf("b", "-s").spawn().unwrap());
    assert!(!client(&world).success(), "without Listen packets nothing gets in");
    let mut server = world.1.take().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    world.1 = Some(world.perf("b", &format!("-s --rendezvous {NA}:{PORT}")).spawn().unwrap());
    // Whoever is first: the client repeats its Request.
    assert!(client(&world).success());
}
