//! Runs a plain DCCP connection instead of a tunnel. Both ends are threads of this process, and each
//! application record is one datagram.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use dccp_net::{App, Bind, Clock, Core, Driver, Handle, UdpEncapsulation};
use dccp_proto::{Ports, Route};
use mpdccp_proto::{Endpoint, ListenConfig, PathConfig, PktInfo, SessionConfig, SessionEvent, SessionId};
use mpdccp_units::Time;

use super::flow::{Counters, Flow, Sent};
use super::link::MTU;
use super::namespaces::{Namespace, enter};
use super::tag::{self, Tag};
use crate::record::{FlowRecord, ReceivedPacket, SentPacket, TraceRow};
use crate::scenario::{FlowSpec, direct};
use crate::sim::source::{Source, source};
use crate::tunnel_files::path_address;
use crate::{LabError, Plan};
use linkem_net::{Urgency, hurry};

const SERVICE_CODE: u32 = u32::from_be_bytes(*b"mpLb");
/// Size in bytes of the IPv4 and UDP headers.
const OVERHEAD: u16 = 28;
/// Interval of trace rows.
const TRACE_EVERY: Duration = Duration::from_millis(10);
/// Number of datagrams that a backlogged source keeps in the sender's queue, as in the simulator.
const BACKLOG: u32 = 4;
/// Time between the end of the traffic and the closing of the connection, during which queued packets are
/// sent.
const LINGER: Duration = Duration::from_millis(1_000);

/// A flow over a plain DCCP connection.
pub(super) struct Dccp {
    spec: FlowSpec,
    index: u16,
    seed: u64,
    to: SocketAddr,
    session: SessionConfig,
    counters: Arc<Counters>,
    receiver: Handle<Receiver>,
    /// The thread, or `None` once joined.
    thread: Option<JoinHandle<Result<Receiver, LabError>>>,
}

impl Dccp {
    /// Starts the receiver inside `server`.
    pub(super) fn start(
        plan: &Plan<'_>,
        spec: &FlowSpec,
        (index, seed): (u16, u64),
        server: &Namespace,
        to: SocketAddr,
    ) -> Result<Dccp, LabError> {
        let session = session_config(plan);
        let counters = Arc::new(Counters::default());
        let receiver =
            Receiver { flow: index, echo: spec.echo, counters: counters.clone(), received: Vec::new() };
        let (ready, made) = mpsc::channel();
        let (namespace, config) = (server.handle()?, session.clone());
        let thread = std::thread::Builder::new()
            .name("dccp receiver".to_owned())
            .spawn(move || {
                enter(&namespace)?;
                hurry(Urgency::Tunnel);
                let driver = driver(|core| {
                    listen(core, to, config)?;
                    Ok(receiver)
                })?;
                // Sending fails if `start` has already failed, in which case no thread is waiting for the
                // handle.
                let _ = ready.send(driver.handle());
                driver.run().map_err(|e| LabError::failed("the DCCP receiver failed", e))
            })
            .map_err(|e| LabError::failed("cannot start the DCCP receiver", e))?;
        match made.recv() {
            Ok(receiver) => Ok(Dccp {
                spec: spec.clone(),
                index,
                seed,
                to,
                session,
                counters,
                receiver,
                thread: Some(thread),
            }),
            Err(_) => match thread.join() {
                Ok(Err(e)) => Err(e),
                _ => Err(LabError::Failed("the DCCP receiver panicked".to_owned())),
            },
        }
    }

    fn stop(&mut self) -> Option<Result<Receiver, LabError>> {
        self.receiver.run(|core, _| core.stop());
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Dccp {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Flow for Dccp {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError> {
        client.enter()?;
        hurry(Urgency::Tunnel);
        let driver = driver(|core| {
            let session = connect(core, self.to, self.session.clone())?;
            Ok(Sender {
                flow: self,
                over,
                session,
                source: source(&self.spec, from, to, self.seed),
                sizes: Vec::new(),
                to,
                open: false,
                next_trace: from,
                sent: Sent::default(),
                ended: None,
            })
        })?;
        let sender = driver.run().map_err(|e| LabError::failed("the DCCP sender failed", e))?;
        match sender.ended {
            Some(why) => {
                let name = self.spec.name.as_ref();
                Err(LabError::Failed(format!("the DCCP connection of flow `{name}` ended: {why}")))
            }
            None => Ok(sender.sent),
        }
    }

    fn finish(mut self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError> {
        let receiver =
            self.stop().unwrap_or_else(|| Err(LabError::Failed("the DCCP receiver panicked".to_owned())))?;
        let (offered, dropped_at_sender) = (self.spec.rate, sent.dropped);
        let mut flow =
            FlowRecord { offered, dropped_at_sender, ..sent.record(self.spec.name.as_ref(), "dccp") };
        if !self.spec.echo {
            flow.received = receiver.received;
        }
        Ok(flow)
    }
}

fn session_config(plan: &Plan<'_>) -> SessionConfig {
    let mut session = plan.scenario.settings_of(plan.variant).session();
    session.connection.service_code = SERVICE_CODE;
    direct(&mut session);
    session
}

fn driver<A: App>(set_up: impl FnOnce(&mut Core) -> Result<A, LabError>) -> Result<Driver<A>, LabError> {
    let failed = |e: std::io::Error| LabError::failed("cannot start the data-plane loop", e);
    let endpoint = Endpoint::new(dccp_net::random_seed().map_err(failed)?);
    let mut problem = None;
    let made = Driver::new(endpoint, |core| {
        set_up(core).map_err(|e| {
            problem = Some(e);
            std::io::Error::other("set-up")
        })
    });
    made.map_err(|e| problem.unwrap_or_else(|| failed(e)))
}

fn socket(core: &mut Core, addr: SocketAddr) -> Result<u32, LabError> {
    let encapsulation = UdpEncapsulation::new(Bind { addr, interface: None });
    encapsulation
        .and_then(|c| core.add_socket(c))
        .map_err(|e| LabError::failed("cannot open a DCCP socket", e))
}

fn listen(core: &mut Core, addr: SocketAddr, session: SessionConfig) -> Result<(), LabError> {
    socket(core, addr)?;
    core.endpoint
        .listen(ListenConfig { mtu: MTU, ..ListenConfig::for_anyone(addr.port(), session, OVERHEAD, 1) });
    Ok(())
}

fn connect(core: &mut Core, remote: SocketAddr, session: SessionConfig) -> Result<SessionId, LabError> {
    let local = SocketAddr::new(IpAddr::V4(path_address(0, 1)), 0);
    let socket = socket(core, local)?;
    let ports = Ports { local: core.ephemeral_port(), remote: remote.port() };
    let route = Route { socket, local: None, remote };
    Ok(core.endpoint.connect(Clock.now(), session, PathConfig::new(route, ports, MTU, OVERHEAD)))
}

struct Receiver {
    flow: u16,
    /// Whether the receiver returns packets instead of counting them.
    echo: bool,
    counters: Arc<Counters>,
    received: Vec<ReceivedPacket>,
}

impl App for Receiver {
    fn on_deliver(&mut self, core: &mut Core, _: Time, session: SessionId, data: Vec<u8>) {
        let at = Clock.now();
        if self.echo {
            core.endpoint.send(at, session, data, PktInfo::default());
            return;
        }
        let Some(tag) = Tag::read(&data).filter(|tag| tag.flow == self.flow) else { return };
        self.received.push(ReceivedPacket { seq: tag.seq, at, bytes: data.len() as u32 });
        self.counters.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.counters.latency_ns.store(at.since(tag.at).as_nanos() as u64, Ordering::Relaxed);
    }
}

struct Sender<'a> {
    flow: &'a Dccp,
    over: &'a AtomicBool,
    session: SessionId,
    source: Box<dyn Source>,
    /// Sizes of the packets now due.
    sizes: Vec<usize>,
    to: Time,
    open: bool,
    next_trace: Time,
    sent: Sent,
    /// Why the connection ended early, if it did.
    ended: Option<String>,
}

impl Sender<'_> {
    /// Returns the time at which the sender closes the connection. If the receiver echoes packets, the sender
    /// waits for the echoes and never closes the connection.
    fn end(&self) -> Time {
        if self.flow.spec.echo { Time::MAX } else { self.to + LINGER }
    }

    /// Returns the time at which the next packet is due, if this is before the end of sending.
    fn due(&self) -> Option<Time> {
        self.source.next().filter(|due| *due < self.to)
    }

    fn send_one(&mut self, core: &mut Core, size: usize) {
        let at = Clock.now();
        let mut payload = vec![0; size.max(tag::LEN)];
        Tag { flow: self.flow.index, seq: self.sent.packets.len() as u64, at }.write(&mut payload);
        self.sent.packets.push(SentPacket { at, bytes: payload.len() as u32 });
        // A packet sent before the connection is open is lost, as it would be on an unconnected socket.
        if self.open {
            core.endpoint.send(at, self.session, payload, PktInfo::default());
        }
    }

    /// Sends the packets that are due at `due`.
    fn send_due(&mut self, core: &mut Core, due: Time) {
        self.sent.late_ns.push(u32::try_from(Clock.now().since(due).as_nanos()).unwrap_or(u32::MAX));
        let mut sizes = std::mem::take(&mut self.sizes);
        self.source.emit(due, self.sent.dropped.unwrap_or_default(), &mut sizes);
        sizes.drain(..).for_each(|size| self.send_one(core, size));
        self.sizes = sizes;
    }

    /// Records a row of the trace and the current number of drops.
    fn look(&mut self, core: &Core, now: Time) {
        let Some(status) = core.endpoint.status(now, self.session) else { return };
        let queue = &status.queue_stats;
        self.sent.dropped =
            Some(queue.dropped_full + queue.dropped_old + queue.dropped_early + queue.dropped_too_big);
        let cwnd = core.endpoint.rows(now, self.session).first().map_or(0, |row| row.cwnd);
        let Some(tx) = status.paths.first().and_then(|path| path.tx.as_ref()) else { return };
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        self.sent.trace.push(TraceRow {
            at: now,
            path: 0,
            phase: tx.phase.to_owned(),
            cwnd_bytes: cwnd,
            inflight_bytes: tx.inflight.bytes,
            pacing_mbps: tx.pacing.map(|r| r.mbps()),
            delivery_mbps: Some(tx.delivery_rate.mbps()),
            btlbw_mbps: tx.bottleneck.map(|r| r.mbps()),
            srtt_ms: tx.rtt.srtt().map(ms),
            min_rtt_ms: tx.rtt.min().map(|(rtt, _)| ms(rtt)),
            lost: tx.lost.packets,
            queue_packets: u64::from(status.queue.packets),
            queue_ms: ms(status.queue.oldest),
            app_limited: tx.app_limited,
        });
    }
}

impl App for Sender<'_> {
    fn on_deliver(&mut self, _: &mut Core, _: Time, _: SessionId, data: Vec<u8>) {
        let at = Clock.now();
        if let Some(tag) = Tag::read(&data).filter(|tag| self.flow.spec.echo && tag.flow == self.flow.index) {
            self.sent.echoed.push(ReceivedPacket { seq: tag.seq, at, bytes: data.len() as u32 });
        }
    }

    fn on_event(&mut self, core: &mut Core, now: Time, _: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Opened { .. } => self.open = true,
            SessionEvent::Closed(why) => {
                if now < self.to {
                    self.ended = Some(why.name().to_string());
                }
                core.stop();
            }
            _ => {}
        }
    }

    fn fill(&mut self, core: &mut Core, now: Time) -> bool {
        let Some(size) = self.source.backlog(now).filter(|_| self.open) else { return false };
        let most = BACKLOG.min(self.flow.session.queue.max_packets as u32);
        let waiting = core.endpoint.backlog(now, self.session).packets;
        (waiting..most).for_each(|_| self.send_one(core, size));
        waiting < most
    }

    fn next_timeout(&self) -> Option<Time> {
        Some(self.due().unwrap_or(self.end()).min(self.next_trace))
    }

    fn on_timeout(&mut self, core: &mut Core, now: Time) {
        while let Some(due) = self.due().filter(|due| *due <= now) {
            self.send_due(core, due);
        }
        if self.next_trace <= now {
            self.look(core, now);
            while self.next_trace <= now {
                self.next_trace += TRACE_EVERY;
            }
        }
        if self.over.load(Ordering::Relaxed) || now >= self.end() {
            core.endpoint.close(now, self.session);
            core.stop();
        }
    }
}
