//! A network namespace of one thread, with its own TUN device. In it, the kernel's TCP answers for any
//! address.

use dccp_net::{Tun, TunConfig};
use nix::sched::{CloneFlags, unshare};
use std::io;
use std::process::Command;

/// The TUN device inside the namespace.
pub const INTERFACE: &str = "proxy0";
/// Routing table in which every address is local. It is used only for packets from the device.
const TABLE: &str = "100";
/// Routing table for connections that offer ECN. The socket's mark selects it.
const ECN_TABLE: &str = "101";
/// Mark of sockets that offer ECN.
pub(crate) const ECN_MARK: u32 = 1;

/// The private namespace of the thread that created it. It is removed when the thread has
/// ended and the device's descriptors are closed.
pub struct Namespace {
    tun: Tun,
}

impl Namespace {
    /// Moves the calling thread into a new network namespace, and sets up the namespace. Its default route is
    /// a TUN device with this MTU. Every address is local for packets that arrive there. There is no source
    /// filter, and ports may be reused immediately.
    ///
    /// The thread stays in the namespace, and so do the sockets that it opens and the programs that it
    /// starts.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_SYS_ADMIN and CAP_NET_ADMIN; other errors of the system or of the `ip`
    /// command.
    pub fn enter(mtu: u16) -> io::Result<Namespace> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let v6 = mtu >= 1280;
        for (key, value) in SETTINGS {
            // A kernel without IPv6 lacks some of these files.
            let _ = std::fs::write(format!("/proc/sys/net/{key}"), value);
        }
        let config = TunConfig { name: INTERFACE.into(), addresses: Vec::new(), mtu, offload: true };
        let tun = Tun::create(&config)?;
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{INTERFACE}/rp_filter"), "0");
        ip("link set lo up")?;
        ip(&format!("link set {INTERFACE} up"))?;
        for version in if v6 { &["-4", "-6"][..] } else { &["-4"] } {
            ip(&format!("{version} route add default dev {INTERFACE}"))?;
            ip(&format!("{version} rule add iif {INTERFACE} lookup {TABLE}"))?;
            ip(&format!("{version} route add local default dev lo table {TABLE}"))?;
            ip(&format!("{version} rule add fwmark {ECN_MARK} iif lo lookup {ECN_TABLE}"))?;
            ip(&format!("{version} route add default dev {INTERFACE} table {ECN_TABLE} features ecn"))?;
        }
        Ok(Namespace { tun })
    }

    /// The device. Packets written to it reach the kernel's TCP in the namespace, and the kernel's packets
    /// are read from it.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }
}

/// Settings of the namespace.
const SETTINGS: [(&str, &str); 6] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    // The same ports may be reused within a minute, as they may be between the two hosts.
    ("ipv4/tcp_tw_reuse", "1"),
    // Hosts connect from and to ports below 1024. The thread has dropped the capability that these require.
    ("ipv4/ip_unprivileged_port_start", "0"),
    ("ipv4/ip_forward", "0"),
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
