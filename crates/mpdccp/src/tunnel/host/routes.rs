//! Sets routes into the interface with the program `ip`.

use dccp_net::has_ipv6;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::process::Command;
use std::sync::Once;

/// The mark of the tunnel's own packets. The same number identifies the routing table of `default_route` and
/// is the preference of its rule. In ASCII, it spells "mp".
pub(crate) const MARK: u32 = 0x6d70;

/// Arguments of `ip` for rules and routes that must outlive a restart of systemd-networkd. When it starts, it
/// deletes those that its own files do not contain, except those of the kernel.
pub(crate) const LASTING: [&str; 2] = ["protocol", "kernel"];

/// Returns whether the kernel refuses IPv6 addresses of an interface and IPv6 routes into it. For interfaces
/// that do not exist yet, `interface` is `default`.
pub(crate) fn lacks_ipv6(interface: &str) -> bool {
    sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"))
        .map_or_else(|| !has_ipv6(), |value| value == "1")
}

/// Returns the value of a sysctl setting.
pub(crate) fn sysctl(name: &str) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().to_owned())
}

/// Returns whether this host forwards packets between interfaces.
pub(crate) fn forwards(v4: bool) -> bool {
    let name = if v4 { "net/ipv4/ip_forward" } else { "net/ipv6/conf/all/forwarding" };
    sysctl(name).is_some_and(|value| value != "0")
}

/// How to change a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RouteChange {
    Add,
    Replace,
    Del,
}

/// Changes a route into the interface. If IPv6 is disabled, leaves out IPv6 routes.
pub(crate) fn route(change: RouteChange, net: IpNet, interface: &str) -> Result<(), String> {
    if net.addr().is_ipv6() && lacks_ipv6(interface) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| tracing::warn!("IPv6 is disabled on {interface}, so it gets no IPv6 routes"));
        return Ok(());
    }
    let family = if net.addr().is_ipv4() { "-4" } else { "-6" };
    let what = match change {
        RouteChange::Add => "add",
        RouteChange::Replace => "replace",
        RouteChange::Del => "del",
    };
    ip(&[family, "route", what, &net.to_string(), "dev", interface]).map(drop)
}

/// Runs `ip` and returns its output. The error is a text for the log.
pub(crate) fn ip(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(args).output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => "the program `ip` is missing (package iproute2); install it".to_owned(),
        _ => format!("cannot start `ip`: {e}"),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let why =
        if lacks_feature(&why) { "BusyBox's `ip` cannot do this; install iproute2" } else { why.trim() };
    Err(format!("`ip {}`: {why}", args.join(" ")))
}

/// Returns whether this is an error of BusyBox's `ip`, the default of Alpine and OpenWrt, about an option or
/// argument that it does not know.
fn lacks_feature(error: &str) -> bool {
    error.contains("BusyBox v") || error.starts_with("ip: invalid argument ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_busybox_does_not_know_needs_iproute2() {
        assert!(lacks_feature(
            "ip: unrecognized option: j\nBusyBox v1.36.1 (2023-11-07) multi-call binary.\n"
        ));
        assert!(lacks_feature("ip: invalid argument 'suppress_prefixlength' to 'ip'\n"));
        for same_with_iproute2 in ["ip: RTNETLINK answers: File exists\n", "RTNETLINK answers: File exists\n"]
        {
            assert!(!lacks_feature(same_with_iproute2));
        }
    }
}
