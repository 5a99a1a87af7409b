//! Sends probes to the server over one line, through a separate encrypted channel. The tunnel need not be
//! running; if it is, the probes do not disturb it.

use crate::error::Error;
use crate::tunnel::host::routes::MARK;
use crate::tunnel::tls::TlsClient;
use dccp_net::{Bind, Burst, Clock, Encapsulation, RawEncapsulation, UdpEncapsulation};
use dccp_secure::{Address, ChannelId, Channels, EchoAnswer, EchoQuestion, HEADER, Input, OVERHEAD, Reason};
use mpdccp_tunnel::TlsPath;
use mpdccp_tunnel::config::Config;
use mpdccp_units::{Duration, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// The peer's number in the doctor's channels.
const PEER: u32 = 0;

trait Socket: Encapsulation + AsFd {
    /// Returns why there is no connection, if the socket knows the reason.
    fn failure(&self) -> Option<&str> {
        None
    }
}
impl Socket for UdpEncapsulation {}
impl Socket for RawEncapsulation {}
impl Socket for TlsClient {
    fn failure(&self) -> Option<&str> {
        TlsClient::failure(self)
    }
}

/// The transport that carries the probes.
pub(crate) enum Over {
    Udp,
    Raw,
    Tls(TlsPath),
}

/// An answer from the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Got {
    pub(crate) answer: EchoAnswer,
    /// When the probe was sent, and when its answer arrived.
    pub(crate) asked: Time,
    pub(crate) at: Time,
}

impl Got {
    pub(crate) fn rtt(&self) -> Duration {
        self.at.since(self.asked)
    }
}

/// Sends and receives the probes of one line.
pub(crate) struct Prober {
    sockets: Vec<Box<dyn Socket>>,
    bind: Bind,
    over: Over,
    mark: Option<u32>,
    channels: Channels,
    channel: ChannelId,
    remote: SocketAddr,
    /// Probes that have not received all their answers: when each was sent, and how many of its answers are
    /// still missing.
    asked: BTreeMap<u64, (Time, u8)>,
    next: u64,
    /// Numbers of the probes that were answered after more than 4 s. Only probes that request a delay are
    /// answered this late.
    late: BTreeSet<u64>,
    /// How many of this channel's probes have arrived, according to the answers.
    pub(crate) counted: u32,
}

impl Prober {
    /// Opens a socket for a line. The first probe starts the handshake. In `channels`, the server is peer 0.
    pub(crate) fn new(
        cfg: &Config,
        mut channels: Channels,
        bind: Bind,
        remote: SocketAddr,
        over: Over,
    ) -> Result<Prober, Error> {
        let to = Address { socket: 0, local: None, remote };
        let channel = channels.open(Clock.now(), PEER, to).ok_or_else(|| Error::runtime("no channel"))?;
        let mark = cfg.default_route.then_some(MARK);
        let mut prober = Prober {
            sockets: Vec::new(),
            bind,
            over,
            mark,
            channels,
            channel,
            remote,
            asked: BTreeMap::new(),
            next: 1,
            late: BTreeSet::new(),
            counted: 0,
        };
        prober.add_socket()?;
        Ok(prober)
    }

    /// Opens another socket with a port of its own. Returns the socket's index.
    pub(crate) fn add_socket(&mut self) -> std::io::Result<usize> {
        let bind = self.bind.clone();
        self.sockets.push(match &self.over {
            Over::Udp => Box::new(UdpEncapsulation::marked(bind, self.mark)?),
            Over::Raw => Box::new(RawEncapsulation::marked(bind, self.mark)?.sealed()),
            Over::Tls(path) => Box::new(TlsClient::new(bind, self.mark, self.remote, path)?),
        });
        Ok(self.sockets.len() - 1)
    }

    /// Returns whether the transport allows several sockets with different ports.
    pub(crate) fn has_ports(&self) -> bool {
        matches!(self.over, Over::Udp)
    }

    /// Returns whether TLS carries the probes.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.over, Over::Tls(_))
    }

    /// Returns why there is no TLS connection.
    pub(crate) fn tls_failure(&self) -> Option<&str> {
        self.sockets[0].failure()
    }

    /// Returns the number of bytes that headers and encryption add to a probe.
    fn overhead(&self) -> u16 {
        self.sockets[0].overhead() + OVERHEAD as u16
    }

    /// Returns the largest packet that the interface accepts.
    pub(crate) fn device_mtu(&self) -> std::io::Result<u16> {
        self.sockets[0].device_mtu(self.remote)
    }

    /// Returns the path MTU that the system has learned from ICMP.
    pub(crate) fn path_mtu(&self) -> std::io::Result<u16> {
        self.sockets[0].path_mtu(self.remote)
    }

    /// Returns the source address of the probes.
    pub(crate) fn source(&self) -> Option<SocketAddr> {
        let port = self.sockets[0].local_addr().ok()?.port();
        Some(SocketAddr::new(self.sockets[0].source(self.remote).ok()?, port))
    }

    /// Returns the number of received messages that the channel dropped for this reason.
    pub(crate) fn dropped(&self, reason: Reason) -> u64 {
        self.channels.drops().get(&reason).copied().unwrap_or(0)
    }

    /// Sends a probe, an IP packet of `size` bytes, from socket number `socket`. The server answers after
    /// `wait` with an IP packet of `answer` bytes. Returns the number of the probe.
    pub(crate) fn ask(&mut self, socket: usize, size: u16, answer: u16, wait: Duration) -> u64 {
        self.ask_for(socket, size, (answer, 1), wait)
    }

    /// Sends a probe that requests several answers. Otherwise like [`ask`](Self::ask).
    pub(crate) fn ask_for(
        &mut self,
        socket: usize,
        size: u16,
        (answer, answers): (u16, u8),
        wait: Duration,
    ) -> u64 {
        let (now, number, overhead) = (Clock.now(), self.next, self.overhead());
        self.next += 1;
        let question = EchoQuestion { number, answer: answer.saturating_sub(overhead), answers, wait };
        let packet = question.write(size.saturating_sub(overhead).into());
        let mut record = vec![0; packet.len() + OVERHEAD];
        record[HEADER..HEADER + packet.len()].copy_from_slice(&packet);
        let len = record.len();
        if answers > 0 {
            self.asked.insert(number, (now, answers));
        }
        if self.channels.seal(now, self.channel, &mut record, len).is_ok() {
            self.send(socket, self.remote, &record);
        }
        number
    }

    fn send(&mut self, socket: usize, remote: SocketAddr, bytes: &[u8]) {
        // Ignore the error: a probe that is not sent gets no answer.
        let _ = self.sockets[socket].send(&Burst::of_one(None, remote, bytes));
    }

    /// Returns whether a handshake with the server has ever been completed.
    pub(crate) fn has_key(&self) -> bool {
        self.channels.stats(self.channel).is_some_and(|stats| stats.handshakes > 0)
    }

    /// Returns the number of the next probe.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Returns the probes that were answered after more than 4 s. Only probes that request a delay are
    /// answered this late.
    pub(crate) fn answered(&self) -> &BTreeSet<u64> {
        &self.late
    }

    /// Receives answers until time `until`, or until `done` returns true for an answer.
    pub(crate) fn receive(&mut self, until: Time, mut done: impl FnMut(&Got) -> bool) {
        loop {
            self.channels.handle_timeout(Clock.now());
            while let Some((to, message)) = self.channels.poll_transmit() {
                let socket = usize::try_from(to.socket).unwrap_or(0).min(self.sockets.len() - 1);
                self.send(socket, to.remote, &message);
            }
            let (mut finished, mut any) = (false, false);
            for got in self.take() {
                any = true;
                finished |= done(&got);
            }
            let now = Clock.now();
            if finished || now >= until {
                return;
            }
            if !any {
                let next = self.channels.poll_timeout().map_or(until, |at| at.min(until));
                self.sleep(next.since(now).clamp(Duration::from_micros(200), Duration::from_millis(100)));
            }
        }
    }

    fn sleep(&self, most: Duration) {
        let mut fds: Vec<PollFd<'_>> = self.sockets.iter().map(|s| PollFd::new(s, PollFlags::IN)).collect();
        let wait = Timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos().into() };
        // Read all sockets even if a signal interrupted the wait.
        let _ = poll(&mut fds, Some(&wait));
    }

    /// Receives the answers that are available now.
    fn take(&mut self) -> Vec<Got> {
        let now = Clock.now();
        let mut all = Vec::new();
        let Prober { sockets, channels, asked, late, counted, .. } = self;
        for (number, socket) in (0u32..).zip(sockets) {
            let mut each = |packet: dccp_net::Received<'_>| {
                let from = Address { socket: number, local: None, remote: packet.remote };
                let Input::Packet { len, .. } = channels.handle(now, &from, packet.bytes) else { return };
                let read = packet.bytes.get(HEADER..HEADER + len).and_then(EchoAnswer::read);
                let Some(answer) = read else { return };
                *counted = (*counted).max(answer.count);
                let Entry::Occupied(mut entry) = asked.entry(answer.number) else { return };
                let asked = entry.get().0;
                entry.get_mut().1 -= 1;
                if entry.get().1 == 0 {
                    entry.remove();
                }
                if now.since(asked) > Duration::from_secs(4) {
                    late.insert(answer.number);
                }
                all.push(Got { answer, asked, at: packet.at.max(asked) });
            };
            // Ignore the error: other tests evaluate ICMP errors.
            let _ = socket.receive(&mut each);
        }
        all
    }
}
