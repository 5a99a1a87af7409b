//! Asks Linux about interfaces, routes, filters and name servers.

use crate::tunnel::host::routes::{ip, sysctl};
use ipnet::IpNet;
use serde_json::Value;
use std::fs::read_to_string;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// An interface of this host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) up: bool,
    pub(crate) carrier: bool,
    /// Whether the link has no neighbour addresses, as with PPP, modems and tunnels.
    pub(crate) point_to_point: bool,
    pub(crate) addresses: Vec<IpNet>,
}

impl Interface {
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|net| net.addr() == ip)
    }

    /// Returns an address of this IP version on the interface that can serve as source address.
    pub(crate) fn address(&self, v4: bool) -> Option<IpAddr> {
        let usable =
            |ip: &IpAddr| ip.is_ipv4() == v4 && !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        self.addresses.iter().map(IpNet::addr).find(usable)
    }
}

/// A route of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) device: String,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) metric: u64,
}

fn list(args: &[&str]) -> Result<Vec<Value>, String> {
    let text = ip(args)?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&text).map_err(|e| format!("`ip {}`: {e}", args.join(" ")))
}

pub(crate) fn interfaces() -> Result<Vec<Interface>, String> {
    let shown = list(&["-j", "address"])?;
    Ok(shown.iter().map(interface).collect())
}

fn interface(shown: &Value) -> Interface {
    let flag =
        |name: &str| shown["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == name));
    let addresses = shown["addr_info"].as_array().into_iter().flatten().filter_map(|address| {
        let length = u8::try_from(address["prefixlen"].as_u64()?).ok()?;
        IpNet::new(address["local"].as_str()?.parse().ok()?, length).ok()
    });
    Interface {
        name: shown["ifname"].as_str().unwrap_or_default().into(),
        up: flag("UP"),
        carrier: flag("LOWER_UP") && !flag("NO-CARRIER"),
        point_to_point: flag("POINTOPOINT") || flag("NOARP"),
        addresses: addresses.collect(),
    }
}

fn route(shown: &Value) -> Route {
    Route {
        device: shown["dev"].as_str().unwrap_or_default().into(),
        gateway: shown["gateway"].as_str().or(shown["via"]["host"].as_str()).and_then(|ip| ip.parse().ok()),
        // Linux shows a metric for each IPv6 route.
        metric: shown["metric"].as_u64().unwrap_or(0),
    }
}

/// Returns the route to an address. `more` holds additional arguments for `ip route get`.
pub(crate) fn route_to(to: IpAddr, more: &[&str]) -> Result<Route, String> {
    let to = to.to_string();
    let args: Vec<&str> = ["-j", "route", "get", &to].into_iter().chain(more.iter().copied()).collect();
    list(&args)?.first().map(route).ok_or_else(|| "no route".into())
}

/// Returns a route or, if it has several next hops, the route through each of them.
fn hops(shown: &Value) -> Vec<Route> {
    match shown["nexthops"].as_array() {
        Some(hops) => {
            let metric = route(shown).metric;
            hops.iter().map(|hop| Route { metric, ..route(hop) }).collect()
        }
        None => vec![route(shown)],
    }
}

/// Returns the default routes of the main table, the preferred one first.
pub(crate) fn default_routes(v4: bool) -> Vec<Route> {
    let shown = list(&["-j", if v4 { "-4" } else { "-6" }, "route", "show", "default"]).unwrap_or_default();
    let mut routes: Vec<Route> = shown.iter().flat_map(hops).collect();
    routes.sort_by_key(|route| route.metric);
    routes
}

/// Returns the networks that are reachable through an interface without a gateway.
pub(crate) fn on_link(device: &str, v4: bool) -> Vec<IpNet> {
    let shown =
        list(&["-j", if v4 { "-4" } else { "-6" }, "route", "show", "dev", device]).unwrap_or_default();
    let direct = shown.iter().filter(|shown| shown["gateway"].is_null() && shown["via"].is_null());
    let net = |shown: &Value| {
        let to = shown["dst"].as_str()?;
        match to {
            "default" => format!("{}/0", if v4 { "0.0.0.0" } else { "::" }).parse().ok(),
            _ => to.parse().ok().or_else(|| to.parse::<IpAddr>().ok().map(IpNet::from)),
        }
    };
    direct.filter_map(net).collect()
}

/// Returns the routes to exactly this network, except routes through the device `but`.
pub(crate) fn routes_of(net: IpNet, but: &str) -> Vec<Route> {
    let family = if net.addr().is_ipv4() { "-4" } else { "-6" };
    let shown = list(&["-j", family, "route", "show", "exact", &net.trunc().to_string()]).unwrap_or_default();
    shown.iter().map(route).filter(|route| route.device != but && !route.device.is_empty()).collect()
}

/// Returns whether the system has found the neighbour with this address to be unresponsive.
pub(crate) fn is_silent(gateway: IpAddr, device: &str) -> bool {
    let shown = list(&["-j", "neigh", "show", &gateway.to_string(), "dev", device]).unwrap_or_default();
    let dead = |state: &Value| state == "FAILED" || state == "INCOMPLETE";
    shown.iter().any(|shown| shown["state"].as_array().is_some_and(|states| states.iter().any(dead)))
}

/// Returns whether the interface has a strict reverse path filter, which drops a packet if the route to its
/// source goes through another interface.
pub(crate) fn is_strict(device: &str) -> bool {
    let of = |name: &str| sysctl(&format!("net/ipv4/conf/{name}/rp_filter"))?.parse::<u8>().ok();
    of("all").unwrap_or(0).max(of(device).unwrap_or(0)) == 1
}

/// Returns how many datagrams this host has dropped because a socket buffer was full.
pub(crate) fn full_buffers() -> u64 {
    let text = read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(name, _)| *name == "RcvbufErrors").and_then(|(_, n)| n.parse().ok()).unwrap_or(0)
}

/// Returns the name servers of this host.
pub(crate) fn name_servers() -> Vec<IpAddr> {
    let text = read_to_string("/etc/resolv.conf").unwrap_or_default();
    parse_servers(&text)
}

fn parse_servers(text: &str) -> Vec<IpAddr> {
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let plain = servers.filter_map(|rest| rest.split_whitespace().next()?.split('%').next()?.parse().ok());
    plain.collect()
}

/// Checks whether a name server answers at all. The error says why it does not.
pub(crate) fn answers(server: IpAddr) -> Result<(), String> {
    let bind: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    // The query asks for the root name servers.
    let question = [0x6d, 0x70, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
    let ask = || -> std::io::Result<usize> {
        let socket = UdpSocket::bind(bind)?;
        socket.connect((server, 53))?;
        socket.set_read_timeout(Some(Duration::from_millis(1_500)))?;
        socket.send(&question)?;
        socket.recv(&mut [0; 1_500])
    };
    let mut last = String::new();
    for _ in 0..2 {
        match ask() {
            Ok(_) => return Ok(()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                last = "no answer".into();
            }
            Err(e) => last = e.to_string(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_ip_is_parsed() {
        let shown = serde_json::json!({
            "ifname": "eth0", "flags": ["NO-CARRIER", "BROADCAST", "UP"],
            "addr_info": [{"local": "192.0.2.7", "prefixlen": 24}, {"local": "fe80::1", "prefixlen": 64}]
        });
        let eth = interface(&shown);
        assert_eq!((eth.up, eth.carrier, eth.point_to_point), (true, false, false));
        assert_eq!((eth.address(true), eth.address(false)), (Some([192, 0, 2, 7].into()), None));
        let of = |shown| route(&shown);
        let via = Route { device: "eth0".into(), gateway: Some([192, 0, 2, 1].into()), metric: 100 };
        assert_eq!(
            of(serde_json::json!({"dst": "default", "gateway": "192.0.2.1", "dev": "eth0", "metric": 100})),
            via
        );
        let six = serde_json::json!({"via": {"family": "inet6", "host": "fe80::1"}, "dev": "eth0"});
        assert_eq!(of(six).gateway, Some("fe80::1".parse().unwrap()));
        let both = serde_json::json!({"dst": "default", "metric": 5, "flags": [], "nexthops": [
            {"gateway": "192.0.2.1", "dev": "eth0", "weight": 1, "flags": []},
            {"gateway": "198.51.100.1", "dev": "wwan0", "weight": 1, "flags": []}
        ]});
        let devices: Vec<(String, u64)> = hops(&both).into_iter().map(|r| (r.device, r.metric)).collect();
        assert_eq!(devices, [("eth0".to_owned(), 5), ("wwan0".to_owned(), 5)]);
    }

    #[test]
    fn name_servers_are_found_in_the_file() {
        let text =
            "# nameserver 192.0.2.9\nsearch example\nnameserver 127.0.0.53\n nameserver fe80::1%eth0 # x\n";
        assert_eq!(
            parse_servers(text),
            ["127.0.0.53".parse::<IpAddr>().unwrap(), "fe80::1".parse().unwrap()]
        );
    }
}
