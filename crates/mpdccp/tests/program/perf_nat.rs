//! Tests simultaneous open (RFC 5596) through two NATs. Each NAT lets in only answers to packets that it has
//! let out.

use crate::common::spaces::Spaces;
use std::process::Stdio;

const NA: &str = "203.0.113.1";
const NB: &str = "203.0.113.2";
/// UDP port and DCCP port of the client.
const PORT: &str = "50111";

/// Creates the namespaces. Client `a` is behind NAT `na`, and server `b` is behind NAT `nb`. `net` is the
/// network between the NATs.
fn world() -> Option<Spaces> {
    let world = Spaces::new("mpi", &["a", "na", "net", "nb", "b"], &["nft"])?;
    world.sh("net", "ip link add name bridge0 type bridge && ip link set bridge0 up");
    for (nat, host, public, i) in [("na", "a", NA, 1), ("nb", "b", NB, 2)] {
        world.link((nat, "wan"), ("net", nat));
        world.link((nat, "lan"), (host, "eth"));
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
    Some(world)
}

#[test]
fn a_server_behind_a_nat_is_reached_by_a_client_behind_another() {
    let Some(mut world) = world() else { return };
    let client = |world: &Spaces| {
        world
            .mpdccp("a", &format!("perf -c {NB} --cport {PORT} -k 50 --ccid 2"))
            .stderr(Stdio::null())
            .status()
            .unwrap()
    };
    world.ends.push(world.mpdccp("b", "perf -s").spawn().unwrap());
    assert!(!client(&world).success(), "without Listen packets nothing gets in");
    let mut server = world.ends.pop().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    world.ends.push(world.mpdccp("b", &format!("perf -s --rendezvous {NA}:{PORT}")).spawn().unwrap());
    // The client may start before the server sends a Listen packet, because it repeats its Request.
    assert!(client(&world).success());
}
