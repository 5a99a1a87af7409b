//! Runs short flows: connections of the kernel's TCP that each carry a fixed amount of data.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use dccp_net::Clock;
use mpdccp_units::Time;
use socket2::Protocol;

use super::flow::{Counters, Flow, Receiver, Sent};
use super::namespaces::Namespace;
use super::tcp::{connect, listen, read_all, write_all};
use super::udp::{NAP, sleep_until, timed_out};
use crate::record::{FlowRecord, ReceivedPacket, SentPacket};
use crate::scenario::FlowSpec;
use crate::{LabError, Plan};
use linkem_net::{Urgency, hurry};

/// Number of bytes at the start of each connection that hold its index and size.
const HEADER: usize = 12;

/// All connections of a flow.
pub(super) struct Short {
    name: String,
    cc: String,
    to: SocketAddr,
    /// The start of each connection relative to the flow's start, and its size.
    connections: Vec<(core::time::Duration, u32)>,
    server: Receiver,
    protocol: Protocol,
}

impl Short {
    /// Starts the server. `multipath` selects Multipath TCP.
    pub(super) fn start(
        (plan, spec, seed): (&Plan<'_>, &FlowSpec, u64),
        server: &Namespace,
        to: SocketAddr,
        multipath: bool,
    ) -> Result<Short, LabError> {
        let failed = |e| LabError::failed("cannot start the short flows' server", e);
        let protocol = if multipath { Protocol::MPTCP } else { Protocol::TCP };
        let listener = server.inside(|| listen(to.port(), protocol).map_err(failed))?;
        listener.set_nonblocking(true).map_err(failed)?;
        let server = Receiver::start("short flows' server", move |counters| serve(&listener, counters))?;
        Ok(Short {
            name: spec.name.as_ref().clone(),
            cc: spec.cc.clone().unwrap_or_default(),
            to,
            connections: spec.connections(seed, *plan.scenario.duration_s.as_ref()),
            server,
            protocol,
        })
    }
}

/// Accepts connections until told to stop, and records when each connection was complete.
fn serve(listener: &TcpListener, counters: &Counters) -> Vec<ReceivedPacket> {
    let complete = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        while !counters.stop.load(Ordering::Relaxed) {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(core::time::Duration::from_millis(1));
                continue;
            };
            let complete = &complete;
            scope.spawn(move || {
                let whole = receive(stream, counters);
                if let (Some(whole), Ok(mut complete)) = (whole, complete.lock()) {
                    complete.push(whole);
                }
            });
        }
    });
    let mut complete = complete.into_inner().unwrap_or_default();
    complete.sort_by_key(|whole| whole.at);
    complete
}

/// Reads a connection to its end. Returns `None` if it is incomplete.
fn receive(mut stream: TcpStream, counters: &Counters) -> Option<ReceivedPacket> {
    stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(NAP))).ok()?;
    let mut header = [0; HEADER];
    read_all(&mut stream, &mut header, &counters.stop).then_some(())?;
    let (number, size) = header.split_at(8);
    let seq = u64::from_be_bytes(number.try_into().ok()?);
    let bytes = u32::from_be_bytes(size.try_into().ok()?);
    let mut rest = (bytes as usize).saturating_sub(HEADER);
    let mut buf = vec![0; 64 << 10];
    while rest > 0 {
        match stream.read(&mut buf) {
            Ok(0) => return None,
            Ok(n) => {
                counters.bytes.fetch_add(n as u64, Ordering::Relaxed);
                rest = rest.saturating_sub(n);
            }
            Err(e) if timed_out(&e) && !counters.stop.load(Ordering::Relaxed) => {}
            Err(_) => return None,
        }
    }
    Some(ReceivedPacket { seq, at: Clock.now(), bytes })
}

impl Flow for Short {
    fn counters(&self) -> &Counters {
        &self.server.counters
    }

    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError> {
        client.enter()?;
        let mut packets = Vec::new();
        let late_ns = std::thread::scope(|scope| {
            let mut late_ns = Vec::new();
            for (number, (at, bytes)) in (0u64..).zip(&self.connections) {
                let due = from + *at;
                sleep_until(due, over);
                if due >= to || over.load(Ordering::Relaxed) {
                    break;
                }
                packets.push(SentPacket { at: Clock.now(), bytes: *bytes });
                late_ns.push(u32::try_from(Clock.now().since(due).as_nanos()).unwrap_or(u32::MAX));
                // Ignore a failure: the server does not record incomplete connections.
                scope.spawn(move || {
                    hurry(Urgency::Traffic);
                    self.carry(number, *bytes, over)
                });
            }
            late_ns
        });
        Ok(Sent { packets, late_ns, ..Sent::default() })
    }

    fn finish(self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError> {
        let received = self.server.finish()?;
        Ok(FlowRecord { received, ..sent.record(&self.name, "short") })
    }
}

impl Short {
    /// Opens one connection and writes all its data.
    fn carry(&self, number: u64, bytes: u32, over: &AtomicBool) -> Option<()> {
        let mut stream: TcpStream = connect(self.to, &self.cc, self.protocol, over).ok()?.into();
        stream.set_write_timeout(Some(NAP)).ok()?;
        let mut data = vec![0; (bytes as usize).max(HEADER)];
        data[..8].copy_from_slice(&number.to_be_bytes());
        data[8..HEADER].copy_from_slice(&bytes.to_be_bytes());
        write_all(&mut stream, &data, over).ok().map(drop)
    }
}
