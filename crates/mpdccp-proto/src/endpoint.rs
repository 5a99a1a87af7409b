use crate::{ListenConfig, PathConfig, PathId, PathRow, PktInfo, SessionConfig, SessionEvent, SessionStatus};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use dccp_proto::{Ecn, Route, Sink};
use units::Time;

/// A session of an endpoint; not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Counters of packets that belong to no connection, by name (`truncated`, `no_connection`, `refused_peer`, ...).
#[derive(Clone, Debug, Default)]
pub struct EndpointStats {
    /// Name to count.
    pub counters: BTreeMap<&'static str, u64>,
}

/// All sessions of one thread, and the way to them.
///
/// The contract: call one input ([`handle_datagram`](Self::handle_datagram), [`handle_timeout`](Self::handle_timeout)) or command
/// ([`send`](Self::send), [`add_path`](Self::add_path), ...), as many as are at hand; then drain
/// [`poll_transmit`](Self::poll_transmit), [`poll_deliver`](Self::poll_deliver), [`poll_event`](Self::poll_event), and arm one
/// timer with [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Endpoint {}

impl Endpoint {
    /// Without sessions. `seed` must come from the system's randomness outside simulations: keys and nonces derive from it.
    pub fn new(seed: [u8; 32]) -> Endpoint {
        let _ = seed;
        todo!()
    }

    /// Accepts sessions on a DCCP port.
    pub fn listen(&mut self, cfg: ListenConfig) {
        let _ = cfg;
        todo!()
    }

    /// Opens a session over a first path.
    pub fn connect(&mut self, now: Time, cfg: SessionConfig, path: PathConfig) -> SessionId {
        let _ = (now, cfg, path);
        todo!()
    }

    /// A DCCP packet came in on `route` (for UDP: the datagram's payload). `len` is the IP length it had on the wire.
    /// Native packets must have had their checksum verified.
    pub fn handle_datagram(&mut self, now: Time, route: &Route, ecn: Ecn, len: u32, bytes: &[u8]) {
        let _ = (now, route, ecn, len, bytes);
        todo!()
    }

    /// Timers came.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) or [`poll_transmit`](Self::poll_transmit) again, with the reason.
    pub fn poll_timeout(&self) -> Option<(Time, &'static str)> {
        todo!()
    }

    /// Queues one datagram. Never fails: what the queue cannot hold is dropped and counted.
    pub fn send(&mut self, now: Time, session: SessionId, data: Vec<u8>, info: PktInfo) {
        let _ = (now, session, data, info);
        todo!()
    }

    /// Joins another path to a client session; `None` if there is no such session. Before the first path is open it is kept until then.
    pub fn add_path(&mut self, now: Time, session: SessionId, path: PathConfig) -> Option<PathId> {
        let _ = (now, session, path);
        todo!()
    }

    /// Closes one path in good order; it is not tried again.
    pub fn remove_path(&mut self, now: Time, session: SessionId, path: PathId) {
        let _ = (now, session, path);
        todo!()
    }

    /// Changes a path's priority and tells the peer (MP_PRIO).
    pub fn set_prio(&mut self, now: Time, session: SessionId, path: PathId, prio: u8) {
        let _ = (now, session, path, prio);
        todo!()
    }

    /// The driver learned that sending on a path's link fails (`up` false) or works again.
    pub fn set_link(&mut self, now: Time, session: SessionId, path: PathId, up: bool) {
        let _ = (now, session, path, up);
        todo!()
    }

    /// Closes a session in good order (MP_CLOSE); queued packets are dropped.
    pub fn close(&mut self, now: Time, session: SessionId) {
        let _ = (now, session);
        todo!()
    }

    /// Ends a session at once (MP_FAST_CLOSE).
    pub fn abort(&mut self, now: Time, session: SessionId) {
        let _ = (now, session);
        todo!()
    }

    /// Writes everything that may leave now into `sink`.
    pub fn poll_transmit(&mut self, now: Time, sink: &mut dyn Sink) {
        let _ = (now, sink);
        todo!()
    }

    /// The next datagram for the application.
    pub fn poll_deliver(&mut self) -> Option<(SessionId, Vec<u8>)> {
        todo!()
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<(SessionId, SessionEvent)> {
        todo!()
    }

    /// Everything about a session.
    pub fn status(&self, now: Time, session: SessionId) -> Option<SessionStatus> {
        let _ = (now, session);
        todo!()
    }

    /// The paths as the scheduler sees them.
    pub fn rows(&self, now: Time, session: SessionId) -> Vec<PathRow> {
        let _ = (now, session);
        todo!()
    }

    /// Live sessions.
    pub fn sessions(&self) -> Vec<SessionId> {
        todo!()
    }

    /// Packets that belong to no connection.
    pub fn stats(&self) -> &EndpointStats {
        todo!()
    }
}
