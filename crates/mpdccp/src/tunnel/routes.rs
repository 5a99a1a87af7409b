//! Routes for what is behind the peers. They belong to the interface and vanish with it.

use crate::fault::Fault;
use crate::tunnel::config::Config;
use ipnet::IpNet;
use std::io::ErrorKind;
use std::process::Command;

/// Routes every peer's `allowed_ips` into the interface, except what its own addresses cover already, and except
/// everything (a prefix of length 0), which would swallow the tunnel's own packets.
pub(crate) fn add(cfg: &Config) -> Result<(), Fault> {
    wanted(cfg).into_iter().try_for_each(|net| route("add", net, cfg))
}

/// After the configuration changed: the routes that are new, and no longer those that are not wanted.
pub(crate) fn change(cfg: &Config, before: &[IpNet]) -> Result<(), Fault> {
    let after = wanted(cfg);
    for net in before.iter().filter(|net| !after.contains(net)) {
        route("del", *net, cfg)?;
    }
    after.iter().filter(|net| !before.contains(net)).try_for_each(|net| route("add", *net, cfg))
}

fn route(
    what: &str,
    net: IpNet,
    Config { interface, default_route: by_policy, .. }: &Config,
) -> Result<(), Fault> {
    if net.prefix_len() == 0 {
        if what == "add" && !*by_policy {
            tracing::warn!(
                "not routing {net} into {interface} by itself: the tunnel's own packets would go there too; \
                 default_route = true does it without that"
            );
        }
        return Ok(());
    }
    let family = if net.addr().is_ipv4() { "-4" } else { "-6" };
    ip(&[family, "route", what, &net.to_string(), "dev", interface])
        .map_err(|e| Fault::usage(format!("{e}; set routes = false to route yourself")))
}

/// Runs `ip` with these arguments.
pub(crate) fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => "the program `ip` is missing (package iproute2); install it".to_owned(),
        _ => format!("cannot start `ip`: {e}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("`ip {}`: {}", args.join(" "), why.trim()))
}

pub(crate) fn wanted(cfg: &Config) -> Vec<IpNet> {
    let mut wanted: Vec<IpNet> = Vec::new();
    for net in cfg.peers.iter().flat_map(|p| &p.get_ref().allowed_ips).map(IpNet::trunc) {
        let connected = cfg.addresses.iter().any(|a| a.trunc().contains(&net));
        if !connected && !wanted.contains(&net) {
            wanted.push(net);
        }
    }
    wanted
}
