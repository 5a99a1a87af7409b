//! TCP flows that the tunnel carries as streams. A flow consists of an entry in the flow table, a socket
//! of the proxy, and a stream of a session.

use super::dead::{self, Dead};
use super::routes::{Routes, StreamPeer, class_of};
use super::transfer::{PRIORITY, read, write};
use super::{announce, journal};
use crate::Cx;
use crate::action::Action;
use crate::message::Message;
use crate::status::TcpStatus;
use dccp_streams::{Event, Reason, StreamError, StreamId};
use mpdccp_proto::{SessionId, is_unicast};
use mpdccp_proxy::{
    AsPacket, Command, Event as Sockets, Flow, FlowTable, Limits, Refusal, Request, Segment, Tuple, Verdict,
};
use mpdccp_units::Time;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Maximum number of bytes that may wait between a flow's stream and its socket, in each direction.
const WINDOW: u64 = 256 << 10;
/// All flows share this many bytes per direction, but each may have at least [`LEAST`]. Otherwise, thousands
/// of flows could take gigabytes while the paths are slow or down.
const SHARED: u64 = 64 << 20;
const LEAST: u64 = 4 << 10;

/// What the caller must do with a packet from the interface.
#[derive(Debug, PartialEq, Eq)]
pub enum Divert {
    /// Send it as a packet.
    Packet,
    /// Pass the packet to the proxy's private namespace.
    Proxy,
    /// Do nothing: the packet is being held or has been answered.
    Done,
}

/// One flow and its stream.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) peer: usize,
    pub(super) session: SessionId,
    pub(super) stream: StreamId,
    pub(super) request: Request,
    /// Whether a host of this end opened the flow.
    pub(super) ours: bool,
    /// Whether the far end is connected.
    pub(super) open: bool,
    /// Whether the flow is waiting until its peer's rate limit allows more data.
    pub(super) held_back: bool,
    /// Data read from the host but not yet fully accepted by the stream: the stream already has the first
    /// `taken` bytes of the first block.
    waiting: VecDeque<Vec<u8>>,
    taken: usize,
    /// Number of bytes that the socket may read or has read, but that the stream has not accepted yet.
    credit: u64,
    /// Whether the host has finished sending.
    finished: bool,
    /// Number of bytes passed to the socket but not yet accepted by the kernel.
    pub(super) unwritten: u64,
    /// Whether both directions of the socket have ended.
    over: bool,
    /// Whether the host has reset the connection.
    reset: bool,
    /// Whether the end of the far host's data has been read.
    pub(super) ended: bool,
    /// If the far host takes no more data: the reason.
    pub(super) stopped: Option<Reason>,
}

/// All flows of one end.
#[derive(Debug)]
pub(crate) struct Flows {
    pub(super) table: FlowTable,
    pub(super) carried: HashMap<Flow, Carried>,
    pub(super) by_stream: BTreeMap<(SessionId, StreamId), Flow>,
    /// Flows held back by a rate limit, by peer.
    pub(super) held_back: BTreeMap<usize, VecDeque<Flow>>,
    pub(super) dead: Dead,
    pub(super) most: usize,
    opened: u64,
    accepted: u64,
    refused: u64,
    pub(super) resets: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Flows {
    /// Creates the state of all flows. `flows` is the number of flows that the proxy's sockets allow. `saved`
    /// lists the connections that died with the last run.
    pub(crate) fn new(now: Time, flows: usize, saved: &str) -> Flows {
        let usual = Limits::default();
        let most = flows.min(usual.flows);
        let mut table = FlowTable::new(Limits { flows: most, ..usual });
        table.restore(now, journal::read(saved));
        Flows {
            table,
            dead: Dead::default(),
            most,
            carried: HashMap::new(),
            by_stream: BTreeMap::new(),
            held_back: BTreeMap::new(),
            opened: 0,
            accepted: 0,
            refused: 0,
            resets: 0,
            read_bytes: 0,
            written_bytes: 0,
        }
    }

    /// Handles a packet read from the interface, or a whole super-packet.
    pub(crate) fn on_packet(
        &mut self,
        cx: &mut Cx<'_>,
        routes: &Routes<'_>,
        packet: &[u8],
        whole: bool,
    ) -> Divert {
        for flow in self.table.give_up(cx.now) {
            self.reset_stream(cx, flow, Reason::Cancelled);
        }
        let (now, mut peer, mut class) = (cx.now, None, 0);
        let wanted = |segment: &Segment| {
            peer = routes.session(cx, segment.tuple.to.ip());
            peer.ok_or(AsPacket::NotWanted)?;
            class = class_of(cx, packet)?;
            Ok(())
        };
        let verdict = match whole {
            true => self.table.on_super_packet(now, packet),
            false => self.table.on_packet(now, packet, wanted),
        };
        match (verdict, peer) {
            (Verdict::Open(flow, request), Some(peer)) => self.open(cx, peer, flow, request, class),
            (Verdict::Packet | Verdict::Open(..), _) => Divert::Packet,
            (Verdict::Proxy(_), _) => Divert::Proxy,
            (Verdict::Held(_), _) => Divert::Done,
            (Verdict::Withdrawn(flow), _) => {
                self.reset_stream(cx, flow, Reason::Reset);
                Divert::Done
            }
            (Verdict::Aborted(flow), _) => {
                cx.out.push(Action::Tcp(Command::Reset(flow)));
                self.reset_stream(cx, flow, Reason::Reset);
                Divert::Proxy
            }
            (Verdict::Keepalive(flow), _) => {
                self.say(cx, flow, Message::Probe);
                Divert::Done
            }
            (Verdict::Alive(flow), _) => {
                cx.out.push(Action::Tcp(Command::Probe(flow, false)));
                self.say(cx, flow, Message::Alive);
                Divert::Proxy
            }
            (Verdict::Answer(answer), _) => {
                answer.into_iter().for_each(|answer| cx.out.push(Action::WriteInner(answer)));
                Divert::Done
            }
        }
    }

    fn open(&mut self, cx: &mut Cx<'_>, peer: StreamPeer, flow: Flow, request: Request, class: u8) -> Divert {
        let session = peer.session;
        self.table.set_peer(flow, peer.number);
        let header = announce::request(&request);
        let stream = cx.endpoint.streams(cx.now, session, |s| {
            let stream = s.open(&header, PRIORITY)?;
            s.classify(stream, class, request.traffic_class >> 2)?;
            Ok::<_, StreamError>(stream)
        });
        let Some(Ok(stream)) = stream else {
            // The session allows no more streams, so this flow is carried as packets.
            self.table.refused(cx.now, flow, Refusal::Limit);
            return Divert::Packet;
        };
        self.opened += 1;
        self.insert(flow, peer, stream, request, true);
        Divert::Done
    }

    fn insert(
        &mut self,
        flow: Flow,
        StreamPeer { number: peer, session }: StreamPeer,
        stream: StreamId,
        request: Request,
        ours: bool,
    ) {
        self.by_stream.insert((session, stream), flow);
        let carried = Carried {
            peer,
            session,
            stream,
            request,
            ours,
            open: false,
            held_back: false,
            waiting: VecDeque::new(),
            taken: 0,
            credit: 0,
            finished: false,
            unwritten: 0,
            over: false,
            reset: false,
            ended: false,
            stopped: None,
        };
        self.carried.insert(flow, carried);
    }

    fn remove(&mut self, flow: Flow) -> Option<Carried> {
        let carried = self.carried.remove(&flow)?;
        self.by_stream.remove(&(carried.session, carried.stream));
        Some(carried)
    }

    /// Handles a packet that is about to be written to the interface. If a packet is returned, the caller
    /// must send it back to the peer and must not deliver the original.
    pub(crate) fn on_delivered(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        self.table.on_delivered(packet)
    }

    /// Handles an event of a stream.
    pub(crate) fn on_stream(
        &mut self,
        cx: &mut Cx<'_>,
        routes: &mut Routes<'_>,
        session: SessionId,
        event: Event,
    ) {
        let (peer, dead) = self.dead.on_stream(cx, session, event, self.most);
        for tuple in dead.into_iter().filter(|tuple| routes.allowed.peer(tuple.to.ip()) == Some(peer)) {
            self.table.bury(cx.now, peer, tuple);
        }
        let flow = |stream| self.by_stream.get(&(session, stream)).copied();
        match event {
            Event::Opened(stream) => {
                if let Err(why) = self.connect(cx, routes, session, stream) {
                    self.refused += 1;
                    let _ = cx.endpoint.streams(cx.now, session, |s| s.reset(stream, why));
                }
            }
            Event::Accepted(stream) => {
                if let Some(flow) = flow(stream) {
                    let answer = cx.endpoint.streams(cx.now, session, |s| {
                        s.header(stream).map_or(Err(Refusal::Silence), announce::read_answer)
                    });
                    self.on_answer(cx, routes, flow, answer.unwrap_or(Err(Refusal::Busy)));
                }
            }
            Event::Readable(stream) => {
                if let Some(flow) = flow(stream) {
                    self.fill_socket(cx, routes, flow);
                }
            }
            Event::Writable(stream) => {
                if let Some(flow) = flow(stream) {
                    self.fill_stream(cx, flow);
                }
            }
            Event::Delivered(_) => {}
            Event::Reset(stream, why) => {
                if let Some(flow) = flow(stream) {
                    self.on_reset(cx, flow, why);
                }
            }
            Event::Stopped(stream, why) => {
                if let Some(flow) = flow(stream) {
                    self.on_stopped(cx, flow, why);
                }
            }
        }
    }

    /// Connects to the far host of a flow for which the peer has opened a stream.
    fn connect(
        &mut self,
        cx: &mut Cx<'_>,
        routes: &Routes<'_>,
        session: SessionId,
        stream: StreamId,
    ) -> Result<(), Reason> {
        let number = routes.peers.of(session).ok_or(Reason::SessionLost)?;
        let is_list = |s: &mut dccp_streams::Streams| s.header(stream) == Some(&dead::LIST[..]);
        if cx.endpoint.streams(cx.now, session, is_list) == Some(true) {
            self.dead.accept(cx, number, session, stream);
            return Ok(());
        }
        let request =
            cx.endpoint.streams(cx.now, session, |s| s.header(stream).and_then(announce::read_request));
        let request = request.flatten().ok_or(Reason::Protocol)?;
        let Tuple { from, to } = request.tuple;
        // As with packets, the source must be in the peer's `allowed_ips`. The destination may be any address
        // that this host can route.
        let allowed = routes.allowed.peer(from.ip()) == Some(number);
        if !allowed || !is_unicast(to.ip()) || to.ip().is_loopback() {
            return Err(Reason::NotAllowed);
        }
        let class = class_of(cx, &request.answer()).map_err(|_| Reason::TimedOut)?;
        let flow = self.table.connect(cx.now, &request).map_err(announce::reason)?;
        self.table.set_peer(flow, number);
        self.accepted += 1;
        let dscp = request.traffic_class >> 2;
        let _ = cx.endpoint.streams(cx.now, session, |s| s.classify(stream, class, dscp));
        self.insert(flow, StreamPeer { number, session }, stream, request, false);
        cx.out.push(Action::Tcp(Command::Connect { flow, request }));
        Ok(())
    }

    /// Handles the far end's answer: either it has connected to the far host, or it could not.
    fn on_answer(
        &mut self,
        cx: &mut Cx<'_>,
        routes: &mut Routes<'_>,
        flow: Flow,
        answer: Result<(), Refusal>,
    ) {
        match answer {
            Ok(()) => match self.table.accepted(flow) {
                Some((tuple, syn)) => {
                    if let Some(carried) = self.carried.get_mut(&flow) {
                        carried.open = true;
                    }
                    cx.out.push(Action::Tcp(Command::Accept { flow, tuple, syn }));
                    self.fill_socket(cx, routes, flow);
                }
                None => self.reset_stream(cx, flow, Reason::Reset),
            },
            Err(why) => self.refuse(cx, flow, why),
        }
    }

    /// Answers the held SYN the way the far host or the network would have refused it without the proxy.
    fn refuse(&mut self, cx: &mut Cx<'_>, flow: Flow, why: Refusal) {
        self.refused += 1;
        if let Some(answer) = self.table.refused(cx.now, flow, why) {
            cx.out.push(Action::WriteInner(answer));
        }
        self.reset_stream(cx, flow, Reason::Cancelled);
    }

    /// Handles a reset of the stream by the far end.
    pub(super) fn on_reset(&mut self, cx: &mut Cx<'_>, flow: Flow, why: Reason) {
        let Some(&Carried { session, stream, ours, open, .. }) = self.carried.get(&flow) else { return };
        if ours && !open {
            return self.refuse(cx, flow, announce::refusal(why));
        }
        // The host gets the data first that arrived before the reset.
        let rest = cx.endpoint.streams(cx.now, session, |s| read(s, stream, usize::MAX));
        if let Some((bytes, _)) = rest.filter(|(bytes, _)| !bytes.is_empty()) {
            cx.out.push(Action::Tcp(Command::Data(flow, bytes)));
        }
        self.reset_host(cx, flow);
        self.reset_stream(cx, flow, why);
    }

    pub(super) fn reset_stream(&mut self, cx: &mut Cx<'_>, flow: Flow, why: Reason) {
        if let Some(Carried { session, stream, .. }) = self.remove(flow) {
            let _ = cx.endpoint.streams(cx.now, session, |s| s.reset(stream, why));
        }
    }

    /// Handles an event of the proxy's sockets.
    pub(crate) fn on_sockets(&mut self, cx: &mut Cx<'_>, routes: &mut Routes<'_>, events: Vec<Sockets>) {
        for event in events {
            match event {
                Sockets::Connected(flow) => self.on_connected(cx, routes, flow),
                Sockets::Failed(flow, refused) => self.on_failed(cx, flow, refused),
                Sockets::Data(flow, bytes) => {
                    let Some(carried) = self.carried.get_mut(&flow) else { continue };
                    self.read_bytes += bytes.len() as u64;
                    carried.waiting.push_back(bytes);
                    self.fill_stream(cx, flow);
                }
                Sockets::Consumed(flow, bytes) => {
                    let Some(carried) = self.carried.get_mut(&flow) else { continue };
                    self.written_bytes += bytes;
                    carried.unwritten = carried.unwritten.saturating_sub(bytes);
                    self.fill_socket(cx, routes, flow);
                }
                Sockets::Finished(flow) => {
                    let Some(carried) = self.carried.get_mut(&flow) else { continue };
                    carried.finished = true;
                    self.fill_stream(cx, flow);
                }
                Sockets::Reset(flow) => {
                    self.resets += 1;
                    self.table.ended(cx.now, flow);
                    let Some(carried) = self.carried.get_mut(&flow) else { continue };
                    carried.reset = true;
                    self.fill_stream(cx, flow);
                }
                Sockets::Ended(flow) => {
                    self.table.ended(cx.now, flow);
                    if let Some(carried) = self.carried.get_mut(&flow) {
                        carried.over = true;
                        self.fill_stream(cx, flow);
                    }
                }
            }
        }
    }

    fn on_connected(&mut self, cx: &mut Cx<'_>, routes: &mut Routes<'_>, flow: Flow) {
        self.table.connected(flow);
        let Some(carried) = self.carried.get_mut(&flow) else {
            return self.reset_host(cx, flow);
        };
        if !carried.ours {
            carried.open = true;
            let stream = carried.stream;
            let done =
                cx.endpoint.streams(cx.now, carried.session, |s| s.accept(stream, &announce::ACCEPTED));
            if done != Some(Ok(())) {
                self.reset_host(cx, flow);
                return self.reset_stream(cx, flow, Reason::Reset);
            }
        }
        self.grant(cx, flow);
        self.fill_socket(cx, routes, flow);
    }

    /// Returns the maximum number of bytes that may now wait between a stream and its socket.
    pub(super) fn window(&self) -> u64 {
        (SHARED / self.carried.len().max(1) as u64).clamp(LEAST, WINDOW)
    }

    /// Allows the socket to read as many more bytes as the window permits.
    fn grant(&mut self, cx: &mut Cx<'_>, flow: Flow) {
        let window = self.window();
        let Some(carried) = self.carried.get_mut(&flow) else { return };
        let more = window.saturating_sub(carried.credit);
        if more > 0 {
            carried.credit += more;
            cx.out.push(Action::Tcp(Command::Credit(flow, more)));
        }
    }

    fn on_failed(&mut self, cx: &mut Cx<'_>, flow: Flow, refused: bool) {
        let why = self.table.failed(cx.now, flow, refused);
        let Some(Carried { session, stream, .. }) = self.remove(flow) else { return };
        let _ = cx.endpoint.streams(cx.now, session, |s| match &why {
            Refusal::Icmp(error) => {
                // The opener resets the stream. A STOP from this end could overtake the answer.
                s.accept(stream, &announce::icmp(error))?;
                s.finish(stream)
            }
            _ => s.reset(stream, announce::reason(why)),
        });
    }

    /// Copies as much of the host's data to the stream as the stream accepts. The host may then send more.
    pub(super) fn fill_stream(&mut self, cx: &mut Cx<'_>, flow: Flow) {
        let Some(carried) = self.carried.get_mut(&flow) else { return };
        let Carried { session, stream, waiting, taken, credit, finished, over, reset, .. } = carried;
        let stream = *stream;
        let done = cx.endpoint.streams(cx.now, *session, |s| {
            let done = write(s, stream, waiting, taken, *finished);
            if *reset {
                let _ = s.stop(stream, Reason::Reset);
            }
            if *reset && waiting.is_empty() {
                // The far host gets the data first.
                let _ = s.reset_later(stream, Reason::Reset);
            }
            done
        });
        let (written, ended) = done.unwrap_or_default();
        *credit = credit.saturating_sub(written);
        if ended && *over || *reset && waiting.is_empty() {
            self.remove(flow);
        } else if written > 0 && !*finished {
            self.grant(cx, flow);
        }
    }

    pub(crate) fn status(&self) -> TcpStatus {
        TcpStatus {
            flows: self.table.len() as u64,
            opened: self.opened,
            accepted: self.accepted,
            refused: self.refused,
            resets: self.resets,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            as_packets: self.table.as_packets().map(|(why, n)| (why.name().into(), n)).collect(),
        }
    }
}
