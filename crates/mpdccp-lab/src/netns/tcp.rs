//! Runs flows over the kernel's TCP: bulk flows, and paced records that stand in for a plain DCCP connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use dccp_net::Clock;
use mpdccp_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::flow::{Counters, Flow, Receiver, Sent};
use super::namespaces::{Namespace, ip};
use super::tag::Tag;
use super::tap::{self, Count, Tap};
use super::udp::{NAP, play, sleep_until, timed_out};
use crate::LabError;
use crate::record::{FlowRecord, ReceivedPacket, SentPacket, TcpCounters};
use crate::scenario::FlowSpec;
use crate::sim::source::source;

/// Number of bytes per write of a bulk flow.
const CHUNK: usize = 64 << 10;
/// Maximum number of unsent records of a paced sender. Further records are dropped, as in the send queue of a
/// datagram socket.
const UNSENT_RECORDS: u32 = 5;

/// Listens inside `server` and reads all data of one connection. If `record` is given, the data are tagged
/// records of this many bytes. The receiver sends these records back if `echo` is set. Without `record`, the
/// receiver counts the bytes if `count` is set.
fn start_receiver(
    server: &Namespace,
    (port, protocol): (u16, Protocol),
    (record, count): (Option<usize>, bool),
    echo: bool,
) -> Result<Receiver, LabError> {
    let failed = |e| LabError::failed("cannot open the TCP receiver's socket", e);
    let listener = server.inside(|| listen(port, protocol).map_err(failed))?;
    listener.set_nonblocking(true).map_err(failed)?;
    Receiver::start("TCP receiver", move |counters| {
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if counters.stop.load(Ordering::Relaxed) => return Vec::new(),
                Err(_) => std::thread::sleep(NAP),
            }
        };
        let ready = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(NAP)))
            .and_then(|()| stream.set_write_timeout(Some(NAP)))
            .and_then(|()| stream.set_nodelay(true));
        match (ready, record) {
            (Err(_), _) => Vec::new(),
            (Ok(()), Some(size)) => read_records(stream, size, &counters.stop, counters, echo),
            (Ok(()), None) => discard(stream, counters, count),
        }
    })
}

/// Fills `buf`. Returns false if the stream ends or the thread must stop.
pub(super) fn read_all(stream: &mut TcpStream, buf: &mut [u8], stop: &AtomicBool) -> bool {
    let mut filled = 0;
    while filled < buf.len() {
        match stream.read(&mut buf[filled..]) {
            Ok(0) => return false,
            Ok(n) => filled += n,
            Err(e) if timed_out(&e) && !stop.load(Ordering::Relaxed) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Writes all of `data`. Returns false if the thread must stop before that. The stream needs a write timeout:
/// over a dead path, the kernel itself would try for a quarter of an hour.
pub(super) fn write_all(stream: &mut TcpStream, mut data: &[u8], stop: &AtomicBool) -> std::io::Result<bool> {
    while !data.is_empty() {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match stream.write(data) {
            Ok(n) => data = &data[n..],
            Err(e) if timed_out(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

fn read_records(
    mut stream: TcpStream,
    size: usize,
    stop: &AtomicBool,
    counters: &Counters,
    echo: bool,
) -> Vec<ReceivedPacket> {
    let mut received = Vec::new();
    let mut buf = vec![0; size];
    while read_all(&mut stream, &mut buf, stop) {
        let at = Clock.now();
        if echo {
            match write_all(&mut stream, &buf, stop) {
                Ok(true) => continue,
                Ok(false) | Err(_) => break,
            }
        }
        if let Some(tag) = Tag::read(&buf) {
            received.push(ReceivedPacket { seq: tag.seq, at, bytes: size as u32 });
            counters.bytes.fetch_add(size as u64, Ordering::Relaxed);
            counters.latency_ns.store(at.since(tag.at).as_nanos() as u64, Ordering::Relaxed);
        }
    }
    received
}

/// Reads all data and, if requested, counts it. The result has one packet for each read.
fn discard(mut stream: TcpStream, counters: &Counters, count: bool) -> Vec<ReceivedPacket> {
    let mut received = Vec::new();
    let mut buf = vec![0; CHUNK];
    while !counters.stop.load(Ordering::Relaxed) {
        match stream.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => {
                let seq = received.len() as u64;
                received.push(ReceivedPacket { seq, at: Clock.now(), bytes: n as u32 });
                if count {
                    counters.bytes.fetch_add(n as u64, Ordering::Relaxed);
                }
            }
            Err(e) if timed_out(&e) => {}
            Err(_) => break,
        }
    }
    received
}

pub(super) fn listen(port: u16, protocol: Protocol) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

/// Connects to `to` with congestion control `cc`, from the calling thread's namespace. Gives up when `over`
/// is set.
pub(super) fn connect(
    to: SocketAddr,
    cc: &str,
    protocol: Protocol,
    over: &AtomicBool,
) -> Result<Socket, LabError> {
    let failed = |e| LabError::failed(format!("cannot connect TCP {cc} to {to}"), e);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).map_err(failed)?;
    // Always set the congestion control: the system's default may be a different one.
    socket.set_tcp_congestion(cc.as_bytes()).map_err(|e| {
        LabError::Missing(format!(
            "this kernel has no TCP congestion control `{cc}` ({e}): load its module (modprobe tcp_{cc})"
        ))
    })?;
    socket.set_nonblocking(true).map_err(failed)?;
    match socket.connect(&to.into()) {
        Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
            established(&socket, over).map_err(failed)?;
        }
        connected => connected.map_err(failed)?,
    }
    socket.set_nonblocking(false).map_err(failed)?;
    Ok(socket)
}

/// Waits until a socket is connected. Over a dead path, the kernel itself would try for two minutes.
fn established(socket: &Socket, over: &AtomicBool) -> std::io::Result<()> {
    let nap = Timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
    while poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&nap)).unwrap_or(0) == 0 {
        if over.load(Ordering::Relaxed) {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
    }
    socket.take_error()?.map_or(Ok(()), Err)
}

/// Returns the counters of the connection from `client` to `to`, taken from the output of `ss`.
fn counters(client: &Namespace, to: SocketAddr) -> Option<TcpCounters> {
    let text = ip(&["netns", "exec", &client.name, "ss", "-tinH", "dst", &to.to_string()]).ok()?;
    Some(parse_ss(&text))
}

fn parse_ss(text: &str) -> TcpCounters {
    let field = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
    // The field has the form `retrans:NOW/TOTAL`.
    let retransmits = field("retrans:").and_then(|v| v.split('/').next_back()?.parse().ok());
    let dsack = field("dsack_dups:").and_then(|v| v.parse().ok());
    TcpCounters { retransmits: retransmits.unwrap_or(0), dsack: dsack.unwrap_or(0) }
}

/// A bulk flow, inside a tunnel or directly over a path. Taps record the packets that TCP sends and those
/// that arrive.
pub(super) struct Bulk {
    name: String,
    cc: String,
    to: SocketAddr,
    receiver: Receiver,
    protocol: Protocol,
    /// Taps at the client and at the server. `None` if the two hosts see different segments: with Multipath
    /// TCP, which uses several addresses and duplicates data, and with streams, where each tunnel end
    /// terminates TCP. Only the data that the application reads then counts.
    taps: Option<[Tap; 2]>,
}

/// Transport of a bulk flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Tcp,
    MultipathTcp,
    /// A TCP connection that the tunnel carries as a stream.
    Stream,
}

impl Bulk {
    /// Starts the receiver and the taps.
    pub(super) fn start(
        spec: &FlowSpec,
        cc: &str,
        (client, server): (&Namespace, &Namespace),
        (to, count): (SocketAddr, Count),
        over: Over,
    ) -> Result<Bulk, LabError> {
        let protocol = if over == Over::MultipathTcp { Protocol::MPTCP } else { Protocol::TCP };
        let receiver = start_receiver(server, (to.port(), protocol), (None, over != Over::Tcp), false)?;
        let counters = Some(receiver.counters.clone());
        let taps = if over != Over::Tcp {
            None
        } else {
            Some([tap::start(client, to, count.clone(), None)?, tap::start(server, to, count, counters)?])
        };
        Ok(Bulk { name: spec.name.as_ref().clone(), cc: cc.to_owned(), to, receiver, protocol, taps })
    }
}

impl Flow for Bulk {
    fn counters(&self) -> &Counters {
        &self.receiver.counters
    }

    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError> {
        client.enter()?;
        sleep_until(from, over);
        let socket = match connect(self.to, &self.cc, self.protocol, over) {
            // Over a dead path, the connection has not opened by the end of the run, so it carries nothing.
            Err(_) if over.load(Ordering::Relaxed) => return Ok(Sent { until: to, ..Sent::default() }),
            socket => socket?,
        };
        let mut stream: TcpStream = socket.into();
        stream
            .set_write_timeout(Some(NAP))
            .map_err(|e| LabError::failed("cannot set up the TCP sender's socket", e))?;
        let chunk = vec![0; CHUNK];
        while Clock.now() < to && !over.load(Ordering::Relaxed) {
            match stream.write(&chunk) {
                Ok(_) => {}
                Err(e) if timed_out(&e) => {}
                Err(e) => return Err(LabError::failed(format!("cannot send TCP flow `{}`", self.name), e)),
            }
        }
        Ok(Sent { tcp: counters(client, self.to), until: to, ..Sent::default() })
    }

    fn finish(self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError> {
        let read = self.receiver.finish()?;
        let in_time = read.iter().filter(|part| part.at <= sent.until);
        let stream_bytes = Some(in_time.map(|part| u64::from(part.bytes)).sum());
        let (packets, received) = match self.taps {
            Some([client, server]) => tap::pair(&client.finish()?, &server.finish()?),
            None => (Vec::new(), read),
        };
        Ok(FlowRecord { sent: packets, received, stream_bytes, ..sent.record(&self.name, "tcp") })
    }
}

/// A flow that writes records of a fixed size, at given times, to a TCP connection.
pub(super) struct Paced {
    spec: FlowSpec,
    index: u16,
    seed: u64,
    cc: String,
    record: u32,
    to: SocketAddr,
    receiver: Receiver,
}

impl Paced {
    /// Starts the receiver.
    pub(super) fn start(
        spec: &FlowSpec,
        (index, seed): (u16, u64),
        cc: &str,
        server: &Namespace,
        to: SocketAddr,
    ) -> Result<Paced, LabError> {
        let Some(record) = spec.payload.as_ref().map(|payload| *payload.as_ref()) else {
            return Err(LabError::Failed(format!("flow `{}` has no payload", spec.name.as_ref())));
        };
        let receiver =
            start_receiver(server, (to.port(), Protocol::TCP), (Some(record as usize), false), spec.echo)?;
        Ok(Paced { spec: spec.clone(), index, seed, cc: cc.to_owned(), record, to, receiver })
    }
}

impl Flow for Paced {
    fn counters(&self) -> &Counters {
        &self.receiver.counters
    }

    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError> {
        client.enter()?;
        let socket = connect(self.to, &self.cc, Protocol::TCP, over)?;
        let failed = |e| LabError::failed(format!("cannot send TCP flow `{}`", self.spec.name.as_ref()), e);
        socket.set_tcp_nodelay(true).map_err(failed)?;
        socket.set_tcp_notsent_lowat(UNSENT_RECORDS * self.record).map_err(failed)?;
        let mut stream: TcpStream = socket.into();
        let mut payload = vec![0; self.record as usize];
        let (mut packets, mut dropped) = (Vec::new(), 0);
        stream.set_read_timeout(Some(NAP)).map_err(failed)?;
        stream.set_write_timeout(Some(NAP)).map_err(failed)?;
        let reader = if self.spec.echo { Some(stream.try_clone().map_err(failed)?) } else { None };
        let (late_ns, echoed) = std::thread::scope(|scope| {
            let (size, counters) = (payload.len(), &self.receiver.counters);
            let come_back = |reader| move || read_records(reader, size, over, counters, false);
            let listener = reader.map(|reader| scope.spawn(come_back(reader)));
            let source = source(&self.spec, from, to, self.seed);
            let late_ns = play(
                source,
                to,
                over,
                || 0,
                |_| {
                    let (at, seq) = (Clock.now(), packets.len() as u64);
                    packets.push(SentPacket { at, bytes: self.record });
                    let mut fd = [PollFd::new(&stream, PollFlags::OUT)];
                    let ready = poll(&mut fd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap_or(0);
                    // If the server echoes, wait for room in the send buffer instead of dropping the record.
                    if ready == 0 && !self.spec.echo {
                        dropped += 1;
                        return Ok(());
                    }
                    Tag { flow: self.index, seq, at }.write(&mut payload);
                    write_all(&mut stream, &payload, over).map(drop).map_err(failed)
                },
            )?;
            let panicked = |_| LabError::Failed("the TCP reader panicked".to_owned());
            let echoed = listener.map_or(Ok(Vec::new()), |thread| thread.join().map_err(panicked))?;
            Ok::<_, LabError>((late_ns, echoed))
        })?;
        let tcp = counters(client, self.to);
        Ok(Sent { packets, echoed, late_ns, dropped: Some(dropped), tcp, ..Sent::default() })
    }

    fn finish(self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError> {
        let (offered, dropped_at_sender) = (self.spec.rate, sent.dropped);
        let mut flow =
            FlowRecord { offered, dropped_at_sender, ..sent.record(self.spec.name.as_ref(), "tcp") };
        if !self.spec.echo {
            flow.received = self.receiver.finish()?;
        }
        Ok(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_to_a_peer_that_does_not_read_ends_with_the_run() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_write_timeout(Some(NAP)).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // No socket buffer is this large.
            let writer = scope.spawn(|| write_all(&mut stream, &vec![0u8; 256 << 20], &over));
            // The run ends only after the write has begun.
            peer.peek(&mut [0]).unwrap();
            over.store(true, Ordering::Relaxed);
            assert!(!writer.join().unwrap().unwrap());
        });
    }

    #[test]
    fn retransmissions_are_read_from_ss() {
        let text = "ESTAB 0 1 10.0.0.1:9 10.0.0.2:5001\n\t cubic wscale:7,7 rto:204 retrans:1/37 dsack_dups:2 rcv_space:14600";
        assert_eq!(parse_ss(text), TcpCounters { retransmits: 37, dsack: 2 });
        assert_eq!(parse_ss("cubic rto:204"), TcpCounters::default());
    }
}
