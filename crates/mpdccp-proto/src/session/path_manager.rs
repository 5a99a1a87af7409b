//! Manages paths: adds, connects, retries and removes them.

use super::liveness::Liveness;
use super::subflow::Subflow;
use super::{Reason, Role, Session, SessionEvent};
use crate::{Counter, PathConfig, PathId, PathName, PathState, SessionState, Wake};
use dccp_cc::{Remembered, RttEstimator};
use dccp_proto::{CloseReason, Ports, Route, State};
use dccp_wire::ResetCode;
use mpdccp_units::{Duration, Rate, Time};

/// The time that the first subflow may take before the next path is tried doubles up to this limit. The owner
/// may set a longer time ([`crate::SessionConfig::first_attempt`]).
const FIRST_ATTEMPT: Duration = Duration::from_secs(3);
/// Time limit for the handshake of a join, and for any handshake at a server, because an unfinished handshake
/// takes up one of the session's paths.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// How long to wait for an answer when a single subflow closes.
const SUBFLOW_CLOSE: Duration = Duration::from_secs(3);

impl Session {
    /// Adds a path. A client may also connect the first path. A server can only join paths to an open
    /// multipath session, and otherwise this returns `None`.
    pub(crate) fn add_path(&mut self, now: Time, cfg: PathConfig) -> Option<PathId> {
        let may_join = self.state == SessionState::Open && self.multipath;
        (self.role == Role::Client || may_join).then(|| self.begin_path(now, cfg))
    }

    /// Adds a path that this end will connect.
    pub(super) fn begin_path(&mut self, now: Time, cfg: PathConfig) -> PathId {
        let i = self.new_path(cfg);
        self.paths[i].ours = true;
        let id = self.paths[i].id;
        if self.state == SessionState::Open {
            match self.multipath {
                true => self.paths[i].connect_at = Some(now),
                false => self.drop_other_paths(0),
            }
        }
        id
    }

    /// Removes all but one path, because a plain session has only one.
    pub(super) fn drop_other_paths(&mut self, keep: usize) {
        let mut others = self.paths.split_off(keep + 1);
        others.extend(self.paths.drain(..keep));
        for path in others {
            self.events.push_back(SessionEvent::PathDown(path.id, Reason::Plain));
        }
    }

    /// Closes a path. It is not reconnected.
    pub(crate) fn remove_path(&mut self, now: Time, path: PathId) {
        // An ended session keeps its paths only for its status.
        let Some(i) = self.index(path).filter(|_| self.state != SessionState::Closed) else { return };
        let path = &mut self.paths[i];
        path.removed = true;
        path.connect_at = None;
        if let (PathState::Suspect, Some(addr_id)) = (path.state, path.local_addr) {
            self.withdraw_source(now, addr_id);
        }
        let path = &mut self.paths[i];
        match &mut path.conn {
            None => self.events.push_back(SessionEvent::PathDown(path.id, Reason::Removed)),
            Some(_) if self.state == SessionState::Connecting => self.give_up(now, i, Reason::Removed),
            // RFC 9897 section 3.5: a Close without MP_CLOSE closes a single subflow.
            Some(conn) => match conn.state() {
                State::Open | State::PartOpen => conn.close(now, false),
                _ => conn.abort(ResetCode::Aborted),
            },
        }
        self.after_input(now, i);
        self.check_end(now);
        self.forget_paths();
    }

    /// Handles the application's report of a path's new route, which a session cannot detect itself.
    pub(crate) fn change_path(&mut self, now: Time, path: PathId) {
        let Some(i) = self.index(path) else { return };
        let Subflow { conn, former_srtt, loss, .. } = &mut self.paths[i];
        loss.restart();
        if let Some(conn) = conn {
            // Without a round-trip time, schedulers would avoid the path, so it would never be measured.
            *former_srtt = conn.tx_rtt().and_then(RttEstimator::srtt).or(*former_srtt);
            conn.on_path_change(now);
        }
        // On a longer route, answers would come too late for the timeouts of the old one.
        self.paths[i].learn_timeouts();
        // Stream packets in flight may be lost, and the streams must measure the new route.
        self.tell_streams_down(path);
        // The new route may share no bottleneck with the other paths.
        self.uncouple(path);
        // The new sending half does not record the fates of packets yet.
        self.follow_fates(now, i);
    }

    /// Gives a path a name for the policy rules.
    pub(crate) fn name_path(&mut self, path: PathId, name: PathName) {
        if let Some(i) = self.index(path) {
            self.paths[i].cfg.name = name;
        }
    }

    /// Limits the rate of a path, measured over IP packets with data. The limit does not apply to
    /// acknowledgements and probes.
    pub(crate) fn cap_path(&mut self, path: PathId, rate: Option<Rate>) {
        if let Some(i) = self.index(path) {
            self.paths[i].cap.set(rate);
        }
    }

    /// Lets a path resume with a remembered capacity.
    pub(crate) fn resume(&mut self, path: PathId, saved: &Remembered, max_jump: u64) {
        if let Some(conn) = self.index(path).and_then(|i| self.paths[i].conn.as_mut()) {
            conn.resume(saved, max_jump);
        }
    }

    /// Limits the total sending rate of this end, measured over datagrams.
    pub(crate) fn cap(&mut self, rate: Option<Rate>) {
        self.cap.set(rate);
    }

    /// Sets the maximum size of an IP packet on a path, bytes.
    pub(crate) fn set_mtu(&mut self, now: Time, path: PathId, mtu: u16) {
        let Some(i) = self.index(path) else { return };
        match &mut self.paths[i].conn {
            Some(conn) => conn.set_mtu(now, mtu),
            None => self.paths[i].cfg.mtu = mtu,
        }
        self.follow_mtu(i);
    }

    /// Records that the host can send IP packets of up to `most` bytes on a path, so that this size is
    /// probed.
    pub(crate) fn try_mtu(&mut self, now: Time, path: PathId, most: u16) {
        if let Some(conn) = self.index(path).and_then(|i| self.paths[i].conn.as_mut()) {
            conn.try_mtu(now, most);
        }
    }

    /// Stores the MTU that a connection found, for later connections on the same path.
    pub(super) fn follow_mtu(&mut self, i: usize) {
        let path = &mut self.paths[i];
        let Some(mtu) = path.conn.as_ref().map(|conn| conn.mtu()).filter(|mtu| *mtu != path.cfg.mtu) else {
            return;
        };
        let before = core::mem::replace(&mut path.cfg.mtu, mtu);
        self.events.push_back(SessionEvent::PathMtu { path: path.id, before, now: mtu });
    }

    /// Handles the driver's report on the state of a path's link.
    pub(crate) fn set_link(&mut self, now: Time, path: PathId, up: bool) {
        let Some(i) = self.index(path) else { return };
        let path = &mut self.paths[i];
        match (path.state, up) {
            (PathState::Up, false) => {
                path.liveness = Liveness::link_down(now);
                self.on_suspect(now, i);
                self.tell_suspect(i);
            }
            (PathState::Suspect, true) => {
                path.liveness = Liveness::suspect(now);
                if let Some(conn) = &mut path.conn {
                    conn.probe();
                }
            }
            (PathState::Down, true) if path.connect_at.is_some() => path.connect_at = Some(now),
            _ => {}
        }
    }

    /// Handles a report from the peer's host that nothing listens at the destination of a path.
    pub(crate) fn on_refused(&mut self, now: Time, path: PathId) {
        let Some(i) = self.index(path) else { return };
        let path = &self.paths[i];
        let asking = path.conn.as_ref().is_some_and(|conn| conn.state() == State::Request);
        if path.ours && asking {
            self.give_up(now, i, Reason::NobodyListens);
        }
    }

    /// Returns the next path that should connect now. The endpoint assigns the path's ports (choosing a local
    /// port if it is 0), and then calls [`Self::connect`].
    pub(crate) fn poll_connect(&mut self, now: Time) -> Option<(PathId, Route, Ports)> {
        if !matches!(self.state, SessionState::Connecting | SessionState::Open) {
            return None;
        }
        let busy = self.paths.iter().filter(|p| p.conn.is_some() && !p.is_half_open()).count();
        let i = self.paths.iter().position(|p| p.connect_time().is_some_and(|t| t <= now))?;
        if busy >= self.cfg.max_paths {
            self.paths[i].connect_later(now);
            self.count(Counter::BeyondMaxPaths);
            return None;
        }
        let path = &mut self.paths[i];
        path.connect_at = None;
        // Choose a new local port for another attempt. Otherwise, packets of an earlier connection that are
        // still in flight could be mistaken for packets of the new one (RFC 4340 section 7.5.6).
        let local = if core::mem::replace(&mut path.tried, true) { 0 } else { path.cfg.ports.local };
        Some((path.id, path.cfg.route, Ports { local, ..path.cfg.ports }))
    }

    /// Connects a path, with these ports.
    pub(crate) fn connect(&mut self, now: Time, path: PathId, ports: Ports) {
        match (self.index(path), self.state) {
            (Some(i), SessionState::Connecting) => self.connect_first(now, i, ports),
            (Some(i), SessionState::Open) => self.connect_join(now, i, ports),
            _ => {}
        }
    }

    /// The first subflow could not be opened on this path, so try the next path.
    pub(super) fn on_first_failed(&mut self, now: Time, i: usize, reason: Reason, cause: CloseReason) {
        if self.role == Role::Server {
            return self.finish(reason);
        }
        let path = &self.paths[i];
        self.events.push_back(SessionEvent::PathDown(path.id, reason));
        let refused = cause != CloseReason::TimedOut || reason == Reason::NobodyListens;
        self.first.refused += usize::from(refused && !path.removed);
        let left = self.paths.iter().filter(|p| !p.removed).count();
        if left <= usize::from(!path.removed) || self.first.refused >= left {
            return self.finish(reason);
        }
        self.try_next_first(now, i);
    }

    fn try_next_first(&mut self, now: Time, last: usize) {
        let n = self.paths.len();
        let next = (1..=n).map(|k| (last + k) % n).find(|k| !self.paths[*k].removed);
        if next.is_some_and(|next| next <= last) {
            self.first.patience = (self.first.patience * 2).min(FIRST_ATTEMPT).max(self.first.patience);
        }
        if let Some(next) = next.and_then(|k| self.paths.get_mut(k)) {
            next.connect_at = Some(now);
            (self.first.path, self.first.since) = (next.id, now);
        }
    }

    /// See [`Endpoint::connect_over`](crate::Endpoint::connect_over).
    pub(crate) fn connect_over(&mut self, now: Time, path: PathId) {
        let next = self.index(path).filter(|i| !self.paths[*i].removed);
        let waits =
            self.role == Role::Client && self.state == SessionState::Connecting && !self.is_answered();
        let (Some(next), Some(last), true) = (next, self.index(self.first.path), waits) else { return };
        if next != last {
            self.give_up(now, last, Reason::NextTried);
            // No other path may connect now, not even the one that would be next.
            self.paths.iter_mut().for_each(|path| path.connect_at = None);
            self.paths[next].connect_at = Some(now);
        }
        (self.first.path, self.first.since) = (path, now);
        self.first.patience = self.first.patience.max(FIRST_ATTEMPT);
    }

    /// Runs the timers of paths.
    pub(super) fn manage_paths(&mut self, now: Time) {
        for i in 0..self.paths.len() {
            self.check_liveness(now, i);
            if self.patience(&self.paths[i]).is_some_and(|t| t <= now) {
                let reason = if self.paths[i].state == PathState::Down {
                    Reason::Closed
                } else {
                    Reason::HandshakeTimeout
                };
                self.give_up(now, i, reason);
            }
        }
        if self.rotation_timeout().is_some_and(|t| t <= now)
            && let Some(i) = self.index(self.first.path)
        {
            self.give_up(now, i, Reason::NextTried);
        }
    }

    /// Returns when to stop waiting for a connection that is opening or closing.
    fn patience(&self, path: &Subflow) -> Option<Time> {
        let limited = self.role == Role::Server || self.state != SessionState::Connecting;
        match path.state {
            PathState::Connecting if limited => Some(path.since + HANDSHAKE),
            PathState::Down if path.conn.is_some() => Some(path.since + SUBFLOW_CLOSE),
            _ => None,
        }
    }

    /// Returns whether the server has answered the first subflow, which opens one round trip after the
    /// answer.
    pub(crate) fn is_answered(&self) -> bool {
        let first = self.paths.iter().find(|p| p.id == self.first.path).and_then(|p| p.conn.as_ref());
        self.state == SessionState::Connecting
            && first.is_some_and(|conn| matches!(conn.state(), State::PartOpen | State::Open))
    }

    /// Returns when the client gives up on the current first path and tries the next one.
    fn rotation_timeout(&self) -> Option<Time> {
        let choice = self.paths.iter().filter(|p| !p.removed).count() > 1;
        let trying = self.paths.iter().any(|p| p.id == self.first.path && p.conn.is_some());
        let least = if self.is_answered() { FIRST_ATTEMPT } else { Duration::ZERO };
        (self.role == Role::Client && self.state == SessionState::Connecting && choice && trying)
            .then(|| self.first.since + self.first.patience.max(least))
    }

    pub(super) fn management_timeouts(&self) -> impl Iterator<Item = (Time, Wake)> {
        let open = self.state == SessionState::Open;
        let active = open || self.state == SessionState::Connecting;
        let live = self.paths.iter().filter(move |p| open && p.is_live());
        let live = live.map(|p| (p.liveness.next(&self.evidence(p)), Wake::Probe));
        let patience = self.paths.iter().filter_map(move |p| self.patience(p).filter(|_| active));
        let connect = self.paths.iter().filter_map(move |p| p.connect_time().filter(|_| active));
        live.chain(patience.map(|t| (t, Wake::Patience)))
            .chain(connect.map(|t| (t, Wake::Connect)))
            .chain(self.rotation_timeout().map(|t| (t, Wake::FirstAttempt)))
            .chain(self.signal_timeout().filter(|_| open).map(|t| (t, Wake::Confirm)))
    }

    /// Removes paths that will not come back. Call this only between inputs, because it changes indices. An
    /// ended session keeps its last paths, because their addresses are part of its status.
    pub(super) fn forget_paths(&mut self) {
        if self.state == SessionState::Closed {
            return;
        }
        let before = self.paths.len();
        self.paths.retain(|p| p.conn.is_some() || (p.ours && !p.removed));
        if self.paths.len() != before {
            self.release_sources();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionConfig;

    #[test]
    fn identifiers_that_start_over_leave_out_those_of_open_paths() {
        let route = Route { socket: 0, local: None, remote: "10.0.0.1:6511".parse().unwrap() };
        let path = PathConfig::new(route, Ports { local: 1, remote: 2 }, 1500, 28);
        let mut session = Session::client(SessionConfig::default(), Time::ZERO, path, 1, [1; 32]);
        session.next_path = u32::MAX;
        let added = [(); 3].map(|()| session.add_path(Time::ZERO, path).unwrap().0);
        assert_eq!(added, [u32::MAX, 1, 2], "the first path has 0");
    }
}
