//! A client's path over TLS or, with `auto`, over UDP or TLS.

use super::connection::{Connection, End, Link, connect, is_from};
use super::targets::Targets;
use super::{MTU, Poll, certificate, now, overhead, proxy, sum};
use dccp_net::{Bind, Burst, Encapsulation, Received, SendError, SocketStats, UdpEncapsulation};
use dccp_proto::Ecn;
use mpdccp_tunnel::TlsPath;
use mpdccp_tunnel::config::Secret;
use mpdccp_tunnel::tls::{Choice, LARGEST_FRAME, Over};
use mpdccp_units::{Duration, Time};
use rustix::fd::{AsFd, BorrowedFd};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

const UDP: u64 = 0;
const TCP: u64 = 1;
/// The TCP connection, the proxy and the TLS handshake together must complete within this time. After the
/// handshake, an answer must arrive within the same time, unless there were fewer than `SENDS` sends.
const CONNECT: Duration = Duration::from_secs(10);
const SENDS: u32 = 3;
/// A connection ends if the other end has not acknowledged sent bytes for this long.
const UNACKNOWLEDGED: std::time::Duration = std::time::Duration::from_secs(10);
/// First and longest wait before the next attempt.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How often to check whether a new connection would have another source address or interface.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) struct TlsClient {
    poll: Poll,
    /// With `auto`, this socket carries packets. Otherwise, it only serves to look up routes.
    udp: UdpEncapsulation,
    choice: Option<Choice>,
    bind: Bind,
    mark: Option<u32>,
    /// The server's address according to the configuration.
    remote: SocketAddr,
    targets: Targets,
    proxy: Option<(SocketAddr, Option<Secret>)>,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    link: Link,
    /// When `link` changed last.
    since: Time,
    ready: bool,
    /// Number of sends over the current connection, or `None` once a packet has arrived over it.
    unanswered: Option<u32>,
    /// Whether the last attempt to connect failed, so that TLS cannot carry packets.
    failed: bool,
    retry_at: Time,
    wait: Duration,
    looked_at: Time,
    /// The last packet, which may start a handshake. The next connection sends it again, because the previous
    /// connection may have lost it or led to the wrong server.
    last: Vec<u8>,
    tls: SocketStats,
    drops: BTreeMap<&'static str, u64>,
    /// The last error, stored so that a repeated error is logged only once.
    said: String,
}

impl TlsClient {
    /// Opens the socket of a path.
    ///
    /// # Errors
    /// Errors from opening the UDP socket.
    pub(crate) fn new(
        bind: Bind,
        mark: Option<u32>,
        remote: SocketAddr,
        path: &TlsPath,
    ) -> io::Result<TlsClient> {
        let udp = UdpEncapsulation::marked(bind.clone(), mark)?;
        let name = path.name.as_ref().and_then(|name| ServerName::try_from(name.clone()).ok());
        let poll = Poll::new()?;
        if path.auto.is_some() {
            poll.watch(&udp, UDP, false)?;
        }
        Ok(TlsClient {
            poll,
            udp,
            choice: path.auto.map(|begin| match begin {
                Over::Udp => Choice::new(),
                Over::Tls => Choice::with_tls(now()),
            }),
            bind,
            mark,
            remote,
            targets: Targets::new(SocketAddr::new(remote.ip(), path.port), &path.advertised),
            proxy: path.proxy.clone(),
            name: name.unwrap_or_else(|| remote.ip().into()),
            config: certificate::client(path.check).map_err(io::Error::other)?,
            link: Link::Idle,
            since: Time::ZERO,
            ready: false,
            unanswered: Some(0),
            failed: false,
            retry_at: Time::ZERO,
            wait: RETRY.0,
            looked_at: Time::ZERO,
            last: Vec::new(),
            tls: SocketStats::default(),
            drops: BTreeMap::new(),
            said: String::new(),
        })
    }

    /// Returns why there is no TLS connection.
    pub(crate) fn failure(&self) -> Option<&str> {
        Some(self.said.as_str()).filter(|_| !self.ready)
    }

    /// Returns the address that this end sends its packets to: the server or the proxy.
    fn next_hop(&self, remote: SocketAddr) -> SocketAddr {
        let direct = self.choice.as_ref().is_some_and(|choice| choice.over() == Over::Udp);
        if direct { remote } else { self.tcp() }
    }

    /// Returns the address of the other end of the TCP connection.
    fn tcp(&self) -> SocketAddr {
        self.proxy.as_ref().map_or(self.targets.current(), |(proxy, _)| *proxy)
    }

    fn wants(&self) -> bool {
        self.choice.as_ref().is_none_or(Choice::wants_tls)
    }

    fn over(&self) -> Over {
        self.choice.as_ref().map_or(Over::Tls, Choice::over)
    }

    /// Does what the chosen transport needs: starts to connect, gives up an attempt, or closes the
    /// connection.
    fn step(&mut self, now: Time) {
        if !self.wants() {
            if !matches!(self.link, Link::Idle) {
                self.link = Link::Idle;
                self.ready = false;
                self.on_disconnected(now);
            }
            return;
        }
        let asks = if self.ready { self.unanswered >= Some(SENDS) } else { !matches!(self.link, Link::Idle) };
        if asks && now.since(self.since) >= CONNECT {
            self.fail(now, "no answer", if self.ready { "tls_lost" } else { "tls_connect_failed" });
        }
        if now.since(self.looked_at) >= LOOK {
            self.looked_at = now;
            // If this host has moved to another network or has a new interface, the old connection would only
            // time out, so replace it.
            if let Some(stream) = self.link.stream()
                && let Ok(source) = self.udp.source(self.tcp())
                && !is_from(stream, source, self.bind.interface.as_deref())
            {
                self.fail(now, "this host's address or interface has changed", "tls_moved");
            }
        }
        if self.ready && self.targets.redirects() {
            self.fail(now, "connecting to an address that the server advertises", "tls_redirected");
        }
        if matches!(self.link, Link::Idle) && now >= self.retry_at {
            self.targets.choose();
            match self.connect() {
                Ok(stream) => {
                    (self.link, self.since, self.unanswered) = (Link::Connecting(stream), now, Some(0));
                }
                // No packet was sent, perhaps because the interface is missing. It may return at any time.
                Err(e) => {
                    self.wait = RETRY.0;
                    self.fail(now, &e.to_string(), "tls_connect_failed");
                }
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = connect(&self.bind, self.mark, self.tcp())?;
        self.poll.watch(&stream, TCP, true)?;
        Ok(stream)
    }

    fn fail(&mut self, now: Time, why: &str, counter: &'static str) {
        *self.drops.entry(counter).or_default() += 1;
        if self.said != why {
            tracing::info!("TLS to {}: {why}", self.tcp());
            why.clone_into(&mut self.said);
        }
        self.link = Link::Idle;
        self.ready = false;
        // A connection that this end chose to end, or that has worked, is replaced at once. A failed attempt
        // is repeated only after a delay.
        let worked = match counter {
            "tls_connect_failed" => false,
            // A web server completes the handshake, too, so only a packet shows that the connection worked.
            "tls_lost" => self.unanswered.is_none(),
            _ => true,
        };
        self.failed = !worked;
        let wait = if worked { Duration::ZERO } else { self.wait };
        if worked {
            self.targets.on_lost()
        } else {
            self.targets.on_failed()
        }
        // Add a random time, so that the clients of a failed server do not all connect at the same moment.
        let jitter = Duration::from_nanos(now.as_nanos() / 64 % (wait.as_nanos() as u64 / 4).max(1));
        self.retry_at = now + wait + jitter;
        self.wait = (self.wait * 2).min(RETRY.1);
        self.on_disconnected(now);
    }

    fn on_disconnected(&mut self, now: Time) {
        if let Some(choice) = &mut self.choice {
            choice.on_disconnected(now);
        }
    }

    /// Takes the next step in the current state of the TCP connection.
    fn progress(&mut self, now: Time, each: &mut dyn FnMut(Received<'_>)) -> Result<(), End> {
        match std::mem::replace(&mut self.link, Link::Idle) {
            Link::Idle => {}
            Link::Connecting(stream) => {
                if let Some(e) = stream.take_error()? {
                    return Err(e.into());
                }
                if stream.peer_addr().is_err() {
                    self.link = Link::Connecting(stream);
                    return Ok(());
                }
                match &self.proxy {
                    None => self.begin_tls(stream)?,
                    Some((_, login)) => {
                        (&stream)
                            .write_all(proxy::request(self.targets.current(), login.as_ref()).as_bytes())?;
                        self.poll.watch(&stream, TCP, false)?;
                        self.link = Link::Proxy(stream, Vec::new());
                    }
                }
            }
            Link::Proxy(stream, mut answer) => {
                let has_login = self.proxy.as_ref().is_some_and(|(_, login)| login.is_some());
                if !proxy::accepts(&stream, &mut answer, has_login)? {
                    self.link = Link::Proxy(stream, answer);
                    return Ok(());
                }
                self.begin_tls(stream)?;
            }
            Link::Tls(mut connection) => {
                let (remote, over) = (self.remote, u32::from(overhead(self.remote)));
                let tls = &mut self.tls;
                let before = tls.rx_packets;
                tls.rx_calls += 1;
                let done = connection.read(&mut |bytes| {
                    let ip_len = over + bytes.len() as u32;
                    tls.rx_packets += 1;
                    tls.rx_bytes += u64::from(ip_len);
                    each(Received { at: now, local: None, remote, ecn: Ecn::NotEct, ip_len, bytes });
                });
                if self.tls.rx_packets > before {
                    (self.wait, self.unanswered) = (RETRY.0, None);
                    self.said.clear();
                }
                done?;
                self.poll.watch(&connection.stream, TCP, connection.is_full())?;
                let ready = connection.is_ready();
                self.link = Link::Tls(connection);
                if ready && !std::mem::replace(&mut self.ready, ready) {
                    self.on_ready(now);
                }
            }
        }
        Ok(())
    }

    fn begin_tls(&mut self, stream: TcpStream) -> Result<(), End> {
        let tls = ClientConnection::new(self.config.clone(), self.name.clone()).map_err(io::Error::other)?;
        let mut connection = Connection::new(stream, tls, UNACKNOWLEDGED)?;
        connection.write()?;
        self.poll.watch(&connection.stream, TCP, connection.is_full())?;
        self.link = Link::Tls(Box::new(connection));
        Ok(())
    }

    fn on_ready(&mut self, now: Time) {
        tracing::debug!("TLS to {}: connected", self.tcp());
        (self.since, self.looked_at, self.failed) = (now, now, false);
        if let Some(choice) = &mut self.choice {
            choice.on_connected(now);
        }
        if self.over() == Over::Tls {
            self.send_last();
        }
    }

    /// Sends the last packet again over TLS.
    fn send_last(&mut self) {
        if let (Link::Tls(connection), false) = (&mut self.link, self.last.is_empty()) {
            // Ignore the result: if the packet is dropped, its sender will retransmit it.
            let _ = connection.send(std::iter::once(&*self.last));
        }
    }

    fn send_tls(&mut self, now: Time, burst: &Burst<'_>) -> Result<(), SendError> {
        let packets = burst.bytes.len().div_ceil(burst.segment.max(1)) as u64;
        self.hold(burst);
        let (Link::Tls(connection), true) = (&mut self.link, self.ready) else {
            self.tls.tx_link_down += packets;
            return Err(self.unconnected().map_or(SendError::BufferFull, SendError::LinkDown));
        };
        self.tls.tx_calls += 1;
        self.unanswered = self.unanswered.map(|sends| sends.saturating_add(1));
        match connection.send(burst.bytes.chunks(burst.segment.max(1))) {
            Ok(sent) => {
                let bytes = burst.bytes.len().min(sent * burst.segment);
                self.tls.tx_packets += sent as u64;
                self.tls.tx_bytes += (bytes + sent * usize::from(overhead(self.remote))) as u64;
                self.tls.tx_buffer_full += packets - sent as u64;
                let watched = self.poll.watch(&connection.stream, TCP, connection.is_full());
                match (watched, sent as u64 == packets) {
                    (Err(e), _) => self.fail(now, &e.to_string(), "tls_lost"),
                    (_, false) => return Err(SendError::BufferFull),
                    _ => {}
                }
            }
            Err(e) => {
                self.tls.tx_link_down += packets;
                self.fail(now, &e.to_string(), "tls_lost");
            }
        }
        Ok(())
    }

    /// Returns an error if the path uses only TLS and the last attempt to connect failed. Packets cannot be
    /// sent then.
    fn unconnected(&self) -> Option<io::Error> {
        (self.failed && self.choice.is_none()).then(|| io::Error::other(format!("TLS: {}", self.said)))
    }

    /// Stores the last packet of a burst.
    fn hold(&mut self, burst: &Burst<'_>) {
        if let Some(packet) = burst.bytes.chunks(burst.segment.max(1)).next_back()
            && packet.len() <= LARGEST_FRAME
        {
            self.last.clear();
            self.last.extend_from_slice(packet);
        }
    }
}

impl AsFd for TlsClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.fd()
    }
}

impl Encapsulation for TlsClient {
    fn name(&self) -> &'static str {
        // Report TLS even while the TLS connection is lost, because UDP does not answer.
        match self.choice.as_ref().is_none_or(Choice::has_moved) {
            false => "udp",
            true => "tls",
        }
    }

    fn overhead(&self) -> u16 {
        overhead(self.remote)
    }

    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        let now = now();
        let first = self.choice.as_mut().is_some_and(|choice| choice.on_send(now));
        self.step(now);
        if first {
            self.send_last();
        }
        match self.over() {
            Over::Tls => self.send_tls(now, burst),
            Over::Udp => {
                self.hold(burst);
                match (self.udp.send(burst), &mut self.choice) {
                    // The kernel refuses the datagrams, most likely because of a firewall on this host.
                    (Err(SendError::LinkDown(e)), Some(choice))
                        if e.kind() == ErrorKind::PermissionDenied =>
                    {
                        choice.on_udp_refused(now);
                        Err(SendError::BufferFull)
                    }
                    (result, _) => result,
                }
            }
        }
    }

    fn receive(&mut self, each: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        let mut packets = 0;
        let now = now();
        for id in self.poll.ready() {
            let mut counted = |received: Received<'_>| {
                packets += 1;
                each(received);
            };
            if id == UDP {
                let (udp, choice) = (&mut self.udp, &mut self.choice);
                udp.receive(&mut |received| {
                    choice.iter_mut().for_each(|choice| choice.on_udp(now));
                    counted(received);
                })?;
            } else if let Err(end) = self.progress(now, &mut counted) {
                let counter = if self.ready { "tls_lost" } else { "tls_connect_failed" };
                match end {
                    End::Closed => self.fail(now, "the other end closed the connection", counter),
                    End::NotFrames => self.fail(now, "the other end is not a tunnel", counter),
                    End::Failed(e) => self.fail(now, &e.to_string(), counter),
                }
            }
        }
        self.step(now);
        Ok(packets)
    }

    fn present(&self) -> io::Result<()> {
        self.udp.present()
    }

    fn check(&mut self, remote: SocketAddr) -> io::Result<()> {
        self.step(now());
        if let Some(e) = self.unconnected() {
            return Err(e);
        }
        self.udp.check(self.next_hop(remote))?;
        // The check may have replaced the UDP socket, so watch the socket again.
        if self.choice.is_some() { self.poll.watch(&self.udp, UDP, false) } else { Ok(()) }
    }

    fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        let known = self.udp.path_mtu(self.next_hop(remote))?;
        Ok(if self.choice.is_some() { known } else { MTU })
    }

    fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        let known = self.udp.device_mtu(self.next_hop(remote))?;
        Ok(if self.choice.is_some() { known } else { MTU })
    }

    fn source(&self, remote: SocketAddr) -> io::Result<IpAddr> {
        self.udp.source(self.next_hop(remote))
    }

    fn device(&self, remote: SocketAddr) -> io::Result<String> {
        self.udp.device(self.next_hop(remote))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.link {
            Link::Tls(connection) if self.over() == Over::Tls => connection.stream.local_addr(),
            _ => self.udp.local_addr(),
        }
    }

    fn stats(&self) -> SocketStats {
        sum(&self.udp.stats(), &self.tls)
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.drops.iter().map(|(why, n)| (*why, *n)).collect()
    }

    fn on_answer(&mut self, now: Time) {
        self.choice.iter_mut().for_each(|choice| choice.on_answer(now));
    }

    fn on_suspect(&mut self, now: Time) {
        self.choice.iter_mut().for_each(|choice| choice.on_suspect(now));
    }

    fn on_advertised(&mut self, now: Time, addresses: &[IpAddr], up: bool) {
        self.targets.learn(addresses, up);
        self.step(now);
    }

    fn asks(&mut self, now: Time) -> bool {
        self.choice.as_mut().is_some_and(|choice| choice.asks(now))
    }

    fn ask(&mut self, question: &Burst<'_>) {
        // Ignore the error: if no answer arrives, another echo request will follow.
        let _ = self.udp.send(question);
    }
}

#[cfg(test)]
mod tests;
