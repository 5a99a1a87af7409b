//! A shard's TLS connections at one of the server's listening addresses. Until the tunnel has answered on a
//! connection, limits on number, bytes and time apply to it.

mod limits;

use super::connection::{Connection, End};
use super::{MTU, Poll, certificate, now, overhead};
use crate::descriptors;
use dccp_net::{Burst, Encapsulation, Received, SendError, SocketStats, UdpEncapsulation};
use dccp_proto::Ecn;
use limits::{Count, LIMITS, Limits};
use mpdccp_tunnel::config::Config;
use mpdccp_units::{Time, site, source};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use rustls::{ServerConfig, ServerConnection};
use socket2::{Domain, Protocol, Socket, Type};
use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

const LISTENER: u64 = 0;
const TIMER: u64 = 1;
/// Maximum number of times that a connection can move from shard to shard.
const MOST_MOVES: u8 = 8;
/// A connection ends if the other end has not acknowledged sent bytes for this long.
const UNACKNOWLEDGED: std::time::Duration = std::time::Duration::from_secs(30);

#[derive(Debug)]
struct Guest {
    connection: Connection,
    remote: SocketAddr,
    since: Time,
    last: Time,
    /// Whether the tunnel has sent a record on this connection.
    answered: bool,
    received: usize,
    moves: u8,
}

pub(crate) struct TlsServer {
    poll: Poll,
    listener: TcpListener,
    timer: OwnedFd,
    armed: bool,
    /// Whether the listener is not watched until the timer expires, because descriptors are short.
    paused: bool,
    /// This socket only serves to look up routes and sizes.
    udp: UdpEncapsulation,
    addr: SocketAddr,
    config: Arc<ServerConfig>,
    guests: BTreeMap<u64, Guest>,
    by_remote: BTreeMap<SocketAddr, u64>,
    by_source: BTreeMap<IpAddr, Count>,
    strangers: usize,
    limits: Limits,
    next: u64,
    tokens: u64,
    tokens_at: Time,
    stats: SocketStats,
    drops: BTreeMap<&'static str, u64>,
}

impl TlsServer {
    /// Listens on an address. Several shards may listen on the same address.
    ///
    /// # Errors
    /// Errors from the system and from reading the certificate files.
    pub(crate) fn new(cfg: &Config, addr: SocketAddr, mark: Option<u32>) -> io::Result<TlsServer> {
        // The usual limit on descriptors allows far fewer connections than `LIMITS`.
        descriptors::raise();
        TlsServer::limited(cfg, addr, mark, LIMITS)
    }

    fn limited(cfg: &Config, addr: SocketAddr, mark: Option<u32>, limits: Limits) -> io::Result<TlsServer> {
        let config = certificate::server(cfg).map_err(|e| io::Error::new(ErrorKind::InvalidInput, e))?;
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if cfg.shards.0 > 1 {
            socket.set_reuse_port(true)?;
        }
        if mark.is_some() {
            dccp_net::prepare_socket(&socket, mark)?;
        }
        socket.bind(&addr.into())?;
        socket.listen(128)?;
        let bind = dccp_net::Bind { addr: SocketAddr::new(addr.ip(), 0), interface: None };
        let udp = UdpEncapsulation::marked(bind, mark)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let (poll, listener) = (Poll::new()?, TcpListener::from(socket));
        poll.watch(&listener, LISTENER, false)?;
        poll.watch(&timer, TIMER, false)?;
        Ok(TlsServer {
            poll,
            listener,
            timer,
            armed: false,
            paused: false,
            udp,
            addr,
            config,
            guests: BTreeMap::new(),
            by_remote: BTreeMap::new(),
            by_source: BTreeMap::new(),
            strangers: 0,
            limits,
            next: TIMER + 1,
            tokens: limits.at_once,
            tokens_at: now(),
            stats: SocketStats::default(),
            drops: BTreeMap::new(),
        })
    }

    fn count(&mut self, why: &'static str) {
        *self.drops.entry(why).or_default() += 1;
    }

    /// Starts or stops a timer that wakes the loop every second while there are connections, or while the
    /// listener is paused.
    fn arm(&mut self) {
        let on = self.paused || !self.guests.is_empty();
        if self.armed != on {
            let second = Timespec { tv_sec: i64::from(on), tv_nsec: 0 };
            let setting = Itimerspec { it_interval: second, it_value: second };
            self.armed = on && timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting).is_ok();
        }
    }

    fn has_token(&mut self, now: Time) -> bool {
        let earned = now.since(self.tokens_at).as_micros() as u64 * self.limits.per_second / 1_000_000;
        if earned > 0 {
            (self.tokens, self.tokens_at) =
                ((self.tokens.saturating_add(earned)).min(self.limits.at_once), now);
        }
        let has = self.tokens > 0;
        self.tokens -= u64::from(has);
        has
    }

    fn accept(&mut self, now: Time) {
        for _ in 0..64 {
            let (stream, remote) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => {
                    self.count("tls_not_accepted");
                    // The connection still waits, so the listener would keep this thread busy.
                    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
                    if Errno::from_io_error(&e).is_some_and(|e| shortages.contains(&e)) {
                        self.paused = self.poll.unwatch(&self.listener).is_ok();
                        self.arm();
                    }
                    break;
                }
            };
            if let Some(why) = self.refusal(remote.ip(), true, Some(now)) {
                self.count(why);
                continue;
            }
            let open = || -> io::Result<Connection> {
                stream.set_nonblocking(true)?;
                let tls = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
                Connection::new(stream, tls, UNACKNOWLEDGED)
            };
            match open() {
                Ok(connection) => self.put(Guest {
                    connection,
                    remote,
                    since: now,
                    last: now,
                    answered: false,
                    received: 0,
                    moves: 0,
                }),
                Err(_) => self.count("tls_not_accepted"),
            }
        }
    }

    /// Returns why a connection from this address must be refused, if it must. `accepted` is the time at
    /// which this shard accepted it. The rate of connections from other shards is not limited.
    fn refusal(&mut self, from: IpAddr, stranger: bool, accepted: Option<Time>) -> Option<&'static str> {
        let of_source = self.by_source.get(&source(from)).copied().unwrap_or_default().strangers;
        match () {
            () if stranger && of_source >= self.limits.of_source => Some("tls_refused_source"),
            () if accepted.is_some_and(|now| !self.has_token(now)) => Some("tls_refused_rate"),
            () if !self.has_room(from) => Some("tls_refused_full"),
            () => None,
        }
    }

    /// Returns whether another connection from this address may be accepted. If a limit is reached, ends a
    /// connection of the source, or else of the site, that has the most.
    fn has_room(&mut self, from: IpAddr) -> bool {
        let strangers = match () {
            () if self.guests.len() >= self.limits.all => false,
            () if self.strangers >= self.limits.strangers => true,
            () => return true,
        };
        let displaced = [source, site].into_iter().find_map(|block| self.most_idle(from, strangers, block));
        let Some(id) = displaced else { return false };
        self.remove(id);
        self.count("tls_displaced");
        true
    }

    /// If the block of addresses with the most connections has at least two more than the block of `from`,
    /// returns its connection that has been idle longest.
    fn most_idle(&self, from: IpAddr, strangers: bool, block: fn(IpAddr) -> IpAddr) -> Option<u64> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        for (ip, count) in &self.by_source {
            *counts.entry(block(*ip)).or_default() += count.of(strangers);
        }
        let own = counts.get(&block(from)).copied().unwrap_or_default();
        let (count, most) = counts.into_iter().map(|(ip, count)| (count, ip)).max()?;
        let its =
            self.guests.iter().filter(|(_, g)| block(g.remote.ip()) == most && !(strangers && g.answered));
        its.map(|(id, guest)| (guest.last, *id)).min().filter(|_| count > own + 1).map(|(_, id)| id)
    }

    fn put(&mut self, guest: Guest) {
        self.next += 1;
        if self.poll.watch(&guest.connection.stream, self.next, guest.connection.is_full()).is_err() {
            return self.count("tls_not_accepted");
        }
        let count = self.by_source.entry(source(guest.remote.ip())).or_default();
        count.all += 1;
        count.strangers += usize::from(!guest.answered);
        self.strangers += usize::from(!guest.answered);
        if let Some(before) = self.by_remote.insert(guest.remote, self.next) {
            self.remove(before);
        }
        self.guests.insert(self.next, guest);
        self.arm();
    }

    fn remove(&mut self, id: u64) -> Option<Guest> {
        let guest = self.guests.remove(&id)?;
        if self.by_remote.get(&guest.remote) == Some(&id) {
            self.by_remote.remove(&guest.remote);
        }
        let from = source(guest.remote.ip());
        if !guest.answered {
            self.leave_strangers(from);
        }
        if let Some(count) = self.by_source.get_mut(&from) {
            count.all -= 1;
            if count.all == 0 {
                self.by_source.remove(&from);
            }
        }
        self.arm();
        Some(guest)
    }

    /// Decreases the number of strangers.
    fn leave_strangers(&mut self, from: IpAddr) {
        self.strangers -= 1;
        if let Some(count) = self.by_source.get_mut(&from) {
            count.strangers -= 1;
        }
    }

    /// Ends the connections whose time limit has passed.
    pub(super) fn expire(&mut self, now: Time) {
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        if self.paused {
            self.paused = self.poll.watch(&self.listener, LISTENER, false).is_err();
            self.arm();
        }
        let over = |guest: &Guest| match guest.answered {
            true => now.since(guest.last) >= self.limits.idle,
            false => now.since(guest.since) >= self.limits.patience,
        };
        let ids: Vec<u64> = self.guests.iter().filter(|(_, g)| over(g)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(guest) = self.remove(id) {
                self.count(if guest.answered { "tls_idle" } else { "tls_timed_out" });
            }
        }
    }

    /// Reads from a connection. Returns the number of packets read.
    fn read(&mut self, now: Time, id: u64, each: &mut dyn FnMut(Received<'_>)) -> usize {
        let over = u32::from(overhead(self.addr));
        let Some(guest) = self.guests.get_mut(&id) else { return 0 };
        let (remote, stats, mut packets) = (guest.remote, &mut self.stats, 0);
        stats.rx_calls += 1;
        let result = guest.connection.read(&mut |bytes| {
            packets += 1;
            let ip_len = over + bytes.len() as u32;
            stats.rx_packets += 1;
            stats.rx_bytes += u64::from(ip_len);
            each(Received { at: now, local: None, remote, ecn: Ecn::NotEct, ip_len, bytes });
        });
        let why = match result {
            Ok(bytes) => {
                guest.received = guest.received.saturating_add(bytes);
                if packets > 0 {
                    guest.last = now;
                }
                let watched = self.poll.watch(&guest.connection.stream, id, guest.connection.is_full());
                match () {
                    () if !guest.answered && guest.received > self.limits.bytes => "tls_too_much",
                    () if watched.is_err() => "tls_lost",
                    () => return packets,
                }
            }
            Err(End::NotFrames) => {
                guest.connection.refuse();
                "tls_not_a_tunnel"
            }
            Err(End::Closed) => "tls_closed",
            Err(End::Failed(_)) if !guest.connection.is_ready() => "tls_handshake_failed",
            Err(End::Failed(_)) => "tls_lost",
        };
        self.remove(id);
        self.count(why);
        packets
    }
}

impl AsFd for TlsServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.fd()
    }
}

impl Encapsulation for TlsServer {
    fn name(&self) -> &'static str {
        "tls"
    }

    fn overhead(&self) -> u16 {
        overhead(self.addr)
    }

    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        let segment = burst.segment.max(1);
        let packets = burst.bytes.len().div_ceil(segment) as u64;
        let found = self.by_remote.get(&burst.remote).copied();
        // Anyone can get a cookie, or replay a recorded handshake and get a response. Records go only to a
        // peer that has proved its key, so the connection is no longer a stranger's.
        if let Some(guest) = found.and_then(|id| self.guests.get_mut(&id))
            && !guest.answered
            && !dccp_secure::is_handshake(burst.bytes)
        {
            guest.answered = true;
            self.leave_strangers(source(burst.remote.ip()));
        }
        let Some((id, guest)) = found.and_then(|id| Some((id, self.guests.get_mut(&id)?))) else {
            // The connection is gone, so no packet can reach the client until it connects again.
            self.stats.tx_link_down += packets;
            return Err(SendError::BufferFull);
        };
        guest.last = now();
        self.stats.tx_calls += 1;
        let sent = guest.connection.send(burst.bytes.chunks(segment));
        let watched = self.poll.watch(&guest.connection.stream, id, guest.connection.is_full());
        match (sent, watched) {
            (Ok(sent), Ok(())) => {
                let bytes = burst.bytes.len().min(sent * segment);
                self.stats.tx_packets += sent as u64;
                self.stats.tx_bytes += (bytes + sent * usize::from(overhead(self.addr))) as u64;
                self.stats.tx_buffer_full += packets - sent as u64;
                if sent as u64 == packets { Ok(()) } else { Err(SendError::BufferFull) }
            }
            _ => {
                self.stats.tx_link_down += packets;
                self.remove(id);
                self.count("tls_lost");
                Err(SendError::BufferFull)
            }
        }
    }

    fn receive(&mut self, each: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        let (now, mut packets) = (now(), 0);
        for id in self.poll.ready() {
            match id {
                LISTENER => self.accept(now),
                TIMER => self.expire(now),
                id => packets += self.read(now, id, each),
            }
        }
        Ok(packets)
    }

    fn present(&self) -> io::Result<()> {
        self.udp.present()
    }

    fn check(&mut self, remote: SocketAddr) -> io::Result<()> {
        self.udp.check(remote)
    }

    fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        self.udp.path_mtu(remote).map(|_| MTU)
    }

    fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        self.udp.device_mtu(remote).map(|_| MTU)
    }

    fn source(&self, remote: SocketAddr) -> io::Result<IpAddr> {
        self.udp.source(remote)
    }

    fn device(&self, remote: SocketAddr) -> io::Result<String> {
        self.udp.device(remote)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    fn stats(&self) -> SocketStats {
        self.stats
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.drops.iter().map(|(why, n)| (*why, *n)).collect()
    }

    fn give(&mut self, remote: SocketAddr) -> Option<Box<dyn Any + Send>> {
        let id = *self.by_remote.get(&remote)?;
        if self.guests.get(&id)?.moves >= MOST_MOVES {
            self.remove(id);
            self.count("tls_moved_too_often");
            return None;
        }
        let mut guest = self.remove(id)?;
        // The connection stays open, so its packets would keep waking this shard.
        let _ = self.poll.unwatch(&guest.connection.stream);
        guest.moves += 1;
        Some(Box::new(guest))
    }

    fn take(&mut self, connection: Box<dyn Any + Send>) {
        let Ok(guest) = connection.downcast::<Guest>() else { return };
        // A stranger can choose the shard, so the limits apply here, too.
        match self.refusal(guest.remote.ip(), !guest.answered, None) {
            Some(why) => self.count(why),
            None => self.put(*guest),
        }
    }
}

#[cfg(test)]
mod tests;
