//! The simulator: the same endpoints and links as in the real run, in virtual time.

mod probe;
mod world;

use core::time::Duration;

use dccp_proto::{CcOptions, Config};
use dccp_wire::Packet;
use linkem::{Limit, LinkConfig, LossModel, QueueConfig, QueueKind, RateModel, Verdict};
use mpdccp_proto::reorder::ReorderConfig;
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Discipline, QueueConfig as SendQueueConfig, SessionConfig, SessionEvent};
use units::{Rate, Time};

use crate::scenario::{
    FlowKind, Mode, PathEvent, PathSpec, QueueLimit, Reordering, Scenario, TunnelSettings, Variant,
};
use crate::{
    Backend, Fate, FlowRecord, LabError, LinkPacket, LinkRecord, PathRecord, Plan, ReceivedPacket, RunRecord,
    Sample, SentPacket, TraceRow,
};
pub use world::{LinkEvent, OVERHEAD, Side, Watch, World, WorldPath};

/// Paths are joined and settle before t = 0.
const START: Time = Time::from_millis(1_000);
/// What is under way at the end still arrives.
const TAIL: Duration = Duration::from_secs(1);
const TRACE_EVERY: Duration = Duration::from_millis(10);
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// Runs scenarios in virtual time: same scenario and seed, same bytes.
#[derive(Debug, Default)]
pub struct Sim;

impl Backend for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(&mut self, plan: &Plan<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        let mut run = Run::new(plan)?;
        run.go(watch)?;
        Ok(run.record)
    }
}

/// A constant-rate source.
struct Source {
    payload: usize,
    gap: Duration,
    next: Time,
    stop: Time,
    sent: u64,
}

struct Run<'a> {
    scenario: &'a Scenario,
    tunnel: bool,
    world: World,
    sources: Vec<Source>,
    /// Path changes to come, latest first.
    events: Vec<(Time, usize, PathEvent)>,
    end: Time,
    links: Links,
    record: RunRecord,
}

impl<'a> Run<'a> {
    fn new(plan: &Plan<'a>) -> Result<Run<'a>, LabError> {
        let scenario = plan.scenario;
        let tunnel = scenario.mode == Mode::Tunnel;
        let end = START + scenario.duration();
        let paths: Vec<WorldPath> =
            (0..scenario.paths.len()).map(|i| world_path(&scenario.path_in(i, plan.cell))).collect();
        let settings = scenario.tunnel_of(plan.contender);
        let config = session_config(plan, &settings, tunnel)?;
        let world = World::new(plan.seed, &paths, config.clone(), config)
            .map_err(|e| LabError::failed("making the links", e))?;
        let mut events: Vec<_> = scenario
            .paths
            .iter()
            .enumerate()
            .flat_map(|(i, p)| p.events.iter().map(move |e| (START + secs(*e.at_s.as_ref()), i, e.clone())))
            .collect();
        events.sort_by_key(|e| std::cmp::Reverse(e.0));
        let mut sources = Vec::new();
        let mut flows = Vec::new();
        for flow in &scenario.flows {
            if flow.kind != FlowKind::Udp {
                return Err(LabError::Failed(
                    "the simulator has no TCP: run this scenario with --backend netns".to_owned(),
                ));
            }
            let payload = flow.payload.as_ref().map_or(1300, |p| *p.as_ref()) as usize;
            let rate = flow.rate.unwrap_or(Rate::from_mbps(1.0));
            let inner = payload + if tunnel { probe::INNER_HEADERS } else { 0 };
            sources.push(Source {
                payload,
                gap: rate.time_for(payload as u64),
                next: START + secs(flow.start_s),
                stop: flow.stop_s.as_ref().map_or(end, |s| START + secs(*s.as_ref())),
                sent: 0,
            });
            flows.push(FlowRecord {
                name: flow.name.as_ref().clone(),
                kind: flow.kind.name(),
                offered: Some(rate.scale(inner as f64 / payload as f64)),
                ..FlowRecord::default()
            });
        }
        let record = RunRecord {
            label: plan.contender.label.as_ref().clone(),
            cell: plan.cell.name.clone(),
            repeat: plan.repeat,
            seed: plan.seed,
            start: START,
            flows,
            ..RunRecord::default()
        };
        let links = Links::new(scenario.paths.len(), tunnel);
        Ok(Run { scenario, tunnel, world, sources, events, end, links, record })
    }

    fn go(&mut self, watch: &mut dyn FnMut(&Sample)) -> Result<(), LabError> {
        let stop = self.end + TAIL;
        let (mut next_trace, mut next_sample) = (Time::ZERO, START + SAMPLE_EVERY);
        let mut progress = Progress::default();
        loop {
            let source = self.sources.iter().filter(|s| s.next < s.stop).map(|s| s.next).min();
            let event = self.events.last().map(|e| e.0);
            let now = [self.world.next_event(), source, event, Some(next_trace)].into_iter().flatten().min();
            let Some(now) = now.filter(|t| *t <= stop) else { break };
            while self.events.last().is_some_and(|e| e.0 <= now) {
                if let Some((_, path, change)) = self.events.pop() {
                    self.world.change(now, path, &change)?;
                }
            }
            let links = &mut self.links;
            self.world.advance(now, &mut |at, path, side, event| links.on_event(at, path, side, event));
            self.send_due(now);
            for (side, data) in self.world.take_delivered() {
                if let (Side::Server, Some((flow, seq))) = (side, probe::read(&data, self.tunnel)) {
                    let bytes = data.len() as u32;
                    self.record.flows[usize::from(flow)].received.push(ReceivedPacket {
                        seq,
                        at: now,
                        bytes,
                    });
                }
            }
            for (at, side, event) in self.world.take_events() {
                if let SessionEvent::Closed(why) = event {
                    let t = at.as_secs_f64() - START.as_secs_f64();
                    return Err(LabError::failed(
                        format!("the session at the {side:?} ended at t = {t:.3} s"),
                        why,
                    ));
                }
            }
            if now >= next_trace {
                self.trace(now);
                next_trace += TRACE_EVERY;
            }
            if now >= next_sample && now <= self.end {
                watch(&progress.sample(now, &self.record, &self.links));
                next_sample += SAMPLE_EVERY;
            }
        }
        self.record.paths = std::mem::take(&mut self.links.records)
            .into_iter()
            .zip(&self.scenario.paths)
            .map(|([forward, backward], spec)| PathRecord {
                name: spec.name.as_ref().clone(),
                forward,
                backward,
            })
            .collect();
        Ok(())
    }

    fn send_due(&mut self, now: Time) {
        let links = &mut self.links;
        for (flow, source) in self.sources.iter_mut().enumerate() {
            while source.next <= now && source.next < source.stop {
                let packet = probe::write(flow as u16, source.sent, source.payload, self.tunnel);
                self.record.flows[flow].sent.push(SentPacket { at: now, bytes: packet.len() as u32 });
                self.world.send(Side::Client, packet, &mut |at, path, side, event| {
                    links.on_event(at, path, side, event);
                });
                source.sent += 1;
                source.next += source.gap;
            }
        }
    }

    fn trace(&mut self, now: Time) {
        let (endpoint, session) = self.world.endpoint(Side::Client);
        let Some(status) = session.and_then(|id| endpoint.status(now, id)) else { return };
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        for (path, tx) in status.paths.iter().filter_map(|p| Some((p, p.tx.as_ref()?))) {
            self.record.trace.push(TraceRow {
                at: now,
                path: path.route.socket as usize,
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
    }
}

fn secs(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

fn world_path(spec: &PathSpec) -> WorldPath {
    let limit = match spec.queue {
        QueueLimit::Bytes(n) => Limit::Bytes(n),
        QueueLimit::Packets(n) => Limit::Packets(n),
    };
    let link = LinkConfig {
        rate: RateModel::Constant(spec.rate),
        delay: spec.owd,
        queue: QueueConfig { kind: QueueKind::DropTail, limit },
        loss: loss(spec.loss),
        ..LinkConfig::default()
    };
    WorldPath { forward: link.clone(), backward: link, prio: spec.priority.unwrap_or(3) }
}

fn loss(share: f64) -> LossModel {
    if share > 0.0 { LossModel::Bernoulli(share) } else { LossModel::None }
}

impl World {
    fn change(&mut self, now: Time, path: usize, change: &PathEvent) -> Result<(), LabError> {
        for link in self.links_mut(path) {
            if let Some(rate) = change.rate {
                link.set_rate(now, rate);
            }
            if let Some(owd) = change.owd {
                link.set_delay(now, owd);
            }
            if let Some(share) = change.loss {
                link.set_loss(now, loss(share)).map_err(|e| LabError::failed("changing a path", e))?;
            }
            match change.up {
                Some(true) => link.set_up(now),
                Some(false) => link.set_down(now),
                None => {}
            }
        }
        Ok(())
    }
}

fn session_config(
    plan: &Plan<'_>,
    settings: &TunnelSettings,
    tunnel: bool,
) -> Result<SessionConfig, LabError> {
    let ccid = plan.contender.ccid.as_ref().map(|c| *c.as_ref()).ok_or_else(|| {
        LabError::Failed(format!("the simulator cannot run {}: it is no DCCP", plan.contender.label.as_ref()))
    })?;
    let scheduler = settings.scheduler.as_ref().map(|s| s.as_ref().as_str());
    let timeout = settings.reorder_timeout.unwrap_or(Duration::from_millis(100));
    Ok(SessionConfig {
        connection: Config {
            tx_ccids: vec![ccid],
            rx_ccids: vec![ccid],
            cc: CcOptions { draft: plan.contender.variant == Variant::Draft, ..CcOptions::default() },
            ndp_count: tunnel,
            ..Config::default()
        },
        multipath: tunnel,
        scheduler: scheduler.and_then(SchedulerKind::from_name).unwrap_or_default(),
        reorder: match settings.reordering {
            Some(Reordering::ActiveFixed) => ReorderConfig::ActiveFixed { timeout },
            _ => ReorderConfig::Passive,
        },
        queue: SendQueueConfig {
            max_packets: settings
                .queue_packets
                .map_or(SendQueueConfig::default().max_packets, |n| n as usize),
            max_sojourn: settings.queue.unwrap_or(SendQueueConfig::default().max_sojourn),
            discipline: if tunnel { Discipline::FqCoDel } else { Discipline::Fifo },
            ..SendQueueConfig::default()
        },
        ..SessionConfig::default()
    })
}

/// Keeps the records of all links.
struct Links {
    tunnel: bool,
    /// By path, then direction.
    records: Vec<[LinkRecord; 2]>,
    /// Packet identifier to its place in the record, for those under way.
    under_way: std::collections::HashMap<u64, usize>,
}

impl Links {
    fn new(paths: usize, tunnel: bool) -> Links {
        let records = (0..paths).map(|_| Default::default()).collect();
        Links { tunnel, records, under_way: Default::default() }
    }

    fn on_event(&mut self, at: Time, path: usize, from: Side, event: LinkEvent<'_>) {
        let record = &mut self.records[path][from as usize];
        match event {
            LinkEvent::Entered { id, packet, bytes, verdict, queue_bytes } => {
                let fate = match verdict {
                    Verdict::Queued => {
                        self.under_way.insert(id, record.packets.len());
                        Fate::Lost // until it arrives
                    }
                    Verdict::Dropped(_) => Fate::QueueDrop,
                };
                record.packets.push(LinkPacket {
                    entered: at,
                    fate,
                    bytes,
                    data: Packet::parse(packet).ok().and_then(|p| probe::read(p.payload, self.tunnel)),
                    queue_bytes: queue_bytes as u32,
                    ce: false,
                });
            }
            LinkEvent::Left { id, marked } => {
                if let Some(place) = self.under_way.remove(&id) {
                    record.packets[place].fate = Fate::Delivered(at);
                    record.packets[place].ce = marked;
                }
            }
        }
    }
}

/// Where the last sample ended, in each record.
#[derive(Default)]
struct Progress {
    at: Option<Time>,
    received: Vec<usize>,
    entered: Vec<usize>,
}

impl Progress {
    fn sample(&mut self, now: Time, record: &RunRecord, links: &Links) -> Sample {
        let span = now.since(self.at.replace(now).unwrap_or(record.start));
        let mbps = |bytes: u64| Rate::from_bytes_per(bytes, span).mbps();
        self.received.resize(record.flows.len(), 0);
        self.entered.resize(links.records.len(), 0);
        let (mut bytes, mut latency_ms) = (0, None);
        for (flow, seen) in record.flows.iter().zip(&mut self.received) {
            bytes += flow.received[*seen..].iter().map(|p| u64::from(p.bytes)).sum::<u64>();
            *seen = flow.received.len();
            if let Some(last) = flow.received.last() {
                latency_ms = Some(last.at.since(flow.sent[last.seq as usize].at).as_secs_f64() * 1e3);
            }
        }
        let path_mbps = links.records.iter().zip(&mut self.entered).map(|([forward, _], seen)| {
            let new = &forward.packets[*seen..];
            *seen = forward.packets.len();
            mbps(new.iter().map(|p| u64::from(p.bytes)).sum())
        });
        Sample {
            t: now.since(record.start),
            rx_mbps: mbps(bytes),
            latency_ms,
            path_mbps: path_mbps.collect(),
        }
    }
}
