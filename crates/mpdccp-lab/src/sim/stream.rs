//! Runs a flow over TCP, consisting of the model's connection, the connection for echoes, and the application
//! that writes the data.

use std::collections::VecDeque;

use mpdccp_proxy::{Command, Event};
use mpdccp_units::Time;

use super::side::Side;
use super::source::Source;
use super::tcp::segment::{self, Segment};
use super::tcp::{Rule, Tcp};
use crate::{FlowRecord, ReceivedPacket, SentPacket};

/// Maximum number of an application's records that TCP may hold unsent. Further records are dropped, as in
/// the send queue of a datagram socket.
const UNSENT_RECORDS: u64 = 5;

/// Bit that marks the number of a flow's connection for echoes.
pub(super) const RETURN: u16 = 1 << 15;

/// Settings of the flow's connections.
#[derive(Debug)]
pub(super) struct Settings {
    /// Number of the flow.
    pub(super) index: u16,
    pub(super) cc: String,
    pub(super) ecn: bool,
    pub(super) rule: Rule,
    pub(super) seed: u64,
    /// Whether the receiver returns all data.
    pub(super) echo: bool,
    /// When the flow opens its connection.
    pub(super) opens: Time,
    /// Time at which the application stops.
    pub(super) stop: Time,
    /// Header bytes per segment that the run's record does not count. In direct mode, the record counts
    /// payloads; otherwise, it counts whole IP packets.
    pub(super) uncounted: usize,
}

#[derive(Debug)]
pub(super) struct Stream {
    settings: Settings,
    /// The connection, or `None` before it starts.
    tcp: Option<Box<Tcp>>,
    back: Option<Box<Tcp>>,
    writer: Writer,
    /// End (in bytes) and number of each record in flight. If the tunnel carries the connection as a stream,
    /// the entries are segments instead of records.
    open: VecDeque<(u64, u64)>,
    /// Whether data has arrived or been written since the last step.
    touched: bool,
    sizes: Vec<usize>,
}

/// The application that writes data.
#[derive(Debug)]
pub(super) enum Writer {
    Bulk,
    /// Writes each datagram of the source as a record.
    Records {
        source: Box<dyn Source>,
        written: u64,
        /// Bytes returned by the server.
        echoed: u64,
    },
}

impl Writer {
    pub(super) fn records(source: Box<dyn Source>) -> Writer {
        Writer::Records { source, written: 0, echoed: 0 }
    }
}

impl Stream {
    pub(super) fn new(settings: Settings, writer: Writer) -> Stream {
        let open = VecDeque::new();
        Stream { settings, tcp: None, back: None, writer, open, touched: false, sizes: Vec::new() }
    }

    /// Returns the connection, if it has started.
    pub(super) fn tcp(&self) -> Option<&Tcp> {
        self.tcp.as_deref()
    }

    /// Returns when the next event is due if no packet arrives before then.
    pub(super) fn next_event(&self) -> Option<Time> {
        let Some(tcp) = &self.tcp else { return Some(self.settings.opens) };
        let source = match &self.writer {
            Writer::Records { source, .. } => source.next(),
            Writer::Bulk => None,
        };
        let back = self.back.as_ref().and_then(|tcp| tcp.next_timeout());
        tcp.next_timeout().into_iter().chain(back).chain(source).min()
    }

    /// Returns whether it is time to start the connection.
    pub(super) fn is_to_begin(&self, now: Time) -> bool {
        self.tcp.is_none() && now >= self.settings.opens
    }

    /// Starts the connection, limiting its packets to `mtu` bytes.
    pub(super) fn begin(&mut self, mtu: u16) {
        let Settings { index, cc, ecn, rule, seed, echo, .. } = &self.settings;
        let mut tcp = Box::new(Tcp::new(*index, mtu, cc, *rule, *seed));
        if *ecn {
            tcp.use_ecn();
        }
        if matches!(self.writer, Writer::Bulk) {
            tcp.write(u64::MAX);
        }
        self.back = echo.then(|| Box::new(Tcp::new(index | RETURN, mtu, cc, *rule, seed ^ 1)));
        self.tcp = Some(tcp);
        self.touched = true;
    }

    /// Handles one of the flow's packets that has arrived at `side`.
    pub(super) fn handle(&mut self, now: Time, side: Side, packet: &[u8], record: &mut FlowRecord) {
        let (Some(tcp), Some(segment)) = (&mut self.tcp, segment::read(packet)) else { return };
        match &mut self.back {
            // The connection for echoes carries data in the opposite direction.
            Some(back) if segment.flow() & RETURN != 0 => back.handle(now, side.other(), &segment),
            _ => tcp.handle(now, side, &segment),
        }
        self.touched = true;
        match &mut self.writer {
            Writer::Bulk => {
                if let Segment::Data(data) = segment {
                    let bytes = (packet.len() - self.settings.uncounted) as u32;
                    record.received.push(ReceivedPacket { seq: data.no, at: now, bytes });
                }
            }
            Writer::Records { echoed, .. } => {
                let mut arrived = tcp.delivered();
                if let Some(back) = &mut self.back {
                    // Count only whole records.
                    let ends = self.open.iter().map(|(end, _)| *end);
                    let whole = ends.take_while(|end| *end <= arrived).last();
                    back.write(whole.map_or(0, |end| end.saturating_sub(*echoed)));
                    *echoed = whole.unwrap_or(0).max(*echoed);
                    arrived = back.delivered();
                }
                arrive(now, &mut self.open, arrived, record);
            }
        }
    }

    /// Handles a packet that goes to the private namespace of the tunnel at `side`.
    pub(super) fn handle_proxied(&mut self, now: Time, side: Side, packet: &[u8]) {
        self.tcp.iter_mut().for_each(|tcp| tcp.handle_proxied(now, side, packet));
        self.touched = true;
    }

    pub(super) fn on_command(&mut self, now: Time, command: &Command) {
        self.tcp.iter_mut().for_each(|tcp| tcp.on_command(now, command));
        self.touched = true;
    }

    pub(super) fn poll_event(&mut self) -> Option<(Side, Event)> {
        self.tcp.as_mut()?.poll_event()
    }

    /// Writes and sends the data that is due. `send` is called with the sending side and the packet.
    pub(super) fn step(&mut self, now: Time, record: &mut FlowRecord, send: &mut dyn FnMut(Side, Vec<u8>)) {
        self.write(now, record);
        let Some(tcp) = &mut self.tcp else { return };
        let ends = self.back.iter().map(|b| b.next_timeout()).chain([tcp.next_timeout()]);
        if !self.touched && ends.flatten().all(|t| t > now) {
            return;
        }
        self.touched = false;
        while let Some(out) = self.back.as_mut().and_then(|back| back.poll(now)) {
            send(out.from.other(), out.packet);
        }
        let is_bulk = matches!(self.writer, Writer::Bulk);
        while let Some(out) = tcp.poll(now) {
            if is_bulk && let Some(Segment::Data(data)) = segment::read(&out.packet) {
                let (end, seq) = (data.start + u64::from(data.len), record.sent.len() as u64);
                let bytes = (out.packet.len() - self.settings.uncounted) as u32;
                record.sent.push(SentPacket { at: now, bytes });
                if tcp.is_stream() && self.open.back().is_none_or(|(last, _)| *last < end) {
                    self.open.push_back((end, seq));
                }
            }
            send(out.from, out.packet);
        }
        if tcp.is_stream() {
            arrive(now, &mut self.open, tcp.delivered(), record);
        }
    }

    /// Makes the application write its data.
    fn write(&mut self, now: Time, record: &mut FlowRecord) {
        let Some(tcp) = &mut self.tcp else { return };
        match &mut self.writer {
            Writer::Bulk if now >= self.settings.stop => tcp.finish(),
            Writer::Bulk => record.stream_bytes = Some(tcp.delivered()),
            Writer::Records { source, written, .. } => {
                if source.next().is_some_and(|t| t <= now) {
                    let dropped = record.dropped_at_sender.unwrap_or(0);
                    source.emit(now, dropped, &mut self.sizes);
                }
                for size in self.sizes.drain(..) {
                    let seq = record.sent.len() as u64;
                    record.sent.push(SentPacket { at: now, bytes: size as u32 });
                    if !self.settings.echo && tcp.sender().unsent() >= UNSENT_RECORDS * size as u64 {
                        *record.dropped_at_sender.get_or_insert(0) += 1;
                        continue;
                    }
                    tcp.write(size as u64);
                    *written += size as u64;
                    self.open.push_back((*written, seq));
                    self.touched = true;
                }
            }
        }
    }
}

/// Records the arrival of all data before `end`.
fn arrive(now: Time, open: &mut VecDeque<(u64, u64)>, end: u64, record: &mut FlowRecord) {
    while let Some((_, seq)) = open.pop_front_if(|(last, _)| *last <= end) {
        let bytes = record.sent[seq as usize].bytes;
        record.received.push(ReceivedPacket { seq, at: now, bytes });
    }
}
