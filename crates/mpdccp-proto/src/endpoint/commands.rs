//! What the owner of an endpoint has its sessions do, and asks of them.

use super::rendezvous::{COPIES, Expected, MAX_EXPECTED};
use super::{Endpoint, EndpointStats};

use crate::policy::Policy;
use crate::sched::SchedulerKind;
use crate::{
    Counter, PathConfig, PathId, PathName, PathRow, PktInfo, QueueView, Room, SessionId, SessionStatus,
};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use dccp_cc::Remembered;
use dccp_proto::{Ports, Route};
use dccp_streams::Streams;
use mpdccp_units::{Rate, Time};

impl Endpoint {
    /// Queues one datagram. Never fails: what the queue cannot hold is dropped and counted.
    pub fn send(&mut self, now: Time, session: SessionId, data: Vec<u8>, info: PktInfo) {
        let sessions = self.sessions.len();
        if let Some(entry) = self.sessions.get_mut(&session) {
            let more = data.len() as u64;
            if !self.memory.allows(entry.queued, more, sessions) {
                return self.stats.count(Counter::QueuesFull);
            }
            // What its queue drops, or sends, is taken off when it had its turn.
            let queued = entry.queued + more;
            self.memory.change(&mut entry.queued, queued);
            entry.session.send(now, data, info);
            if !core::mem::replace(&mut entry.dirty, true) {
                self.dirty.push(session);
            }
        } else {
            self.stats.count(Counter::SendWithoutSession);
        }
    }

    /// Sends an option of the application's to the peer (MP_EXP, RFC 9897 section 3.2.12), with an Ack: it may be lost. False if it cannot be
    /// sent: no path is up, it is a single byte or longer than 252, or begins as our own do (`mpd1`).
    pub fn send_private(&mut self, now: Time, session: SessionId, bytes: &[u8]) -> bool {
        self.with(now, session, |s| s.send_private(bytes)).unwrap_or(false)
    }

    /// Queues a packet of padding, as large as options can make one: a probe of what the paths carry. A peer of our kind drops it; in a plain
    /// session others may take it for an empty datagram.
    pub fn pad(&mut self, now: Time, session: SessionId) {
        self.with(now, session, |s| s.pad(now));
    }

    /// Joins another path to a session; `None` if there is no such session, or it is a server's that is not open. Before the first path is open it is kept
    /// until then, or tried in its place if that one does not answer.
    pub fn add_path(&mut self, now: Time, session: SessionId, path: PathConfig) -> Option<PathId> {
        self.with(now, session, |s| s.add_path(now, path))?
    }

    /// Closes one path in good order; it is not tried again.
    pub fn remove_path(&mut self, now: Time, session: SessionId, path: PathId) {
        self.with(now, session, |s| s.remove_path(now, path));
    }

    /// Changes a path's priority and tells the peer (MP_PRIO).
    pub fn set_prio(&mut self, now: Time, session: SessionId, path: PathId, prio: u8) {
        self.with(now, session, |s| s.set_prio(now, path, prio));
    }

    /// Bounds what this end sends on a path, in bits of IP packets with data; none for no bound. What a path must not carry, the
    /// others do, and the rest waits in the queue.
    pub fn cap_path(&mut self, now: Time, session: SessionId, path: PathId, rate: Option<Rate>) {
        self.with(now, session, |s| s.cap_path(path, rate));
    }

    /// A path carefully resumes (RFC 9959) from what an earlier one found out ([`TxView::capacity`](dccp_proto::ccid::TxView)), with at most `max_jump`
    /// bytes at once: see [`Connection::resume`](dccp_proto::Connection::resume). Best at [`PathUp`](crate::SessionEvent::PathUp).
    pub fn resume(&mut self, now: Time, session: SessionId, path: PathId, saved: &Remembered, max_jump: u64) {
        self.with(now, session, |s| s.resume(path, saved, max_jump));
    }

    /// Bounds what this end sends to the peer in all, in bits of datagrams; none for no bound.
    pub fn cap(&mut self, now: Time, session: SessionId, rate: Option<Rate>) {
        self.with(now, session, |s| s.cap(rate));
    }

    /// Bounds what this end sends in all its sessions together, in bits of datagrams; none for no bound. Those that have something to send
    /// have equal shares of it, and what one does not need is the others'.
    pub fn cap_all(&mut self, rate: Option<Rate>) {
        self.total_cap.set(rate);
    }

    /// Bounds the bytes of packets that wait in the queues of all sessions together, or to be put in order (256 MiB unless told otherwise). Where it is met, a
    /// session that holds more than an equal part gets nothing more (counted: `queues_full`) and holds nothing back (`held_beyond_memory`); the others still
    /// fill theirs.
    pub fn bound_queues(&mut self, bytes: u64) {
        self.memory.bound(bytes);
    }

    /// Has packets scheduled otherwise from now on, those of this end; the peer chooses for its own.
    pub fn set_scheduler(&mut self, now: Time, session: SessionId, scheduler: SchedulerKind) {
        self.with(now, session, |s| s.set_scheduler(scheduler));
    }

    /// Has packets allowed by other rules from now on, those of this end.
    pub fn set_policy(&mut self, now: Time, session: SessionId, policy: &Policy) {
        self.with(now, session, |s| s.set_policy(now, policy));
    }

    /// Names a path for the rules, where the peer did not.
    pub fn name_path(&mut self, now: Time, session: SessionId, path: PathId, name: PathName) {
        self.with(now, session, |s| s.name_path(path, name));
    }

    /// Has what this end sends governed by another CCID from now on, on all paths, as soon as the peer agrees; see
    /// [`dccp_proto::Connection::set_ccid`]. False if no path can, or there is no such session.
    pub fn set_ccid(&mut self, now: Time, session: SessionId, ccid: u8) -> bool {
        self.with(now, session, |s| s.set_ccid(ccid)).unwrap_or(false)
    }

    /// Whether the application falls behind with what arrives: the peer is told on all Acks while it is so, and sends no faster meanwhile
    /// (RFC 4340 section 11.6).
    pub fn set_slow_receiver(&mut self, now: Time, session: SessionId, slow: bool) {
        self.with(now, session, |s| s.open_connections().for_each(|conn| conn.set_slow_receiver(slow)));
    }

    /// The driver learned that sending on a path's link fails (`up` false) or works again.
    pub fn set_link(&mut self, now: Time, session: SessionId, path: PathId, up: bool) {
        self.with(now, session, |s| s.set_link(now, path, up));
    }

    /// Tells the largest IP packet of a path, bytes. With [`dccp_proto::Config::probe_mtu`] it is tried first. What becomes of it is
    /// told by [`SessionEvent::PathMtu`](crate::SessionEvent::PathMtu).
    pub fn set_mtu(&mut self, now: Time, session: SessionId, path: PathId, mtu: u16) {
        self.with(now, session, |s| s.set_mtu(now, path, mtu));
    }

    /// How large a datagram in place of this one may be. `None` if no path is up for it, or there is no such session.
    pub fn room(&self, now: Time, session: SessionId, info: &PktInfo, data: &[u8]) -> Option<Room> {
        self.sessions.get(&session)?.session.room(now, info, data)
    }

    /// IP packets as large as this leave this host on a path; see [`dccp_proto::Connection::try_mtu`].
    pub fn try_mtu(&mut self, now: Time, session: SessionId, path: PathId, most: u16) {
        self.with(now, session, |s| s.try_mtu(now, path, most));
    }

    /// Tells the peer of another address of this host (MP_ADDADDR); without a port it is that of the subflow that tells it.
    /// Returns the Address ID. What the peer told us is in [`SessionStatus::peer_addresses`].
    pub fn advertise(
        &mut self,
        now: Time,
        session: SessionId,
        addr: IpAddr,
        port: Option<u16>,
    ) -> Option<u8> {
        self.with(now, session, |s| s.advertise(now, addr, port))?
    }

    /// Takes an advertised address back (MP_REMOVEADDR).
    pub fn withdraw(&mut self, now: Time, session: SessionId, addr_id: u8) {
        self.with(now, session, |s| s.withdraw(now, addr_id));
    }

    /// Closes a session in good order (MP_CLOSE); queued packets are dropped.
    pub fn close(&mut self, now: Time, session: SessionId) {
        self.with(now, session, |s| s.close(now));
    }

    /// Ends a session at once (MP_FAST_CLOSE).
    pub fn abort(&mut self, now: Time, session: SessionId) {
        self.with(now, session, |s| s.abort(""));
    }

    /// As [`abort`](Self::abort), and says why in words (Error Text, RFC 4340 section 5.6), at most 255 bytes.
    pub fn abort_with(&mut self, now: Time, session: SessionId, text: &str) {
        self.with(now, session, |s| s.abort(text));
    }

    /// A path leads elsewhere now: its congestion state begins anew (RFC 4340 section 10.5).
    pub fn change_path(&mut self, now: Time, session: SessionId, path: PathId) {
        self.with(now, session, |s| s.change_path(now, path));
    }

    /// Tells a client that will connect from there, to a port that listens, that it is waited for (DCCP-Listen, RFC 5596): so that NATs and
    /// firewalls before this end let its Request in. Both must know each other's addresses and ports by other means. Three
    /// packets at most leave. False if nothing listens on `ports.local`, or too many clients are waited for.
    pub fn send_listen(&mut self, now: Time, route: Route, ports: Ports) -> bool {
        let Some(listener) = self.listeners.get(&ports.local) else { return false };
        let service_code = listener.cfg.session.connection.service_code;
        self.rendezvous.accept(&route, ports);
        if self.rendezvous.0.len() >= MAX_EXPECTED {
            return false;
        }
        self.rendezvous.0.push(Expected { route, ports, service_code, at: now, left: COPIES });
        true
    }

    /// Opens, reads and writes the session's byte streams; [`crate::SessionEvent::Stream`] tells what happened to them. `None` if the peer has
    /// none, or the session is not open: with it its streams end, and nothing says that they were whole.
    pub fn streams<T>(
        &mut self,
        now: Time,
        session: SessionId,
        act: impl FnOnce(&mut Streams) -> T,
    ) -> Option<T> {
        self.with(now, session, |s| s.with_streams(now, act)).flatten()
    }

    /// Reads what had arrived on the streams of a session that is ending, until its end was told; nothing leaves any more.
    pub fn unread_streams<T>(
        &mut self,
        session: SessionId,
        act: impl FnOnce(&mut Streams) -> T,
    ) -> Option<T> {
        self.sessions.get_mut(&session)?.session.with_unread_streams(act)
    }

    /// Everything about a session.
    pub fn status(&self, now: Time, session: SessionId) -> Option<SessionStatus> {
        self.sessions.get(&session).map(|entry| entry.session.status(now))
    }

    /// Whether a session that is not open yet has had an answer: on a long path it then opens a round trip later.
    pub fn is_answered(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|entry| entry.session.is_answered())
    }

    /// What waits in a session's send queue; nothing if there is no such session.
    pub fn backlog(&self, now: Time, session: SessionId) -> QueueView {
        self.sessions.get(&session).map_or_else(QueueView::default, |entry| entry.session.backlog(now))
    }

    /// The paths as the scheduler sees them.
    pub fn rows(&self, now: Time, session: SessionId) -> Vec<PathRow> {
        self.sessions.get(&session).map_or_else(Vec::new, |entry| entry.session.rows(now))
    }

    /// Live sessions.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.sessions.keys().copied().collect()
    }

    /// The host at `remote` says that nobody listens there, of a packet from this socket: what is being connected to it fails at once. It may be
    /// a lie, so that what is open stays.
    pub fn on_refused(&mut self, now: Time, socket: u32, remote: SocketAddr) {
        let to: Vec<_> = self.demux.toward(socket, remote).collect();
        for (session, path) in to {
            self.with(now, session, |s| s.on_refused(now, path));
        }
    }

    /// The paths that go over a socket to `remote`.
    pub fn paths_over(&self, socket: u32, remote: SocketAddr) -> Vec<(SessionId, PathId)> {
        self.demux.over(socket).filter(|(route, _)| route.remote == remote).map(|(_, owner)| owner).collect()
    }

    /// Packets that belong to no connection.
    pub fn stats(&self) -> &EndpointStats {
        &self.stats
    }
}
