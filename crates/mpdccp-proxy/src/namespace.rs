//! A network namespace for one thread, with its own TUN device. In this namespace, the kernel's TCP accepts
//! connections to any address.

use dccp_net::{Tun, TunConfig, has_ipv6};
use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::process::Command;

/// Name of the TUN device inside the namespace.
pub const INTERFACE: &str = "proxy0";
/// Number of the routing table in which every address is local. Only packets from the TUN device use this
/// table.
const TABLE: &str = "100";
/// Number of the routing table that turns on ECN. Sockets with the mark [`ECN_MARK`] use this table.
const ECN_TABLE: &str = "101";
/// Mark of the sockets that offer ECN.
pub(crate) const ECN_MARK: u32 = 1;

/// A private network namespace. The kernel removes it when its thread has ended and all descriptors of its
/// TUN device are closed.
pub struct Namespace {
    tun: Tun,
}

impl Namespace {
    /// Moves the calling thread into a new network namespace and sets up the namespace. The default route
    /// leads to a TUN device with this MTU. For packets that arrive from this device, every address is local.
    /// The namespace does not filter packets by source address, and TCP ports can be reused immediately.
    ///
    /// The thread stays in the namespace, and so do the sockets that it opens and the programs that it
    /// starts.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_SYS_ADMIN and CAP_NET_ADMIN. Other errors come from the system or from
    /// the `ip` command.
    pub fn enter(mtu: u16) -> io::Result<Namespace> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        for (key, value) in SETTINGS {
            // Ignore errors, because on a kernel without IPv6 some of these files do not exist.
            let _ = std::fs::write(format!("/proc/sys/net/{key}"), value);
        }
        let config = TunConfig { name: INTERFACE.into(), addresses: Vec::new(), mtu, offload: true };
        let tun = Tun::create(&config)?;
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{INTERFACE}/rp_filter"), "0");
        ip("link set lo up")?;
        ip(&format!("link set {INTERFACE} up"))?;
        for version in versions(mtu, has_ipv6()) {
            ip(&format!("{version} route add default dev {INTERFACE}"))?;
            ip(&format!("{version} rule add iif {INTERFACE} lookup {TABLE}"))?;
            ip(&format!("{version} route add local default dev lo table {TABLE}"))?;
            ip(&format!("{version} rule add fwmark {ECN_MARK} iif lo lookup {ECN_TABLE}"))?;
            ip(&format!("{version} route add default dev {INTERFACE} table {ECN_TABLE} features ecn"))?;
        }
        Ok(Namespace { tun })
    }

    /// Returns the device. Packets written to it are received by the kernel's TCP in the namespace; reading
    /// from it returns the packets that the kernel sends.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }

    /// Waits up to 20 ms for packets from the kernel, and returns whether there are any. The wait is needed
    /// because another processor may still be passing sent packets to the device.
    pub fn sends_more(&self) -> bool {
        let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        poll(&mut [PollFd::new(&self.tun, PollFlags::IN)], Some(&wait)).is_ok_and(|ready| ready > 0)
    }
}

/// Returns the options of `ip` for the IP versions that a device with this MTU can carry. `v6` says whether
/// the kernel has IPv6.
fn versions(mtu: u16, v6: bool) -> &'static [&'static str] {
    if v6 && mtu >= 1280 { &["-4", "-6"] } else { &["-4"] }
}

/// Settings of the namespace.
const SETTINGS: [(&str, &str); 7] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    // Two hosts may reuse the ports of a closed connection within a minute, so the proxy must be able to do
    // the same.
    ("ipv4/tcp_tw_reuse", "1"),
    // Hosts use ports below 1024. The thread needs this setting because it has dropped CAP_NET_BIND_SERVICE.
    ("ipv4/ip_unprivileged_port_start", "0"),
    ("ipv4/ip_forward", "0"),
    // A new namespace may inherit from the host or from the kernel's command line that IPv6 is disabled.
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
];

fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("`ip {arguments}` failed in the proxy's namespace: {said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_ipv6_proxies_ipv4() {
        assert_eq!(versions(1_400, false), ["-4"]);
        assert_eq!((versions(1_400, true), versions(1_279, true)), (&["-4", "-6"][..], &["-4"][..]));
    }
}
