//! Runs short flows: connections of the TCP model that each carry a fixed amount of data.

use std::collections::VecDeque;

use mpdccp_proxy::{Command, Event};
use mpdccp_units::Time;

use super::side::Side;
use super::tcp::segment::Segment;
use super::tcp::{Outgoing, Rule, Tcp};
use crate::{FlowRecord, ReceivedPacket, SentPacket};

/// All connections of a flow.
#[derive(Debug)]
pub(super) struct Short {
    /// Number carried by packets of the first connection; later connections have the numbers after it.
    first: u16,
    count: u16,
    waiting: VecDeque<(Time, u32)>,
    open: Vec<Connection>,
    /// Events for the tunnels, left by connections that are already complete.
    events: VecDeque<(Side, Event)>,
    /// Number of complete connections that were carried as streams by the tunnel.
    streams: u64,
    seed: u64,
}

#[derive(Debug)]
struct Connection {
    /// Number of the connection, from 0.
    number: u64,
    size: u32,
    tcp: Box<Tcp>,
    /// Whether the connection is new or has received a packet since the last check.
    touched: bool,
}

impl Short {
    pub(super) fn new(connections: Vec<(Time, u32)>, seed: u64) -> Short {
        let count = connections.len() as u16;
        let (open, events) = (Vec::new(), VecDeque::new());
        Short { first: 0, count, waiting: connections.into(), open, events, streams: 0, seed }
    }

    /// Numbers the connections from `first` on, and returns how many there are.
    pub(super) fn number(&mut self, first: u16) -> u16 {
        self.first = first;
        self.count
    }

    /// Returns whether one of the flow's connections has this number.
    pub(super) fn has(&self, number: u16) -> bool {
        number.wrapping_sub(self.first) < self.count
    }

    /// Returns when the next event of any connection is due if no packet arrives before then.
    pub(super) fn next_event(&self) -> Option<Time> {
        let open = self.open.iter().filter_map(|connection| connection.tcp.next_timeout());
        open.chain(self.waiting.front().map(|(at, _)| *at)).min()
    }

    /// Returns the number of connections that the tunnel carried as streams.
    pub(super) fn streams(&self) -> u64 {
        self.streams + self.open.iter().map(|connection| u64::from(connection.tcp.is_stream())).sum::<u64>()
    }

    /// Returns whether any connection is due to start.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.waiting.front().is_some_and(|(at, _)| *at <= now)
    }

    /// Starts the connections that are due, with packets of at most `mtu` bytes.
    pub(super) fn begin(&mut self, now: Time, (mtu, cc): (u16, &str), record: &mut FlowRecord) {
        while let Some((at, size)) = self.waiting.pop_front_if(|(at, _)| *at <= now) {
            let number = record.sent.len() as u64;
            record.sent.push(SentPacket { at, bytes: size });
            let seed = self.seed.wrapping_add(number);
            let mut tcp = Box::new(Tcp::new(self.first + number as u16, mtu, cc, Rule::Rack, seed));
            tcp.write(size.into());
            self.open.push(Connection { number, size, tcp, touched: true });
        }
    }

    /// Handles a packet that has arrived at `side` for one of the connections.
    pub(super) fn handle(&mut self, now: Time, side: Side, segment: &Segment, record: &mut FlowRecord) {
        let Some(connection) = self.touch(segment.flow()) else { return };
        connection.tcp.handle(now, side, segment);
        self.complete(now, record);
    }

    /// Handles a packet that goes to the private namespace of the tunnel at `side`.
    pub(super) fn handle_proxied(&mut self, now: Time, side: Side, flow: u16, packet: &[u8]) {
        if let Some(connection) = self.touch(flow) {
            connection.tcp.handle_proxied(now, side, packet);
        }
    }

    /// Executes a command of the tunnel at `side` for a connection.
    pub(super) fn on_command(&mut self, now: Time, side: Side, flow: u16, command: &Command) {
        match (self.touch(flow), command) {
            (Some(connection), _) => connection.tcp.on_command(now, command),
            // The connection is already complete, so the host has finished too: report the end.
            (None, Command::Finish(flow)) => self.events.push_back((side, Event::Ended(*flow))),
            (None, _) => {}
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<(Side, Event)> {
        let open = self.open.iter_mut();
        self.events.pop_front().or_else(|| open.map(|connection| connection.tcp.poll_event()).find_map(|e| e))
    }

    fn touch(&mut self, flow: u16) -> Option<&mut Connection> {
        let number = u64::from(flow.wrapping_sub(self.first));
        let connection = self.open.iter_mut().find(|connection| connection.number == number)?;
        connection.touched = true;
        Some(connection)
    }

    /// Removes complete connections.
    fn complete(&mut self, now: Time, record: &mut FlowRecord) {
        while let Some(place) = self.open.iter().position(|c| c.tcp.delivered() >= c.size.into()) {
            let Connection { number, size, tcp, .. } = self.open.swap_remove(place);
            record.received.push(ReceivedPacket { seq: number, at: now, bytes: size });
            self.streams += u64::from(tcp.is_stream());
            self.events.extend(tcp.close());
        }
    }

    /// Returns the next packet that may leave now. Call this repeatedly until it returns `None`.
    pub(super) fn poll(&mut self, now: Time, record: &mut FlowRecord) -> Option<Outgoing> {
        for connection in &mut self.open {
            if connection.touched || connection.tcp.next_timeout().is_some_and(|t| t <= now) {
                connection.touched = true;
                if let Some(out) = connection.tcp.poll(now) {
                    return Some(out);
                }
                connection.touched = false;
            }
        }
        self.complete(now, record);
        None
    }
}
