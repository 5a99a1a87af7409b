//! Runs the scenario's flows, each of which has applications at both ends and a transport.

use core::time::Duration;

use mpdccp_proxy::{Command, Event};
use mpdccp_units::{Rate, Time};

use super::end::MTU;
use super::links::Links;
use super::probe;
use super::short::Short;
use super::side::Side;
use super::source::{self, Source};
use super::stream::{self, Stream, Writer};
use super::tcp::{self, Rule, Tcp, segment};
use super::world::World;
use crate::scenario::{Baseline, FlowKind, FlowSpec, LossDetection, Mode, SourceSpec};
use crate::{FlowRecord, LabError, Plan, ReceivedPacket, SentPacket};

/// Number of datagrams that a backlogged source keeps in the sender's queue, if the queue's limit allows it.
/// The number is small, because the queue drops datagrams that wait too long.
const BACKLOG: u32 = 4;
/// Transport of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Session(usize),
    /// Directly over a path's link, with this additional delay.
    Outside(usize, Duration),
}

#[derive(Debug)]
enum App {
    Datagrams(Box<dyn Source>),
    Stream(Box<Stream>),
    /// Short TCP connections.
    Short(Short),
}

#[derive(Debug)]
pub(super) struct Flow {
    index: u16,
    pub(super) over: Over,
    /// The side that sends.
    from: Side,
    /// Whether the receiver returns every datagram.
    echo: bool,
    /// Datagrams for the receiver to send back.
    echoes: Vec<Vec<u8>>,
    /// Whether datagrams are IP packets.
    ip: bool,
    app: App,
    /// Congestion control of short flows.
    cc: String,
    /// Path on which the server returns all datagrams, and the datagrams that it has yet to return.
    mirror: Option<(usize, Vec<Vec<u8>>)>,
    pub(super) record: FlowRecord,
    sizes: Vec<usize>,
    /// Maximum number of datagrams that a backlogged source keeps in the sender's queue.
    room: u32,
}

impl Flow {
    /// Returns flow number `index` of the plan, with t = 0 at `start`. `session` is the session that carries
    /// the flow, if any.
    pub(super) fn new(
        plan: &Plan<'_>,
        (index, spec): (usize, &FlowSpec),
        session: usize,
        start: Time,
    ) -> Result<Flow, LabError> {
        let direct = plan.scenario.mode == Mode::Direct;
        let seed = plan.flow_seed(spec);
        let (from, stop) = plan.span_of(spec);
        let (from, stop) = (start + from, start + stop);
        // In direct mode, a TCP variant uses TCP in place of the DCCP connection.
        let variant = plan.variant.tcp.as_ref().map(|t| t.as_ref().clone()).filter(|_| direct);
        let cc = spec.cc.clone().or(variant);
        let bulk = matches!(spec.source(), Some(SourceSpec::Bulk {}));
        let over = match &spec.via {
            Some(via) => Over::Outside(path_named(plan, via.as_ref())?, spec.owd),
            None if plan.variant.baseline == Some(Baseline::Plain {}) => {
                let first = plan.paths().iter().position(|p| !p.outside);
                Over::Outside(first.unwrap_or(0), spec.owd)
            }
            None if direct && (cc.is_some() || plan.variant.udp) => Over::Outside(0, spec.owd),
            None => Over::Session(session),
        };
        let mirror = spec.mirror.as_ref().map(|name| path_named(plan, name.as_ref())).transpose()?;
        let ip = !direct || matches!(over, Over::Outside(..));
        let source = || source::source(spec, from, stop, seed);
        let stream = |writer| {
            let records = matches!(writer, Writer::Records { .. });
            let settings = stream::Settings {
                index: index as u16,
                cc: cc.clone().unwrap_or_default(),
                ecn: spec.ecn,
                rule: match spec.loss_detection {
                    LossDetection::Rack => Rule::Rack,
                    LossDetection::Three => Rule::Three,
                },
                seed,
                echo: spec.echo,
                opens: if records { early(from) } else { from },
                stop,
                uncounted: if direct { segment::HEADERS } else { 0 },
            };
            App::Stream(Box::new(Stream::new(settings, writer)))
        };
        let app = match (spec.kind, &cc) {
            (FlowKind::Short, _) => {
                let begin = |(at, size)| (from + at, size);
                let all = spec.connections(seed, *plan.scenario.duration_s.as_ref()).into_iter().map(begin);
                // `start_within` shifts all starts, some of them beyond the end of the traffic.
                App::Short(Short::new(all.filter(|(at, _)| *at < stop).collect(), seed))
            }
            (FlowKind::Udp, None) => App::Datagrams(source()),
            (FlowKind::Udp, Some(_)) if !bulk => stream(Writer::records(source())),
            _ => stream(Writer::Bulk),
        };
        let headers = if ip && cc.is_none() { probe::INNER_HEADERS } else { 0 };
        let counts_drops = spec.kind == FlowKind::Udp && cc.is_some() && !bulk;
        let record = FlowRecord {
            name: spec.name.as_ref().clone(),
            kind: match (spec.kind, &cc) {
                (FlowKind::Short, _) => "short",
                (_, Some(_)) => "tcp",
                (_, None) => "udp",
            }
            .to_owned(),
            model: cc.as_deref().map(|cc| format!("model of TCP {}", tcp::name(cc))),
            offered: offered(spec, headers),
            dropped_at_sender: counts_drops.then_some(0),
            ..FlowRecord::default()
        };
        Ok(Flow {
            index: index as u16,
            over,
            from: if spec.reverse { Side::Server } else { Side::Client },
            echo: spec.echo,
            echoes: Vec::new(),
            ip,
            app,
            cc: cc.unwrap_or_default(),
            mirror: mirror.map(|path| (path, Vec::new())),
            record,
            sizes: Vec::new(),
            room: room(plan),
        })
    }

    /// Returns when the flow's next event is due if no packet arrives before then.
    pub(super) fn next_event(&self) -> Option<Time> {
        match &self.app {
            App::Datagrams(source) => source.next(),
            App::Short(short) => short.next_event(),
            App::Stream(stream) => stream.next_event(),
        }
    }

    /// Returns the flow's TCP model, if it has one and the model has started.
    pub(super) fn tcp(&self) -> Option<&Tcp> {
        match &self.app {
            App::Stream(stream) => stream.tcp(),
            App::Datagrams(_) | App::Short(_) => None,
        }
    }

    /// Numbers the connections of short flows from `first` on, and returns how many there are.
    pub(super) fn number_connections(&mut self, first: u16) -> u16 {
        if let App::Short(short) = &mut self.app { short.number(first) } else { 0 }
    }

    /// Returns whether packets with this number belong to the flow.
    pub(super) fn has(&self, number: u16) -> bool {
        self.index == number || matches!(&self.app, App::Short(short) if short.has(number))
    }

    /// Handles one of this flow's packets that has arrived at `side`.
    pub(super) fn handle(&mut self, now: Time, side: Side, packet: &[u8]) {
        let reverse = self.from == Side::Server;
        match &mut self.app {
            App::Datagrams(_) => {
                let Some((_, seq)) = probe::read(packet) else { return };
                let arrived = ReceivedPacket { seq, at: now, bytes: packet.len() as u32 };
                if self.mirror.is_some() && side == self.from {
                    self.record.mirrored.push(arrived);
                } else if self.echo && side != self.from {
                    self.echoes.push(packet.to_vec());
                } else if self.echo == (side == self.from) {
                    self.record.received.push(arrived);
                    self.mirror.iter_mut().for_each(|(_, back)| back.push(packet.to_vec()));
                }
            }
            // A connection always sends its data from its client, so the client of a reverse flow is the
            // server of the scenario.
            App::Stream(stream) => {
                let side = if reverse { side.other() } else { side };
                stream.handle(now, side, packet, &mut self.record);
            }
            App::Short(short) => {
                if let Some(segment) = segment::read(packet) {
                    short.handle(now, side, &segment, &mut self.record);
                }
            }
        }
    }

    /// Handles one of this flow's packets that goes to the private namespace of the tunnel at `side`.
    pub(super) fn handle_proxied(&mut self, now: Time, side: Side, packet: &[u8]) {
        match (&mut self.app, segment::read(packet)) {
            (App::Stream(stream), _) => stream.handle_proxied(now, side, packet),
            (App::Short(short), Some(segment)) => short.handle_proxied(now, side, segment.flow(), packet),
            _ => {}
        }
    }

    /// Executes a command of the tunnel at `side` for the connection with this number.
    pub(super) fn on_command(&mut self, now: Time, side: Side, number: u16, command: &Command) {
        match &mut self.app {
            App::Stream(stream) => stream.on_command(now, command),
            App::Short(short) => short.on_command(now, side, number, command),
            App::Datagrams(_) => {}
        }
    }

    /// Takes the next event of the flow's connections, and returns it with the side whose tunnel must handle
    /// it.
    fn poll_event(&mut self) -> Option<(Side, Event)> {
        match &mut self.app {
            App::Stream(stream) => stream.poll_event(),
            App::Short(short) => short.poll_event(),
            App::Datagrams(_) => None,
        }
    }

    /// Sends packets that are due.
    pub(super) fn step(&mut self, now: Time, world: &mut World, links: &mut Links) -> Result<(), LabError> {
        let (over, index) = (self.over, self.index);
        if let Some((path, back)) = &mut self.mirror {
            for packet in back.drain(..) {
                let watch: &mut super::world::Watch<'_> =
                    &mut |at, path, side, event| links.on_event(at, path, side, event);
                world.send_outside((*path, Duration::ZERO), Side::Server, packet, watch);
            }
        }
        let mut send = |world: &mut World, from, packet: Vec<u8>| {
            let watch: &mut super::world::Watch<'_> =
                &mut |at, path, side, event| links.on_event(at, path, side, event);
            match over {
                Over::Session(session) => world.send(session, from, packet, watch),
                Over::Outside(path, detour) => world.send_outside((path, detour), from, packet, watch),
            }
        };
        for packet in self.echoes.drain(..) {
            send(world, self.from.other(), packet);
        }
        match &mut self.app {
            App::Datagrams(source) => {
                if source.next().is_some_and(|t| t <= now) {
                    let dropped = if source.adapts() { dropped(world, over) } else { 0 };
                    source.emit(now, dropped, &mut self.sizes);
                }
                loop {
                    for size in self.sizes.drain(..) {
                        let packet = probe::write(index, self.record.sent.len() as u64, size, self.ip);
                        self.record.sent.push(SentPacket { at: now, bytes: packet.len() as u32 });
                        send(world, self.from, packet);
                    }
                    let Some(size) = source.backlog(now) else { break };
                    let Over::Session(session) = over else { break };
                    // Without a session, a backlogged source cannot send.
                    if world.backlog(session).is_none_or(|queue| queue.packets >= self.room) {
                        break;
                    }
                    self.sizes.push(size);
                }
            }
            App::Short(short) => {
                if short.is_due(now) {
                    short.begin(now, (mtu(world, over)?, &self.cc), &mut self.record);
                }
                while let Some(out) = short.poll(now, &mut self.record) {
                    send(world, out.from, out.packet);
                }
            }
            App::Stream(stream) => {
                if stream.is_to_begin(now) {
                    stream.begin(mtu(world, over)?);
                }
                let reverse = self.from == Side::Server;
                stream.step(now, &mut self.record, &mut |from, packet| {
                    send(world, if reverse { from.other() } else { from }, packet);
                });
            }
        }
        while let Some((side, event)) = self.poll_event() {
            let watch: &mut super::world::Watch<'_> =
                &mut |at, path, side, event| links.on_event(at, path, side, event);
            world.on_sockets(side, event, watch);
        }
        Ok(())
    }

    /// Completes the flow's record and returns it. `alone` means that no other flow uses the session.
    pub(super) fn finish(mut self, world: &World, alone: bool) -> FlowRecord {
        if let App::Short(short) = &self.app {
            self.record.streams = Some(short.streams());
        }
        if let Some(tcp) = self.tcp() {
            let (counters, streams) = (tcp.counters(), u64::from(tcp.is_stream()));
            (self.record.tcp, self.record.streams) = (Some(counters), Some(streams));
        } else if let (Over::Session(_), true) = (self.over, alone) {
            self.record.dropped_at_sender = Some(dropped(world, self.over));
        }
        self.record
    }
}

/// Returns when a source of records opens its connection: half a second before `start`, as with the namespace
/// backend.
fn early(start: Time) -> Time {
    Time::from_nanos(start.as_nanos().saturating_sub(500_000_000))
}

fn path_named(plan: &Plan<'_>, name: &str) -> Result<usize, LabError> {
    let place = plan.scenario.paths.iter().position(|p| p.name.as_ref() == name);
    place.ok_or_else(|| LabError::Failed(format!("unknown path `{name}`")))
}

/// Returns the rate that a flow offers, including `headers` header bytes per packet.
fn offered(spec: &FlowSpec, headers: usize) -> Option<Rate> {
    let (rate, payload) = (spec.rate?, spec.payload.as_ref().map(|p| f64::from(*p.as_ref()))?);
    Some(rate.scale((payload + headers as f64) / payload))
}

/// Returns how many datagrams a backlogged source may keep in the queue without causing drops.
fn room(plan: &Plan<'_>) -> u32 {
    let queue = plan.scenario.settings_of(plan.variant).queue;
    let most = queue.max_packets.min(queue.max_bytes / usize::from(MTU));
    BACKLOG.min(most.try_into().unwrap_or(BACKLOG))
}

/// Returns how many packets the sender's queue has dropped.
fn dropped(world: &World, over: Over) -> u64 {
    match over {
        Over::Session(session) => world.dropped(session),
        Over::Outside(..) => 0,
    }
}

/// Returns the size of the largest IP packet of a flow.
fn mtu(world: &World, over: Over) -> Result<u16, LabError> {
    let Over::Session(session) = over else { return Ok(MTU) };
    if let Some(mtu) = world.tunnel_mtu() {
        return Ok(mtu);
    }
    let status = world.status(session);
    let paths = status.iter().flat_map(|s| &s.paths).map(|p| p.max_payload).filter(|n| *n > 0);
    let least = paths.min().and_then(|n| u16::try_from(n).ok());
    least.ok_or_else(|| LabError::Failed("no connection is open when a TCP flow starts".to_owned()))
}
