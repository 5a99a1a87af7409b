//! Tests a *line*, which is one of this host's Internet connections: first everything that can be tested on
//! this host alone, then everything that needs answers from the server.

use super::finding::Finding;
use super::judge_measurements;
use super::measure::{self, Load, Loss, Silence, Silences, Sizes};
use super::plan::Plan;
use super::probe::{Over, Prober};
use super::reach::{self, Evidence};
use super::system::{self, Interface, Route};
use crate::tunnel::host::routes::{MARK, sysctl};
use dccp_net::{Bind, Clock};
use dccp_secure::Reason;
use mpdccp_tunnel::TlsPath;
use mpdccp_tunnel::config::{Encapsulation, Host, PathSpec, Remote};
use mpdccp_units::Duration;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, mpsc};

/// The server must answer the first probe within this time.
const PATIENCE: Duration = Duration::from_secs(6);

/// A configured path and the results of its tests.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) peer: usize,
    pub(crate) interface: Option<String>,
    pub(crate) remote: Option<SocketAddr>,
    /// The key `quota` or `cost`, if the line has either. Such a line is metered, so a load test needs
    /// permission.
    pub(crate) metered: Option<&'static str>,
    /// Whether the line may be load-tested.
    #[serde(skip)]
    pub(crate) loads: bool,
    #[serde(skip)]
    pub(crate) rank: (u8, bool),
    pub(crate) reached: bool,
    pub(crate) source: Option<SocketAddr>,
    /// Address of this end as seen by the server, which may be that of a NAT.
    pub(crate) seen: Option<SocketAddr>,
    pub(crate) loss: Option<Loss>,
    pub(crate) sizes: Option<Sizes>,
    pub(crate) silence: Option<Silence>,
    pub(crate) load_up: Option<Load>,
    pub(crate) load_down: Option<Load>,
    /// How many seconds this host's clock is ahead of the server's.
    pub(crate) clock_ahead: Option<f64>,
    pub(crate) server_forwards: Option<[bool; 2]>,
    /// The HTTP proxy through which the line connects, if any.
    #[serde(skip)]
    pub(crate) proxy: Option<SocketAddr>,
    /// Whether TLS carries the probes.
    pub(crate) over_tls: bool,
    /// Whether the line can send packets.
    #[serde(skip)]
    pub(crate) usable: bool,
    #[serde(skip)]
    pub(crate) evidence: Option<Evidence>,
}

impl Line {
    pub(crate) fn new(peer: usize, spec: &PathSpec) -> Line {
        let metered = match (spec.quota.is_some(), spec.cost.is_some_and(|cost| cost > 0.0)) {
            (true, _) => Some("quota"),
            (_, true) => Some("cost"),
            _ => None,
        };
        let prio = spec.priority.map_or(3, |prio| prio.0);
        let rank = (prio, metered.is_none());
        Line { name: spec.name.clone(), peer, metered, rank, ..Line::default() }
    }

    /// Describes the results in one sentence.
    pub(crate) fn summary(&self) -> String {
        let mut words = match (self.remote, self.reached) {
            (Some(remote), true) => format!("reaches {remote}"),
            (Some(remote), false) => format!("does not reach {remote}"),
            (None, _) => "cannot be used".into(),
        };
        if self.over_tls {
            words += " over TLS";
        }
        if let Some(interface) = &self.interface {
            words += &format!(" through {interface}");
        }
        if let Some(loss) = &self.loss {
            let (up, down) = (loss.up * 100.0, loss.down * 100.0);
            words += &format!(" in {:.0} ms, {up:.1} % lost up and {down:.1} % down", loss.rtt_ms);
        }
        match (self.source, self.seen) {
            (Some(source), Some(seen)) if source.ip() != seen.ip() => {
                words += &format!(", through a NAT that shows {} instead of {}", seen.ip(), source.ip());
            }
            _ => {}
        }
        if let Some(Sizes { up, down, .. }) = self.sizes {
            words += &format!(", largest packets {up} bytes up and {down} down");
        }
        if let Some(load) = &self.load_up {
            words += &format!("; up {}", judge_measurements::words(load));
        }
        if let Some(load) = &self.load_down {
            words += &format!("; down {}", judge_measurements::words(load));
        }
        words
    }

    /// Checks the interface, the address and the route. Sends no packets except DNS queries.
    pub(crate) fn look(&mut self, spec: &PathSpec, plan: &Plan<'_>, here: &[Interface]) -> Vec<Finding> {
        let found = self.look_at(spec, plan, here);
        self.usable = found.iter().all(|f| !matches!(f.check, "interface" | "carrier" | "address" | "dns"));
        let name = self.name.clone();
        found.into_iter().map(|finding| finding.of(&name)).collect()
    }

    fn look_at(&mut self, spec: &PathSpec, plan: &Plan<'_>, here: &[Interface]) -> Vec<Finding> {
        let first = &spec.remote.all()[0];
        let port = match plan.cfg.encapsulation_of(spec) {
            Encapsulation::Raw => 0,
            Encapsulation::Tls => spec.tls_port.unwrap_or(plan.cfg.tls_port),
            Encapsulation::Udp | Encapsulation::Auto => first.port.unwrap_or(dccp_wire::DCCP_UDP_PORT),
        };
        let has_source = |v4| has_source(spec, here, v4);
        let address = |of: &Remote, port| match &of.host {
            Host::Ip(ip) => Ok(SocketAddr::new(*ip, port)),
            Host::Name(name) => resolve(name, spec.local, has_source).map(|ip| SocketAddr::new(ip, port)),
        };
        match address(first, port) {
            Ok(remote) => self.remote = Some(remote),
            Err(why) => return vec![why],
        }
        let proxy = spec.proxy.as_ref().map(|proxy| address(&proxy.at, proxy.at.port.unwrap_or_default()));
        match proxy.transpose() {
            Ok(proxy) => self.proxy = proxy,
            Err(why) => return vec![why],
        }
        let v4 = self.remote.is_none_or(|remote| remote.is_ipv4());
        let named = here.iter().find(|i| match (spec.pattern(), &spec.interface) {
            (Some(begin), _) => i.name.starts_with(begin) && i.carrier && i.address(v4).is_some(),
            (None, Some(name)) => i.name == *name,
            (None, None) => spec.local.is_some_and(|ip| i.has(ip)),
        });
        let Some(interface) = named else {
            return vec![match (&spec.interface, spec.local) {
                (Some(pattern), _) if spec.pattern().is_some() => Finding::fault(
                    "interface",
                    format!("no interface {pattern} has a link and an address"),
                    "Connect the modem; `ip address` shows the interfaces",
                ),
                (Some(name), _) => Finding::fault(
                    "interface",
                    format!("this host has no interface {name}"),
                    "`ip link` shows the interfaces; plug the device in, or change `interface`",
                ),
                (None, local) => Finding::fault(
                    "address",
                    format!(
                        "no interface has the address {}",
                        local.map_or_else(String::new, |ip| ip.to_string())
                    ),
                    "`ip address` shows the addresses; change `local`, or use `interface` instead",
                ),
            }];
        };
        let name = &interface.name;
        self.interface = Some(name.clone());
        if !interface.up {
            return vec![Finding::fault(
                "carrier",
                format!("{name} is switched off"),
                format!("ip link set {name} up"),
            )];
        }
        if !interface.carrier {
            return vec![Finding::fault(
                "carrier",
                format!("{name} has no link"),
                "Plug the cable in, or switch the modem or access point on",
            )];
        }
        let version = if v4 { "IPv4" } else { "IPv6" };
        if spec.local.is_none_or(|ip| !interface.has(ip)) && interface.address(v4).is_none() {
            return vec![Finding::fault(
                "address",
                format!("{name} has no {version} address"),
                "Configure the interface, for example with DHCP (`networkctl`, `nmcli` or `ifup`)",
            )];
        }
        if let (Some(local), true) = (spec.local, spec.interface.is_some())
            && !interface.has(local)
        {
            return vec![Finding::fault(
                "address",
                format!("{name} does not have the address local = {local}"),
                "Remove or change `local`",
            )];
        }
        self.look_at_routes(spec, plan, interface)
    }

    fn look_at_routes(&self, spec: &PathSpec, plan: &Plan<'_>, interface: &Interface) -> Vec<Finding> {
        let first = self.proxy.or(self.remote);
        let (Some(remote), name) = (first.map(|first| first.ip()), &interface.name) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let own = spec.local.or_else(|| interface.address(remote.is_ipv4()));
        let from = own.map(|ip| ip.to_string()).unwrap_or_default();
        let marked = format!("{MARK:#x}");
        let mut more = if plan.cfg.default_route { vec!["mark", &*marked] } else { Vec::new() };
        let taken = match &spec.interface {
            Some(_) => system::route_to(remote, &[&["oif", name], &*more].concat()),
            None => system::route_to(remote, &[&["from", &from], &*more].concat()),
        };
        match taken {
            Ok(Route { device, .. }) if spec.interface.is_none() && device != *name => found.push(Finding::fault(
                "metric",
                format!("packets from {from} to {remote} leave through {device} instead of {name}: the route of {device} has the better metric"),
                format!("Set interface = \"{name}\" for this path, or add a rule (ip rule add from {from} table 100) and a default route in table 100"),
            )),
            Ok(Route { gateway: None, .. }) if !reaches(interface, remote) => found.push(Finding::fault(
                "route",
                format!("no route through {name} leads to {remote}"),
                format!("Add a route with a larger metric than those of the other Internet connections: ip route add default via GATEWAY dev {name} metric 200"),
            )),
            Ok(_) => {}
            Err(why) => found.push(Finding::fault(
                "route",
                format!("no route leads to {remote}: {why}"),
                format!("Add a route: ip route add default via GATEWAY dev {name} metric 200"),
            )),
        }
        if remote.is_ipv4() && system::is_strict(name) && found.is_empty() {
            let masked = sysctl(&format!("net/ipv4/conf/{name}/src_valid_mark")).is_some_and(|v| v == "1");
            if !masked {
                more.clear();
            }
            let back = system::route_to(remote, &[&["from", &from], &*more].concat());
            let elsewhere = back.ok().filter(|back| back.device != *name).map(|back| back.device);
            let fix = format!(
                "sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.{name}.rp_filter=2, and add both settings in /etc/sysctl.d"
            );
            match elsewhere {
                Some(device) => found.push(Finding::fault(
                    "rp_filter",
                    format!("the strict reverse path filter of {name} drops packets from the server, because the route to the server leads through {device}"),
                    fix,
                )),
                None if plan.cfg.default_route => found.push(Finding::fault(
                    "rp_filter",
                    format!("the strict reverse path filter of {name} drops packets from the server if default_route is on"),
                    fix,
                )),
                None if plan.several => found.push(Finding::warning(
                    "rp_filter",
                    format!("the strict reverse path filter of {name} drops packets from the server when the route to the server changes to another interface"),
                    fix,
                )),
                None => {}
            }
        }
        found
    }

    /// Takes all measurements that require the server's answers. Stops if the server does not answer.
    pub(crate) fn measure(&mut self, spec: &PathSpec, plan: &Plan<'_>, turn: &Mutex<()>) -> Vec<Finding> {
        let name = self.name.clone();
        let found = self
            .measure_all(spec, plan, turn)
            .unwrap_or_else(|e| vec![Finding::fault("interface", format!("cannot be tested: {e}"), "")]);
        found.into_iter().map(|finding| finding.of(&name)).collect()
    }

    /// Returns the settings of the line's TLS connection.
    fn tls(&self, spec: &PathSpec, plan: &Plan<'_>) -> TlsPath {
        let proxy = self.proxy.zip(spec.proxy.as_ref()).map(|(at, proxy)| (at, proxy.login.clone()));
        TlsPath::of(plan.cfg, spec, proxy, None, Vec::new())
    }

    fn measure_all(
        &mut self,
        spec: &PathSpec,
        plan: &Plan<'_>,
        turn: &Mutex<()>,
    ) -> Result<Vec<Finding>, crate::error::Error> {
        let Some(remote) = self.remote.filter(|_| self.usable) else { return Ok(Vec::new()) };
        let any: IpAddr =
            if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = spec.local.unwrap_or(any);
        let bind = Bind {
            addr: SocketAddr::new(local, 0),
            interface: spec.interface.as_ref().and(self.interface.clone()),
        };
        let Some(channels) = plan.channels(self.peer)? else { return Ok(Vec::new()) };
        let encapsulation = plan.cfg.encapsulation_of(spec);
        let over = match encapsulation {
            Encapsulation::Raw => Over::Raw,
            Encapsulation::Tls => Over::Tls(self.tls(spec, plan)),
            Encapsulation::Udp | Encapsulation::Auto => Over::Udp,
        };
        let mut prober = Prober::new(plan.cfg, channels, bind.clone(), remote, over)?;
        let mut first = measure::reach(&mut prober, PATIENCE);
        let mut found = Vec::new();
        if first.is_none()
            && encapsulation == Encapsulation::Auto
            && let Some(channels) = plan.channels(self.peer)?
        {
            let path = self.tls(spec, plan);
            let port = path.port;
            let mut tls = Prober::new(plan.cfg, channels, bind.clone(), remote, Over::Tls(path))?;
            first = measure::reach(&mut tls, PATIENCE);
            if first.is_some() {
                prober = tls;
                found.push(Finding::note(
                    "udp",
                    format!("{remote} does not answer UDP over this Internet connection; the tunnel uses TLS over TCP port {port}"),
                    format!("UDP is faster; ask the operator of this path's network to allow UDP port {}", remote.port()),
                ));
            }
        }
        self.over_tls = prober.is_tls();
        self.source = prober.source();
        let Some(first) = first else {
            let unreadable = prober.dropped(Reason::BadHandshake) > 0;
            if prober.has_key() {
                self.reached = true;
                return Ok(vec![Finding::warning(
                    "server",
                    "the server answers handshakes but not the probes of the doctor: its version is too old",
                    "Update mpdccp at the server; until then the doctor tests only reachability",
                )]);
            }
            if prober.is_tls() && !unreadable {
                let why = prober.tls_failure().unwrap_or_default();
                let own = plan.keys.own.as_ref().map(|key| key.public().to_string()).unwrap_or_default();
                return Ok(vec![reach::of_tls(remote, self.proxy, why, &own)]);
            }
            let mark = plan.cfg.default_route.then_some(MARK);
            let device = self.interface.as_deref().filter(|_| spec.interface.is_some());
            self.evidence = Some(Evidence::gather(&bind, mark, remote, unreadable, device));
            return Ok(Vec::new());
        };
        self.reached = true;
        self.seen = Some(first.answer.seen);
        self.server_forwards = Some(first.answer.forwards);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let theirs = first.answer.unix + Clock.now().since(first.at) + first.rtt() / 2;
        // A server whose clock is not set reports zero.
        if !first.answer.unix.is_zero() {
            self.clock_ahead = Some(now.as_secs_f64() - theirs.as_secs_f64());
        }
        let loss = measure::loss(&mut prober);
        found.extend(judge_measurements::of_loss(&loss));
        self.loss = Some(loss);
        let silences = Silences::start(&mut prober, plan.silence)?;
        let rtt = Duration::from_secs_f64(loss.rtt_ms / 1_000.0);
        let mut largest = [prober.device_mtu()?; 2];
        // Do not measure sizes over TLS, because TCP finds the right size by itself.
        if !prober.is_tls() {
            let sizes = measure::sizes(&mut prober, rtt)?;
            let interface = self.interface.as_deref().unwrap_or("the interface");
            found.extend(judge_measurements::of_sizes(
                &sizes,
                interface,
                if remote.is_ipv4() { 88 } else { 108 },
            ));
            largest = [sizes.up, sizes.down];
            self.sizes = Some(sizes);
        }
        if self.loads {
            // Load only one line at a time, because lines may share a link.
            let _turn = turn.lock();
            let up = measure::load(&mut prober, true, rtt, largest[0]);
            let down = measure::load(&mut prober, false, rtt, largest[1]);
            found.extend(judge_measurements::of_load(&up, true));
            found.extend(judge_measurements::of_load(&down, false));
            (self.load_up, self.load_down) = (Some(up), Some(down));
        }
        if let Some(silences) = silences {
            let silence = silences.finish(&mut prober);
            found.extend(judge_measurements::of_silence(&silence, plan.cfg.session().keepalive));
            self.silence = Some(silence);
        }
        Ok(found)
    }
}

/// Returns whether an address is reachable through this interface without a gateway.
fn reaches(interface: &Interface, ip: IpAddr) -> bool {
    interface.point_to_point
        || system::on_link(&interface.name, ip.is_ipv4()).iter().any(|net| net.contains(&ip))
}

/// Returns whether one of the interfaces that a path may use has a source address for IPv4 (`v4`) or IPv6.
fn has_source(spec: &PathSpec, here: &[Interface], v4: bool) -> bool {
    here.iter().filter(|i| i.address(v4).is_some()).any(|i| match (spec.pattern(), &spec.interface) {
        (Some(begin), _) => i.name.starts_with(begin) && i.carrier,
        (None, Some(name)) => i.name == *name,
        (None, None) => i.name != "lo",
    })
}

/// Returns the address to test: the first that the line has a source address for. `has_source` returns
/// whether it has one for IPv4 (`true`) or IPv6. The tunnel tries all addresses of a name in turn.
fn choose(found: &[IpAddr], local: Option<IpAddr>, has_source: impl Fn(bool) -> bool) -> Option<IpAddr> {
    let fits = move |ip: &&IpAddr| local.is_none_or(|local| local.is_ipv4() == ip.is_ipv4());
    let mut fitting = found.iter().filter(fits);
    let first = fitting.clone().next();
    fitting.find(|ip| has_source(ip.is_ipv4())).or(first).copied()
}

/// Looks up a name in the same way as the tunnel does. The error explains why the lookup failed.
fn resolve(name: &str, local: Option<IpAddr>, has_source: impl Fn(bool) -> bool) -> Result<IpAddr, Finding> {
    let (tell, told) = mpsc::channel();
    let asked = name.to_owned();
    std::thread::spawn(move || {
        let found = (asked.as_str(), 0).to_socket_addrs();
        // Ignore the error: the receiver may have stopped waiting.
        let _ =
            tell.send(found.map(|all| all.map(|at| at.ip()).collect::<Vec<_>>()).map_err(|e| e.to_string()));
    });
    let why = match told.recv_timeout(Duration::from_secs(12)) {
        Ok(Ok(found)) => match choose(&found, local, has_source) {
            Some(ip) => return Ok(ip),
            None => "it has no address of the required IP version".into(),
        },
        Ok(Err(why)) => why,
        Err(_) => "the resolver did not answer within 12 s".into(),
    };
    let servers = system::name_servers();
    let silent: Vec<String> = servers
        .iter()
        .filter_map(|server| Some(format!("{server} ({})", system::answers(*server).err()?)))
        .collect();
    Err(match (servers.is_empty(), silent.len() == servers.len()) {
        (true, _) => Finding::fault(
            "dns",
            format!("cannot look up the name {name}: /etc/resolv.conf has no name server"),
            "Configure a name server outside the tunnel, or write an address into `remote`",
        ),
        (_, true) => Finding::fault(
            "dns",
            format!("cannot look up the name {name}: no name server answers: {}", silent.join(", ")),
            "Configure a name server outside the tunnel, or write an address into `remote`",
        ),
        _ => Finding::fault(
            "dns",
            format!("cannot look up the name {name}: {why}"),
            "The name servers answer; check the spelling of the name",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_no_source() {
        let interface = |name: &str, address: &str| Interface {
            name: name.into(),
            addresses: vec![address.parse().unwrap()],
            ..Interface::default()
        };
        let here = [interface("lo", "::1/128"), interface("eth0", "192.0.2.7/24")];
        let spec: PathSpec = toml::from_str("name = \"dsl\"\nremote = \"hub.example.org\"").unwrap();
        assert_eq!([true, false].map(|v4| has_source(&spec, &here, v4)), [true, false]);
    }

    #[test]
    fn the_address_of_a_name_fits_the_line() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let (v6, v4) = (ip("2001:db8::1"), ip("192.0.2.1"));
        assert_eq!(choose(&[v6, v4], None, |_| true), Some(v6));
        assert_eq!(choose(&[v6, v4], None, |v4| v4), Some(v4), "the interface has no IPv6 address");
        assert_eq!(choose(&[v6, v4], None, |_| false), Some(v6), "the interface has no address yet");
        assert_eq!(choose(&[v6, v4], Some(ip("10.0.0.1")), |_| true), Some(v4));
        assert_eq!(choose(&[v6], Some(ip("10.0.0.1")), |_| true), None);
    }
}
