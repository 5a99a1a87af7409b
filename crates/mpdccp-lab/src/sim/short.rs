//! Short flows: model TCP connections with a fixed amount of data.

use std::collections::VecDeque;

use mpdccp_units::Time;

use super::side::Side;
use super::tcp::segment::Segment;
use super::tcp::{Outgoing, Rule, Tcp};
use crate::{FlowRecord, ReceivedPacket, SentPacket};

/// All connections of a flow.
#[derive(Debug)]
pub(super) struct Short {
    /// Packet number of the first connection; later connections count on.
    first: u16,
    count: u16,
    waiting: VecDeque<(Time, u32)>,
    open: Vec<Connection>,
    seed: u64,
}

#[derive(Debug)]
struct Connection {
    /// Counted from 0.
    number: u64,
    size: u32,
    tcp: Box<Tcp>,
    /// The connection is new, or received a packet.
    touched: bool,
}

impl Short {
    pub(super) fn new(connections: Vec<(Time, u32)>, seed: u64) -> Short {
        let count = connections.len() as u16;
        Short { first: 0, count, waiting: connections.into(), open: Vec::new(), seed }
    }

    /// Numbers its connections from `first` on; returns how many there are.
    pub(super) fn number(&mut self, first: u16) -> u16 {
        self.first = first;
        self.count
    }

    /// Whether one of its connections has this number.
    pub(super) fn has(&self, number: u16) -> bool {
        number.wrapping_sub(self.first) < self.count
    }

    /// Time of the next event of any connection without input.
    pub(super) fn next_event(&self) -> Option<Time> {
        let open = self.open.iter().filter_map(|connection| connection.tcp.next_timeout());
        open.chain(self.waiting.front().map(|(at, _)| *at)).min()
    }

    /// Whether a connection is due to start.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.waiting.front().is_some_and(|(at, _)| *at <= now)
    }

    /// Starts the connections that are due, in packets of at most `mtu` bytes.
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

    /// A packet of a connection arrived at `side`.
    pub(super) fn handle(&mut self, now: Time, side: Side, segment: &Segment, record: &mut FlowRecord) {
        let number = u64::from(segment.flow().wrapping_sub(self.first));
        let Some(place) = self.open.iter().position(|connection| connection.number == number) else { return };
        let connection = &mut self.open[place];
        connection.tcp.handle(now, side, segment);
        connection.touched = true;
        if connection.tcp.delivered() >= connection.size.into() {
            record.received.push(ReceivedPacket { seq: number, at: now, bytes: connection.size });
            self.open.swap_remove(place);
        }
    }

    /// The next packet that may leave now; call until it returns `None`.
    pub(super) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        for connection in &mut self.open {
            if connection.touched || connection.tcp.next_timeout().is_some_and(|t| t <= now) {
                connection.touched = true;
                if let Some(out) = connection.tcp.poll(now) {
                    return Some(out);
                }
                connection.touched = false;
            }
        }
        None
    }
}
