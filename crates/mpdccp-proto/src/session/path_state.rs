//! State of each path: the events of its connection, whether it answers, and what this end reports about it
//! to other paths and to the peer.

use super::gone::Gone;
use super::liveness::{Evidence, Liveness, Step};
use super::signal::Signal;
use super::subflow::{CONNECT_GAP, Stage, Subflow};
use super::{Reason, Role, Session, SessionEvent, encode};
use crate::{Counter, PathState, SessionState};
use dccp_proto::{CloseReason, Connection, Event, State};
use dccp_wire::{MpOption, ResetCode, RttType};
use mpdccp_units::{Duration, Time};

/// How long a client probes a silent path before it opens a new connection there, because a NAT may have lost
/// the old binding.
const RECONNECT_AFTER: Duration = Duration::from_secs(20);
/// A session that has carried no data for this long is idle.
const BUSY: Duration = Duration::from_secs(10);
/// Interval at which the RTT of a path in use is sent to the peer.
const RTT_INTERVAL: Duration = Duration::from_secs(1);

impl Session {
    /// Handles the events of a path's connection.
    pub(super) fn after_input(&mut self, now: Time, i: usize) {
        while let Some(event) = self.paths.get_mut(i).and_then(|p| p.conn.as_mut()?.poll_event()) {
            match event {
                // RFC 9897 section 3.3: a multipath connection is open only after the server's Ack. Plain
                // DCCP may send at once.
                Event::Responded if self.multipath => {}
                Event::Responded | Event::Opened => self.on_opened(now, i),
                Event::Closed(reason) => self.on_closed(now, i, reason.into(), reason),
                _ => {}
            }
        }
        if i < self.paths.len() {
            self.follow_mtu(i);
        }
        let Some(path) = self.paths.get_mut(i) else { return };
        let Some(conn) = &path.conn else { return };
        let closing = matches!(conn.state(), State::CloseReq | State::Closing);
        let probing = conn.is_probing_rtt();
        if closing && path.state != PathState::Down {
            if path.is_up() {
                self.alive = now;
            }
            (path.state, path.since) = (PathState::Down, now);
            self.reorderer.on_path(path.id, None, false);
        }
        if let Some(probing) = probing {
            path.learn_timeouts();
            self.couple(now, i);
            self.coordinate_probe_rtt(now, i, probing);
            self.tell_rtt(now, i);
            self.follow_fates(now, i);
        }
        self.check_liveness(now, i);
    }

    fn on_opened(&mut self, now: Time, i: usize) {
        let path = &mut self.paths[i];
        let Some(conn) = &mut path.conn else { return };
        if path.was_up || !matches!(conn.state(), State::Open | State::PartOpen) {
            return;
        }
        if path.stage != Stage::Proven {
            // RFC 9897 section 3.6: if multipath options are missing in the handshake, the subflow is closed.
            return self.reset_path(i, ResetCode::OptionError, Counter::OpenWithoutMpOptions);
        }
        if path.removed || self.state == SessionState::Closing {
            return conn.close(now, false);
        }
        conn.set_slow_receiver(self.slow_receiver);
        if let Some(ccid) = self.ccid.filter(|ccid| conn.ccids().is_none_or(|(tx, _)| tx != *ccid)) {
            conn.set_ccid(ccid);
        }
        path.open(now);
        let (id, prio) = (path.id, path.cfg.prio);
        if self.state == SessionState::Connecting {
            self.on_first_open(now, i);
        }
        self.events.push_back(SessionEvent::PathUp(id));
        self.reorderer.on_path(id, None, true);
        // RFC 9897 section 3.2.10: 3 is the default, so the peer need not be told.
        if self.multipath && prio != 3 {
            self.signal(now, Signal::Prio { path: id, prio });
        }
    }

    fn on_closed(&mut self, now: Time, i: usize, reason: Reason, cause: CloseReason) {
        let path = &mut self.paths[i];
        let id = path.id;
        if path.was_up {
            path.last_up = Some(path.heard());
        }
        self.retire(i);
        if core::mem::replace(&mut self.paths[i].state, PathState::Down) == PathState::Up {
            self.alive = now;
        }
        self.uncouple(id);
        self.coordinate_probe_rtt(now, i, false);
        self.repair.on_silence(now, id);
        self.tell_streams_down(id);
        self.forget_signals_of(id);
        self.reorderer.on_path(id, None, false);
        match self.state {
            SessionState::Connecting => return self.on_first_failed(now, i, reason, cause),
            SessionState::Closing | SessionState::Closed => return,
            SessionState::Open => {}
        }
        let path = &mut self.paths[i];
        if path.removed {
            self.events.push_back(SessionEvent::PathDown(id, Reason::Removed));
        } else {
            if path.ours || path.was_up {
                self.events.push_back(SessionEvent::PathDown(id, reason));
            }
            // RFC 9897 section 3.4: if an advertised address could not be reached, it is not tried until it
            // is advertised again.
            path.removed = path.advertised.is_some() && !path.was_up;
            if path.ours && !path.removed {
                // The path was up before. If the peer is silent or no longer knows the connection, a NAT has
                // probably lost the binding, or the path was interrupted.
                let lost = !matches!(cause, CloseReason::Peer | CloseReason::Local);
                // A peer that refuses joins would refuse the next one too, so do not retry at once.
                let refused = matches!((path.stage, cause), (Stage::JoinSent { .. }, CloseReason::Reset(_)));
                match lost && path.is_missed(now) {
                    // Retry after a while. Otherwise each report of the peer's host would cause another
                    // Request.
                    true if reason == Reason::NobodyListens => path.connect_at = Some(now + CONNECT_GAP.0),
                    true if refused => path.connect_at = Some(now + path.rto),
                    true => path.connect_at = Some(now),
                    false => path.connect_later(now),
                }
            }
        }
        // If a join is refused with this code, the server does not know the session, perhaps because it has
        // restarted. A refusal from an advertised address does not count, because the address may belong to
        // another host.
        let unknown_ci = cause == CloseReason::Reset(ResetCode::ConnectionRefused)
            && matches!(path.stage, Stage::JoinSent { .. })
            && path.advertised.is_none();
        if !self.multipath {
            self.finish(reason);
        } else if unknown_ci && self.role == Role::Client && !self.paths.iter().any(Subflow::is_live) {
            self.finish(Reason::UnknownToPeer);
        }
    }

    pub(super) fn evidence(&self, path: &Subflow) -> Evidence {
        let (keepalive, survive) = (self.cfg.keepalive, self.cfg.survive);
        let (keepalive, patience) = match path.ours {
            true if self.multipath => (keepalive, RECONNECT_AFTER),
            true => (keepalive, self.survive()),
            false if !self.multipath => (keepalive.saturating_mul(2), self.survive()),
            false => (keepalive.saturating_mul(2), survive),
        };
        // While data flows, probe idle paths often, so that a dead path is detected before it is needed.
        let data_at = self.paths.iter().map(|p| p.data_at.max(p.liveness.asked())).max();
        let busy = data_at.is_some_and(|at| path.heard().since(at) < BUSY);
        // Without an alternative path, early detection of a dead path is useless.
        let others = self.paths.iter().any(|p| p.id != path.id && p.is_up());
        Evidence {
            heard: path.heard(),
            answered: path.answered(),
            data: path.data_at,
            answer: if others { path.answer } else { path.answer.max(path.rto) },
            keepalive: if busy { keepalive / 4 } else { keepalive },
            patience,
        }
    }

    pub(super) fn check_liveness(&mut self, now: Time, i: usize) {
        let Some(path) = self.paths.get(i) else { return };
        if !path.is_live() || self.state != SessionState::Open {
            return;
        }
        // Most packets take this shortcut. For them, the full check would cost more than all other work of
        // the session.
        if path.liveness.is_answered(now, path.heard(), path.answered()) && !self.cfg.keepalive.is_zero() {
            return;
        }
        let evidence = self.evidence(path);
        let path = &mut self.paths[i];
        let step = path.liveness.check(now, &evidence);
        match (step, &mut path.conn) {
            (Step::Nothing, _) | (_, None) => {}
            (Step::Probe, Some(conn)) => conn.probe(),
            (Step::Suspect, Some(conn)) => {
                conn.probe();
                self.on_suspect(now, i);
                self.tell_suspect(i);
            }
            (Step::Up, Some(_)) => {
                (path.state, path.up_since) = (PathState::Up, now);
                let id = path.id;
                self.events.push_back(SessionEvent::PathUp(id));
                self.reorderer.on_path(id, None, true);
            }
            (Step::Down, Some(_)) => self.give_up(now, i, Reason::Silent),
        }
    }

    /// The peer reports that it receives nothing on these paths. Each of them must answer a probe before it
    /// is used again, except the path on which the report arrived.
    pub(super) fn suspect_paths(&mut self, now: Time, told_on: usize, local_addr: u8, remote_addr: u8) {
        for k in (0..self.paths.len()).filter(|k| *k != told_on) {
            let path = &mut self.paths[k];
            let meant =
                (path.local_addr, path.remote_addr) == (Some(local_addr), Some(remote_addr)) && path.is_up();
            if let Some(conn) = path.conn.as_mut().filter(|_| meant) {
                conn.probe();
                path.liveness = Liveness::suspect(now);
                self.on_suspect(now, k);
            }
        }
    }

    pub(super) fn on_suspect(&mut self, now: Time, i: usize) {
        self.alive = now;
        let path = &mut self.paths[i];
        path.state = PathState::Suspect;
        let id = path.id;
        self.events.push_back(SessionEvent::PathSuspect(id));
        self.reorderer.on_path(id, None, false);
        self.repair.on_silence(now, id);
        self.tell_streams_down(id);
    }

    /// Resets a connection, for example because the peer did not answer in time. The next attempt at a first
    /// subflow opens another session at the server.
    pub(super) fn give_up(&mut self, now: Time, i: usize, reason: Reason) {
        if self.state == SessionState::Connecting {
            self.abort_with_key(i, "");
        }
        if let Some(conn) = &mut self.paths[i].conn {
            conn.abort(ResetCode::Aborted);
            while conn.poll_event().is_some() {}
        }
        self.on_closed(now, i, reason, CloseReason::TimedOut);
    }

    /// Resets one subflow because the peer made an error.
    pub(super) fn reset_path(&mut self, i: usize, code: ResetCode, error: Counter) {
        self.count(error);
        if let Some(conn) = &mut self.paths[i].conn {
            conn.abort(code);
        }
    }

    /// Sends MP_RTT at intervals, if there are new measurements (RFC 9897 section 3.2.7).
    fn tell_rtt(&mut self, now: Time, i: usize) {
        let path = &mut self.paths[i];
        if !self.multipath || !path.is_up() || now.since(path.rtt_told) < RTT_INTERVAL {
            return;
        }
        let rtt = path.conn.as_ref().and_then(Connection::tx_rtt);
        let fresh = rtt.filter(|rtt| rtt.updated() > path.rtt_told);
        let Some((srtt, updated)) = fresh.and_then(|rtt| Some((rtt.srtt()?, rtt.updated()))) else { return };
        path.rtt_told = now;
        let ms = |d: Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX);
        let age_ms = ms(now.since(updated));
        let option = MpOption::Rtt { kind: RttType::Smooth, rtt_ms: ms(srtt), age_ms };
        if let Some(conn) = &mut path.conn {
            conn.send_options(encode(&[option]).as_bytes());
        }
    }

    /// Separates a path from its connection, which has ended but may still have a last packet to send.
    pub(super) fn retire(&mut self, i: usize) {
        let path = &mut self.paths[i];
        if let Some(conn) = path.conn.take() {
            self.lost_before += lost(&conn);
            self.gone.push(Gone::of(&conn, path.ours));
            self.dying.push(conn);
        }
    }

    /// Returns the number of packets lost on all connections that the session has had.
    pub(super) fn lost(&self) -> u64 {
        self.lost_before + self.paths.iter().filter_map(|p| p.conn.as_ref()).map(lost).sum::<u64>()
    }

    /// Returns the next connection that has ended. From now on, its packets belong to no connection.
    pub(crate) fn poll_gone(&mut self) -> Option<Gone> {
        self.gone.pop()
    }
}

fn lost(conn: &Connection) -> u64 {
    conn.tx_view().map_or(0, |view| view.lost.packets)
}
