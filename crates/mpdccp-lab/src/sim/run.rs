//! Makes one run, from the first packet to the last.

use core::time::Duration;

use mpdccp_proto::{PathName, SessionConfig, SessionEvent};
use mpdccp_units::{Rate, Time};

use super::flow::{Flow, Over};
use super::links::{Links, Progress};
use super::outer::path_to;
use super::probe;
use super::sockets::Sockets;
use super::stream::RETURN;
use super::tcp::Sender;
use super::tcp::segment;
use super::world::{Arrived, World, WorldPath};
use crate::netns::check_stop;
use crate::scenario::{FlowKind, FlowSpec, LinkKeys, Mode, PathSpec, TunnelEvent, direct};
use crate::tunnel_files::TunnelFiles;
use crate::{LabError, LinkRecord, PathRecord, Plan, RunRecord, Sample, TraceRow};

/// Time for paths to join and settle. It ends at the start of the scenario's idle time or, without an idle
/// time, at t = 0.
const SETTLE: Duration = Duration::from_millis(1_000);
/// Time after the end of the traffic in which packets in flight may still arrive.
const TAIL: Duration = crate::DRAIN;
const TRACE_EVERY: Duration = Duration::from_millis(10);
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

pub(super) struct Run<'a> {
    plan: Plan<'a>,
    world: World,
    flows: Vec<Flow>,
    /// Future path changes, the latest first.
    events: Vec<(Time, usize, [LinkKeys; 2])>,
    /// The tunnel's files, and its future events, latest first.
    tunnel: Option<TunnelFiles<'a>>,
    tunnel_events: Vec<(Time, &'a TunnelEvent)>,
    sockets: Sockets,
    end: Time,
    links: Links,
    record: RunRecord,
}

impl<'a> Run<'a> {
    pub(super) fn new(plan: &Plan<'a>) -> Result<Run<'a>, LabError> {
        let scenario = plan.scenario;
        let start = Time::ZERO + SETTLE + scenario.idle;
        let end = start + scenario.duration();
        // With a tunnel, all flows share its session. Without a tunnel, each flow has its own DCCP
        // connection, except for TCP flows.
        let mut flows = Vec::new();
        let mut configs: Vec<(SessionConfig, Duration)> = Vec::new();
        let specs = plan.flows().into_iter().filter(|spec| spec.kind != FlowKind::Command);
        for (i, spec) in specs.enumerate() {
            let spec = &spec;
            let FlowSpec { reverse, share_congestion, .. } = *spec;
            let session =
                if scenario.mode == Mode::Tunnel { 0 } else { configs.len().saturating_sub(reverse.into()) };
            let flow = Flow::new(plan, (i, spec), session, start)?;
            if scenario.mode == Mode::Direct && matches!(flow.over, Over::Session(_)) && !reverse {
                configs.push((SessionConfig { share_congestion, ..session_config(plan) }, spec.owd));
            }
            flows.push(flow);
        }
        // The numbers of short flows' connections come after those of the flows.
        let mut next = flows.len() as u16;
        for flow in &mut flows {
            let after = next.checked_add(flow.number_connections(next)).filter(|after| *after <= RETURN);
            next = after.ok_or_else(|| {
                LabError::Wrong(format!(
                    "all short flows together need fewer than {RETURN} connections in the simulator; use a longer `every`"
                ))
            })?;
        }
        let paths = plan.paths();
        let at = |s: f64| start + secs(s);
        let until = *scenario.duration_s.as_ref();
        let mut events: Vec<_> = paths
            .iter()
            .enumerate()
            .filter(|(_, p)| p.shares.is_none())
            .flat_map(|(i, p)| p.course_with_models(until).into_iter().map(move |(s, ways)| (at(s), i, ways)))
            .chain(paths.iter().enumerate().map(|(i, p)| (Time::ZERO, i, p.ways_before_start())))
            .collect();
        // Use a stable sort, so that events at the same time keep their order.
        events.sort_by_key(|e| e.0);
        events.reverse();
        let paths: Vec<WorldPath> = paths.iter().enumerate().map(|(i, p)| world_path(&paths, i, p)).collect();
        let mut world =
            World::new(plan, &paths, &configs).map_err(|e| LabError::failed("cannot create the links", e))?;
        let mut tunnel = None;
        if scenario.mode == Mode::Tunnel && plan.variant.baseline.is_none() {
            tunnel = Some(world.start_tunnel(plan)?);
        }
        let mut tunnel_events: Vec<_> =
            scenario.events.iter().map(|event| (at(*event.at_s.as_ref()), event)).collect();
        tunnel_events.reverse();
        let record = RunRecord {
            label: plan.variant.label.as_ref().clone(),
            cell: plan.cell.name.clone(),
            repeat: plan.repeat,
            seed: plan.seed,
            start,
            ..RunRecord::default()
        };
        let (links, sockets) = (Links::new(paths.len()), Sockets::default());
        Ok(Run { plan: *plan, world, flows, events, tunnel, tunnel_events, sockets, end, links, record })
    }

    pub(super) fn go(mut self, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        let stop = self.end + TAIL;
        let (mut next_trace, mut next_sample) = (Time::ZERO, self.record.start + SAMPLE_EVERY);
        let mut progress = Progress::default();
        let mut now = Time::ZERO;
        loop {
            let flows = self.flows.iter().filter_map(Flow::next_event);
            let events = self.events.last().map(|e| e.0);
            let events = events.into_iter().chain(self.tunnel_events.last().map(|e| e.0));
            let next = flows.chain(events).chain(self.world.next_event()).chain(Some(next_trace)).min();
            now = now.max(next.unwrap_or(Time::MAX));
            if now > stop {
                break;
            }
            while let Some((_, path, change)) = self.events.pop_if(|e| e.0 <= now) {
                self.world.change(now, path, &change)?;
            }
            while let Some((_, event)) = self.tunnel_events.pop_if(|e| e.0 <= now) {
                if let Some(files) = &mut self.tunnel {
                    self.world.on_scenario(now, event, files)?;
                }
            }
            let links = &mut self.links;
            self.world.advance(now, &mut |at, path, side, event| links.on_event(at, path, side, event));
            self.receive(now);
            for flow in &mut self.flows {
                flow.step(now, &mut self.world, &mut self.links)?;
            }
            self.check_sessions()?;
            if now >= next_trace {
                // Other parts of the same command may use namespaces. Ctrl-C then only sets a flag.
                check_stop()?;
                self.trace(now);
                next_trace += TRACE_EVERY;
            }
            if now >= next_sample && now <= self.end {
                self.collect();
                watch(&progress.sample(now, &self.record, &self.links));
                self.give_back();
                next_sample += SAMPLE_EVERY;
            }
        }
        Ok(self.finish())
    }

    fn receive(&mut self, now: Time) {
        for arrived in self.world.take_arrived() {
            match arrived {
                Arrived::Session(side, packet) | Arrived::Outside(side, packet) => {
                    let flow = number(&packet).and_then(|number| owner(&mut self.flows, number));
                    flow.into_iter().for_each(|flow| flow.handle(now, side, &packet));
                }
                Arrived::Proxied(side, packet) => {
                    let flow = number(&packet).and_then(|number| owner(&mut self.flows, number));
                    flow.into_iter().for_each(|flow| flow.handle_proxied(now, side, &packet));
                }
                Arrived::Tcp(side, command) => {
                    for (number, command) in self.sockets.addressees(side, command) {
                        let flow = owner(&mut self.flows, number);
                        flow.into_iter().for_each(|flow| flow.on_command(now, side, number, &command));
                    }
                }
            }
        }
    }

    fn check_sessions(&mut self) -> Result<(), LabError> {
        for (at, side, event) in self.world.take_events() {
            if let SessionEvent::Closed(why) = event {
                let t = at.as_secs_f64() - self.record.start.as_secs_f64();
                let what = format!("a session ended at the {side:?} at t = {t:.3} s");
                return Err(LabError::failed(what, why.name()));
            }
        }
        Ok(())
    }

    /// Moves the flows' records into the run's record temporarily, so that observers can read them.
    fn collect(&mut self) {
        self.record.flows = self.flows.iter_mut().map(|f| std::mem::take(&mut f.record)).collect();
    }

    fn give_back(&mut self) {
        for (flow, record) in self.flows.iter_mut().zip(self.record.flows.drain(..)) {
            flow.record = record;
        }
    }

    fn finish(mut self) -> RunRecord {
        let links = &mut self.links;
        self.world.end_links(&mut |at, path, side, event| links.on_event(at, path, side, event));
        let mut users = std::collections::BTreeMap::new();
        for flow in &self.flows {
            if let Over::Session(session) = flow.over {
                *users.entry(session).or_insert(0) += 1;
            }
        }
        let alone = |over| matches!(over, Over::Session(s) if users.get(&s) == Some(&1));
        self.record.flows = self
            .flows
            .into_iter()
            .map(|f| {
                let alone = alone(f.over);
                f.finish(&self.world, alone)
            })
            .collect();
        let names = self.plan.scenario.path_names();
        let records = self.links.records.into_iter().zip(names);
        let path = |([forward, reverse], name): ([LinkRecord; 2], _)| PathRecord { name, forward, reverse };
        self.record.paths = records.map(path).collect();
        self.record
    }

    fn trace(&mut self, now: Time) {
        if let Some(status) = self.world.status(0) {
            for (path, tx) in status.paths.iter().filter_map(|p| Some((p, p.tx.as_ref()?))) {
                self.record.trace.push(TraceRow {
                    at: now,
                    path: path_to(path.route.remote.ip()),
                    phase: tx.phase.to_owned(),
                    cwnd_bytes: tx.cwnd.bytes(1500),
                    inflight_bytes: tx.inflight.bytes,
                    pacing_mbps: tx.pacing.map(Rate::mbps),
                    delivery_mbps: Some(tx.delivery_rate.mbps()),
                    btlbw_mbps: tx.bottleneck.map(Rate::mbps),
                    srtt_ms: tx.rtt.srtt().map(ms),
                    min_rtt_ms: tx.rtt.min().map(|m| ms(m.0)),
                    lost: tx.lost.packets,
                    queue_packets: status.queue.packets.into(),
                    queue_ms: ms(status.queue.oldest),
                    app_limited: tx.app_limited,
                });
            }
        } else if let Some((Over::Outside(path, _), tcp)) =
            self.flows.first().and_then(|f| Some((f.over, f.tcp()?)))
        {
            self.record.trace.push(tcp_row(now, path, tcp.sender()));
        }
    }
}

/// Returns the flow number in a packet.
fn number(packet: &[u8]) -> Option<u16> {
    let segment = segment::read(packet).map(|segment| segment.flow());
    segment.or_else(|| probe::read(packet).map(|(flow, _)| flow))
}

/// Returns the flow that packets with this number belong to.
fn owner(flows: &mut [Flow], number: u16) -> Option<&mut Flow> {
    flows.iter_mut().find(|flow| flow.has(number & !RETURN))
}

fn tcp_row(now: Time, path: usize, tx: &Sender) -> TraceRow {
    let limits = tx.controller().limits();
    TraceRow {
        at: now,
        path,
        phase: tx.controller().phase().to_owned(),
        cwnd_bytes: limits.cwnd.bytes(1500),
        inflight_bytes: tx.inflight().bytes,
        pacing_mbps: limits.pacing.map(Rate::mbps),
        delivery_mbps: tx.last_rate().map(|r| r.rate.mbps()),
        btlbw_mbps: tx.controller().bottleneck().map(Rate::mbps),
        srtt_ms: tx.rtt().srtt().map(ms),
        min_rtt_ms: tx.rtt().min().map(|m| ms(m.0)),
        lost: tx.lost(),
        app_limited: tx.app_limited(now),
        ..TraceRow::default()
    }
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn secs(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

fn world_path(all: &[PathSpec], index: usize, spec: &PathSpec) -> WorldPath {
    let shared =
        spec.shares.as_ref().and_then(|name| all.iter().position(|p| p.name.as_ref() == name.as_ref()));
    WorldPath {
        links: spec.ways_before_start().each_ref().map(LinkKeys::config),
        owner: shared.unwrap_or(index),
        name: PathName::of(spec.name.as_ref()),
        prio: spec.priority.unwrap_or(3),
    }
}

impl World {
    fn change(&mut self, now: Time, path: usize, ways: &[LinkKeys; 2]) -> Result<(), LabError> {
        for (link, keys) in self.links_mut(path).iter_mut().zip(ways) {
            crate::links::change(link, now, keys)?;
        }
        Ok(())
    }
}

/// Returns the settings of a plain connection.
fn session_config(plan: &Plan<'_>) -> SessionConfig {
    let mut session = plan.scenario.settings_of(plan.variant).session();
    let config = &mut session.connection;
    if let Some(back) = &plan.variant.reverse_ccid {
        config.rx_ccids = vec![*back.as_ref()];
    }
    direct(&mut session);
    session
}
