//! Which paths there are and how they fare: connecting, losing, finding again.

use super::liveness::{Liveness, Verdict};
use super::subflow::{Stage, Subflow};
use super::{Role, Session, SessionEvent, encode};
use crate::{Health, PathConfig, PathId, SessionState};
use alloc::format;
use alloc::string::{String, ToString};
use dccp_proto::{CloseReason, Event, Ports, Route, State, Timer};
use dccp_wire::{MpOption, ResetCode, RttType};
use units::{Duration, Time};

/// With several paths given, how long the first subflow may take on one before the next is tried.
const FIRST_ATTEMPT: Duration = Duration::from_secs(3);
/// How long a client probes a silent path before it makes a new connection there: a NAT may have forgotten the old one.
const RECONNECT_AFTER: Duration = Duration::from_secs(20);
/// How long the handshake of a join, or any handshake of a server, may take: each holds a place among the paths.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// How often a peer is told the RTT of a path that is in use.
const RTT_INTERVAL: Duration = Duration::from_secs(1);

impl Session {
    /// Adds a path to a client; `None` on a server.
    pub(crate) fn add_path(&mut self, now: Time, cfg: PathConfig) -> Option<PathId> {
        if self.role == Role::Server {
            return None;
        }
        let i = self.new_path(cfg);
        let id = self.paths[i].id;
        if self.state == SessionState::Open {
            match self.multipath {
                true => self.paths[i].connect_at = Some(now),
                false => self.drop_other_paths(0),
            }
        }
        Some(id)
    }

    /// A plain session has one path.
    pub(super) fn drop_other_paths(&mut self, keep: usize) {
        let mut others = self.paths.split_off(keep + 1);
        others.extend(self.paths.drain(..keep));
        for path in others {
            self.events.push_back(SessionEvent::PathDown(path.id, "plain DCCP has one path".to_string()));
        }
    }

    /// Closes a path for good.
    pub(crate) fn remove_path(&mut self, now: Time, path: PathId) {
        let Some(i) = self.index(path) else { return };
        let path = &mut self.paths[i];
        path.removed = true;
        path.connect_at = None;
        match &mut path.conn {
            None => self.events.push_back(SessionEvent::PathDown(path.id, "removed".to_string())),
            // RFC 9897 section 3.5: an ordinary Close, without MP_CLOSE, closes a subflow alone.
            Some(conn) => match conn.state() {
                State::Open | State::PartOpen => {
                    path.health = Health::Down;
                    conn.close(now, false);
                }
                _ => conn.abort(now, ResetCode::Aborted),
            },
        }
        self.alive = now;
        self.after_input(now, i);
        self.check_end(now);
        self.forget_paths();
    }

    /// Changes a path's priority and tells the peer.
    pub(crate) fn set_prio(&mut self, now: Time, path: PathId, prio: u8) {
        let Some(i) = self.index(path) else { return };
        self.paths[i].cfg.prio = prio.min(15);
        if self.multipath && self.paths[i].was_up {
            self.signal(now, super::confirm::Signal::Prio { path, prio: prio.min(15) });
        }
    }

    /// The driver learned about the link of a path.
    pub(crate) fn set_link(&mut self, now: Time, path: PathId, up: bool) {
        let Some(i) = self.index(path) else { return };
        let path = &mut self.paths[i];
        match (path.health, up) {
            (Health::Up, false) => {
                path.live = Liveness::link_down(now);
                self.on_stale(now, i);
            }
            (Health::Stale, true) => {
                path.live = Liveness::doubt(now);
                if let Some(conn) = &mut path.conn {
                    conn.probe();
                }
            }
            (Health::Down, true) if path.connect_at.is_some() => path.connect_at = Some(now),
            _ => {}
        }
    }

    /// A path that should connect now; the endpoint finds ports for it and calls [`Self::connect`].
    pub(crate) fn poll_connect(&mut self, now: Time) -> Option<(PathId, Route, Ports)> {
        if !matches!(self.state, SessionState::Connecting | SessionState::Open) {
            return None;
        }
        let busy = self.paths.iter().filter(|p| p.conn.is_some()).count();
        let i = self.paths.iter().position(|p| p.conn.is_none() && p.connect_at.is_some_and(|t| t <= now))?;
        let path = &mut self.paths[i];
        if busy >= self.cfg.max_paths {
            path.connect_later(now);
            self.count("join_beyond_max_paths");
            return None;
        }
        path.connect_at = None;
        Some((path.id, path.cfg.route, path.cfg.ports))
    }

    /// Connects a path of a client with these ports.
    pub(crate) fn connect(&mut self, now: Time, path: PathId, ports: Ports) {
        match (self.index(path), self.state) {
            (Some(i), SessionState::Connecting) => self.connect_first(now, i, ports),
            (Some(i), SessionState::Open) => self.connect_join(now, i, ports),
            _ => {}
        }
    }

    /// Looks at what a path's connection went through.
    pub(super) fn after_input(&mut self, now: Time, i: usize) {
        while let Some(event) = self.paths.get_mut(i).and_then(|p| p.conn.as_mut()?.poll_event()) {
            match event {
                Event::Responded => {}
                Event::Opened => self.on_opened(now, i),
                Event::Closed(reason) => self.on_closed(now, i, &words(reason), reason),
            }
        }
        if self.paths.get(i).is_some_and(|p| p.conn.is_some()) {
            self.check_liveness(now, i);
            self.coordinate_probe_rtt(i);
            self.tell_rtt(now, i);
        }
    }

    fn on_opened(&mut self, now: Time, i: usize) {
        let path = &mut self.paths[i];
        if path.stage != Stage::Proven {
            // RFC 9897 section 3.6: MP options missing in the handshake close the subflow.
            return self.reset_path(now, i, ResetCode::OptionError, "open_without_mp_options");
        }
        if path.removed || self.state == SessionState::Closing {
            if let Some(conn) = &mut path.conn {
                conn.close(now, false);
            }
            return;
        }
        path.open(now);
        let (id, prio) = (path.id, path.cfg.prio);
        if self.state == SessionState::Connecting {
            self.on_first_open(now, i);
        }
        self.events.push_back(SessionEvent::PathUp(id));
        self.reorderer.on_path(id, None, true);
        // RFC 9897 section 3.2.10: 3 goes without saying.
        if self.multipath && prio != 3 {
            self.signal(now, super::confirm::Signal::Prio { path: id, prio });
        }
    }

    fn on_closed(&mut self, now: Time, i: usize, reason: &str, cause: CloseReason) {
        let path = &mut self.paths[i];
        let id = path.id;
        if let Some(conn) = path.conn.take() {
            self.gone.push((conn.route(), conn.ports()));
            self.dying.push(conn);
        }
        if core::mem::replace(&mut path.health, Health::Down) == Health::Up {
            self.alive = now;
        }
        self.forget_signals_of(id);
        self.reorderer.on_path(id, None, false);
        let path = &mut self.paths[i];
        match self.state {
            SessionState::Connecting => return self.on_first_failed(now, i, reason, cause),
            SessionState::Closing | SessionState::Closed => return,
            SessionState::Open => {}
        }
        if path.removed {
            self.events.push_back(SessionEvent::PathDown(id, "removed".to_string()));
        } else {
            if self.role == Role::Client || path.was_up {
                self.events.push_back(SessionEvent::PathDown(id, reason.to_string()));
            }
            if self.role == Role::Client {
                path.connect_later(now);
            }
        }
        // A join refused this way names a connection identifier that the server does not know (any more).
        let unknown_ci = matches!(cause, CloseReason::Reset(ResetCode::ConnectionRefused))
            && matches!(path.stage, Stage::JoinSent { .. });
        let none_left = !self.paths.iter().any(|p| matches!(p.health, Health::Up | Health::Stale));
        if !self.multipath {
            self.finish(reason.to_string());
        } else if unknown_ci && none_left {
            self.finish("the peer does not know the session any more".to_string());
        }
    }

    /// The first subflow could not be opened on this path: try the next one.
    fn on_first_failed(&mut self, now: Time, i: usize, reason: &str, cause: CloseReason) {
        if self.role == Role::Server {
            return self.finish(reason.to_string());
        }
        self.events.push_back(SessionEvent::PathDown(self.paths[i].id, reason.to_string()));
        self.first.refused += usize::from(cause != CloseReason::TimedOut);
        let others = self.paths.iter().filter(|p| !p.removed).count();
        if others == 0 || self.first.refused >= others || (others == 1 && !self.paths[i].removed) {
            return self.finish(reason.to_string());
        }
        self.try_next_first(now);
    }

    fn try_next_first(&mut self, now: Time) {
        let n = self.paths.len();
        let next = (1..=n).map(|k| (self.first.path + k) % n).find(|k| !self.paths[*k].removed);
        let Some(next) = next else { return };
        (self.first.path, self.first.since) = (next, now);
        self.paths[next].connect_at = Some(now);
    }

    /// Timers of paths.
    pub(super) fn manage_paths(&mut self, now: Time) {
        for i in 0..self.paths.len() {
            self.check_liveness(now, i);
            if self.handshake_timeout(&self.paths[i]).is_some_and(|t| t <= now) {
                self.give_up(now, i, "handshake took too long");
            }
        }
        if self.rotation_timeout().is_some_and(|t| t <= now) {
            self.give_up(now, self.first.path, "no answer, trying the next");
        }
    }

    /// When the client gives the present first path up for the next.
    fn rotation_timeout(&self) -> Option<Time> {
        let choice = self.paths.iter().filter(|p| !p.removed).count() > 1;
        let trying = self.paths.get(self.first.path).is_some_and(|p| p.conn.is_some());
        (self.role == Role::Client && self.state == SessionState::Connecting && choice && trying)
            .then(|| self.first.since + FIRST_ATTEMPT)
    }

    pub(super) fn management_timeouts(&self) -> impl Iterator<Item = (Time, &'static str)> {
        let live = self.paths.iter().filter(|p| p.is_live());
        let live = live.map(|p| (p.live.next(&self.evidence(p)), "liveness"));
        let handshakes = self.paths.iter().filter_map(|p| self.handshake_timeout(p));
        let connect = self.paths.iter().filter(|p| p.conn.is_none()).filter_map(|p| p.connect_at);
        live.chain(handshakes.map(|t| (t, "handshake")))
            .chain(connect.map(|t| (t, "connect")))
            .chain(self.rotation_timeout().map(|t| (t, "first_attempt")))
            .chain(self.signal_timeout().map(|t| (t, "confirm")))
    }

    fn evidence(&self, path: &Subflow) -> super::liveness::Evidence {
        match self.role {
            Role::Client if self.multipath => path.evidence(self.cfg.keepalive, RECONNECT_AFTER),
            Role::Client => path.evidence(self.cfg.keepalive, self.cfg.survive),
            Role::Server => path.evidence(self.cfg.keepalive * 2, self.cfg.survive),
        }
    }

    fn check_liveness(&mut self, now: Time, i: usize) {
        let path = &self.paths[i];
        if !path.is_live() || self.state != SessionState::Open {
            return;
        }
        let evidence = self.evidence(path);
        let path = &mut self.paths[i];
        let verdict = path.live.check(now, &evidence);
        match (verdict, &mut path.conn) {
            (Verdict::Fine, _) | (_, None) => {}
            (Verdict::Probe, Some(conn)) => conn.probe(),
            (Verdict::Lost, Some(conn)) => {
                conn.probe();
                self.on_stale(now, i);
            }
            (Verdict::Revived, Some(_)) => {
                path.health = Health::Up;
                let id = path.id;
                self.events.push_back(SessionEvent::PathUp(id));
                self.reorderer.on_path(id, None, true);
            }
            (Verdict::Dead, Some(_)) => self.give_up(now, i, "silent for too long"),
        }
    }

    /// Resets a connection whose peer did not answer in time.
    fn give_up(&mut self, now: Time, i: usize, reason: &str) {
        if let Some(conn) = &mut self.paths[i].conn {
            conn.abort(now, ResetCode::Aborted);
            while conn.poll_event().is_some() {}
        }
        self.on_closed(now, i, reason, CloseReason::TimedOut);
    }

    fn handshake_timeout(&self, path: &Subflow) -> Option<Time> {
        let limited = self.role == Role::Server || self.state != SessionState::Connecting;
        (path.health == Health::Probing && limited).then(|| path.started + HANDSHAKE)
    }

    fn on_stale(&mut self, now: Time, i: usize) {
        self.alive = now;
        let path = &mut self.paths[i];
        path.health = Health::Stale;
        let id = path.id;
        self.events.push_back(SessionEvent::PathStale(id));
        self.reorderer.on_path(id, None, false);
    }

    /// Two paths in ProbeRTT at once would halve the session: while one is, the others put theirs off.
    fn coordinate_probe_rtt(&mut self, i: usize) {
        let path = &mut self.paths[i];
        let probing = path.conn.as_ref().and_then(|c| c.tx_view()).is_some_and(|v| v.probing_rtt);
        if core::mem::replace(&mut path.probing_rtt, probing) == probing {
            return;
        }
        for j in 0..self.paths.len() {
            let hold =
                self.paths.iter().enumerate().any(|(k, p)| k != j && p.probing_rtt && p.conn.is_some());
            let path = &mut self.paths[j];
            if let Some(conn) = path.conn.as_mut().filter(|_| path.holding != hold) {
                path.holding = hold;
                conn.hold_probe_rtt(hold);
            }
        }
    }

    /// Sends MP_RTT now and then while there are fresh measurements (RFC 9897 section 3.2.7).
    fn tell_rtt(&mut self, now: Time, i: usize) {
        let path = &mut self.paths[i];
        if !self.multipath || !path.is_up() || now.since(path.rtt_told) < RTT_INTERVAL {
            return;
        }
        let Some(conn) = &mut path.conn else { return };
        let Some(view) = conn.tx_view().filter(|v| v.rtt.updated() > path.rtt_told) else { return };
        let Some(srtt) = view.rtt.srtt() else { return };
        path.rtt_told = now;
        let ms = |d: Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX);
        let age_ms = ms(now.since(view.rtt.updated()));
        let option = MpOption::Rtt { kind: RttType::Smooth, rtt_ms: ms(srtt), age_ms };
        conn.send_options(encode(&[option]).as_bytes());
    }

    /// Resets one subflow for a fault of the peer.
    pub(super) fn reset_path(&mut self, now: Time, i: usize, code: ResetCode, fault: &'static str) {
        self.count(fault);
        if let Some(conn) = &mut self.paths[i].conn {
            conn.abort(now, code);
        }
    }

    /// Drops paths that will not come back; only between inputs, as indices change.
    pub(super) fn forget_paths(&mut self) {
        let client = self.role == Role::Client;
        self.paths.retain(|p| p.conn.is_some() || (client && !p.removed));
    }
}

fn words(reason: CloseReason) -> String {
    match reason {
        CloseReason::Local => "closed".to_string(),
        CloseReason::Peer => "closed by the peer".to_string(),
        CloseReason::Reset(code) => format!("reset by the peer: {code:?}"),
        CloseReason::Aborted(code) => format!("reset by this end: {code:?}"),
        CloseReason::TimedOut => "no answer".to_string(),
    }
}

pub(super) fn timer_name(timer: Timer) -> &'static str {
    match timer {
        Timer::RequestRetransmit => "request_retransmit",
        Timer::RespondExpire => "respond_expire",
        Timer::PartOpenRetransmit => "part_open_retransmit",
        Timer::FeatureRetransmit => "feature_retransmit",
        Timer::AckDelay => "ack_delay",
        Timer::Sender => "sender",
        Timer::CloseRetransmit => "close_retransmit",
        Timer::TimeWait => "time_wait",
    }
}
