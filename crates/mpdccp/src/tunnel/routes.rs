//! Routes for what is behind the peers. They belong to the interface and vanish with it.

use crate::fault::Fault;
use crate::tunnel::config::Config;
use crate::tunnel::values::Remote;
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

/// After the interface got other addresses: all that is wanted, since routes may have gone with the old ones.
pub(crate) fn renew(cfg: &Config, before: &[IpNet]) -> Result<(), Fault> {
    let after = wanted(cfg);
    for net in before.iter().filter(|net| !after.contains(net)) {
        // Gone already, perhaps.
        let _ = route("del", *net, cfg);
    }
    after.iter().try_for_each(|net| route("replace", *net, cfg))
}

fn route(what: &str, net: IpNet, cfg: &Config) -> Result<(), Fault> {
    let Config { interface, default_route: by_policy, .. } = cfg;
    if net.prefix_len() == 0 {
        if what != "del" && !*by_policy {
            tracing::warn!(
                "not routing {net} into {interface} by itself: the tunnel's own packets would go there too; \
                 default_route = true does it without that"
            );
        }
        return Ok(());
    }
    if what != "del" {
        swallows(cfg, net);
    }
    let family = if net.addr().is_ipv4() { "-4" } else { "-6" };
    ip(&[family, "route", what, &net.to_string(), "dev", interface])
        .map(drop)
        .map_err(|e| Fault::usage(format!("{e}; set routes = false to route yourself")))
}

/// What `ip` says to these arguments.
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

/// Whether a route into the interface would lead the tunnel's own packets there, too; says so.
pub(crate) fn swallows(cfg: &Config, net: IpNet) -> bool {
    // By policy they go another way; and a socket bound to an interface leaves through it, whatever the routes say.
    let paths = cfg.peers.iter().flat_map(|p| &p.get_ref().paths).map(|p| p.get_ref());
    let paths = paths.filter(|path| path.interface.is_none() && !cfg.default_route);
    let remotes =
        paths.flat_map(|path| path.remote.all().iter().filter_map(Remote::ip).map(move |ip| (path, ip)));
    let found = remotes.into_iter().find(|(_, ip)| net.contains(ip));
    if let Some((path, ip)) = found {
        tracing::warn!(
            "path {}: its remote {ip} lies within {net}, which is routed into the tunnel itself: give the path an \
             `interface`, or leave {ip} out",
            path.name
        );
    }
    found.is_some()
}

/// What is routed into the interface; nothing before it has an address.
pub(crate) fn wanted(cfg: &Config) -> Vec<IpNet> {
    let mut wanted: Vec<IpNet> = Vec::new();
    if cfg.addresses.is_empty() {
        return wanted;
    }
    let peers = cfg.peers.iter().flat_map(|p| &p.get_ref().allowed_ips);
    let pool = cfg.assign.iter().flat_map(|assign| &assign.pool);
    for net in peers.chain(pool).chain(&cfg.told_routes).map(IpNet::trunc) {
        let connected = cfg.addresses.iter().any(|a| a.trunc().contains(&net));
        if !connected && !wanted.contains(&net) {
            wanted.push(net);
        }
    }
    wanted
}
