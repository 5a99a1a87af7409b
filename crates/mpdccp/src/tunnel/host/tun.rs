//! Creates the TUN interface, and sets its addresses and queues.

use crate::error::Error;
use crate::tunnel::doctor::system;
use crate::tunnel::host::routes::{ip, lacks_ipv6};
use dccp_net::{Tun, TunConfig};
use ipnet::IpNet;
use mpdccp_tunnel::config::Config;
use std::io::ErrorKind;

/// A handle of the TUN interface, and its MTU. All shards share the interface.
pub(crate) struct Interface {
    pub(crate) tun: Tun,
    pub(crate) mtu: u16,
}

/// Creates the interface, given that the paths carry inner packets of up to `carried` bytes.
pub(crate) fn create(cfg: &Config, carried: u16) -> Result<Interface, Error> {
    let name = &cfg.interface;
    let mtu = mpdccp_tunnel::interface_mtu(cfg, carried).map_err(Error::usage)?;
    // Check this first, because the kernel's error is the same as for a missing permission.
    if let Some(net) = cfg.addresses.iter().find(|net| net.addr().is_ipv6() && lacks_ipv6("default")) {
        return Err(Error::usage(format!(
            "addresses: IPv6 is disabled on this host, so {name} cannot have {net}; remove this address, or run \
             `sysctl -w net.ipv6.conf.default.disable_ipv6=0`"
        )));
    }
    let addresses = cfg.addresses.iter().map(|a| (a.addr(), a.prefix_len())).collect();
    let device = TunConfig { name: name.clone(), addresses, mtu, offload: cfg.offload };
    let tun = if cfg.shards.0 > 1 { Tun::create_queued(&device) } else { Tun::create(&device) };
    let tun = tun.map_err(|e| {
        let why = match e.kind() {
            ErrorKind::PermissionDenied => {
                "no permission: creating an interface needs CAP_NET_ADMIN; run as root (sudo) or in a user namespace".into()
            }
            ErrorKind::NotFound => {
                "/dev/net/tun does not exist; load the `tun` module (modprobe tun), or give the container the device".into()
            }
            ErrorKind::ResourceBusy => {
                "an interface of this name exists, perhaps of another tunnel; set another name with `interface`".into()
            }
            _ => e.to_string(),
        };
        Error::usage(format!("cannot create interface {name}: {why}"))
    })?;
    Ok(Interface { tun, mtu })
}

/// Changes the addresses of the interface. Refuses an address that lies in a network of another interface. An
/// error restores the previous addresses. If IPv6 is disabled, sets only the IPv4 addresses.
pub(crate) fn set_addresses(interface: &str, remove: &[IpNet], add: &[IpNet]) -> Result<(), String> {
    let (add, left_out): (Vec<IpNet>, Vec<IpNet>) =
        add.iter().partition(|net| net.addr().is_ipv4() || !lacks_ipv6(interface));
    for net in left_out {
        tracing::warn!(
            "IPv6 is disabled on {interface}, so it does not get the address {net} from the server"
        );
    }
    // If `ip` fails, the networks of this host are not checked.
    for other in system::interfaces().unwrap_or_default().iter().filter(|other| other.name != interface) {
        let overlap = |given: &IpNet| other.addresses.iter().find(|net| net.contains(&given.addr()));
        if let Some((given, net)) = add.iter().find_map(|given| Some((given, overlap(given)?))) {
            return Err(format!(
                "the server assigned {given}, which overlaps the network {} of {} on this host; change the server's pool",
                net.trunc(),
                other.name
            ));
        }
    }
    let change =
        |what: &str, net: &IpNet| ip(&["address", what, &net.to_string(), "dev", interface]).map(drop);
    // Ignore errors in removing an address: another program may have removed it.
    let all = |what: &str, nets: &[IpNet]| nets.iter().for_each(|net| drop(change(what, net)));
    all("del", remove);
    add.iter().try_for_each(|net| change("replace", net)).map_err(|e| {
        all("del", &add);
        all("replace", remove);
        format!("cannot set the addresses of {interface}: {e}")
    })
}

/// Warns if the kernel cannot select the right queue for a packet, in which case the shards hand packets over
/// to each other.
pub(crate) fn log_queue_selection(cfg: &Config, done: std::io::Result<()>) {
    if let Err(e) = done {
        tracing::warn!(
            "{}: the kernel cannot select the queue of a packet ({e}); shards pass packets to each other instead",
            cfg.interface
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::host::routes::{RouteChange, route};

    #[test]
    fn an_address_that_cannot_be_set_leaves_the_previous_ones() {
        // Only root can create a network namespace for this thread.
        if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_err() {
            return;
        }
        let [before, one, multicast] =
            ["10.71.0.1/24", "10.71.0.2/24", "ff02::1/64"].map(|net| net.parse().unwrap());
        let has = |net: &IpNet| ip(&["address", "show", "dev", "lo"]).unwrap().contains(&net.to_string());
        // The second attempt must succeed although the new address already exists and the old one is gone.
        for _ in 0..2 {
            set_addresses("lo", &[one], &[before]).unwrap();
        }
        assert!(set_addresses("lo", &[before], &[one, multicast]).unwrap_err().contains("lo"));
        assert!(has(&before) && !has(&one));
        set_addresses("lo", &[before], &[one]).unwrap();
        assert!(has(&one) && !has(&before));
    }

    #[test]
    fn a_host_without_ipv6_gets_its_ipv4_addresses_and_routes() {
        // Only root can create a network namespace for this thread. In some containers, /proc/sys is
        // read-only.
        let file = "/proc/sys/net/ipv6/conf/lo/disable_ipv6";
        if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_err()
            || std::fs::write(file, "1").is_err()
        {
            return;
        }
        let [v4, v6] = ["10.71.0.1/24", "fd00::1/64"].map(|net| net.parse().unwrap());
        set_addresses("lo", &[], &[v4, v6]).unwrap();
        let shown = ip(&["address", "show", "dev", "lo"]).unwrap();
        assert!(shown.contains("10.71.0.1/24") && !shown.contains("fd00::1"), "{shown}");
        route(RouteChange::Add, "fd01::/64".parse().unwrap(), "lo").unwrap();
    }
}
