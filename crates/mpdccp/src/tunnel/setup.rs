//! From a configuration to sockets, session settings and the interface; every failure says what, where and how to mend it.

use crate::fault::Fault;
use crate::tunnel::config::{Config, PathSpec, Role, Security};
use crate::tunnel::default_route::MARK;
use crate::tunnel::mtu::Sizes;
use crate::tunnel::security;
use crate::tunnel::shards::Interface;
use crate::tunnel::values::{Carrier, Mtu, Prio};
use dccp_net::{Bind, Core, RawCarrier, Tun, TunConfig, UdpCarrier, interfaces_like};
use dccp_proto::Route;
use mpdccp_proto::{ListenConfig, PeerFilter, SessionConfig};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use units::Time;

/// DCCP Service Code of the tunnel, "MPTU" (RFC 4340 section 8.1.2).
pub(crate) const SERVICE_CODE: u32 = u32::from_be_bytes(*b"MPTU");
/// A data packet's header with its MP_SEQ option: the part of the overhead that no carrier knows.
const DCCP_HEADER: u16 = 28;
/// Where the system knows nothing better.
const DEFAULT_MTU: u16 = 1500;
/// Largest path MTU made use of.
pub(crate) const MAX_MTU: u16 = 9000;
/// Smallest MTU with which Linux keeps IPv6 on an interface (RFC 8200 section 5).
pub(crate) const MIN_MTU_V6: u16 = 1280;
/// Most sessions of a server beyond one per peer: a peer that lost its session may open the next before the old one ends.
pub(crate) const SPARE_SESSIONS: usize = 2;

/// A path of ours with its socket.
#[derive(Clone, Debug)]
pub(crate) struct OpenPath {
    pub(crate) spec: PathSpec,
    /// The interface that its pattern led to, or the one that it names.
    pub(crate) interface: Option<String>,
    pub(crate) socket: u32,
    pub(crate) remote: SocketAddr,
    pub(crate) mtu: u16,
    pub(crate) overhead: u16,
    /// Since when it does not work.
    pub(crate) bad_since: Option<Time>,
    /// To an advertised address: it has been up.
    pub(crate) proved: bool,
    /// Bytes of its socket that its volume has been charged with.
    pub(crate) charged: u64,
    /// Its volume is used up.
    pub(crate) exhausted: bool,
}

impl OpenPath {
    /// Priority in force at this end.
    pub(crate) fn prio(&self) -> Prio {
        let prio = self.spec.prio();
        if self.exhausted { prio.min(Prio::STANDBY) } else { prio }
    }
}

/// Session settings of all peers.
pub(crate) fn session_config(cfg: &Config) -> SessionConfig {
    let mut session = cfg.settings.session();
    session.connection.service_code = SERVICE_CODE;
    session.connection.probe_mtu = cfg.mtu_probing;
    session
}

/// Why a socket cannot be opened.
pub(crate) enum Unopened {
    /// Its interface or address is not there; it may come.
    Absent(String),
    /// Something to be mended.
    Fault(String),
}

impl Unopened {
    pub(crate) fn words(self) -> String {
        match self {
            Unopened::Absent(why) | Unopened::Fault(why) => why,
        }
    }
}

/// Opens a socket of the configured carrier, of the server's shard `shard`.
fn open_socket(core: &mut Core, cfg: &Config, bind: Bind, shard: u8) -> Result<u32, Unopened> {
    let carrier = cfg.carrier;
    let mark = cfg.default_route.then_some(MARK);
    let result = match carrier {
        Carrier::Udp if cfg.shards.0 > 1 => {
            UdpCarrier::shared(bind.clone(), mark, shard, cfg.shards.0).and_then(|c| core.add_socket(c))
        }
        Carrier::Udp => UdpCarrier::marked(bind.clone(), mark).and_then(|c| core.add_socket(c)),
        Carrier::Raw => RawCarrier::marked(bind.clone(), mark).and_then(|c| match cfg.security {
            Security::Noise => core.add_socket(c.sealed()),
            Security::None => core.add_socket(c),
        }),
    };
    result.map_err(|e| {
        let (ip, port) = (bind.addr.ip(), bind.addr.port());
        let interface = bind.interface.as_deref().unwrap_or_default();
        let what = match e.kind() {
            ErrorKind::AddrInUse => format!(
                "UDP port {port} on {ip} is in use already; is another mpdccp running? (`ss -ulnp` shows by whom)"
            ),
            ErrorKind::AddrNotAvailable => {
                return Unopened::Absent(format!(
                    "this host has no address {ip}; `ip address` shows those it has"
                ));
            }
            ErrorKind::PermissionDenied if carrier == Carrier::Raw => {
                "carrier = \"raw\" needs CAP_NET_RAW: run as root, or use carrier = \"udp\"".into()
            }
            // ENODEV has no kind of its own.
            _ if bind.interface.is_some() && e.raw_os_error() == Some(19) => {
                return Unopened::Absent(format!(
                    "this host has no interface `{interface}`; `ip link` shows those it has"
                ));
            }
            _ => format!("cannot open a socket on {}: {e}", bind.addr),
        };
        Unopened::Fault(what)
    })
}

/// Opens the socket of one path of a client to a peer by its number, towards one address of its remote, and the channel over it.
/// `taken` are the interfaces of the peer's other paths, which a pattern passes over.
pub(crate) fn open_path(
    core: &mut Core,
    cfg: &Config,
    number: u32,
    spec: &PathSpec,
    ip: IpAddr,
    taken: &[String],
) -> Result<OpenPath, Unopened> {
    let interface = match spec.pattern() {
        Some(begin) => Some(fitting(begin, ip, taken).map_err(Unopened::Absent)?),
        None => spec.interface.clone(),
    };
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let addr = SocketAddr::new(spec.local.unwrap_or(any), 0);
    let socket = open_socket(core, cfg, Bind { addr, interface: interface.clone() }, 0)?;
    let remote = match cfg.carrier {
        Carrier::Udp => SocketAddr::new(ip, spec.remote.port.unwrap_or(dccp_wire::DCCP_UDP_PORT)),
        Carrier::Raw => SocketAddr::new(ip, 0),
    };
    let overhead = core.net.carrier(socket).map_or(0, |c| c.overhead()) + security::overhead(cfg);
    let mtu = path_mtu(core, cfg, socket, remote, spec.mtu);
    let socket = match cfg.security {
        Security::None => socket,
        Security::Noise => {
            let to = Route { socket, local: None, remote };
            let channel = core.net.open_channel(core.clock.now(), number, &to);
            channel.ok_or_else(|| Unopened::Fault("too many channels".into()))?
        }
    };
    Ok(OpenPath {
        spec: spec.clone(),
        interface,
        socket,
        remote,
        mtu,
        overhead,
        bad_since: None,
        proved: false,
        charged: 0,
        exhausted: false,
    })
}

/// The first interface free whose name begins so.
fn fitting(begin: &str, ip: IpAddr, taken: &[String]) -> Result<String, String> {
    let all = interfaces_like(begin, ip.is_ipv4()).map_err(|e| format!("cannot list interfaces: {e}"))?;
    all.into_iter().find(|name| !taken.contains(name)).ok_or_else(|| {
        let version = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        format!(
            "this host has no interface `{begin}*` with a carrier and an {version} address that no other path uses; `ip address` shows those it has"
        )
    })
}

fn path_mtu(core: &Core, cfg: &Config, socket: u32, remote: SocketAddr, most: Option<u16>) -> u16 {
    // Without a route now there may be one later.
    let mut known = core.net.path_mtu(socket, remote).unwrap_or(DEFAULT_MTU);
    // ICMP that says less may be forged: what is probed anyway begins with what most networks carry.
    if let (true, Ok(device)) = (cfg.mtu_probing, core.net.device_mtu(socket, remote)) {
        known = known.max(device.min(DEFAULT_MTU));
    }
    known.min(most.unwrap_or(MAX_MTU))
}

/// Opens the sockets of a server and lets its peers in. Returns how, and the smallest inner MTU of the paths it knows of.
pub(crate) fn listen(core: &mut Core, cfg: &Config, shard: u8) -> Result<(ListenConfig, u16), Fault> {
    let mut sockets = Vec::new();
    for listen in &cfg.listen.0 {
        let addr = match cfg.carrier {
            Carrier::Udp => listen.socket_addr(dccp_wire::DCCP_UDP_PORT),
            Carrier::Raw => SocketAddr::new(listen.ip, 0),
        };
        let socket = open_socket(core, cfg, Bind { addr, interface: None }, shard)
            .map_err(|e| Fault::usage(format!("listen {listen}: {}", e.words())))?;
        sockets.push((socket, addr.is_ipv4()));
    }
    let mut mtu = MAX_MTU;
    let mut seen = false;
    let mut overhead = 0;
    let mut peers = Vec::new();
    for (id, peer) in (0u32..).zip(cfg.peers.iter().map(|p| p.get_ref())) {
        let remotes = peer.origins();
        let limits = peer.paths.iter().filter_map(|p| Some((p.get_ref().remote.ip()?, p.get_ref().mtu)));
        for (ip, most) in limits.chain(remotes.iter().map(|ip| (*ip, None))) {
            let Some((socket, _)) = sockets.iter().find(|(_, v4)| *v4 == ip.is_ipv4()) else { continue };
            mtu = mtu.min(path_mtu(core, cfg, *socket, SocketAddr::new(ip, 9), most));
            seen = true;
        }
        peers.push(PeerFilter { id, remotes });
    }
    let mtu = if seen { mtu } else { DEFAULT_MTU };
    for (socket, v4) in &sockets {
        let carrier = core.net.carrier(*socket).map_or(0, |c| c.overhead());
        overhead = overhead.max(if *v4 { carrier } else { carrier - 20 });
    }
    overhead += security::overhead(cfg);
    let v6 = sockets.iter().any(|(_, v4)| !v4);
    let listener = ListenConfig {
        port: cfg.dccp_port,
        session: session_config(cfg),
        max_sessions: peers.len() + SPARE_SESSIONS,
        // A peer has one session, its newest.
        max_sessions_per_source: usize::MAX,
        peers,
        mtu,
        overhead,
    };
    if cfg.shards.0 > 1 {
        core.endpoint.set_shard(shard);
    }
    core.endpoint.listen(listener.clone());
    Ok((listener, inner_mtu(mtu, overhead + if v6 { 20 } else { 0 })))
}

/// What is left of a path MTU for an inner packet.
pub(crate) fn inner_mtu(mtu: u16, overhead: u16) -> u16 {
    mtu.saturating_sub(overhead + DCCP_HEADER)
}

/// What a path is thought to carry before anything is known of it: over IPv6, since that is less.
pub(crate) fn guessed_mtu(cfg: &Config) -> u16 {
    inner_mtu(DEFAULT_MTU, 48 + security::overhead(cfg))
}

/// The smallest MTU with which the interface keeps its addresses.
pub(crate) fn least_mtu(cfg: &Config) -> u16 {
    if cfg.addresses.iter().any(|a| a.addr().is_ipv6()) { MIN_MTU_V6 } else { 0 }
}

/// Creates the interface. `carried` is what the paths carry.
pub(crate) fn create_tun(cfg: &Config, carried: u16) -> Result<Interface, Fault> {
    let name = &cfg.interface;
    let mtu = match cfg.mtu {
        Mtu::Auto => carried,
        Mtu::Fixed(mtu) if mtu > carried => {
            return Err(Fault::usage(format!(
                "mtu = {mtu}: the paths carry inner packets of at most {carried} bytes"
            )));
        }
        Mtu::Fixed(mtu) => mtu,
    };
    if mtu < least_mtu(cfg) {
        return Err(Fault::usage(format!(
            "addresses: IPv6 needs an MTU of {MIN_MTU_V6} or more on {name}, but it is {mtu}; leave the IPv6 address out"
        )));
    }
    let addresses = cfg.addresses.iter().map(|a| (a.addr(), a.prefix_len())).collect();
    let device = TunConfig { name: name.clone(), addresses, mtu, offload: cfg.offload };
    let tun = if cfg.shards.0 > 1 { Tun::create_queued(&device) } else { Tun::create(&device) };
    let tun = tun.map_err(|e| {
        let why = match e.kind() {
            ErrorKind::PermissionDenied => {
                "no permission; making an interface needs CAP_NET_ADMIN, so run as root (sudo) or in a user namespace".into()
            }
            ErrorKind::NotFound => {
                "there is no /dev/net/tun; load the `tun` module (modprobe tun), or give the container the device".into()
            }
            ErrorKind::ResourceBusy => {
                "an interface of that name exists; is another mpdccp running? Choose another name with `interface`".into()
            }
            _ => e.to_string(),
        };
        Fault::usage(format!("cannot create interface {name}: {why}"))
    })?;
    let sizes = Sizes { mtu, most: mtu, carried: BTreeMap::new() };
    Ok(Interface { tun, sizes: Arc::new(Mutex::new(sizes)) })
}

/// Whether the tunnel's own settings make it a client's.
pub(crate) fn is_client(cfg: &Config) -> bool {
    cfg.role == Role::Client
}
