//! The loop of the proxy's thread. It serves the kernel's sockets in the private namespace, and copies
//! packets between the namespace and the hosts.

mod listeners;

use crate::commands::{Command, Event};
use crate::flow::{Connection, is_refusal, reset};
use crate::handle::SocketsHandle;
use crate::namespace::Namespace;
use crate::options::{copy_header, keepalive, transparent};
use crate::segment::Tuple;
use crate::verdict::{Flow, Request};
use rustix::event::epoll::{self, CreateFlags, Event as Ready, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use socket2::{SockAddr, Socket};
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Time limit for connecting, after which the flow travels as packets. It is below one second, so that it
/// expires before the host repeats its SYN (RFC 6298).
const PATIENCE: Duration = Duration::from_millis(900);
/// Time limit for a host's handshake. It is longer than the 63 s for which the kernel repeats its SYN-ACK
/// (tcp_synack_retries).
const HANDSHAKE: Duration = Duration::from_secs(70);
/// Length of a listener's backlog. Each connection in it belongs to a flow.
const BACKLOG: i32 = 4_096;
/// Once there are this many listeners, idle ones are closed.
const LISTENERS: usize = 1_024;
/// How long to wait before trying again to accept a connection if the process has no free descriptor.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Maximum number of chunks that are read from a connection before the other connections are served.
const TURNS: usize = 4;
/// Maximum number of packets that are read from the device before the sockets are served.
const PACKETS: usize = 64;
/// Length of the virtio header that precedes each packet on a device with offload.
const HEADER: usize = 10;
/// Length of the largest packet plus this header.
const PACKET: usize = 65_535 + HEADER;

/// Values of the number that epoll returns. Numbers from [`FIRST_SOCKET`] upwards belong to sockets.
const WAKE: u64 = 0;
const DEVICE: u64 = 1;
const FIRST_SOCKET: u64 = 2;

enum Kind {
    Listener(SocketAddr),
    Connecting(Flow),
    Connection(Flow),
}

struct Listener {
    socket: Socket,
    number: u64,
    /// Flows whose handshake is in progress, keyed by the address of the host.
    pending: HashMap<SocketAddr, Flow>,
}

/// A flow whose local host has not completed its handshake.
struct Early {
    since: Instant,
    /// Addresses and ports of the host's SYN.
    tuple: Tuple,
    /// Commands for the flow. These may already contain data, because the far host can send first.
    commands: Vec<Command>,
}

/// The sockets of one end of the tunnel.
pub struct Sockets<E, P> {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    namespace: Namespace,
    kinds: HashMap<u64, Kind>,
    listeners: HashMap<SocketAddr, Listener>,
    connecting: HashMap<Flow, (Socket, u64, Instant)>,
    connections: HashMap<Flow, (Connection, u64)>,
    early: HashMap<Flow, Early>,
    /// Connections that must be read or written.
    active: HashSet<Flow>,
    /// Listeners whose last accept failed, usually for lack of a free descriptor. They are tried again.
    short: HashSet<SocketAddr>,
    next: u64,
    events: Vec<Event>,
    on_events: E,
    on_packet: P,
}

impl<E: FnMut(Vec<Event>), P: FnMut(&[u8])> Sockets<E, P> {
    /// Moves the calling thread into a private namespace whose device has this MTU. `on_events` is called
    /// with batches of events, and `on_packet` with each packet or super-packet that the kernel sends to a
    /// host, including its virtio header.
    ///
    /// # Errors
    /// The same errors as [`Namespace::enter`].
    pub fn enter(mtu: u16, on_events: E, on_packet: P) -> io::Result<(Sockets<E, P>, SocketsHandle)> {
        let namespace = Namespace::enter(mtu)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        epoll::add(&epoll, namespace.tun(), EventData::new_u64(DEVICE), EventFlags::IN)?;
        let (sender, commands) = channel();
        let handle = SocketsHandle { commands: sender, wake: wake.clone(), tun: namespace.tun().clone() };
        let sockets = Sockets {
            epoll,
            wake,
            commands,
            namespace,
            kinds: HashMap::new(),
            listeners: HashMap::new(),
            connecting: HashMap::new(),
            connections: HashMap::new(),
            early: HashMap::new(),
            active: HashSet::new(),
            short: HashSet::new(),
            next: FIRST_SOCKET,
            events: Vec::new(),
            on_events,
            on_packet,
        };
        Ok((sockets, handle))
    }

    /// Runs until a stop command arrives or all senders of commands have been dropped, and then resets all
    /// connections.
    ///
    /// # Errors
    /// Only if epoll fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::with_capacity(256);
        let mut packet = vec![0; PACKET];
        loop {
            let timeout = self.timeout();
            ready.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            for event in &ready {
                match event.data.u64() {
                    WAKE => {
                        let mut count = [0; 8];
                        let _ = rustix::io::read(&self.wake, &mut count);
                    }
                    DEVICE => drop(self.read_device(&mut packet)),
                    number => self.on_ready(number, event),
                }
            }
            for done in 1.. {
                match self.commands.try_recv() {
                    Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                        self.reset_all(&mut packet);
                        return Ok(());
                    }
                    Ok(command) => self.on_command(command),
                    Err(TryRecvError::Empty) => break,
                }
                // Each command may cause a packet, and the device drops packets that exceed its queue.
                if done % PACKETS == 0 {
                    self.read_device(&mut packet);
                }
            }
            for address in std::mem::take(&mut self.short) {
                self.accept(address);
            }
            self.give_up(Instant::now());
            self.turn();
            if !self.events.is_empty() {
                (self.on_events)(std::mem::take(&mut self.events));
            }
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        if !self.active.is_empty() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let connecting = self.connecting.values().map(|(_, _, since)| *since + PATIENCE);
        let first = connecting.chain(self.early.values().map(|early| early.since + HANDSHAKE)).min();
        let left = first.map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let again = (!self.short.is_empty()).then_some(ACCEPT_AGAIN);
        Timespec::try_from(left.into_iter().chain(again).min()?).ok()
    }

    /// Reads up to [`PACKETS`] packets that the kernel has sent. Returns whether there may be more.
    fn read_device(&mut self, packet: &mut [u8]) -> bool {
        (0..PACKETS).all(|_| {
            let read = rustix::io::read(self.namespace.tun(), &mut *packet);
            read.map(|n| (self.on_packet)(&packet[..n])).is_ok()
        })
    }

    fn on_ready(&mut self, number: u64, event: &Ready) {
        let flags = event.flags;
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        match self.kinds.get(&number) {
            Some(Kind::Listener(address)) => {
                let address = *address;
                self.accept(address);
            }
            Some(Kind::Connecting(flow)) => {
                let flow = *flow;
                self.on_connect(flow);
            }
            Some(Kind::Connection(flow)) => {
                let flow = *flow;
                let Some((connection, _)) = self.connections.get_mut(&flow) else { return };
                connection.readable |= failed || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
                connection.writable |= failed || flags.contains(EventFlags::OUT);
                if flags.contains(EventFlags::ERR)
                    && let Some(e) = connection.take_error()
                {
                    connection.fail(&e);
                }
                self.active.insert(flow);
            }
            None => {}
        }
    }

    fn register(&mut self, socket: &Socket, kind: Kind) -> io::Result<u64> {
        let number = self.next;
        self.next += 1;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, socket, EventData::new_u64(number), flags)?;
        self.kinds.insert(number, kind);
        Ok(number)
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Accept { flow, tuple, syn } => {
                let opened = self.listen(flow, tuple, &syn);
                self.check(flow, tuple.to, opened);
            }
            Command::Connect { flow, request } => {
                let opened = self.connect(flow, &request);
                self.check(flow, request.tuple.to, opened);
            }
            Command::Data(flow, _) | Command::Credit(flow, _) | Command::Finish(flow) => {
                if let Some(early) = self.early.get_mut(&flow) {
                    return early.commands.push(command);
                }
                let Some((connection, _)) = self.connections.get_mut(&flow) else { return };
                match command {
                    Command::Data(_, data) => connection.push(data),
                    Command::Credit(_, bytes) => connection.grant(bytes),
                    _ => connection.finish(),
                }
                self.active.insert(flow);
            }
            Command::Reset(flow) => self.reset(flow),
            Command::Probe(flow, probe) => {
                if let Some((connection, _)) = self.connections.get(&flow) {
                    let socket = connection.socket();
                    // Ignore errors. The far host then gets no answer, as if this host had disappeared.
                    let _ = if probe {
                        socket.set_tcp_keepalive(&keepalive())
                    } else {
                        socket.set_keepalive(false)
                    };
                }
            }
            Command::Stop => {}
        }
    }

    fn check(&mut self, flow: Flow, to: SocketAddr, opened: io::Result<()>) {
        if let Err(e) = opened {
            tracing::debug!("proxy: cannot open a socket for a connection to {to}: {e}");
            self.reset(flow);
            self.on_error(&e);
            self.events.push(Event::Failed(flow, false));
        }
    }

    /// If there is no free descriptor, closes the idle listeners.
    fn on_error(&mut self, e: &io::Error) {
        if matches!(Errno::from_io_error(e), Some(Errno::MFILE | Errno::NFILE)) {
            self.close_idle_listeners(0);
        }
    }

    fn connect(&mut self, flow: Flow, request: &Request) -> io::Result<()> {
        let Tuple { from, to } = request.tuple;
        let socket = transparent(to)?;
        copy_header(&socket, request)?;
        // There may be a listener on this address and port.
        socket.set_reuse_port(true)?;
        socket.bind(&SockAddr::from(from))?;
        match socket.connect(&SockAddr::from(to)) {
            Ok(()) => {}
            Err(e) if Errno::from_io_error(&e) == Some(Errno::INPROGRESS) => {}
            Err(e) => return Err(e),
        }
        let number = self.register(&socket, Kind::Connecting(flow))?;
        self.connecting.insert(flow, (socket, number, Instant::now()));
        Ok(())
    }

    fn on_connect(&mut self, flow: Flow) {
        let Some((socket, _, _)) = self.connecting.get(&flow) else { return };
        let result = match socket.take_error() {
            Ok(None) => socket.peer_addr().map(drop),
            Ok(Some(e)) | Err(e) => Err(e),
        };
        match result {
            // The socket is still connecting.
            Err(e) if e.kind() == ErrorKind::NotConnected => {}
            result => {
                let Some((socket, number, since)) = self.connecting.remove(&flow) else { return };
                self.kinds.remove(&number);
                let error = match result {
                    Ok(()) => None,
                    // The host has accepted the connection and reset it at once.
                    Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                        Some(e)
                    }
                    Err(e) => return self.events.push(Event::Failed(flow, is_refusal(&e))),
                };
                // Register the socket again, so that epoll reports its current readiness.
                let _ = epoll::delete(&self.epoll, &socket);
                let _ = socket.set_tcp_nodelay(true);
                self.established(flow, socket, Some(since));
                if let (Some(e), Some((connection, _))) = (error, self.connections.get_mut(&flow)) {
                    connection.fail(&e);
                }
            }
        }
    }

    /// Adds a connection. `since` is when the handshake began, unless the host began it.
    fn established(&mut self, flow: Flow, socket: Socket, since: Option<Instant>) {
        let early = self.early.remove(&flow);
        let since = since.or(early.as_ref().map(|early| early.since)).unwrap_or_else(Instant::now);
        match self.register(&socket, Kind::Connection(flow)) {
            Ok(number) => {
                self.connections.insert(flow, (Connection::new(socket, since.elapsed()), number));
                self.events.push(Event::Connected(flow));
                self.active.insert(flow);
                let commands = early.into_iter().flat_map(|early| early.commands);
                commands.for_each(|command| self.on_command(command));
            }
            Err(_) => {
                reset(socket);
                self.events.push(Event::Reset(flow));
            }
        }
    }

    /// Gives up on connection attempts without an answer, and on hosts that do not complete their handshake.
    fn give_up(&mut self, now: Instant) {
        let late = self.early.iter().filter(|(_, early)| now.duration_since(early.since) >= HANDSHAKE);
        for flow in late.map(|(flow, _)| *flow).collect::<Vec<_>>() {
            self.reset(flow);
            self.events.push(Event::Reset(flow));
        }
        let late = self.connecting.iter().filter(|(_, (_, _, since))| now.duration_since(*since) >= PATIENCE);
        for flow in late.map(|(flow, _)| *flow).collect::<Vec<_>>() {
            // The remote host may have answered since the last check.
            self.on_connect(flow);
            if let Some((socket, number, _)) = self.connecting.remove(&flow) {
                self.kinds.remove(&number);
                reset(socket);
                self.events.push(Event::Failed(flow, false));
            }
        }
    }

    /// Reads and writes the active connections.
    fn turn(&mut self) {
        let active: Vec<Flow> = self.active.drain().collect();
        for flow in active {
            let Some((connection, _)) = self.connections.get_mut(&flow) else { continue };
            let written = connection.write();
            if written > 0 {
                self.events.push(Event::Consumed(flow, written));
            }
            let mut broken = false;
            for turn in 1.. {
                match connection.read() {
                    Ok(None) => break,
                    Ok(Some(chunk)) if chunk.is_empty() => {
                        self.events.push(Event::Finished(flow));
                        break;
                    }
                    Ok(Some(chunk)) => self.events.push(Event::Data(flow, chunk)),
                    Err(_) => {
                        broken = true;
                        break;
                    }
                }
                if turn == TURNS {
                    self.active.insert(flow);
                    break;
                }
            }
            if broken || connection.is_broken() {
                self.broken(flow);
            } else if connection.is_over() {
                self.remove(flow);
                self.events.push(Event::Ended(flow));
            }
        }
    }

    fn remove(&mut self, flow: Flow) -> Option<Connection> {
        let (connection, number) = self.connections.remove(&flow)?;
        self.kinds.remove(&number);
        Some(connection)
    }

    /// Resets the connection to the flow's host after an error, and reports it.
    fn broken(&mut self, flow: Flow) {
        if let Some(connection) = self.remove(flow) {
            connection.reset();
            self.events.push(Event::Reset(flow));
        }
    }

    /// Resets the flow at the request of the other end.
    fn reset(&mut self, flow: Flow) {
        if let Some(Early { tuple, .. }) = self.early.remove(&flow)
            && let Some(listener) = self.listeners.get_mut(&tuple.to)
            // A newer flow may have the same addresses and ports.
            && listener.pending.get(&tuple.from) == Some(&flow)
        {
            listener.pending.remove(&tuple.from);
        }
        if let Some((socket, number, _)) = self.connecting.remove(&flow) {
            self.kinds.remove(&number);
            // The remote host may have completed the handshake, so send RST.
            reset(socket);
        }
        if let Some(connection) = self.remove(flow) {
            connection.reset();
        }
    }

    /// Resets all connections, and sends the hosts the RST segments.
    fn reset_all(&mut self, packet: &mut [u8]) {
        let flows: Vec<Flow> = self.connections.keys().chain(self.connecting.keys()).copied().collect();
        for some in flows.chunks(PACKETS) {
            some.iter().for_each(|flow| self.reset(*flow));
            self.read_device(packet);
        }
        while self.read_device(packet) || self.namespace.sends_more() {}
    }
}

#[cfg(test)]
#[path = "sockets_tests.rs"]
mod tests;
