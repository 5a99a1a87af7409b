use crate::ccid::TxView;
use crate::{Config, Ecn, Gate, Route, Sink};
use dccp_wire::{Packet, Reset, ResetCode, Seq};
use units::Time;

/// States of RFC 4340 section 4.3 that last; LISTEN is the endpoint's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum State {
    Request,
    Respond,
    PartOpen,
    Open,
    CloseReq,
    Closing,
    TimeWait,
    Closed,
}

/// DCCP ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Ports {
    pub local: u16,
    pub remote: u16,
}

/// Packets to which the owner of a connection adds encoded options (multipath), every time they are (re)sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Request.
    Request,
    /// Response.
    Response,
    /// Every Ack and DataAck sent in PARTOPEN.
    HandshakeAck,
    /// Close and CloseReq.
    Close,
    /// Reset that this end sends, also in answer to Close.
    Reset,
}

/// What a packet did.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Valid and processed.
    Received(Received<'a>),
    /// Not for the owner's eyes: dropped and counted.
    Dropped(DropReason),
}

/// A valid packet, for the owner: data to deliver, options to read (with [`Packet::options`]).
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Application data, on Data and DataAck only, `None` where it was dropped or must not be read.
    pub data: Option<&'a [u8]>,
    /// Sequence number, 48 bits.
    pub seq: Seq,
    /// NDP Count if present.
    pub ndp: Option<u64>,
    /// The Reset, if it was one.
    pub reset: Option<Reset>,
}

/// Why a packet was dropped. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DropReason {
    /// Type not allowed in this state (section 8.5).
    UnexpectedType,
    /// Sequence Number outside its window (section 7.5.3).
    SequenceInvalid,
    /// Acknowledgement Number outside its window.
    AckInvalid,
    /// Malformed option on a packet that must then be ignored.
    BadOption,
    /// Data Checksum mismatch.
    DataChecksum,
    /// Data in a state or on a type that carries none.
    DataNotAllowed,
    /// The connection is closed.
    Closed,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Closed by this end.
    Local,
    /// Closed by the peer with Close or CloseReq.
    Peer,
    /// Reset by the peer.
    Reset(ResetCode),
    /// Reset by this end.
    Aborted(ResetCode),
    /// No answer to Request, Close or in PARTOPEN.
    TimedOut,
}

/// What the owner is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The Response is here and accepted; the HandshakeAck has not left yet.
    Responded,
    /// OPEN.
    Opened,
    /// Over; TIMEWAIT may still last.
    Closed(CloseReason),
}

/// Names of the timers, the reason with each timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Timer {
    RequestRetransmit,
    RespondExpire,
    PartOpenRetransmit,
    FeatureRetransmit,
    AckDelay,
    Sender,
    CloseRetransmit,
    TimeWait,
}

/// Counters of one connection.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct ConnectionStats {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub data_sent: u64,
    pub data_received: u64,
    pub syncs_sent: u64,
    /// Drops by reason.
    pub dropped: alloc::collections::BTreeMap<DropReason, u64>,
}

/// One DCCP connection.
///
/// The contract: call one input ([`handle_packet`](Self::handle_packet), [`handle_timeout`](Self::handle_timeout)) or command
/// ([`transmit`](Self::transmit), [`close`](Self::close), [`abort`](Self::abort)); then drain
/// [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event), and arm one timer with
/// [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Connection {}

impl Connection {
    /// A client; its Request leaves with the next `poll_transmit`.
    pub fn client(cfg: Config, now: Time, route: Route, ports: Ports, seed: [u8; 32]) -> Connection {
        let _ = (cfg, now, route, ports, seed);
        todo!()
    }

    /// A server that answers `request`; its Response leaves with the next `poll_transmit`. An error is the Reset to send instead
    /// (bad service code, mandatory feature failed, ...).
    pub fn server(
        cfg: Config,
        now: Time,
        route: Route,
        request: &Packet<'_>,
        seed: [u8; 32],
    ) -> Result<Connection, Reset> {
        let _ = (cfg, now, route, request, seed);
        todo!()
    }

    /// Options for all packets of this kind from now on, encoded; an empty slice takes them away.
    pub fn set_extra(&mut self, on: Extra, options: &[u8]) {
        let _ = (on, options);
        todo!()
    }

    /// A parsed packet of this connection arrived (RFC 4340 section 8.5). `len` is its IP length.
    pub fn handle_packet<'a>(&mut self, now: Time, ecn: Ecn, len: u32, packet: &Packet<'a>) -> Outcome<'a> {
        let _ = (now, ecn, len, packet);
        todo!()
    }

    /// A timer came.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), and why.
    pub fn poll_timeout(&self) -> Option<(Time, Timer)> {
        todo!()
    }

    /// Writes what must leave apart from data: handshake, Acks that are due, Syncs, Close, Reset. True if something left.
    pub fn poll_transmit(&mut self, now: Time, sink: &mut dyn Sink) -> bool {
        let _ = (now, sink);
        todo!()
    }

    /// What happened, for the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// Whether a data packet may leave now.
    pub fn gate(&self, now: Time) -> Gate {
        let _ = now;
        todo!()
    }

    /// Sends one data packet with `options` (encoded, the owner's) first. Call only while [`gate`](Self::gate) is open and with
    /// `payload` within [`max_payload`](Self::max_payload). Feedback never rides on a packet it would make longer than the path MTU.
    pub fn transmit(&mut self, now: Time, options: &[u8], payload: &[u8], sink: &mut dyn Sink) -> Seq {
        let _ = (now, options, payload, sink);
        todo!()
    }

    /// Asks for an Ack with these encoded options as soon as possible (multipath signalling).
    pub fn send_options(&mut self, options: &[u8]) {
        let _ = options;
        todo!()
    }

    /// Sends a Sync, which the peer answers with a SyncAck: shows that a silent path lives, without spending window.
    pub fn probe(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    /// When a valid packet last arrived.
    pub fn last_received(&self) -> Option<Time> {
        todo!()
    }

    /// Nothing waits to be sent on this path although its gate is open.
    pub fn set_app_limited(&mut self, now: Time) {
        let _ = now;
        todo!()
    }

    /// Another path of the session is in ProbeRTT.
    pub fn hold_probe_rtt(&mut self, hold: bool) {
        let _ = hold;
        todo!()
    }

    /// Largest payload beside `options` bytes of the owner's options.
    pub fn max_payload(&self, options: usize) -> usize {
        let _ = options;
        todo!()
    }

    /// Closes in good order: Close as client or, as server, Close too unless `timewait_at_peer` asks for CloseReq
    /// (RFC 4340 section 8.3).
    pub fn close(&mut self, now: Time, timewait_at_peer: bool) {
        let _ = (now, timewait_at_peer);
        todo!()
    }

    /// Sends a Reset and forgets.
    pub fn abort(&mut self, now: Time, code: ResetCode) {
        let _ = (now, code);
        todo!()
    }

    /// Where the handshake or close stands.
    pub fn state(&self) -> State {
        todo!()
    }

    /// Where packets go.
    pub fn route(&self) -> Route {
        todo!()
    }

    /// DCCP ports.
    pub fn ports(&self) -> Ports {
        todo!()
    }

    /// (our sending CCID, the peer's), once agreed.
    pub fn ccids(&self) -> Option<(u8, u8)> {
        todo!()
    }

    /// The peer agreed to Multipath Capable.
    pub fn is_multipath(&self) -> bool {
        todo!()
    }

    /// The sending half, once there is one.
    pub fn tx_view(&self) -> Option<TxView> {
        todo!()
    }

    /// Counters.
    pub fn stats(&self) -> &ConnectionStats {
        todo!()
    }
}
