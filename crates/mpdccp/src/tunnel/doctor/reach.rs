//! Finds out why a server is silent, by testing which other services of its host answer.

use super::finding::Finding;
use super::system;
use dccp_net::Bind;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(1_500);

/// What is known about the host of a silent server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Whether an answer to the handshake arrived that could not be decrypted.
    pub(crate) unreadable: bool,
    /// The error that the system or the network reported for a datagram to the server's port.
    pub(crate) said: Option<ErrorKind>,
    /// Whether the host reports that a closed UDP port is closed.
    pub(crate) udp: bool,
    /// Whether the host accepts or refuses TCP connections.
    pub(crate) tcp: bool,
    pub(crate) ping: bool,
    /// The line's gateway, if it does not answer.
    pub(crate) silent_gateway: Option<IpAddr>,
}

fn socket(bind: &Bind, mark: Option<u32>, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(bind.addr), kind, Some(protocol))?;
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    socket.bind_device(bind.interface.as_deref().map(str::as_bytes))?;
    socket.bind(&SockAddr::from(SocketAddr::new(bind.addr.ip(), 0)))?;
    Ok(socket)
}

/// Sends up to three datagrams. Returns the error that they cause, if any.
fn datagram(bind: &Bind, mark: Option<u32>, to: SocketAddr) -> Option<ErrorKind> {
    let send = || -> io::Result<()> {
        let socket = socket(bind, mark, Type::DGRAM, Protocol::UDP)?;
        socket.connect(&SockAddr::from(to))?;
        socket.set_read_timeout(Some(PATIENCE / 3))?;
        // Send several times: if the system must first resolve the neighbour's address, the first datagram
        // may get no answer.
        for _ in 0..3 {
            socket.send(&[0])?;
            match socket.recv(&mut [MaybeUninit::uninit(); 100]) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                other => return other.map(drop),
            }
        }
        Ok(())
    };
    send().err().map(|e| e.kind())
}

/// Returns whether the host accepts or refuses a TCP connection. Either shows that the host is up.
fn connects(bind: &Bind, mark: Option<u32>, to: SocketAddr) -> bool {
    let connect = || -> io::Result<()> {
        let socket = socket(bind, mark, Type::STREAM, Protocol::TCP)?;
        socket.connect_timeout(&SockAddr::from(to), PATIENCE)
    };
    connect().map_or_else(|e| e.kind() == ErrorKind::ConnectionRefused, |()| true)
}

/// Returns whether the host answers a ping. Uses the program `ping`, because any user may run it.
fn pings(bind: &Bind, to: IpAddr) -> bool {
    let mut command = Command::new("ping");
    command.args(["-n", "-c", "2", "-i", "0.3", "-W", "1"]);
    let from = bind.interface.clone().unwrap_or_else(|| bind.addr.ip().to_string());
    command.args(["-I", &from]).arg(to.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Evidence {
    /// Runs the tests.
    pub(crate) fn gather(
        bind: &Bind,
        mark: Option<u32>,
        remote: SocketAddr,
        unreadable: bool,
        device: Option<&str>,
    ) -> Evidence {
        let (ip, udp) = (remote.ip(), remote.port() > 0);
        let closed = [33_434, 33_917, 40_321].map(|port| SocketAddr::new(ip, port));
        let answered = |at: SocketAddr| datagram(bind, mark, at) == Some(ErrorKind::ConnectionRefused);
        std::thread::scope(|scope| {
            let said = scope.spawn(|| udp.then(|| datagram(bind, mark, remote)).flatten());
            let closed = scope.spawn(|| closed.into_iter().any(answered));
            let ports = [443, 22, 80, remote.port().max(1)];
            let tcp = ports.map(|port| scope.spawn(move || connects(bind, mark, SocketAddr::new(ip, port))));
            let ping = scope.spawn(|| pings(bind, ip));
            let udp = closed.join().unwrap_or(false);
            let tcp = tcp.into_iter().fold(false, |any, one| one.join().unwrap_or(false) | any);
            let (said, ping) = (said.join().unwrap_or(None), ping.join().unwrap_or(false));
            let oif = device.map(|device| vec!["oif", device]).unwrap_or_default();
            let route = system::route_to(ip, &oif).ok();
            let silent = route.and_then(|route| {
                let via = route.gateway.unwrap_or(ip);
                system::is_silent(via, &route.device).then_some(via)
            });
            Evidence { unreadable, said, udp, tcp, ping, silent_gateway: silent }
        })
    }

    /// Explains the server's silence from the test results. `own_key` is this end's public key. `elsewhere`
    /// is another line over which the same server answers.
    pub(crate) fn finding(&self, remote: SocketAddr, own_key: &str, elsewhere: Option<&str>) -> Finding {
        let (ip, port) = (remote.ip(), remote.port());
        let alive = match (self.tcp, self.ping) {
            (true, true) => "TCP and ping",
            (true, false) => "TCP",
            _ => "ping",
        };
        let open = format!("open UDP port {port} in the server's firewall");
        match self.said {
            _ if self.unreadable => Finding::fault(
                "key",
                format!("cannot decrypt the handshake of the server {remote}: the preshared keys differ"),
                "Set the same preshared_key at both ends, or none at either end",
            ),
            Some(ErrorKind::PermissionDenied) => Finding::fault(
                "firewall",
                format!("this host's own firewall drops packets to {remote}"),
                format!("Allow outgoing UDP to port {port} (`nft list ruleset` shows the rules)"),
            ),
            Some(ErrorKind::ConnectionRefused) => Finding::fault(
                "server",
                format!("{ip} reports that nothing listens on UDP port {port}"),
                format!(
                    "Check that the tunnel is running at the server, and that its `listen` has port {port}. If so, the server's firewall rejects the packets: allow UDP port {port}"
                ),
            ),
            Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) if !self.tcp && !self.ping => {
                unreachable(self.silent_gateway, remote)
            }
            Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => Finding::fault(
                "udp",
                format!("a firewall rejects UDP to {remote}"),
                format!("Ask the operator of this path's network to allow UDP port {port}, or {open}"),
            ),
            _ if self.silent_gateway.is_some() => unreachable(self.silent_gateway, remote),
            _ if elsewhere.is_some() => Finding::fault(
                "udp",
                format!(
                    "this Internet connection blocks UDP to {remote}: the server does not answer over it, but answers over {}",
                    elsewhere.unwrap_or_default()
                ),
                format!(
                    "Ask the operator of this path's network to allow UDP port {port}, or let the server listen on an allowed port such as 443"
                ),
            ),
            _ if self.udp => Finding::fault(
                "key",
                format!("UDP reaches {ip}, but the tunnel there does not answer: a key is wrong"),
                format!(
                    "The server's file needs a [[peer]] with public_key = \"{own_key}\"; public_key in this end's file must be the key that `mpdccp pubkey` prints at the server. If both are right, {open}"
                ),
            ),
            _ if self.tcp || self.ping => Finding::fault(
                "udp",
                format!(
                    "no answer to UDP from {remote}, but the host answers {alive}: a firewall blocks UDP, the tunnel is not running there, or a key is wrong"
                ),
                format!(
                    "Check that the tunnel is running at the server, {open}, and compare the keys: the server's file needs public_key = \"{own_key}\" for this end"
                ),
            ),
            _ => Finding::fault(
                "server",
                format!(
                    "{ip} does not answer over this Internet connection, neither to UDP port {port} nor to TCP nor to ping"
                ),
                format!(
                    "Check the address, and that the server is running. If other hosts reach the server, {open}, and check that this path's interface has Internet access"
                ),
            ),
        }
    }
}

/// Explains why a line gets no answer over TLS. `why` says why there is no TLS connection; it is empty if
/// there is one.
pub(crate) fn of_tls(remote: SocketAddr, proxy: Option<SocketAddr>, why: &str, own_key: &str) -> Finding {
    let port = remote.port();
    match (why, proxy) {
        ("", _) => Finding::fault(
            "key",
            format!("TLS reaches {remote}, but the tunnel there does not answer: a key is wrong"),
            format!(
                "The server's file needs a [[peer]] with public_key = \"{own_key}\"; public_key in this end's file must be the key that `mpdccp pubkey` prints at the server"
            ),
        ),
        (why, Some(proxy)) => Finding::fault(
            "tls",
            format!("cannot connect to {remote} through the proxy {proxy}: {why}"),
            format!("Check `proxy`, and that the proxy allows CONNECT to TCP port {port}"),
        ),
        (why, None) => Finding::fault(
            "tls",
            format!("cannot connect to {remote} over TLS: {why}"),
            format!(
                "At the server, set encapsulation = \"tls\" or \"auto\", and open TCP port {port} in its firewall; in a network that needs a proxy, set `proxy`"
            ),
        ),
    }
}

fn unreachable(gateway: Option<IpAddr>, remote: SocketAddr) -> Finding {
    match gateway {
        Some(gateway) if gateway == remote.ip() => Finding::fault(
            "server",
            format!(
                "the server {gateway} should be in the network of this interface, but does not answer ARP or neighbour discovery"
            ),
            "Check the address, and that the server is running",
        ),
        Some(gateway) => Finding::fault(
            "route",
            format!(
                "the router {gateway} of this Internet connection does not answer, so no packets get through"
            ),
            "Check that the router is running and that its address is right (`ip route`). A second default route of the interface with a better metric may hide the right one",
        ),
        None => Finding::fault(
            "route",
            format!("a router reports that no route leads to {}", remote.ip()),
            "Check that this path's interface has Internet access",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_tell_keys_from_walls() {
        let remote: SocketAddr = ([192, 0, 2, 1], 6511).into();
        let none = Evidence::default();
        let check = |e: Evidence, elsewhere| e.finding(remote, "KEY", elsewhere).check;
        assert_eq!(check(none.clone(), None), "server");
        assert_eq!(check(Evidence { unreadable: true, ..none.clone() }, None), "key");
        assert_eq!(check(Evidence { udp: true, ping: true, ..none.clone() }, None), "key");
        assert_eq!(check(Evidence { udp: true, ..none.clone() }, Some("dsl")), "udp");
        assert_eq!(check(Evidence { ping: true, ..none.clone() }, None), "udp");
        assert_eq!(check(Evidence { tcp: true, ..none.clone() }, None), "udp");
        let said = |kind| Evidence { said: Some(kind), ..none.clone() };
        assert_eq!(check(said(ErrorKind::ConnectionRefused), Some("dsl")), "server");
        assert_eq!(check(said(ErrorKind::PermissionDenied), None), "firewall");
        assert_eq!(check(said(ErrorKind::HostUnreachable), None), "route");
        assert_eq!(check(Evidence { tcp: true, ..said(ErrorKind::HostUnreachable) }, None), "udp");
        let gateway = Some([192, 0, 2, 254].into());
        assert_eq!(check(Evidence { silent_gateway: gateway, ..none }, Some("dsl")), "route");
    }
}
