//! Models the kernel sockets of `mpdccp_proxy::Sockets` at both ends of a tunnel, for a connection that the
//! tunnel carries as a stream. The client's connection ends in the private namespace on the client, and a
//! second connection leads from the private namespace on the server to the server's program.

use core::time::Duration;
use std::collections::VecDeque;

use mpdccp_proxy::{Command, Event, Flow, ReceiveBuffer};
use mpdccp_units::Time;

use super::super::side::Side;
use super::handshake::Step;
use super::leg::{Leg, Outgoing};
use super::loss_detector::Rule;
use super::segment::{self, Segment};

/// Time that a packet takes between a host's kernel and the private namespace on that host. It is the wake-up
/// time of the program.
const LOCAL: Duration = Duration::from_micros(20);
/// Congestion control inside the namespace: the kernel's default.
const CC: &str = "cubic";
/// Maximum number of unsent or unacknowledged bytes in the kernel's send buffer for the server.
const SEND_BUFFER: u64 = 4 << 20;
/// Maximum number of bytes per event, as in `mpdccp_proxy`.
const CHUNK: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Proxied {
    /// Flow identifiers of the connection in the client's and in the server's tunnel.
    flows: [Option<Flow>; 2],
    /// Number of bytes that may be read from the client.
    credit: u64,
    /// When the client's SYN entered the namespace.
    accepted: Time,
    buffer: ReceiveBuffer,
    /// The connection to the server, and whether it has been established.
    far: Leg,
    connected: bool,
    /// Number of bytes for the server that the kernel has not accepted yet.
    unwritten: u64,
    /// Packets in transit inside a host. Each entry holds the arrival time, whether the packet belongs to the
    /// server's connection, which side of the connection receives it, and the packet.
    local: VecDeque<(Time, bool, Side, Segment)>,
    pub(super) events: VecDeque<(Side, Event)>,
}

impl Proxied {
    /// Creates the state of a connection whose packets carry this `number`.
    pub(super) fn new(flow: Flow, number: u16, mtu: u16) -> Proxied {
        Proxied {
            flows: [None, Some(flow)],
            credit: 0,
            accepted: Time::ZERO,
            buffer: ReceiveBuffer::new(Time::ZERO, Duration::ZERO),
            far: Leg::new(number, mtu, CC, Rule::Rack, 0),
            connected: false,
            unwritten: 0,
            local: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns the number of bytes that the server has received in order.
    pub(super) fn delivered(&self) -> u64 {
        self.far.receiver.next()
    }

    /// Returns whether the client's end of the tunnel has accepted the connection.
    pub(super) fn accepts(&self) -> bool {
        self.flows[0].is_some()
    }

    pub(super) fn on_command(&mut self, now: Time, near: &mut Leg, command: &Command) {
        match command {
            Command::Accept { flow, syn, .. } => {
                self.flows[0] = Some(*flow);
                self.accepted = now;
                near.receiver.wait_for_reads();
                self.enter(now, false, Side::Server, syn);
            }
            Command::Data(_, data) => self.unwritten += data.len() as u64,
            Command::Credit(flow, bytes) if self.flows[0] == Some(*flow) => self.credit += bytes,
            // Ignore other commands. The model has no FIN: `finish` reports the end. It has no keepalive
            // probes, because its hosts would always answer them.
            _ => {}
        }
        self.copy(now, near);
    }

    /// Handles a packet from a host to the private namespace at `side`.
    pub(super) fn on_packet(&mut self, now: Time, side: Side, packet: &[u8]) {
        // The private namespace is between client and server. Towards the client, it acts as the server;
        // towards the server, it acts as the client.
        self.enter(now, side == Side::Server, side.other(), packet);
    }

    fn enter(&mut self, now: Time, far: bool, to: Side, packet: &[u8]) {
        if let Some(segment) = segment::read(packet) {
            self.local.push_back((now + LOCAL, far, to, segment));
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let local = self.local.front().map(|(at, ..)| *at);
        let events = (!self.events.is_empty()).then_some(Time::ZERO);
        self.far.next_timeout().into_iter().chain(local).chain(events).min()
    }

    /// Processes the packets that are due inside the hosts. Returns the next packet that the client or the
    /// server sends.
    pub(super) fn poll(&mut self, now: Time, near: &mut Leg) -> Option<Outgoing> {
        loop {
            while let Some((_, far, to, segment)) = self.local.pop_front_if(|(at, ..)| *at <= now) {
                self.deliver(now, near, (far, to), &segment);
            }
            if let Some(out) = near.poll(now) {
                if out.from == Side::Client || !self.accepts() {
                    return Some(out);
                }
                self.enter(now, false, Side::Client, &out.packet);
            } else {
                let out = self.far.poll(now)?;
                if out.from == Side::Server {
                    return Some(out);
                }
                self.enter(now, true, Side::Server, &out.packet);
            }
        }
    }

    fn deliver(&mut self, now: Time, near: &mut Leg, (far, to): (bool, Side), segment: &Segment) {
        if far { &mut self.far } else { &mut *near }.handle(now, to, segment);
        match (far, to, segment) {
            (false, Side::Server, Segment::Open(_, Step::Ack)) => {
                self.buffer = ReceiveBuffer::new(now, now.since(self.accepted));
                near.receiver.limit_buffer(self.buffer.size());
                self.tell(Side::Client, Event::Connected);
            }
            (true, Side::Client, _) if !self.connected => {
                self.connected = true;
                self.tell(Side::Server, Event::Connected);
            }
            _ => {}
        }
        self.copy(now, near);
    }

    fn tell(&mut self, side: Side, event: impl Fn(Flow) -> Event) {
        let flow = self.flows[side.index()];
        self.events.extend(flow.map(|flow| (side, event(flow))));
    }

    /// Reads as much as possible from the client, and writes as much as possible to the server.
    fn copy(&mut self, now: Time, near: &mut Leg) {
        loop {
            let bytes = near.receiver.readable().min(self.credit).min(CHUNK);
            if bytes == 0 {
                break;
            }
            near.receiver.read(bytes);
            self.credit -= bytes;
            if self.buffer.on_read(now, bytes, self.credit == 0) {
                near.receiver.limit_buffer(self.buffer.size());
            }
            self.tell(Side::Client, |flow| Event::Data(flow, vec![0; bytes as usize]));
        }
        let room = SEND_BUFFER.saturating_sub(self.far.sender.unacknowledged());
        let bytes = self.unwritten.min(room);
        if bytes > 0 {
            self.unwritten -= bytes;
            self.far.sender.write(bytes);
            self.tell(Side::Server, |flow| Event::Consumed(flow, bytes));
        }
    }

    /// Closes the connection at both hosts.
    pub(super) fn finish(&mut self) {
        [Side::Client, Side::Server].into_iter().for_each(|side| self.tell(side, Event::Finished));
    }
}
