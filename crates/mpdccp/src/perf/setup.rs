//! Creates sockets and session settings from a plan.

use crate::error::Error;
use crate::perf::args::EncapsulationArg;
use crate::perf::keys::{self, Keys};
use crate::perf::plan::{Plan, Role};
use dccp_net::{Bind, Core, RawEncapsulation, UdpEncapsulation, with_port};
use dccp_proto::{PADDED_REQUEST, Ports, Route};
use mpdccp_proto::reorder::ReorderConfig;
use mpdccp_proto::{
    Ccid, Fallback, ListenConfig, PathConfig, PeerFilter, QueueConfig, Seconds, SessionConfig, SessionId,
    Settings,
};
use mpdccp_units::Time;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// DCCP Service Code of perf: "perf" (RFC 4340 section 8.1.2).
const SERVICE_CODE: u32 = u32::from_be_bytes(*b"perf");
/// Size of the DCCP header and MP_SEQ in a data packet.
const DCCP_HEADER: usize = 28;
/// Maximum number of sessions that a server has open at a time.
pub(crate) const MAX_SESSIONS: usize = 512;
/// Maximum number of sessions per client (an IPv4 address or an IPv6 /64). It is large enough for a client
/// that opens 64 sessions at once. [`crowded`] lowers the maximum while many sessions are open.
const MAX_OF_A_HOST: usize = 128;

fn session_config(plan: &Plan, multipath: bool) -> SessionConfig {
    let settings = Settings {
        ccid: Ccid(plan.common.ccid),
        cc_variant: plan.common.cc_variant,
        scheduler: plan.common.scheduler,
        reordering: plan.common.reordering.unwrap_or_else(ReorderConfig::passive),
        queue: QueueConfig { max_packets: plan.common.queue as usize, ..QueueConfig::unbounded() },
        survive: Seconds(plan.survive),
        ..Settings::of_datagrams()
    };
    // A server accepts plain and multipath sessions.
    let fallback = if matches!(plan.role, Role::Server { .. }) { Fallback::Plain } else { Fallback::Refuse };
    let mut session = SessionConfig { multipath, fallback, ..settings.session() };
    session.connection.service_code = SERVICE_CODE;
    session.connection.ndp_count = false;
    session.connection.least_request = PADDED_REQUEST;
    session.connection.probe_mtu = true;
    (session.connection.coverage, session.connection.min_coverage) =
        (plan.common.coverage, plan.common.coverage);
    session
}

/// Returns whether a client with `of_client` sessions has too many while a total of `open` sessions are open.
/// The limit is a quarter of the free sessions, but at least one, so that a few clients cannot occupy all
/// sessions.
pub(crate) fn crowded(of_client: usize, open: usize) -> bool {
    of_client > (MAX_SESSIONS.saturating_sub(open) / 4).max(1)
}

fn open_socket(core: &mut Core, plan: &Plan, bind: Bind) -> Result<u32, Error> {
    let (addr, encapsulation) = (bind.addr, plan.common.encapsulation);
    let interface = bind.interface.clone();
    let result = match encapsulation {
        EncapsulationArg::Udp => UdpEncapsulation::new(bind).and_then(|c| core.add_socket(c)),
        EncapsulationArg::Raw => RawEncapsulation::new(bind)
            .and_then(|c| core.add_socket(if plan.keys.is_some() { c.sealed() } else { c })),
    };
    result.map_err(|e| {
        Error::usage(match e.kind() {
            _ if e.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                let interface = interface.unwrap_or_default();
                format!(
                    "--bind-dev {interface}: there is no such interface; `ip link` shows those of this host"
                )
            }
            ErrorKind::AddrInUse => format!(
                "UDP port {} on {} is in use; choose another port, or end the process that `ss -ulnp` shows",
                addr.port(),
                addr.ip()
            ),
            ErrorKind::AddrNotAvailable => {
                format!("this host has no address {}; `ip address` shows its addresses", addr.ip())
            }
            ErrorKind::PermissionDenied if encapsulation == EncapsulationArg::Raw => {
                "--encapsulation raw needs CAP_NET_RAW: run as root, or use --encapsulation udp".into()
            }
            _ => format!("cannot open a socket on {addr}: {e}"),
        })
    })
}

/// Returns the number of bytes that the socket's encapsulation and encryption add to each packet.
fn overhead(core: &Core, plan: &Plan, socket: u32) -> u16 {
    core.net.socket(socket).map_or(0, |c| c.overhead()) + keys::overhead(plan.keys.as_ref())
}

/// Checks that the messages fit into packets of this MTU.
///
/// # Errors
/// If the messages do not fit.
fn check_size(plan: &Plan, mtu: u16, overhead: u16) -> Result<(), Error> {
    let most = usize::from(mtu.saturating_sub(overhead)).saturating_sub(DCCP_HEADER);
    match plan.size() {
        Some(size) if size > most => Err(Error::usage(format!(
            "--size {size}: too large; a packet of {mtu} bytes carries at most {most} bytes"
        ))),
        _ => Ok(()),
    }
}

/// Listens for sessions. Also sends DCCP-Listen packets to the clients given with `--rendezvous`. Returns the
/// address of the socket.
pub(crate) fn listen(
    core: &mut Core,
    now: Time,
    plan: &Plan,
    addr: SocketAddr,
    rendezvous: &[SocketAddr],
) -> Result<SocketAddr, Error> {
    let keys = plan.keys.as_ref();
    if let Some(keys) = keys {
        keys.secure(core, Some((MAX_SESSIONS, MAX_OF_A_HOST)))?;
    }
    let socket = open_socket(core, plan, Bind { addr, interface: plan.bind_dev.clone() })?;
    let overhead = overhead(core, plan, socket);
    check_size(plan, plan.common.mtu, overhead)?;
    let mut session = session_config(plan, true);
    // A client without a configured key may acknowledge packets that it did not receive. To detect this, the
    // server skips some sequence numbers, which no honest client acknowledges.
    session.connection.skip_numbers = keys.is_none_or(Keys::admit_all);
    core.endpoint.listen(ListenConfig {
        port: plan.dccp_port,
        session,
        peers: keys.map_or_else(|| vec![PeerFilter { id: 0, remotes: Vec::new() }], Keys::filters),
        strangers: keys.is_some_and(Keys::admit_all),
        mtu: plan.common.mtu,
        // `overhead` must be the value for IPv4 here; the endpoint adds the difference for IPv6.
        overhead: if addr.is_ipv4() { overhead } else { overhead - 20 },
        max_sessions: MAX_SESSIONS,
        max_sessions_per_source: MAX_OF_A_HOST,
    });
    for client in rendezvous {
        let port = if plan.common.encapsulation == EncapsulationArg::Raw { 0 } else { client.port() };
        let route = Route { socket, local: None, remote: with_port(*client, port) };
        core.endpoint.send_listen(now, route, Ports { local: plan.dccp_port, remote: client.port() });
    }
    Ok(core.net.socket(socket).and_then(|c| c.local_addr().ok()).unwrap_or(addr))
}

/// Opens a session. Returns the session and its sockets. On failure, closes the sockets.
pub(crate) fn connect(core: &mut Core, now: Time, plan: &Plan) -> Result<(SessionId, Vec<u32>), Error> {
    let mut sockets = Vec::new();
    let session = connect_with(core, now, plan, &mut sockets);
    if session.is_err() {
        sockets.iter().for_each(|socket| core.net.remove(*socket));
    }
    Ok((session?, sockets))
}

fn connect_with(core: &mut Core, now: Time, plan: &Plan, sockets: &mut Vec<u32>) -> Result<SessionId, Error> {
    let Role::Client { connect, paths, multipath, cport, .. } = &plan.role else {
        return Err(Error::usage("a server does not connect"));
    };
    let mut configs = Vec::new();
    for path in paths {
        let remote = path.remote.map_or(*connect, |ip| SocketAddr::new(ip, connect.port()));
        configs.push(open_path(core, plan, sockets, (path.local, None), remote, path.prio)?);
    }
    if configs.is_empty() {
        let local = if plan.bind_dev.is_some() { any(*connect) } else { source(*connect)? };
        configs.push(open_path(core, plan, sockets, (local, *cport), *connect, 3)?);
    }
    let session = core.endpoint.connect(now, session_config(plan, *multipath), configs[0]);
    for path in &configs[1..] {
        core.endpoint.add_path(now, session, *path);
    }
    Ok(session)
}

/// Returns the unspecified address of the same IP version.
fn any(remote: SocketAddr) -> IpAddr {
    match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Returns the source address that the system chooses for this peer. The socket is bound to that address so
/// that packet captures show it.
fn source(mut remote: SocketAddr) -> Result<IpAddr, Error> {
    remote.set_port(dccp_wire::DCCP_UDP_PORT);
    let find = || {
        let socket = UdpSocket::bind((any(remote), 0))?;
        socket.connect(remote)?;
        Ok(socket.local_addr()?.ip())
    };
    find().map_err(|e: io::Error| {
        Error::usage(format!("no route to {}: {e}; `ip route` shows the routes", remote.ip()))
    })
}

fn open_path(
    core: &mut Core,
    plan: &Plan,
    sockets: &mut Vec<u32>,
    (local, port): (IpAddr, Option<u16>),
    remote: SocketAddr,
    prio: u8,
) -> Result<PathConfig, Error> {
    let udp_port = port.filter(|_| plan.common.encapsulation == EncapsulationArg::Udp).unwrap_or(0);
    let bind = Bind { interface: plan.bind_dev.clone(), ..Bind::toward(remote, local, udp_port) };
    let mut socket = open_socket(core, plan, bind)?;
    sockets.push(socket);
    let overhead = overhead(core, plan, socket);
    let mtu = core.net.path_mtu(socket, remote);
    let mtu = mtu
        .map_err(|e| Error::usage(format!("no route to {}: {e}; `ip route` shows the routes", remote.ip())))?
        .min(plan.common.mtu);
    check_size(plan, mtu, overhead)?;
    if plan.keys.is_some() {
        let to = Route { socket, local: None, remote };
        let channel = core.net.open_channel(core.clock.now(), 0, &to);
        socket = channel.ok_or_else(|| Error::runtime("too many encrypted channels are open"))?;
        sockets.push(socket);
    }
    let route = Route { socket, local: None, remote };
    let ports = Ports { local: port.unwrap_or_else(|| core.ephemeral_port()), remote: plan.dccp_port };
    Ok(PathConfig { prio, ..PathConfig::new(route, ports, mtu, overhead) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_few_clients_hold_all_sessions() {
        for clients in [1, 4, 32, 100] {
            let mut held = vec![0; clients];
            for turn in 0..MAX_SESSIONS * clients {
                let open: usize = held.iter().sum();
                let one = &mut held[turn % clients];
                *one += usize::from(!crowded(*one + 1, open + 1));
            }
            let open: usize = held.iter().sum();
            assert!(open < MAX_SESSIONS && !crowded(1, open + 1), "{clients} clients hold {open}");
            assert!(clients > 1 || open >= 64, "{open}");
        }
    }
}
