//! Commands and queries of the endpoint's owner.

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
    /// Queues one datagram. This never fails: datagrams that exceed the queue's limits are dropped and
    /// counted.
    pub fn send(&mut self, now: Time, session: SessionId, data: Vec<u8>, info: PktInfo) {
        let sessions = self.sessions.len();
        if let Some(entry) = self.sessions.get_mut(&session) {
            let more = data.len() as u64;
            if !self.memory.allows(entry.queued, more, sessions) {
                entry.session.count(Counter::QueuesFull);
                return self.stats.count(Counter::QueuesFull);
            }
            // Datagrams that the queue drops or sends are subtracted when the session takes its turn.
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

    /// Sends an application option of 2 to 252 bytes to the peer (MP_EXP, RFC 9897 section 3.2.12) on an Ack.
    /// The option may be lost. Returns false if the length is out of range, if the option begins like
    /// mpdccp's own options (`mpd1`), if the session is plain, or if no path is up.
    pub fn send_private(&mut self, now: Time, session: SessionId, bytes: &[u8]) -> bool {
        self.with(now, session, |s| s.send_private(bytes)).unwrap_or(false)
    }

    /// Queues a packet of padding to probe the capacity of the paths. The packet is as large as padding
    /// options can make it. An mpdccp peer drops it. In a plain session, other implementations may deliver it
    /// as an empty datagram.
    pub fn pad(&mut self, now: Time, session: SessionId) {
        self.with(now, session, |s| s.pad(now));
    }

    /// Adds another path to a session. Returns `None` if there is no such session, or if it is a server's
    /// session that is not open yet. The new path joins once the first path is open; if the first path does
    /// not answer, the new path takes its place.
    pub fn add_path(&mut self, now: Time, session: SessionId, path: PathConfig) -> Option<PathId> {
        self.with(now, session, |s| s.add_path(now, path))?
    }

    /// Closes one path cleanly. The path is not reconnected.
    pub fn remove_path(&mut self, now: Time, session: SessionId, path: PathId) {
        self.with(now, session, |s| s.remove_path(now, path));
    }

    /// Changes a path's priority and tells the peer (MP_PRIO).
    pub fn set_prio(&mut self, now: Time, session: SessionId, path: PathId, prio: u8) {
        self.with(now, session, |s| s.set_prio(now, path, prio));
    }

    /// Limits the rate of a path, counted over IP packets with data. `None` means no limit. Other paths take
    /// the excess, and what they cannot carry waits in the queue.
    pub fn cap_path(&mut self, now: Time, session: SessionId, path: PathId, rate: Option<Rate>) {
        self.with(now, session, |s| s.cap_path(path, rate));
    }

    /// Makes a path resume carefully (RFC 9959) with the capacity that an earlier path measured
    /// ([`TxView::capacity`](dccp_proto::ccid::TxView)), jumping to at most `max_jump` bytes; see
    /// [`Connection::resume`](dccp_proto::Connection::resume). Call this at
    /// [`PathUp`](crate::SessionEvent::PathUp).
    pub fn resume(&mut self, now: Time, session: SessionId, path: PathId, saved: &Remembered, max_jump: u64) {
        self.with(now, session, |s| s.resume(path, saved, max_jump));
    }

    /// Limits the total rate of this end to the peer, counted over datagrams. `None` means no limit.
    pub fn cap(&mut self, now: Time, session: SessionId, rate: Option<Rate>) {
        self.with(now, session, |s| s.cap(rate));
    }

    /// Limits the total rate of all sessions of this end, counted over datagrams. `None` means no limit.
    /// Sessions with a backlog share the rate equally.
    pub fn cap_all(&mut self, rate: Option<Rate>) {
        self.total_cap.set(rate);
    }

    /// Limits the total bytes of packets waiting in the queues and reordering buffers of all sessions
    /// (default 256 MiB). Once the limit is reached, a session that holds more than an equal share accepts no
    /// more packets (counted in `queues_full`). It also delivers the packets in its reordering buffer
    /// (`held_beyond_memory`). Other sessions can still use their share.
    pub fn bound_queues(&mut self, bytes: u64) {
        self.memory.bound(bytes);
    }

    /// Changes the scheduler of this end. The peer chooses its own.
    pub fn set_scheduler(&mut self, now: Time, session: SessionId, scheduler: SchedulerKind) {
        self.with(now, session, |s| s.set_scheduler(scheduler));
    }

    /// Changes the policy rules of this end.
    pub fn set_policy(&mut self, now: Time, session: SessionId, policy: &Policy) {
        self.with(now, session, |s| s.set_policy(now, policy));
    }

    /// Gives a path a name for the policy rules, if the peer did not name it.
    pub fn name_path(&mut self, now: Time, session: SessionId, path: PathId, name: PathName) {
        self.with(now, session, |s| s.name_path(path, name));
    }

    /// Changes the CCID of this end's half-connections on all paths, once the peer agrees (see
    /// [`dccp_proto::Connection::set_ccid`]). Returns false if no path can change, or if there is no such
    /// session.
    pub fn set_ccid(&mut self, now: Time, session: SessionId, ccid: u8) -> bool {
        self.with(now, session, |s| s.set_ccid(ccid)).unwrap_or(false)
    }

    /// Sets whether the application reads too slowly. While it does, all Acks carry Slow Receiver, and the
    /// peer does not increase its rate (RFC 4340 section 11.6).
    pub fn set_slow_receiver(&mut self, now: Time, session: SessionId, slow: bool) {
        self.with(now, session, |s| s.set_slow_receiver(slow));
    }

    /// Reports the state of a path's link: whether sending on it fails (`up` is false) or works again.
    pub fn set_link(&mut self, now: Time, session: SessionId, path: PathId, up: bool) {
        self.with(now, session, |s| s.set_link(now, path, up));
    }

    /// Sets the maximum size of an IP packet on a path, bytes. With [`dccp_proto::Config::probe_mtu`], the
    /// path is probed first. [`SessionEvent::PathMtu`](crate::SessionEvent::PathMtu) reports the result.
    pub fn set_mtu(&mut self, now: Time, session: SessionId, path: PathId, mtu: u16) {
        self.with(now, session, |s| s.set_mtu(now, path, mtu));
    }

    /// Returns how large a datagram could be in place of this one. Returns `None` if no path that may carry
    /// the datagram is up, or if there is no such session.
    pub fn room(&self, now: Time, session: SessionId, info: &PktInfo, data: &[u8]) -> Option<Room> {
        self.sessions.get(&session)?.session.room(now, info, data)
    }

    /// Returns whether every path that is up is known to carry packets of its full MTU: the peer has answered
    /// a probe of that size, and no later losses suggest a smaller one. Returns false if there is no such
    /// session.
    pub fn sizes_are_known(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|s| s.session.sizes_are_known())
    }

    /// Reports that this host can send IP packets of up to `most` bytes on a path (see
    /// [`dccp_proto::Connection::try_mtu`]).
    pub fn try_mtu(&mut self, now: Time, session: SessionId, path: PathId, most: u16) {
        self.with(now, session, |s| s.try_mtu(now, path, most));
    }

    /// Advertises another address of this host to the peer (MP_ADDADDR), and returns its Address ID. If no
    /// port is given, the port of the advertising subflow applies. [`SessionStatus::peer_addresses`] lists
    /// the addresses that the peer has advertised.
    pub fn advertise(
        &mut self,
        now: Time,
        session: SessionId,
        addr: IpAddr,
        port: Option<u16>,
    ) -> Option<u8> {
        self.with(now, session, |s| s.advertise(now, addr, port))?
    }

    /// Withdraws an advertised address (MP_REMOVEADDR).
    pub fn withdraw(&mut self, now: Time, session: SessionId, addr_id: u8) {
        self.with(now, session, |s| s.withdraw(now, addr_id));
    }

    /// Closes a session cleanly (MP_CLOSE). Queued packets are dropped.
    pub fn close(&mut self, now: Time, session: SessionId) {
        self.with(now, session, |s| s.close(now, false));
    }

    /// Like [`close`](Self::close), but a server asks the client to close (CloseReq). Then the client holds
    /// TIMEWAIT (RFC 4340 section 8.3).
    pub fn close_req(&mut self, now: Time, session: SessionId) {
        self.with(now, session, |s| s.close(now, true));
    }

    /// Ends a session at once (MP_FAST_CLOSE).
    pub fn abort(&mut self, now: Time, session: SessionId) {
        self.with(now, session, |s| s.abort(""));
    }

    /// Like [`abort`](Self::abort), but also sends the peer a textual reason of at most 255 bytes (Error
    /// Text, RFC 4340 section 5.6).
    pub fn abort_with(&mut self, now: Time, session: SessionId, text: &str) {
        self.with(now, session, |s| s.abort(text));
    }

    /// Reports that a path now takes another route, and resets its congestion state (RFC 4340 section 10.5).
    pub fn change_path(&mut self, now: Time, session: SessionId, path: PathId) {
        self.with(now, session, |s| s.change_path(now, path));
    }

    /// Sends DCCP-Listen (RFC 5596) to a client that will connect over `route` to a listening port. NATs and
    /// firewalls in front of this end then let the client's Request in. The two hosts must learn each other's
    /// addresses and ports by other means. At most three Listens are sent. Returns false if nothing listens
    /// on `ports.local`, or if too many clients are already expected.
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

    /// Passes the session's byte streams to a function that opens, reads and writes them.
    /// [`crate::SessionEvent::Stream`] reports stream events. Returns `None` if the peer does not support
    /// streams, or if the session is not open. The end of a session also ends its streams, without an event
    /// that says whether they were complete.
    pub fn streams<T>(
        &mut self,
        now: Time,
        session: SessionId,
        act: impl FnOnce(&mut Streams) -> T,
    ) -> Option<T> {
        self.with(now, session, |s| s.with_streams(now, act)).flatten()
    }

    /// Reads data that arrived on a session's streams before the session began to end. The data can be read
    /// until the end of the session is reported.
    pub fn unread_streams<T>(
        &mut self,
        session: SessionId,
        act: impl FnOnce(&mut Streams) -> T,
    ) -> Option<T> {
        self.sessions.get_mut(&session)?.session.with_unread_streams(act)
    }

    /// Returns the whole status of a session.
    pub fn status(&self, now: Time, session: SessionId) -> Option<SessionStatus> {
        self.sessions.get(&session).map(|entry| entry.session.status(now))
    }

    /// Returns whether a session that is still being opened has received an answer. Opening takes one more
    /// round trip after that, which is a long time on a long path.
    pub fn is_answered(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|entry| entry.session.is_answered())
    }

    /// Opens a client's session over this path. Call this if the server is known to answer on the path. It
    /// has no effect once the server has answered the session's Request.
    pub fn connect_over(&mut self, now: Time, session: SessionId, path: PathId) {
        self.with(now, session, |s| s.connect_over(now, path));
    }

    /// Returns the backlog of a session's send queue. It is empty if there is no such session.
    pub fn backlog(&self, now: Time, session: SessionId) -> QueueView {
        self.sessions.get(&session).map_or_else(QueueView::default, |entry| entry.session.backlog(now))
    }

    /// Returns the paths as the scheduler sees them.
    pub fn rows(&self, now: Time, session: SessionId) -> Vec<PathRow> {
        self.sessions.get(&session).map_or_else(Vec::new, |entry| entry.session.rows(now))
    }

    /// Returns all sessions that have not ended.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.sessions.keys().copied().collect()
    }

    /// Call this when the host at `remote` has reported, in answer to a packet from this socket, that nothing
    /// listens there. Connections that are being opened to this address fail at once. Open connections are
    /// kept, because the report may be forged.
    pub fn on_refused(&mut self, now: Time, socket: u32, remote: SocketAddr) {
        let to: Vec<_> = self.demux.toward(socket, remote).collect();
        for (session, path) in to {
            self.with(now, session, |s| s.on_refused(now, path));
        }
    }

    /// Returns the paths that use a socket and lead to `remote`.
    pub fn paths_over(&self, socket: u32, remote: SocketAddr) -> Vec<(SessionId, PathId)> {
        self.demux.over(socket).filter(|(route, _)| route.remote == remote).map(|(_, owner)| owner).collect()
    }

    /// Counters of packets that belong to no connection.
    pub fn stats(&self) -> &EndpointStats {
        &self.stats
    }
}
