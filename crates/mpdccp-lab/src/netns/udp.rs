//! The UDP generator and its receiver: constant rate, numbered packets, one clock.

use core::time::Duration;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use dccp_net::Clock;
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use units::{Rate, Time};

use super::tag::{self, Tag};
use super::world::Namespace;
use crate::LabError;
use crate::record::{ReceivedPacket, SentPacket};

/// IPv4 and UDP headers of a packet of the generator.
pub(super) const HEADERS: u32 = 28;
/// A receiver notices the end at most this much later.
const NAP: Duration = Duration::from_millis(50);
const BUFFER: usize = 4 << 20;

/// Sleeps until `at`.
pub(super) fn sleep_until(at: Time) {
    let ns = at.as_nanos();
    let until = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(rustix::io::Errno::INTR) {}
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Number in the tag.
    pub(super) flow: u16,
    /// Payload bytes.
    pub(super) payload: u32,
    /// Of payload.
    pub(super) rate: Rate,
    pub(super) from: Time,
    pub(super) to: Time,
}

/// Sends `load` to `to` from inside `namespace`; runs until the load is over or `over` says so. Packets are sent at fixed times: a late
/// one does not delay those after it.
pub(super) fn send(
    namespace: &Namespace,
    load: Load,
    to: SocketAddr,
    over: &AtomicBool,
) -> Result<Vec<SentPacket>, LabError> {
    namespace.enter()?;
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .map_err(|e| LabError::failed("the generator's socket", e))?;
    let mut payload = vec![0; load.payload as usize];
    let mut sent = Vec::new();
    for seq in 0u64.. {
        let at = load.from + load.rate.time_for(u64::from(load.payload) * seq);
        if at >= load.to || over.load(Ordering::Relaxed) {
            break;
        }
        sleep_until(at);
        let at = Clock.now();
        Tag { flow: load.flow, seq, at }.write(&mut payload);
        sent.push(SentPacket { at, bytes: load.payload + HEADERS });
        // A packet that the kernel refuses (no route, no buffer) is a lost one.
        let _ = socket.send_to(&payload, to);
    }
    Ok(sent)
}

/// What a receiver and its watchers share.
#[derive(Debug, Default)]
pub(super) struct Counters {
    stop: AtomicBool,
    /// A probe has arrived.
    pub(super) probed: AtomicBool,
    /// Bytes received so far, counted as in [`SentPacket::bytes`].
    pub(super) bytes: AtomicU64,
    /// Latency of the last packet.
    pub(super) latency_ns: AtomicU64,
}

/// A running receiver.
pub(super) struct Receiver {
    pub(super) counters: Arc<Counters>,
    /// None once it was joined.
    thread: Option<JoinHandle<Vec<ReceivedPacket>>>,
}

impl Receiver {
    /// Receives packets of `flow` at `port` inside `namespace`.
    pub(super) fn start(namespace: &Namespace, port: u16, flow: u16) -> Result<Receiver, LabError> {
        let socket =
            namespace.inside(|| socket(port).map_err(|e| LabError::failed("the receiver's socket", e)))?;
        let counters = Arc::new(Counters::default());
        let shared = counters.clone();
        let thread = std::thread::Builder::new()
            .name("receiver".to_owned())
            .spawn(move || receive(&socket, flow, &shared))
            .map_err(|e| LabError::failed("starting the receiver", e))?;
        Ok(Receiver { counters, thread: Some(thread) })
    }

    /// Stops it and takes what it received.
    pub(super) fn finish(mut self) -> Result<Vec<ReceivedPacket>, LabError> {
        self.counters.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(received)) => Ok(received),
            _ => Err(LabError::Failed("the receiver panicked".to_owned())),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.counters.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn socket(port: u16) -> std::io::Result<UdpSocket> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(BUFFER)?;
    socket.set_read_timeout(Some(NAP))?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    Ok(socket.into())
}

fn receive(socket: &UdpSocket, flow: u16, counters: &Counters) -> Vec<ReceivedPacket> {
    let mut received = Vec::new();
    let mut buf = [0; 2048];
    while !counters.stop.load(Ordering::Relaxed) {
        let n = match socket.recv(&mut buf) {
            Ok(n) => n,
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(_) => continue,
        };
        let at = Clock.now();
        match Tag::read(&buf[..n]) {
            Some(Tag { flow: tag::PROBE, .. }) => counters.probed.store(true, Ordering::Relaxed),
            Some(tag) if tag.flow == flow => {
                let bytes = n as u32 + HEADERS;
                received.push(ReceivedPacket { seq: tag.seq, at, bytes });
                counters.bytes.fetch_add(u64::from(bytes), Ordering::Relaxed);
                counters.latency_ns.store(at.since(tag.at).as_nanos() as u64, Ordering::Relaxed);
            }
            // Of another flow, or nothing of ours.
            _ => {}
        }
    }
    received
}

/// Sends one probe to `to` from inside `namespace`.
pub(super) fn probe(namespace: &Namespace, to: SocketAddr) -> Result<(), LabError> {
    namespace.inside(|| {
        let mut payload = [0; 64];
        Tag { flow: tag::PROBE, seq: 0, at: Clock.now() }.write(&mut payload);
        // It fails while there is no route yet; the caller tries again.
        let _ = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.send_to(&payload, to));
        Ok(())
    })
}
