//! The addresses to which a client connects: its configured server, or the addresses that the server of its
//! session advertises. A load balancer cannot see in TLS to which server a connection belongs. Only the
//! advertised addresses lead to that server.

use std::net::{IpAddr, SocketAddr};

#[derive(Debug)]
pub(super) struct Targets {
    server: SocketAddr,
    /// Advertised addresses of the path's IP version.
    advertised: Vec<IpAddr>,
    /// Index of the next advertised address. After the last one, the configured server is next.
    turn: usize,
    current: SocketAddr,
    /// The path is down, perhaps because another server accepted the connection.
    redirect: bool,
}

impl Targets {
    pub(super) fn new(server: SocketAddr, advertised: &[IpAddr]) -> Targets {
        let mut targets =
            Targets { server, advertised: Vec::new(), turn: 0, current: server, redirect: false };
        targets.learn(advertised, false);
        targets
    }

    /// The target of the latest connection.
    pub(super) fn current(&self) -> SocketAddr {
        self.current
    }

    /// The target of a new connection.
    pub(super) fn choose(&mut self) -> SocketAddr {
        let turn = self.turn % (self.advertised.len() + 1);
        let port = self.server.port();
        self.current = self.advertised.get(turn).map_or(self.server, |ip| SocketAddr::new(*ip, port));
        self.current
    }

    /// The connection was not established, so the next target is tried.
    pub(super) fn on_failed(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// An established connection was lost.
    pub(super) fn on_lost(&mut self) {
        self.turn = 0;
    }

    /// Sets the addresses that the server of the session advertises. `up` tells whether the path is up.
    pub(super) fn learn(&mut self, advertised: &[IpAddr], up: bool) {
        self.redirect = !up;
        let fitting = advertised.iter().copied().filter(|ip| ip.is_ipv4() == self.server.is_ipv4());
        let fitting: Vec<IpAddr> = fitting.collect();
        if self.advertised != fitting {
            (self.advertised, self.turn) = (fitting, 0);
        }
    }

    /// Whether to replace the established connection, because the path over it is down and an advertised
    /// address was not tried. Returns true only once, because an advertised address may be unreachable.
    pub(super) fn redirects(&mut self) -> bool {
        std::mem::take(&mut self.redirect)
            && !self.advertised.is_empty()
            && !self.advertised.contains(&self.current.ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertised_addresses_come_first_and_the_server_last() {
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut targets = Targets::new(SocketAddr::new(ip(1), 443), &[]);
        assert_eq!((targets.choose(), targets.redirects()), (SocketAddr::new(ip(1), 443), false));
        targets.learn(&["2001:db8::1".parse().unwrap()], false);
        assert!(!targets.redirects(), "another IP version");
        targets.learn(&[ip(2), ip(3)], true);
        assert!(!targets.redirects(), "the path is up");
        targets.learn(&[ip(2), ip(3)], false);
        assert!(targets.redirects() && !targets.redirects(), "once");
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(targets.choose());
            targets.on_failed();
        }
        assert_eq!(order, [2, 3, 1, 2].map(|last| SocketAddr::new(ip(last), 443)));
        targets.learn(&[ip(2), ip(3)], false);
        assert!(!targets.redirects(), "the client is connected to the advertised address");
        targets.on_lost();
        assert_eq!(targets.choose().ip(), ip(2));
        // When the addresses change, the first one is tried first.
        targets.on_failed();
        targets.learn(&[ip(4), ip(5)], false);
        assert_eq!(targets.choose().ip(), ip(4));
        // A path that opens later starts with the advertised addresses.
        assert_eq!(Targets::new(SocketAddr::new(ip(1), 443), &[ip(4)]).choose().ip(), ip(4));
        // The session has ended.
        targets.learn(&[], false);
        assert_eq!(targets.choose().ip(), ip(1));
    }
}
