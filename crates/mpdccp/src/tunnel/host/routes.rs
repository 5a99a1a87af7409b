//! Routes into the interface, set with the program `ip`.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::process::Command;

/// Mark of the tunnel's own packets. Also the number of the table of `default_route`, and the preference of
/// its rule. The value is "mp" in ASCII.
pub(crate) const MARK: u32 = 0x6d70;

/// Change of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RouteChange {
    Add,
    Replace,
    Del,
}

/// Changes a route into the interface.
pub(crate) fn route(change: RouteChange, net: IpNet, interface: &str) -> Result<(), String> {
    let family = if net.addr().is_ipv4() { "-4" } else { "-6" };
    let what = match change {
        RouteChange::Add => "add",
        RouteChange::Replace => "replace",
        RouteChange::Del => "del",
    };
    ip(&[family, "route", what, &net.to_string(), "dev", interface]).map(drop)
}

/// Runs `ip` and returns its output.
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
