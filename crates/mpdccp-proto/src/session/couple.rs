//! Coordination between the paths of a session: shared bottlenecks, and the timing of ProbeRTT.

use super::Session;
use super::subflow::Subflow;
use crate::PathId;
use dccp_cc::Seen;
use dccp_proto::Connection;
use mpdccp_units::{Duration, Time};

/// ProbeRTT takes about 200 ms and a round trip. A path that has been in ProbeRTT for longer than this has
/// stopped sending, and no other path waits for it.
const MAX_HOLD: Duration = Duration::from_secs(2);

impl Session {
    /// Reports a path's measurements to the coupling. If this changes the coupling, tells every path its
    /// share.
    pub(super) fn couple(&mut self, now: Time, i: usize) {
        let path = &self.paths[i];
        if !self.cfg.coupling || self.cfg.share_congestion || self.paths.len() < 2 || !path.is_live() {
            return;
        }
        let Some(view) = path.conn.as_ref().and_then(Connection::tx_view) else { return };
        let seen = Seen {
            rtt: view.rtt.latest().map(|rtt| (rtt, view.rtt.updated())),
            delivered: view.delivered.bytes,
            probing_rtt: view.probing_rtt,
        };
        if self.coupling.on_seen(now, self.paths[i].id.0, &seen) {
            self.tell_parts();
        }
    }

    /// Removes a path whose connection has ended, or which takes another route.
    pub(super) fn uncouple(&mut self, id: PathId) {
        if self.coupling.forget(id.0) {
            self.tell_parts();
        }
    }

    fn tell_parts(&mut self) {
        for path in &mut self.paths {
            if let Some(conn) = &mut path.conn {
                conn.couple(&self.coupling.part(path.id.0));
            }
        }
    }

    /// Records whether path `i` is in ProbeRTT, and tells the other paths. If all paths were in ProbeRTT at
    /// once, the session would starve, so paths at other bottlenecks postpone their ProbeRTT. Paths at the
    /// same bottleneck enter ProbeRTT together, because the bottleneck's queue drains only if all of them
    /// reduce their packets in flight.
    pub(super) fn coordinate_probe_rtt(&mut self, now: Time, i: usize, probing: bool) {
        let path = &mut self.paths[i];
        if path.probing_rtt.is_some() == probing && !path.holding {
            return;
        }
        path.probing_rtt = probing.then(|| path.probing_rtt.unwrap_or(now));
        for j in 0..self.paths.len() {
            let id = self.paths[j].id;
            let elsewhere = |p: &Subflow| p.id != id && !self.coupling.share(p.id.0, id.0);
            let probing = |p: &Subflow| p.probing_rtt.is_some_and(|since| now.since(since) < MAX_HOLD);
            let hold = self.paths.iter().any(|p| probing(p) && elsewhere(p));
            let path = &mut self.paths[j];
            if let Some(conn) = path.conn.as_mut().filter(|_| path.holding != hold) {
                path.holding = hold;
                conn.hold_probe_rtt(hold);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PathConfig, SessionConfig};
    use dccp_proto::{Ports, Route};

    #[test]
    fn a_path_on_another_route_is_no_longer_coupled() {
        let route = Route { socket: 0, local: None, remote: "10.0.0.1:6511".parse().unwrap() };
        let ports = Ports { local: 1, remote: 2 };
        let path = PathConfig::new(route, ports, 1500, 28);
        let mut session = Session::client(SessionConfig::default(), Time::ZERO, path, 1, [1; 32]);
        let other = session.add_path(Time::ZERO, path).unwrap();
        // The round-trip times of the two paths rise and fall together.
        for n in 0..1_000 {
            let (now, bin) = (Time::from_millis(10 * n), n / 10);
            let rtt = Duration::from_millis(20 + bin * bin % 17);
            let seen = Seen { rtt: Some((rtt, now)), delivered: 0, probing_rtt: false };
            for id in [0, other.0] {
                session.coupling.on_seen(now, id, &seen);
            }
        }
        assert!(session.coupling.share(0, other.0));
        session.change_path(Time::from_millis(10_000), other);
        assert!(!session.coupling.share(0, other.0));
    }
}
