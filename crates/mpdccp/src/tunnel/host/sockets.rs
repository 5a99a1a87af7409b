//! Opens the sockets of paths and servers. Each error says what is wrong, where, and how to fix it.

use crate::error::Error;
use crate::tunnel::face::events;
use crate::tunnel::host::keys;
use crate::tunnel::host::resolver::Resolver;
use crate::tunnel::host::routes::MARK;
use crate::tunnel::tls::{TlsClient, TlsServer};
use dccp_net::{Bind, Clock, Core, RawEncapsulation, SocketStats, UdpEncapsulation, interfaces_like};
use dccp_proto::Route;
use mpdccp_tunnel::config::{Config, Encapsulation, Security};
use mpdccp_tunnel::status::SocketStatus;
use mpdccp_tunnel::{Action, HostEvent, Interface, Looked, OpenPath, Sizes, Tunnel};
use mpdccp_units::Time;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The error if a socket cannot be opened.
struct Unopened {
    /// Whether the socket's interface or address is only missing now and may appear later.
    absent: bool,
    why: String,
}

/// Opens a socket with this encapsulation. `shard` is the number of a server's shard, and 0 on a client.
fn open_socket(
    core: &mut Core,
    cfg: &Config,
    encapsulation: Encapsulation,
    bind: Bind,
    shard: u8,
) -> Result<u32, Unopened> {
    let mark = cfg.default_route.then_some(MARK);
    let result = match encapsulation {
        Encapsulation::Tls => TlsServer::new(cfg, bind.addr, mark).and_then(|c| core.add_socket(c)),
        Encapsulation::Udp | Encapsulation::Auto if cfg.shards.0 > 1 => {
            UdpEncapsulation::shared(bind.clone(), mark, shard, cfg.shards.0).and_then(|c| core.add_socket(c))
        }
        Encapsulation::Udp | Encapsulation::Auto => {
            UdpEncapsulation::marked(bind.clone(), mark).and_then(|c| core.add_socket(c))
        }
        Encapsulation::Raw => RawEncapsulation::marked(bind.clone(), mark).and_then(|c| match cfg.security {
            Security::Noise => core.add_socket(c.sealed()),
            Security::None => core.add_socket(c),
        }),
    };
    result.map_err(|e| unopened(&e, encapsulation, &bind))
}

/// Converts a system error into one that says what is wrong and how to fix it.
fn unopened(e: &std::io::Error, encapsulation: Encapsulation, bind: &Bind) -> Unopened {
    let (ip, port) = (bind.addr.ip(), bind.addr.port());
    let interface = bind.interface.as_deref().unwrap_or_default();
    let what = match e.kind() {
        ErrorKind::InvalidInput if encapsulation.has_tls() => e.to_string(),
        ErrorKind::AddrInUse if encapsulation == Encapsulation::Tls => format!(
            "TCP port {port} on {ip} is in use already, perhaps by a web server (`ss -tlnp` shows the process); set `tls_port`"
        ),
        ErrorKind::PermissionDenied if encapsulation == Encapsulation::Tls => format!(
            "TCP port {port} needs CAP_NET_BIND_SERVICE: run as root, or set `tls_port` to 1024 or more"
        ),
        ErrorKind::AddrInUse => format!(
            "UDP port {port} on {ip} is in use, perhaps by another mpdccp; `ss -ulnp` shows the process"
        ),
        ErrorKind::AddrNotAvailable => {
            let why = format!("this host has no address {ip}; `ip address` shows its addresses");
            return Unopened { absent: true, why };
        }
        ErrorKind::PermissionDenied if encapsulation == Encapsulation::Raw => {
            "encapsulation = \"raw\" needs CAP_NET_RAW: run as root, or use encapsulation = \"udp\"".into()
        }
        // Rust's `ErrorKind` has no value for ENODEV.
        _ if bind.interface.is_some() && e.raw_os_error() == Some(19) => {
            let why = format!("this host has no interface `{interface}`; `ip link` shows its interfaces");
            return Unopened { absent: true, why };
        }
        _ if Errno::from_io_error(e) == Some(Errno::AFNOSUPPORT) => {
            format!(
                "this kernel has no IPv6, so it cannot use {ip}; use an IPv4 address, or enable IPv6 in the kernel"
            )
        }
        _ => format!("cannot open a socket on {}: {e}", bind.addr),
    };
    Unopened { absent: false, why: what }
}

/// Executes the client's actions that are due before the interface exists.
pub(crate) fn open_first(
    core: &mut Core,
    cfg: &Config,
    tunnel: &mut Tunnel,
    names: &mut Resolver,
    action: Action,
) {
    let now = core.clock.now();
    let answer = match action {
        Action::OpenPath(path) => open_path(core, cfg, &path),
        Action::ListInterfaces => HostEvent::Interfaces(interfaces()),
        Action::Resolve(name) => return names.ask(name),
        Action::Log(level, message) => return events::write(level, &message),
        // No other action can occur before the interface exists.
        _ => return,
    };
    tunnel.handle_host(&mut core.endpoint, now, answer);
}

/// Opens the socket of a client's path, and the channel on top of it.
pub(crate) fn open_path(core: &mut Core, cfg: &Config, path: &OpenPath) -> HostEvent {
    let any: IpAddr = match path.remote.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let addr = SocketAddr::new(path.local.unwrap_or(any), 0);
    let failed = |Unopened { absent, why }| HostEvent::PathFailed { request: path.request, absent, why };
    let bind = Bind { addr, interface: path.interface.clone() };
    let opened = match &path.tls {
        Some(tls) => {
            let mark = cfg.default_route.then_some(MARK);
            let socket =
                TlsClient::new(bind.clone(), mark, path.remote, tls).and_then(|c| core.add_socket(c));
            socket.map_err(|e| unopened(&e, Encapsulation::Udp, &bind))
        }
        None => {
            let raw = cfg.encapsulation == Encapsulation::Raw;
            open_socket(core, cfg, if raw { Encapsulation::Raw } else { Encapsulation::Udp }, bind, 0)
        }
    };
    let socket = match opened {
        Ok(socket) => socket,
        Err(e) => return failed(e),
    };
    let overhead = core.net.socket(socket).map_or(0, |c| c.overhead()) + keys::overhead(cfg);
    let sizes = sizes(core, socket, path.remote);
    let socket = match cfg.security {
        Security::None => Some(socket),
        Security::Noise => {
            let to = Route { socket, local: None, remote: path.remote };
            core.net.open_channel(core.clock.now(), path.peer, &to)
        }
    };
    match socket {
        Some(socket) => HostEvent::PathOpened { request: path.request, socket, sizes, overhead },
        None => failed(Unopened { absent: false, why: "too many encrypted channels are open".into() }),
    }
}

fn sizes(core: &Core, socket: u32, remote: SocketAddr) -> Sizes {
    let path = core.net.path_mtu(socket, remote).ok();
    Sizes { path, device: core.net.device_mtu(socket, remote).ok() }
}

/// Asks the system about the route to a destination. If the socket belongs to one of this end's paths
/// (`own`), also reports to the endpoint whether the destination can be reached.
pub(crate) fn look(core: &mut Core, now: Time, socket: u32, remote: SocketAddr, own: bool) -> HostEvent {
    let error = own.then(|| core.net.watch(now, socket, remote)).flatten();
    let under = core.net.under(socket);
    let channels = core.net.channels();
    let heard = || channels?.peer_stats(core.net.peer_of(socket)?)?.heard;
    HostEvent::Looked(Looked {
        socket,
        remote,
        sizes: sizes(core, socket, remote),
        error,
        source: core.net.socket(under).filter(|_| own).and_then(|c| c.source(remote).ok()),
        over_tls: core.net.socket(under).is_some_and(|c| c.name() == "tls"),
        carried: core.net.socket(under).map_or(0, |c| c.stats().tx_bytes + c.stats().rx_bytes),
        heard: channels.is_none() || heard().is_some(),
        handshake: channels.and_then(|channels| channels.initiated()),
        unix: Clock.wall_nanos() / 1_000_000_000,
    })
}

/// Returns the interfaces that have a link and an address.
pub(crate) fn interfaces() -> Vec<Interface> {
    // On an error, return an empty list: the paths will wait, and the tunnel will ask again later.
    let [v4, v6] = [true, false].map(|v4| interfaces_like("", v4).unwrap_or_default());
    let more = v6.iter().filter(|name| !v4.contains(name));
    let interface =
        |name: &String| Interface { name: name.clone(), v4: v4.contains(name), v6: v6.contains(name) };
    let mut all: Vec<Interface> = v4.iter().chain(more).map(interface).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Opens a server's sockets. Returns the smallest known path MTU, the size of the headers, and the size left
/// for inner packets.
pub(crate) fn listen(core: &mut Core, cfg: &Config, shard: u8) -> Result<(u16, u16, u16), Error> {
    let mut sockets = Vec::new();
    for listen in &cfg.listen.0 {
        let all: &[Encapsulation] = match cfg.encapsulation {
            Encapsulation::Auto => &[Encapsulation::Udp, Encapsulation::Tls],
            _ => std::slice::from_ref(&cfg.encapsulation),
        };
        for encapsulation in all {
            let addr = match encapsulation {
                Encapsulation::Udp | Encapsulation::Auto => listen.socket_addr(dccp_wire::DCCP_UDP_PORT),
                Encapsulation::Tls => SocketAddr::new(listen.ip, cfg.tls_port),
                Encapsulation::Raw => SocketAddr::new(listen.ip, 0),
            };
            let socket = open_socket(core, cfg, *encapsulation, Bind { addr, interface: None }, shard)
                .map_err(|e| Error::missing(e.absent, format!("listen {listen}: {}", e.why)))?;
            sockets.push((socket, addr.is_ipv4()));
        }
    }
    let mut least = None;
    for peer in cfg.peers.iter().map(|p| p.get_ref()) {
        let limits = peer.paths.iter().filter_map(|p| Some((p.get_ref().remote.ip()?, p.get_ref().mtu)));
        for (ip, most) in limits.chain(peer.origins().iter().map(|ip| (*ip, None))) {
            let Some((socket, _)) = sockets.iter().find(|(_, v4)| *v4 == ip.is_ipv4()) else { continue };
            let sizes = sizes(core, *socket, SocketAddr::new(ip, 9));
            let mtu = mpdccp_tunnel::first_mtu(sizes, most);
            least = Some(least.unwrap_or(mtu).min(mtu));
        }
    }
    let mtu = least.unwrap_or_else(|| mpdccp_tunnel::first_mtu(Sizes::default(), None));
    let overhead = sockets.iter().map(|(socket, v4)| {
        let overhead = core.net.socket(*socket).map_or(0, |c| c.overhead());
        if *v4 { overhead } else { overhead - 20 }
    });
    let overhead = overhead.max().unwrap_or(0) + keys::overhead(cfg);
    let v6 = sockets.iter().any(|(_, v4)| !v4);
    Ok((mtu, overhead, mpdccp_tunnel::inner_mtu(mtu, overhead + if v6 { 20 } else { 0 })))
}

/// Returns the status of all open sockets.
pub(crate) fn status(core: &Core) -> Vec<SocketStatus> {
    core.net.stats().iter().map(|(socket, stats)| socket_status(core, *socket, stats)).collect()
}

fn socket_status(core: &Core, socket: u32, stats: &SocketStats) -> SocketStatus {
    let encapsulation = core.net.socket(socket);
    let local = encapsulation.and_then(|c| c.local_addr().ok());
    let further = encapsulation.map(|c| c.drops()).unwrap_or_default();
    let drops = [
        ("tx_buffer_full", stats.tx_buffer_full),
        ("tx_too_big", stats.tx_too_big),
        ("tx_link_down", stats.tx_link_down),
        ("rx_bad_checksum", stats.rx_bad_checksum),
        ("rx_malformed", stats.rx_malformed),
    ];
    let drops: BTreeMap<String, u64> =
        drops.into_iter().chain(further).filter(|(_, n)| *n > 0).map(|(k, n)| (k.into(), n)).collect();
    SocketStatus {
        socket,
        local: local.map_or_else(|| "?".into(), |a| a.to_string()),
        encapsulation: encapsulation.map_or("", |c| c.name()).into(),
        tx_packets: stats.tx_packets,
        tx_bytes: stats.tx_bytes,
        tx_calls: stats.tx_calls,
        rx_packets: stats.rx_packets,
        rx_bytes: stats.rx_bytes,
        rx_calls: stats.rx_calls,
        drops,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_ipv6_is_named_as_the_cause() {
        let bind = Bind { addr: "[::]:6511".parse().unwrap(), interface: None };
        let failed = unopened(&Errno::AFNOSUPPORT.into(), Encapsulation::Udp, &bind);
        assert!(!failed.absent && failed.why.starts_with("this kernel has no IPv6"), "{}", failed.why);
    }
}
