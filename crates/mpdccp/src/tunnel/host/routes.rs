//! Sets routes into the interface with the program `ip`.

use crate::tunnel::host::tun::lacks_ipv6;
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
    Err(format!("`ip {}`: {}", args.join(" "), why.trim()))
}
