//! Routes for what is behind the peers. They belong to the interface and vanish with it.

use crate::fault::Fault;
use crate::tunnel::config::Config;
use ipnet::IpNet;
use std::io::ErrorKind;
use std::process::Command;

/// Routes every peer's `allowed_ips` into the interface, except what its own addresses cover already, and except
/// everything (a prefix of length 0), which would swallow the tunnel's own packets.
pub(crate) fn add(cfg: &Config) -> Result<(), Fault> {
    let interface = &cfg.interface;
    for net in wanted(cfg) {
        if net.prefix_len() == 0 {
            tracing::warn!(
                "not routing {net} into {interface} by itself: the tunnel's own packets would go there too; \
                 see docs/tunnel.md for the two routes to set"
            );
            continue;
        }
        let family = if net.addr().is_ipv4() { "-4" } else { "-6" };
        let args = [family, "route", "add", &net.to_string(), "dev", interface];
        let output = Command::new("ip").args(args).output().map_err(|e| match e.kind() {
            ErrorKind::NotFound => Fault::usage(
                "the program `ip` is missing (package iproute2); install it, or set routes = false and route yourself",
            ),
            _ => Fault::runtime(format!("cannot start `ip`: {e}")),
        })?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(Fault::usage(format!(
                "cannot route {net} into {interface}: {}; set routes = false to route yourself",
                why.trim()
            )));
        }
    }
    Ok(())
}

fn wanted(cfg: &Config) -> Vec<IpNet> {
    let mut wanted: Vec<IpNet> = Vec::new();
    for net in cfg.peers.iter().flat_map(|p| &p.get_ref().allowed_ips).map(IpNet::trunc) {
        let connected = cfg.addresses.iter().any(|a| a.trunc().contains(&net));
        if !connected && !wanted.contains(&net) {
            wanted.push(net);
        }
    }
    wanted
}
