//! Chooses the address that a client connects to: its configured server, or an address advertised by the
//! server of its session. A load balancer cannot tell which server a TLS connection must reach, so only
//! the advertised addresses are sure to lead to the session's server.

use std::net::{IpAddr, SocketAddr};

#[derive(Debug)]
pub(super) struct Targets {
    server: SocketAddr,
    /// Advertised addresses of the path's IP version.
    advertised: Vec<IpAddr>,
    /// Index of the next advertised address. After the last one, it is the configured server's turn.
    turn: usize,
    current: SocketAddr,
    /// Whether to connect to an advertised address, because the path is down and its connection may lead to
    /// another server.
    redirect: bool,
}

impl Targets {
    pub(super) fn new(server: SocketAddr, advertised: &[IpAddr]) -> Targets {
        let mut targets =
            Targets { server, advertised: Vec::new(), turn: 0, current: server, redirect: false };
        targets.learn(advertised, false);
        targets
    }

    /// Returns the target of the latest connection.
    pub(super) fn current(&self) -> SocketAddr {
        self.current
    }

    /// Chooses the target of a new connection.
    pub(super) fn choose(&mut self) -> SocketAddr {
        let turn = self.turn % (self.advertised.len() + 1);
        let port = self.server.port();
        self.current = self.advertised.get(turn).map_or(self.server, |ip| SocketAddr::new(*ip, port));
        self.current
    }

    /// Moves on to the next target, because no connection was established.
    pub(super) fn on_failed(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// Starts over with the first target, because an established connection was lost.
    pub(super) fn on_lost(&mut self) {
        self.turn = 0;
    }

    /// Sets the addresses advertised by the session's server. `up` says whether the path is up.
    pub(super) fn learn(&mut self, advertised: &[IpAddr], up: bool) {
        self.redirect = !up;
        let fitting = advertised.iter().copied().filter(|ip| ip.is_ipv4() == self.server.is_ipv4());
        let fitting: Vec<IpAddr> = fitting.collect();
        if self.advertised != fitting {
            (self.advertised, self.turn) = (fitting, 0);
        }
    }

    /// Returns whether to replace the established connection. This is so if the path is down and the
    /// connection does not lead to an advertised address. Returns true only once until the next call of
    /// [`learn`](Self::learn), because the advertised addresses may be unreachable.
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
        // When the advertised addresses change, the client starts with the first one.
        targets.on_failed();
        targets.learn(&[ip(4), ip(5)], false);
        assert_eq!(targets.choose().ip(), ip(4));
        // A path that opens later tries the advertised addresses first.
        assert_eq!(Targets::new(SocketAddr::new(ip(1), 443), &[ip(4)]).choose().ip(), ip(4));
        // The session has ended, so no address is advertised any more.
        targets.learn(&[], false);
        assert_eq!(targets.choose().ip(), ip(1));
    }
}
