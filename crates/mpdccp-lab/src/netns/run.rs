//! One run from the first namespace to the last.

use core::time::Duration;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use dccp_net::Clock;
use tempfile::TempDir;
use units::{Rate, Time};

use super::link::RunningLink;
use super::tunnel::{self, Tunnel};
use super::udp::{self, Load, Receiver};
use super::world::{self, Namespace};
use super::{environment, stop};
use crate::record::{FlowRecord, RunRecord, SentPacket};
use crate::scenario::{FlowKind, FlowSpec, Mode};
use crate::{Backend, LabError, Plan, Sample};

/// Receivers listen from this port on.
const FIRST_PORT: u16 = 5001;
/// How long a tunnel may take to come up.
const PATIENCE: Duration = Duration::from_secs(15);
/// From the first packet through the tunnel to t = 0: the other paths join meanwhile.
const SETTLE: Duration = Duration::from_millis(1_500);
/// From the end of the traffic to the end of the run: what is queued arrives meanwhile.
const DRAIN: Duration = Duration::from_millis(1_500);
/// Between samples for those who watch.
const TICK: Duration = Duration::from_millis(200);

/// The namespace backend.
#[derive(Debug)]
pub struct Netns {
    /// The `mpdccp` program.
    program: PathBuf,
}

impl Netns {
    /// A backend that runs `program` at both ends.
    pub fn new(program: PathBuf) -> Netns {
        Netns { program }
    }
}

impl Backend for Netns {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn run(&mut self, plan: &Plan<'_>, watch: &mut dyn FnMut(&Sample)) -> Result<RunRecord, LabError> {
        environment::check()?;
        world::sweep();
        let dir =
            TempDir::with_prefix("mpdccp-lab-").map_err(|e| LabError::failed("making a directory", e))?;
        // Dropped in reverse order, also on an error or a panic: traffic, tunnel, links, namespaces.
        let (client, server) = (Namespace::new("client")?, Namespace::new("server")?);
        let links = links(plan, &client, &server)?;
        let mut tunnel = match plan.scenario.mode {
            Mode::Tunnel => Tunnel::start(plan, &self.program, dir.path(), &client, &server)?,
            Mode::Direct => {
                return Err(LabError::Failed("mode \"direct\" is not there yet with this backend".to_owned()));
            }
        };
        let receivers: Vec<Receiver> = (0u16..)
            .zip(&plan.scenario.flows)
            .map(|(i, _)| Receiver::start(&server, FIRST_PORT + i, i))
            .collect::<Result<_, _>>()?;
        wait_until_up(&client, &mut tunnel, &receivers)?;
        let mut run = RunRecord {
            label: plan.contender.label.as_ref().clone(),
            cell: plan.cell.name.clone(),
            repeat: plan.repeat,
            seed: plan.seed,
            start: Clock.now() + SETTLE,
            ..RunRecord::default()
        };
        links.iter().for_each(|link| link.set_start(run.start));
        let sent = traffic(plan, run.start, &client, &mut tunnel, &links, &receivers, watch)?;
        for ((spec, sent), receiver) in plan.scenario.flows.iter().zip(sent).zip(receivers) {
            run.flows.push(FlowRecord {
                name: spec.name.as_ref().clone(),
                kind: spec.kind.name(),
                offered: offered(spec),
                sent,
                received: receiver.finish()?,
                dropped_at_sender: None,
                tcp: None,
            });
        }
        let names: Vec<String> = plan.scenario.paths.iter().map(|p| p.name.as_ref().clone()).collect();
        run.trace = tunnel.finish(&names);
        run.paths = links.into_iter().map(RunningLink::finish).collect::<Result<_, _>>()?;
        Ok(run)
    }
}

fn links(plan: &Plan<'_>, client: &Namespace, server: &Namespace) -> Result<Vec<RunningLink>, LabError> {
    let link = |i: usize| {
        let spec = plan.scenario.path_in(i, plan.cell);
        let seed = plan.seed.wrapping_add(2 * i as u64);
        RunningLink::start(&spec, seed, client.path_device(i, 1)?, server.path_device(i, 2)?)
    };
    (0..plan.scenario.paths.len()).map(link).collect()
}

/// What a flow offers, in inner IP bytes.
fn offered(spec: &FlowSpec) -> Option<Rate> {
    let payload = f64::from(*spec.payload.as_ref()?.as_ref());
    Some(spec.rate?.scale((payload + f64::from(udp::HEADERS)) / payload))
}

/// Sends probes until one comes through.
fn wait_until_up(client: &Namespace, tunnel: &mut Tunnel, receivers: &[Receiver]) -> Result<(), LabError> {
    let since = Instant::now();
    while !receivers.iter().any(|r| r.counters.probed.load(Ordering::Relaxed)) {
        stop::check()?;
        tunnel.check()?;
        if since.elapsed() > PATIENCE {
            let secs = PATIENCE.as_secs();
            return Err(LabError::Failed(format!(
                "the tunnel carried nothing within {secs} s:\n{}",
                tunnel.tails()
            )));
        }
        udp::probe(client, SocketAddr::from((tunnel::SERVER, FIRST_PORT)))?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Runs all flows to their end, sampling meanwhile, and gives what each sent.
fn traffic(
    plan: &Plan<'_>,
    start: Time,
    client: &Namespace,
    tunnel: &mut Tunnel,
    links: &[RunningLink],
    receivers: &[Receiver],
    watch: &mut dyn FnMut(&Sample),
) -> Result<Vec<Vec<SentPacket>>, LabError> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0u16..)
            .zip(&plan.scenario.flows)
            .map(|(i, spec)| {
                let over = &over;
                scope.spawn(move || {
                    let end =
                        spec.stop_s.as_ref().map_or(*plan.scenario.duration_s.as_ref(), |s| *s.as_ref());
                    let (from, to) =
                        (start + Duration::from_secs_f64(spec.start_s), start + Duration::from_secs_f64(end));
                    let port = SocketAddr::from((tunnel::SERVER, FIRST_PORT + i));
                    match (spec.kind, &spec.payload, spec.rate) {
                        (FlowKind::Udp, Some(payload), Some(rate)) => {
                            let load = Load { flow: i, payload: *payload.as_ref(), rate, from, to };
                            udp::send(client, load, port, over)
                        }
                        _ => {
                            Err(LabError::Failed("tcp flows are not there yet with this backend".to_owned()))
                        }
                    }
                })
            })
            .collect();
        let watched = watch_run(plan, start, tunnel, links, receivers, watch);
        over.store(true, Ordering::Relaxed);
        let sent = threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err(LabError::Failed("a generator panicked".to_owned()))));
        let sent: Result<Vec<_>, _> = sent.collect();
        watched.and(sent)
    })
}

/// Waits for the end of the run, telling how it goes.
fn watch_run(
    plan: &Plan<'_>,
    start: Time,
    tunnel: &mut Tunnel,
    links: &[RunningLink],
    receivers: &[Receiver],
    watch: &mut dyn FnMut(&Sample),
) -> Result<(), LabError> {
    let end = start + plan.scenario.duration() + DRAIN;
    let mut last_bytes = (0, vec![0; links.len()]);
    let mut tick = start;
    while tick < end {
        tick += TICK;
        while Clock.now() < tick {
            stop::check()?;
            std::thread::sleep(Duration::from_millis(20).min(tick.since(Clock.now())));
        }
        tunnel.check()?;
        let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / TICK.as_secs_f64();
        let received = receivers.iter().map(|r| r.counters.bytes.load(Ordering::Relaxed)).sum();
        let offered: Vec<u64> =
            links.iter().map(|l| l.shared.forward_bytes.load(Ordering::Relaxed)).collect();
        watch(&Sample {
            t: tick.since(start),
            rx_mbps: mbps(received - last_bytes.0),
            latency_ms: receivers.first().map(|r| r.counters.latency_ns.load(Ordering::Relaxed) as f64 / 1e6),
            path_mbps: offered.iter().zip(&last_bytes.1).map(|(now, before)| mbps(now - before)).collect(),
        });
        last_bytes = (received, offered);
    }
    Ok(())
}
