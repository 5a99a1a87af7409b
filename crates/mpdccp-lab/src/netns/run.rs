//! Makes one run, including the creation and removal of the namespaces.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use dccp_net::Clock;
use mpdccp_units::Time;
use tempfile::TempDir;

use super::flow::{Flow, Sent};
use super::link::{PortFlow, RunningLink};
use super::namespaces::{self, Namespace};
use super::reaper::Reaper;
use super::tunnel::Tunnel;
use super::udp;
use super::{baseline, environment, programs, stop, tag, traffic};
use crate::record::{RunRecord, TraceRow};
use crate::scenario::{FlowKind, FlowSpec, Mode, PathSpec, SourceSpec};
use crate::tunnel_files::{SERVER, path_address};
use crate::{Backend, DRAIN, LabError, Plan, Random, Sample};

/// First port of receivers.
const FIRST_PORT: u16 = 5001;
/// How long a tunnel may take to come up.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between the tunnel having come up and t = 0.
const SETTLE: Duration = Duration::from_millis(500);
/// Interval of samples for the live view.
const TICK: Duration = Duration::from_millis(200);

/// The namespace backend.
#[derive(Debug)]
pub struct Netns {
    /// The `mpdccp` program.
    program: PathBuf,
}

impl Netns {
    /// Returns a backend that runs `program` at both ends.
    pub fn new(program: PathBuf) -> Netns {
        Netns { program }
    }
}

impl Backend for Netns {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn lacks(&self, plan: &Plan<'_>) -> Option<String> {
        let of_baseline = || plan.variant.baseline.as_ref().and_then(baseline::lacks);
        match plan.scenario.simulator_only_of(plan.variant) {
            Some(what) => {
                Some(format!("only the simulator supports {what}; run this scenario with --backend sim"))
            }
            None => of_baseline(),
        }
    }

    fn made_by(&self, plan: &Plan<'_>) -> BTreeMap<String, String> {
        programs::made_by(plan)
    }

    fn run(&self, plan: &Plan<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        environment::check()?;
        if let Some(text) = self.lacks(plan) {
            return Err(LabError::Missing(text));
        }
        namespaces::sweep();
        let dir = TempDir::with_prefix_in(namespaces::prefix(), namespaces::scratch())
            .map_err(|e| LabError::failed("cannot create a temporary directory", e))?;
        // The variables are dropped in reverse order, even after an error or a panic: traffic, tunnel, links,
        // namespaces, reaper.
        let _reaper =
            Reaper::of_namespaces(&[namespaces::name("client"), namespaces::name("server")], dir.path())?;
        let (client, server) = (Namespace::new("client")?, Namespace::new("server")?);
        let links = links(plan, &client, &server)?;
        let mut transport = Transport::start(plan, &self.program, dir.path(), (&client, &server))?;
        let specs = plan.flows();
        let flows: Vec<Box<dyn Flow>> = (0u16..)
            .zip(&specs)
            .map(|(i, spec)| {
                let to = destination(plan, spec, &transport);
                traffic::start(plan, (i, spec), (&client, &server), (to, FIRST_PORT + i).into(), dir.path())
            })
            .collect::<Result<_, _>>()?;
        if transport.must_come_up() {
            wait_until_up(&client, &server, &mut transport)?;
        }
        let start = Clock.now() + SETTLE + plan.scenario.idle;
        links.iter().for_each(|link| link.set_start(start));
        let world = World { plan, start, client: &client, links: &links, flows: &flows, specs: &specs };
        let mut sent = world.traffic(&mut transport, watch)?;
        let mut trace: Vec<TraceRow> =
            sent.first_mut().map(|sent| std::mem::take(&mut sent.trace)).unwrap_or_default();
        let cpu_s = transport.tunnel().and_then(Tunnel::cpu_s);
        if let Transport::Tunnel(tunnel) = transport {
            // The session's queue counts the drops of all flows together, so they can be assigned only to a
            // single flow.
            if let [only] = &mut sent[..] {
                only.dropped = tunnel.dropped();
            }
            if plan.scenario.has_streams(plan.variant) && specs.iter().any(traffic::is_tcp) {
                let streams = tunnel.streams()?;
                if let [only] = &mut sent[..] {
                    only.streams = Some(streams);
                }
            }
            trace = tunnel.finish(&plan.scenario.path_names());
        }
        let mut paths = Vec::new();
        for link in links {
            let places = link.places.clone();
            let [forward, reverse] = namespaces::device_drops(&client, &server, places[0]);
            let mut records = link.finish()?;
            records[0].forward.device_drops += forward;
            records[0].reverse.device_drops += reverse;
            paths.extend(places.into_iter().zip(records));
        }
        paths.sort_by_key(|(place, _)| *place);
        Ok(RunRecord {
            label: plan.variant.label.as_ref().clone(),
            cell: plan.cell.name.clone(),
            repeat: plan.repeat,
            seed: plan.seed,
            start,
            flows: flows
                .into_iter()
                .zip(sent)
                .map(|(flow, sent)| flow.finish(sent))
                .collect::<Result<_, _>>()?,
            paths: paths.into_iter().map(|(_, path)| path).collect(),
            trace,
            cpu_s,
        })
    }
}

fn links(plan: &Plan<'_>, client: &Namespace, server: &Namespace) -> Result<Vec<RunningLink>, LabError> {
    let flow = |(i, spec): (u16, &FlowSpec)| {
        let number = match spec.kind {
            FlowKind::Udp | FlowKind::Tcp => Some(i),
            // Short connections have numbers of their own, which are not indices of flows.
            FlowKind::Short => Some(u16::MAX),
            FlowKind::Command => None,
        };
        (FIRST_PORT + i, PortFlow { owd: spec.owd, number, segments: 0 })
    };
    let flows = (0..).zip(&plan.flows()).map(flow).collect();
    let all = plan.paths();
    let link = |(i, spec): (usize, &PathSpec)| {
        // The link of this path also carries the paths that share it.
        let shares =
            |path: &PathSpec| path.shares.as_ref().is_some_and(|of| of.as_ref() == spec.name.as_ref());
        let sharing = all.iter().enumerate().filter(|(_, path)| shares(path));
        let paths: Vec<(usize, &PathSpec)> = std::iter::once((i, spec)).chain(sharing).collect();
        let places: Vec<usize> = paths.iter().map(|(place, _)| *place).collect();
        let seeds = [0, 1].map(|way| plan.seed_of(Random::Link(i, way)));
        let end = *plan.scenario.duration_s.as_ref();
        let (client, server) = (client.path_device(&places, 1)?, server.path_device(&places, 2)?);
        RunningLink::start(&paths, &flows, (seeds, end), client, server)
    };
    all.iter().enumerate().filter(|(_, spec)| spec.shares.is_none()).map(link).collect()
}

/// The transport that carries the flows.
enum Transport<'a> {
    Tunnel(Box<Tunnel<'a>>),
    Baseline(baseline::Running),
    /// The path itself, without a tunnel.
    Direct,
}

impl<'a> Transport<'a> {
    fn start(
        plan: &Plan<'a>,
        program: &Path,
        dir: &Path,
        (client, server): (&Namespace, &Namespace),
    ) -> Result<Transport<'a>, LabError> {
        Ok(match (plan.scenario.mode, &plan.variant.baseline) {
            (Mode::Direct, _) => Transport::Direct,
            (Mode::Tunnel, None) => {
                Transport::Tunnel(Box::new(Tunnel::start(plan, program, dir, client, server)?))
            }
            (Mode::Tunnel, Some(baseline)) => {
                Transport::Baseline(baseline::Running::start(plan, baseline, dir, (client, server))?)
            }
        })
    }

    fn tunnel(&self) -> Option<&Tunnel<'a>> {
        if let Transport::Tunnel(tunnel) = self { Some(tunnel) } else { None }
    }

    /// Returns the destination address of flows over this transport.
    fn to(&self) -> Ipv4Addr {
        match self {
            Transport::Tunnel(_) => SERVER,
            Transport::Baseline(baseline) => baseline.to,
            Transport::Direct => path_address(0, 2),
        }
    }

    fn must_come_up(&self) -> bool {
        match self {
            Transport::Tunnel(_) => true,
            Transport::Baseline(baseline) => baseline.must_come_up(),
            Transport::Direct => false,
        }
    }

    /// Returns whether all paths of the transport are up; always true if the transport does not report this.
    fn all_paths_up(&self) -> bool {
        match self {
            Transport::Tunnel(tunnel) => tunnel.all_paths_up(),
            Transport::Baseline(_) | Transport::Direct => true,
        }
    }

    /// Returns an error if any program of the transport has exited.
    fn check(&mut self) -> Result<(), LabError> {
        match self {
            Transport::Tunnel(tunnel) => tunnel.check(),
            Transport::Baseline(baseline) => baseline.check(),
            Transport::Direct => Ok(()),
        }
    }

    fn tails(&self) -> String {
        match self {
            Transport::Tunnel(tunnel) => tunnel.tails(),
            Transport::Baseline(baseline) => baseline.tails(),
            Transport::Direct => String::new(),
        }
    }
}

/// Returns the destination address of a flow. For a flow with `via`, this is the server's address on that
/// path, outside the transport.
fn destination(plan: &Plan<'_>, spec: &FlowSpec, transport: &Transport<'_>) -> Ipv4Addr {
    let path = spec
        .via
        .as_ref()
        .and_then(|via| plan.scenario.paths.iter().position(|p| p.name.as_ref() == via.as_ref()));
    path.map_or(transport.to(), |path| path_address(path, 2))
}

/// Sends probes until one arrives, and waits until all paths are up.
fn wait_until_up(
    client: &Namespace,
    server: &Namespace,
    transport: &mut Transport<'_>,
) -> Result<(), LabError> {
    let since = Instant::now();
    let probed = udp::receiver(server, tag::PROBE_PORT, tag::PROBE, false)?;
    while probed.counters.bytes.load(Ordering::Relaxed) == 0 || !transport.all_paths_up() {
        stop::check()?;
        transport.check()?;
        if since.elapsed() > PATIENCE {
            let secs = PATIENCE.as_secs();
            return Err(LabError::Failed(format!(
                "the tunnel did not come up on all paths within {secs} s:\n{}",
                transport.tails()
            )));
        }
        udp::probe(client, (transport.to(), tag::PROBE_PORT).into())?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Data that the traffic threads need.
struct World<'a> {
    plan: &'a Plan<'a>,
    start: Time,
    client: &'a Namespace,
    links: &'a [RunningLink],
    flows: &'a [Box<dyn Flow>],
    specs: &'a [FlowSpec],
}

impl World<'_> {
    /// Runs all flows to their end, reporting samples along the way, and returns the record of each sender.
    fn traffic(
        &self,
        transport: &mut Transport<'_>,
        watch: &mut dyn FnMut(&Sample),
    ) -> Result<Vec<Sent>, LabError> {
        let over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let send = |flow: &dyn Flow, (from, to): (Duration, Duration)| {
                flow.send(self.client, self.start + from, self.start + to, over)
            };
            let spans = self.specs.iter().map(|spec| self.plan.span_of(spec));
            let flows = self.flows.iter().zip(spans);
            let threads: Vec<_> =
                flows.map(|(flow, span)| scope.spawn(move || send(flow.as_ref(), span))).collect();
            let watched = self.watch(transport, watch);
            over.store(true, Ordering::Relaxed);
            let panicked = |_| Err(LabError::Failed("a generator panicked".to_owned()));
            let sent: Result<Vec<Sent>, LabError> =
                threads.into_iter().map(|t| t.join().unwrap_or_else(panicked)).collect();
            watched.and(sent)
        })
    }

    /// Updates the number of drops for adaptive sources, but only about once per second, because the query
    /// takes time.
    fn tell_drops(&self, transport: &Transport<'_>, tick: Time) {
        let adapts = self.specs.iter().any(|f| matches!(f.source(), Some(SourceSpec::Video { .. })));
        let whole = tick.since(self.start).as_millis().is_multiple_of(5 * TICK.as_millis());
        if let (Transport::Tunnel(tunnel), true, true) = (transport, adapts, whole)
            && let Some(dropped) = tunnel.dropped()
        {
            self.flows.iter().for_each(|f| f.counters().dropped.store(dropped, Ordering::Relaxed));
        }
    }

    /// Executes the tunnel's events and reports samples until the end of the run.
    fn watch(&self, transport: &mut Transport<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<(), LabError> {
        let end = self.start + self.plan.scenario.duration() + DRAIN;
        let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / TICK.as_secs_f64();
        let mut before = (0, vec![0; self.links.len()]);
        let mut events = self.plan.scenario.events.iter().peekable();
        let mut tick = self.start;
        while tick < end {
            tick += TICK;
            while Clock.now() < tick {
                stop::check()?;
                let passed = Clock.now().since(self.start).as_secs_f64();
                if let Some(event) = events.next_if(|event| *event.at_s.as_ref() <= passed)
                    && let Transport::Tunnel(tunnel) = transport
                {
                    tunnel.on_scenario(event, self.client)?;
                }
                std::thread::sleep(Duration::from_millis(20).min(tick.since(Clock.now())));
            }
            transport.check()?;
            self.tell_drops(transport, tick);
            let received = self.flows.iter().map(|f| f.counters().bytes.load(Ordering::Relaxed)).sum();
            let offered: Vec<u64> =
                self.links.iter().map(|l| l.shared.forward_bytes.load(Ordering::Relaxed)).collect();
            let latency = self.flows.first().map(|f| f.counters().latency_ns.load(Ordering::Relaxed));
            // If paths share a link, the rate offered to the link is shown for the first of them.
            let mut path_mbps = vec![0.0; self.plan.scenario.paths.len()];
            for (link, (now, before)) in self.links.iter().zip(offered.iter().zip(&before.1)) {
                path_mbps[link.places[0]] = mbps(now - before);
            }
            watch(&Sample {
                t: tick.since(self.start),
                rx_mbps: mbps(received - before.0),
                latency_ms: latency.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e6),
                path_mbps,
            });
            before = (received, offered);
        }
        Ok(())
    }
}
