//! Tests inner addresses and routes that the server assigns to a client over the session.

use crate::common::{Bed, CLIENT, SERVER, bed, run, wait_for};
use rustix::process::Signal;

const POOL: &str = r#"assign = { pool = ["10.71.0.0/28", "fd71:71::1:0/126"], routes = ["10.72.3.0/24", "198.18.0.0/15", "fd99::/16"] }"#;

/// Creates a bed whose client requests addresses. The server has a pool, and its configuration gives the peer
/// no address.
fn asking() -> Option<Bed> {
    let mut bed = bed()?;
    let state = format!("state = {:?}", bed.path("state"));
    let of_server = format!("addresses = [\"{}/24\", \"{}/64\"]", SERVER[0], SERVER[1]);
    let of_client = format!("addresses = [\"{}/24\", \"{}/64\"]", CLIENT[0], CLIENT[1]);
    let allowed = format!("allowed_ips = [\"{}/32\", \"{}/128\"]", CLIENT[0], CLIENT[1]);
    bed.change = vec![
        ("s", of_server.clone(), format!("{of_server}\n{state}\nmtu = 1300\n{POOL}")),
        ("s", allowed, String::new()),
        ("c", of_client, "addresses = \"auto\"".into()),
        // The client accepts routes from the server if they lie within these networks.
        ("c", "\"10.72.0.0/16\"".into(), "\"10.72.0.0/16\", \"198.18.0.0/15\", \"192.168.71.64/28\"".into()),
    ];
    Some(bed)
}

fn addresses(bed: &Bed) -> Vec<String> {
    let status = bed.status("c");
    status["addresses"].as_array().unwrap().iter().map(|a| a.as_str().unwrap().to_owned()).collect()
}

fn shown(bed: &Bed, what: &str) -> String {
    String::from_utf8(run("ip", &format!("-n {} {what} dev tunC", bed.space[0])).stdout).unwrap()
}

/// Changes the server's configuration and reloads it.
fn reload(bed: &Bed, from: &str, to: &str) {
    bed.edit("s", from, to);
    bed.reload("s");
}

fn no_address(bed: &Bed, words: &str) {
    wait_for(words, || bed.status("c")["no_address"].as_str().is_some_and(|why| why.contains(words)));
    let health = bed.tunnel("c", &["health"]);
    assert_eq!(health.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&health.stderr).contains(words), "{health:?}");
    assert!(bed.log("c").contains(words), "the reason is in the log too");
}

#[test]
fn a_client_gets_addresses_routes_and_mtu_and_keeps_them() {
    let Some(mut bed) = asking() else { return };
    bed.up("");
    wait_for("addresses", || addresses(&bed).len() == 2);
    // The pool's first two addresses are not free: 10.71.0.0 is the network address, and 10.71.0.1 belongs to
    // the server.
    let given = vec!["10.71.0.2/24".to_owned(), "fd71:71::1:0/64".to_owned()];
    assert_eq!(addresses(&bed), given);
    wait_for("an echo", || bed.ping(SERVER[0]));
    assert!(bed.ping(SERVER[1]));
    let routes = shown(&bed, "route show");
    assert!(routes.contains("10.72.3.0/24") && routes.contains("198.18.0.0/15"), "{routes}");
    assert!(!shown(&bed, "-6 route show").contains("fd99"), "not within allowed_ips");
    assert!(bed.log("c").contains("ignoring the server's route to fd99::/16"));
    assert!(shown(&bed, "link show").contains("mtu 1300"), "{}", shown(&bed, "link show"));
    assert_eq!(bed.status("s")["peers"][0]["leased"][0], "10.71.0.2");
    // The address stays the same when either end restarts.
    bed.signal("c", Signal::KILL);
    bed.again("c");
    wait_for("the same addresses", || addresses(&bed) == given);
    bed.signal("s", Signal::KILL);
    bed.again("s");
    wait_for("an echo after the server's restart", || bed.ping(SERVER[0]));
    assert_eq!(addresses(&bed), given);
    // Change the pool while the tunnel is running.
    reload(&bed, "10.71.0.0/28", "10.71.0.64/28");
    wait_for("another address", || addresses(&bed)[0] == "10.71.0.64/24");
    wait_for("an echo with the new address", || bed.ping(SERVER[0]));
    let routes = shown(&bed, "route show");
    assert!(routes.contains("10.72.3.0/24") && routes.contains("10.71.0.0/24"), "{routes}");
    assert!(!shown(&bed, "address show").contains("10.71.0.2/"), "the old address is gone");
    bed.signal("c", Signal::HUP);
    wait_for("the reload", || bed.log("c").contains("reloaded"));
    assert_eq!(addresses(&bed)[0], "10.71.0.64/24");
    bed.down();
}

/// The kernel deletes all IPv4 routes into an interface together with its last IPv4 address.
#[test]
fn a_new_address_keeps_the_default_route() {
    let Some(mut bed) = asking() else { return };
    bed.allowed = "\"0.0.0.0/0\"".into();
    bed.up_with("", "default_route = true");
    let way = |bed: &Bed| String::from_utf8(bed.at_client("ip route get 203.0.113.1").stdout).unwrap();
    wait_for("addresses", || addresses(&bed).len() == 2);
    assert!(way(&bed).contains("dev tunC"), "{}", way(&bed));
    reload(&bed, "10.71.0.0/28", "10.71.0.64/28");
    wait_for("another address", || addresses(&bed)[0] == "10.71.0.64/24");
    assert!(way(&bed).contains("dev tunC"), "{}", way(&bed));
    bed.down();
}

#[test]
fn both_ends_report_an_impossible_assignment() {
    let Some(mut bed) = asking() else { return };
    bed.up("");
    wait_for("addresses", || addresses(&bed).len() == 2);
    // The pool has only the server's address, so no address is free.
    reload(&bed, "10.71.0.0/28", "10.71.0.1/32");
    no_address(&bed, "no free address left");
    assert!(bed.log("s").contains("no free address left in the pool"));
    assert!(bed.status("s")["tun"]["drops"]["no_address_to_assign"].as_u64() >= Some(1));
    // The client refuses this address, because it lies in one of the client's own networks.
    reload(&bed, "10.71.0.1/32", "192.168.71.64/30");
    no_address(&bed, "of p0 on this host");
    // The server does not assign an address that its configuration gives to another peer.
    let key = dccp_secure::PrivateKey::from_random([9; 32]).public();
    let other =
        format!("[[peer]]\nname = \"other\"\nallowed_ips = [\"10.71.0.8/32\"]\npublic_key = \"{key}\"");
    reload(&bed, "[[peer]]", &format!("{other}\n[[peer]]"));
    reload(&bed, "192.168.71.64/30", "10.71.0.8/31");
    wait_for("the other address", || addresses(&bed)[0] == "10.71.0.9/24");
    assert!(bed.status("c")["no_address"].is_null());
    wait_for("an echo", || bed.ping(SERVER[0]));
    // The configuration gives the peer its address. After that, the server stops assigning addresses
    // altogether.
    let name = "name = \"client\"";
    reload(&bed, name, &format!("{name}\nallowed_ips = [\"10.71.0.77/32\"]"));
    reload(&bed, "10.71.0.8/31", "10.71.0.64/26");
    wait_for("the address from the server's file", || addresses(&bed)[0] == "10.71.0.77/24");
    reload(&bed, "assign =", "#");
    no_address(&bed, "assigns no addresses");
}
