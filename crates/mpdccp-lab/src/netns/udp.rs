//! A generator of numbered UDP packets and its receiver, which share a clock.

use core::time::Duration;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use dccp_net::Clock;
use mpdccp_units::Time;
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};

use super::flow::{Counters, Flow, Receiver, Sent};
use super::namespaces::Namespace;
use super::tag::{self, Tag};
use crate::LabError;
use crate::record::{FlowRecord, ReceivedPacket, SentPacket};
use crate::scenario::FlowSpec;
use crate::sim::source::{Source, source};
use linkem_net::{Urgency, hurry};

/// Size in bytes of a generated packet's IPv4 and UDP headers.
const HEADERS: u32 = 28;
/// Time within which a sender or receiver notices that it must stop.
pub(super) const NAP: Duration = Duration::from_millis(50);
const BUFFER: usize = 4 << 20;

/// Sleeps until `at`, or until shortly after `over` is set.
pub(super) fn sleep_until(at: Time, over: &AtomicBool) {
    while Clock.now() + NAP < at {
        if over.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(NAP);
    }
    let ns = at.as_nanos();
    let until = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(rustix::io::Errno::INTR) {}
}

/// Calls `each` with the size of every packet of `source` when the packet is due, until `to` or until `over`
/// is set. Returns how late each call was. Each packet has a fixed time, so a late packet does not delay
/// later packets. `dropped` returns the number of packets that the sender has dropped so far.
pub(super) fn play(
    mut source: Box<dyn Source>,
    to: Time,
    over: &AtomicBool,
    dropped: impl Fn() -> u64,
    mut each: impl FnMut(usize) -> Result<(), LabError>,
) -> Result<Vec<u32>, LabError> {
    hurry(Urgency::Traffic);
    let (mut late_ns, mut sizes) = (Vec::new(), Vec::new());
    while let Some(due) = source.next().filter(|due| *due < to) {
        sleep_until(due, over);
        if over.load(Ordering::Relaxed) {
            break;
        }
        late_ns.push(u32::try_from(Clock.now().since(due).as_nanos()).unwrap_or(u32::MAX));
        source.emit(due, dropped(), &mut sizes);
        sizes.drain(..).try_for_each(&mut each)?;
    }
    Ok(late_ns)
}

/// A UDP flow, through a tunnel or directly over a path.
pub(super) struct Udp {
    spec: FlowSpec,
    index: u16,
    seed: u64,
    to: SocketAddr,
    receiver: Receiver,
}

impl Udp {
    /// Starts the flow's receiver inside `server`.
    pub(super) fn start(
        spec: &FlowSpec,
        (index, seed): (u16, u64),
        server: &Namespace,
        to: SocketAddr,
    ) -> Result<Udp, LabError> {
        let receiver = receiver(server, to.port(), index, spec.echo)?;
        Ok(Udp { spec: spec.clone(), index, seed, to, receiver })
    }
}

impl Flow for Udp {
    fn counters(&self) -> &Counters {
        &self.receiver.counters
    }

    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError> {
        client.enter()?;
        let socket = socket(0).map_err(|e| LabError::failed("cannot open the generator's socket", e))?;
        let source = source(&self.spec, from, to, self.seed);
        let mut payload = Vec::new();
        let mut packets: Vec<SentPacket> = Vec::new();
        let counters = &self.receiver.counters;
        let (late_ns, echoed) = std::thread::scope(|scope| {
            let come_back = || receive(&socket, self.index, over, counters, false);
            let listener = self.spec.echo.then(|| scope.spawn(come_back));
            let dropped = || counters.dropped.load(Ordering::Relaxed);
            let late_ns = play(source, to, over, dropped, |size| {
                let (at, seq) = (Clock.now(), packets.len() as u64);
                payload.resize(size.max(tag::LEN), 0);
                Tag { flow: self.index, seq, at }.write(&mut payload);
                packets.push(SentPacket { at, bytes: payload.len() as u32 + HEADERS });
                // A packet that the kernel refuses (no route, no buffer) counts as lost.
                let _ = socket.send_to(&payload, self.to);
                Ok(())
            })?;
            let panicked = |_| LabError::Failed("the generator's receiver panicked".to_owned());
            let echoed = listener.map_or(Ok(Vec::new()), |thread| thread.join().map_err(panicked))?;
            Ok::<_, LabError>((late_ns, echoed))
        })?;
        Ok(Sent { packets, echoed, late_ns, ..Sent::default() })
    }

    fn finish(self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError> {
        let payload = f64::from(self.spec.payload.as_ref().map_or(0, |p| *p.as_ref()));
        let whole = payload + f64::from(HEADERS);
        let (offered, dropped_at_sender) =
            (self.spec.rate.map(|rate| rate.scale(whole / payload)), sent.dropped);
        let mut flow =
            FlowRecord { offered, dropped_at_sender, ..sent.record(self.spec.name.as_ref(), "udp") };
        if !self.spec.echo {
            flow.received = self.receiver.finish()?;
        }
        Ok(flow)
    }
}

/// Starts a receiver inside `namespace` for packets of `flow` at `port`. If requested, the receiver sends the
/// packets back to their sender.
pub(super) fn receiver(
    namespace: &Namespace,
    port: u16,
    flow: u16,
    echo: bool,
) -> Result<Receiver, LabError> {
    let failed = |e| LabError::failed("cannot open the receiver's socket", e);
    let socket = namespace.inside(|| socket(port).map_err(failed))?;
    Receiver::start("receiver", move |counters| receive(&socket, flow, &counters.stop, counters, echo))
}

fn socket(port: u16) -> std::io::Result<UdpSocket> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(BUFFER)?;
    socket.set_read_timeout(Some(NAP))?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    Ok(socket.into())
}

fn receive(
    socket: &UdpSocket,
    flow: u16,
    stop: &AtomicBool,
    counters: &Counters,
    echo: bool,
) -> Vec<ReceivedPacket> {
    hurry(Urgency::Traffic);
    let mut received = Vec::new();
    let mut buf = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        // The error is either the timeout or caused by an ICMP message, which does not concern a receiver.
        let Ok((n, from)) = socket.recv_from(&mut buf) else { continue };
        let at = Clock.now();
        let Some(tag) = Tag::read(&buf[..n]).filter(|tag| tag.flow == flow) else { continue };
        if echo {
            // A packet that the kernel refuses counts as lost.
            let _ = socket.send_to(&buf[..n], from);
            continue;
        }
        let bytes = n as u32 + HEADERS;
        received.push(ReceivedPacket { seq: tag.seq, at, bytes });
        counters.bytes.fetch_add(u64::from(bytes), Ordering::Relaxed);
        counters.latency_ns.store(at.since(tag.at).as_nanos() as u64, Ordering::Relaxed);
    }
    received
}

/// Sends one probe to `to` from inside `namespace`.
pub(super) fn probe(namespace: &Namespace, to: SocketAddr) -> Result<(), LabError> {
    namespace.inside(|| {
        let mut payload = [0; 64];
        Tag { flow: tag::PROBE, seq: 0, at: Clock.now() }.write(&mut payload);
        // Sending fails until there is a route; the caller then tries again.
        let _ = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.send_to(&payload, to));
        Ok(())
    })
}

/// Returns whether a read ended because of its timeout.
pub(super) fn timed_out(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
