//! Finds problems of this host that do not belong to a single line (Internet connection).

use super::finding::Finding;
use super::line::Line;
use super::plan::Plan;
use super::system::{self, Interface};
use crate::tunnel::host::routes::forwards;
use ipnet::IpNet;
use mpdccp_tunnel::config::{Config, Encapsulation, Peer, Routes};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Name prefixes of interfaces that belong to programs which configure forwarding themselves.
const VIRTUAL: [&str; 7] = ["docker", "br-", "virbr", "veth", "lxc", "cni", "podman"];

/// For each IP version: whether it is IPv4, its number, and how to turn its forwarding on.
const FORWARDING: [(bool, u8, &str); 2] = [
    (true, 4, "sysctl -w net.ipv4.ip_forward=1, and add the same setting in /etc/sysctl.d"),
    (false, 6, "sysctl -w net.ipv6.conf.all.forwarding=1, and add the same setting in /etc/sysctl.d"),
];

fn peers(cfg: &Config) -> impl Iterator<Item = &Peer> {
    cfg.peers.iter().map(|peer| peer.get_ref())
}

/// Checks the routes of the host.
pub(crate) fn of_routes(plan: &Plan<'_>, lines: &[Line]) -> Vec<Finding> {
    let mut found = Vec::new();
    for v4 in [true, false] {
        let routes = system::default_routes(v4);
        let metric =
            |device: &str| routes.iter().find(|route| route.device == device).map(|route| route.metric);
        let Some(first) = routes.first() else { continue };
        let of = |line: &&Line| line.interface.as_deref() == Some(&*first.device);
        let Some(line) = lines.iter().find(of) else { continue };
        let others = lines.iter().filter(|other| other.usable && other.interface != line.interface);
        let others = others.filter_map(|other| Some((other, metric(other.interface.as_deref()?)?)));
        let best = others.clone().max_by_key(|(other, _)| other.rank);
        // The next hops of one route share its metric.
        let wrong = best.filter(|(better, worse)| better.rank > line.rank && *worse > first.metric);
        if let Some((better, worse)) = wrong {
            let (name, device) = (&line.name, &first.device);
            let why =
                line.metered.map_or_else(|| "has the lower priority".into(), |why| format!("has a {why}"));
            found.push(
                Finding::fault(
                    "metric",
                    format!(
                        "traffic outside the tunnel leaves through {device}, which {why}: the default route of {device} has metric {}; the better Internet connection {} ({}) has metric {worse}",
                        first.metric,
                        better.name,
                        better.interface.as_deref().unwrap_or_default()
                    ),
                    format!("Set the metric of the default route through {device} above {worse} (`ip route`, or route-metric of the network manager)"),
                )
                .of(name),
            );
        } else if let Some((other, _)) = others.clone().find(|(other, _)| !line.usable && other.reached) {
            let message = format!(
                "the default route with the best metric leads through {}, which does not work; {} works",
                first.device, other.name
            );
            found.push(
                Finding::note(
                    "metric",
                    message,
                    "Traffic outside the tunnel (name servers, updates) fails until the metrics change",
                )
                .of(&line.name),
            );
        }
    }
    for (peer, net) in peers(plan.cfg).flat_map(|peer| peer.allowed_ips.iter().map(move |net| (peer, *net))) {
        let own = plan.cfg.addresses.iter().any(|own| own.trunc().contains(&net));
        if net.prefix_len() == 0 || plan.cfg.routes != Routes::All || own {
            continue;
        }
        let interface = &plan.cfg.interface;
        let elsewhere = match plan.running {
            // Test with an address of the network that is most likely not this end's own.
            true => net.hosts().nth(1).or(Some(net.addr())).and_then(|ip| system::route_to(ip, &[]).ok()),
            false => system::routes_of(net, interface).into_iter().next(),
        };
        let beside = elsewhere.filter(|route| route.device != *interface && route.device != "lo");
        if let Some(route) = beside {
            found.push(Finding::fault(
                "metric",
                format!("packets to {net} of peer {} do not enter the tunnel: another route of this host leads through {} with metric {}", peer.name, route.device, route.metric),
                format!("Delete this route, or remove {net} from allowed_ips. The tunnel cannot connect two networks with the same addresses"),
            ));
        }
    }
    found
}

/// Returns the networks behind the peers, except the networks of the tunnel's own addresses.
fn beyond(cfg: &Config, v4: bool) -> Vec<IpNet> {
    let own: Vec<IpNet> = cfg.addresses.iter().map(|net| net.trunc()).collect();
    let nets = peers(cfg).flat_map(|peer| peer.allowed_ips.clone());
    let nets = nets.filter(|net| net.addr().is_ipv4() == v4 && !own.iter().any(|own| own.contains(net)));
    nets.filter(|net| !own.iter().any(|own| net.prefix_len() > 0 && net.contains(own))).collect()
}

/// Checks whether both hosts forward packets.
pub(crate) fn of_forwarding(plan: &Plan<'_>, lines: &[Line], here: &[Interface]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (v4, version, fix) in FORWARDING {
        let nets = beyond(plan.cfg, v4);
        let behind = || nets.iter().take(3).map(IpNet::to_string).collect::<Vec<_>>().join(", ");
        let off = lines.iter().find(|line| line.server_forwards.is_some_and(|on| !on[usize::from(!v4)]));
        if let (Some(_), false) = (off, nets.is_empty()) {
            found.push(Finding::fault(
                "forwarding",
                format!(
                    "the server does not forward IPv{version}, so this host cannot reach the networks behind it ({})",
                    behind()
                ),
                format!("At the server: {fix}"),
            ));
        }
        let lan = here.iter().find(|interface| is_lan(interface, plan.cfg, lines, v4));
        if let (Some(lan), false, false) = (lan, nets.is_empty(), forwards(v4)) {
            found.push(Finding::fault(
                "forwarding",
                format!(
                    "this host does not forward IPv{version}, so hosts behind {} cannot use the tunnel",
                    lan.name
                ),
                format!("{fix}. Ignore this if none of these hosts needs the tunnel"),
            ));
        }
    }
    found
}

/// Returns whether hosts that use the tunnel may be attached to this interface.
fn is_lan(interface: &Interface, cfg: &Config, lines: &[Line], v4: bool) -> bool {
    let is_line = lines.iter().any(|line| line.interface.as_ref() == Some(&interface.name));
    let others = interface.name == "lo" || interface.name == cfg.interface || interface.point_to_point;
    let made = VIRTUAL.iter().any(|begin| interface.name.starts_with(begin));
    let uplink = system::default_routes(v4).iter().any(|route| route.device == interface.name);
    interface.carrier
        && !is_line
        && !others
        && !made
        && !uplink
        && interface.address(v4).is_some_and(is_private)
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private(),
        IpAddr::V6(_) => true,
    }
}

/// Compares this host's clock with the server's or, if the server's clock is unknown, with the times of files
/// that this host wrote.
pub(crate) fn of_clock(plan: &Plan<'_>, lines: &[Line], files: &[PathBuf]) -> Option<Finding> {
    if let Some(ahead) = lines.iter().find_map(|line| line.clock_ahead) {
        return super::judge_measurements::of_clock(ahead);
    }
    let now = SystemTime::now();
    let written = files.iter().filter_map(|file| std::fs::metadata(file).ok()?.modified().ok());
    let saved = SystemTime::UNIX_EPOCH + Duration::from_secs(plan.saved);
    let behind = written.chain([saved]).filter_map(|then| then.duration_since(now).ok()).max()?;
    (behind > Duration::from_secs(3_600)).then(|| {
        Finding::fault(
            "clock",
            format!(
                "this host's clock is {:.1} hours behind the times of files that this host wrote",
                behind.as_secs_f64() / 3_600.0
            ),
            "Set the clock, and enable time synchronisation (`timedatectl set-ntp true`)",
        )
    })
}

/// Checks the name servers. Skips the check if a path's remote is a name, because looking up that name has
/// already tested them.
pub(crate) fn of_names(cfg: &Config) -> Option<Finding> {
    let remotes = peers(cfg).flat_map(|peer| peer.paths.iter().flat_map(|path| path.get_ref().remote.all()));
    if remotes.into_iter().any(|remote| remote.name().is_some()) {
        return None;
    }
    let servers = system::name_servers();
    let silent = !servers.is_empty() && servers.iter().all(|server| system::answers(*server).is_err());
    silent.then(|| {
        let names: Vec<String> = servers.iter().map(IpAddr::to_string).collect();
        Finding::note(
            "dns",
            format!("no name server answers ({})", names.join(", ")),
            "The tunnel works without name servers, because all its remotes are addresses; other programs need them",
        )
    })
}

/// Reports packets that this host dropped during the test, and socket buffers that are too small.
pub(crate) fn of_buffers(dropped: u64) -> Vec<Finding> {
    let mut found = Vec::new();
    if dropped > 0 {
        found.push(Finding::warning(
            "buffers",
            format!("this host dropped {dropped} datagrams during the test because a socket buffer was full"),
            "Reduce the processor load, or enlarge the buffers: sysctl -w net.core.rmem_max=8388608",
        ));
    }
    if !rustix::process::geteuid().is_root() {
        found.push(Finding::note("buffers", "the tunnel gets larger socket buffers if it runs as root", ""));
    }
    found
}

/// Reports network cards with segmentation or receive offload turned off, and slow cables.
pub(crate) fn of_offloads(lines: &[Line]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, interface) in lines.iter().filter_map(|line| Some((line, line.interface.as_ref()?))) {
        // Without `ethtool`, the doctor cannot check this.
        let output = std::process::Command::new("ethtool").args(["-k", interface]).output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let off = |name: &str| text.lines().any(|line| line.trim() == format!("{name}: off"));
        let names =
            ["generic-segmentation-offload", "generic-receive-offload"].into_iter().filter(|name| off(name));
        let names: Vec<&str> = names.collect();
        if !names.is_empty() {
            let message = format!(
                "{} of {interface} is off, which costs processor time for each packet",
                names.join(" and ")
            );
            found.push(
                Finding::note("offload", message, format!("ethtool -K {interface} gso on gro on"))
                    .of(&line.name),
            );
        }
        let speed = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed"));
        let slow = speed
            .ok()
            .and_then(|text| text.trim().parse::<i64>().ok())
            .filter(|mbps| (1..=10).contains(mbps));
        if let Some(mbps) = slow {
            let message = format!("the cable of {interface} runs at {mbps} Mbit/s");
            found.push(Finding::warning("offload", message, "Try another cable or port").of(&line.name));
        }
    }
    found
}

/// Checks the host of a server.
pub(crate) fn of_server(plan: &Plan<'_>, here: &[Interface]) -> Vec<Finding> {
    let cfg = plan.cfg;
    let mut found = Vec::new();
    let host = |net: &IpNet| net.prefix_len() == net.max_prefix_len();
    let only_hosts = peers(cfg).flat_map(|peer| &peer.allowed_ips).all(host) && cfg.assign.is_none();
    for (v4, version, fix) in FORWARDING {
        let used = cfg.addresses.iter().any(|net| net.addr().is_ipv4() == v4);
        if !used || forwards(v4) {
            continue;
        }
        let message = format!(
            "this host does not forward IPv{version}: clients reach this host, but no network behind it"
        );
        found.push(match only_hosts && cfg.peers.len() == 1 {
            true => Finding::note("forwarding", message, fix),
            false => Finding::fault("forwarding", message, fix),
        });
    }
    for listen in &cfg.listen.0 {
        let has = listen.ip.is_unspecified() || here.iter().any(|interface| interface.has(listen.ip));
        if !has {
            found.push(Finding::fault(
                "address",
                format!("this host has no address {} to listen on", listen.ip),
                "`ip address` shows its addresses",
            ));
        }
        if matches!(cfg.encapsulation, Encapsulation::Udp | Encapsulation::Auto) {
            found.extend(firewall("UDP", listen.port.unwrap_or(dccp_wire::DCCP_UDP_PORT)));
        }
        if cfg.encapsulation.has_tls() {
            found.extend(firewall("TCP", cfg.tls_port));
        }
    }
    found.dedup();
    found
}

/// Checks whether the nftables rules accept a UDP or TCP port. The check only searches the text of the rules,
/// so it can miss rules.
fn firewall(protocol: &str, port: u16) -> Option<Finding> {
    let output = std::process::Command::new("nft").args(["-n", "list", "ruleset"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lower = protocol.to_lowercase();
    is_shut(&text, &lower, port).then(|| {
        Finding::fault(
            "firewall",
            format!("the firewall of this host drops packets by default, and no rule accepts {protocol} port {port}"),
            format!("nft insert rule inet filter input {lower} dport {port} accept (or `ufw allow {port}/{lower}`), and make the rule permanent"),
        )
    })
}

fn is_shut(rules: &str, protocol: &str, port: u16) -> bool {
    let other = if protocol == "udp" { "tcp dport" } else { "udp dport" };
    let accepts_all = format!("meta l4proto {protocol} accept");
    let rules: String =
        rules.lines().filter(|line| !line.contains(other)).flat_map(|line| [line, "\n"]).collect();
    let drops =
        rules.split("chain ").any(|chain| chain.contains("hook input") && chain.contains("policy drop"));
    let names = |line: &str, verdict: &str| {
        let (_, rest) = line.split_once("dport ").unwrap_or_default();
        // The numbers of a counter are not ports.
        let ports = rest.split(" counter ").next().unwrap_or_default();
        line.contains(verdict) && !ports.starts_with("!=") && holds(ports, port)
    };
    let all = |line: &str| line.trim() == "accept" || line.trim().starts_with(&accepts_all);
    let opens = |line: &str| names(line, "accept") || all(line);
    (drops && !rules.lines().any(opens)) || rules.lines().any(|line| names(line, "drop"))
}

/// Returns whether a text contains a port, alone or in a range.
fn holds(text: &str, port: u16) -> bool {
    text.split(|c: char| !c.is_ascii_digit() && c != '-').any(|word| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let [first, last] = [first, last].map(|n| n.parse::<u16>().ok());
        first.zip(last).is_some_and(|(first, last)| (first..=last).contains(&port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firewall_is_shut_unless_a_rule_names_the_port() {
        let rules = |rule: &str, policy: &str| {
            format!(
                "table inet filter {{\n chain input {{\n type filter hook input priority 0; policy {policy};\n {rule}\n }}\n}}"
            )
        };
        assert!(is_shut(&rules("ct state established accept", "drop"), "udp", 6511));
        assert!(is_shut(&rules("tcp dport 22 accept", "drop"), "udp", 6511));
        assert!(!is_shut(&rules("tcp dport 22 accept", "accept"), "udp", 6511));
        assert!(!is_shut(&rules("udp dport 6511 accept", "drop"), "udp", 6511));
        assert!(!is_shut(&rules("udp dport { 53, 6000-7000 } accept", "drop"), "udp", 6511));
        assert!(is_shut(&rules("udp dport 6511 drop", "accept"), "udp", 6511));
        assert!(is_shut(&rules("udp dport { 53, 6000-7000 } drop", "accept"), "udp", 6511));
        for other in ["16511 drop", "!= 6511 drop", "53 counter packets 6511 bytes 65110 drop"] {
            assert!(!is_shut(&rules(&format!("udp dport {other}"), "accept"), "udp", 6511), "{other}");
        }
        assert!(!is_shut(&rules("udp dport vmap { 53 : accept, 6511 : accept }", "drop"), "udp", 6511));
        let counted = "udp dport 53 counter packets 6511 bytes 9 accept";
        assert!(is_shut(&rules(counted, "drop"), "udp", 6511), "6511 is not a port here");
        assert!(!is_shut(&rules("tcp dport { 80, 443 } accept", "drop"), "tcp", 443));
        assert!(
            is_shut(&rules("udp dport 443 accept", "drop"), "tcp", 443),
            "a rule for UDP port 443 does not open TCP"
        );
        assert!(!is_shut(&rules("udp dport 443 drop", "accept"), "tcp", 443));
    }
}
