//! Common part of both encapsulations: a bound, non-blocking socket with ECN both ways, receive times, and
//! batched receiving.

use crate::bind::Bind;
use crate::clock::Clock;
use crate::egress;
use crate::grant;
use crate::icmp;
use crate::watch;
use crate::{Burst, SendError, SocketStats};
use dccp_proto::Ecn;
use dccp_wire::IPPROTO_DCCP;
use mpdccp_units::{Duration, Time};
use nix::libc;
use nix::sys::socket::sockopt::{
    AttachReusePortCbpf, Ipv4PacketInfo, Ipv6RecvErr, Ipv6RecvPacketInfo, ReceiveTimestampns,
};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, Type};
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Size of a receive buffer: the most that generic receive offload joins.
const RECEIVE: usize = 65_536;
/// Maximum number of error messages read at a time, and of refusing destinations kept: an attacker can send
/// many ICMP messages.
const MOST_ERRORS: usize = 64;
const MOST_REFUSED: usize = 16;

pub(crate) struct Socket {
    bind: Bind,
    raw: bool,
    /// Mark of its packets for policy routing (SO_MARK).
    mark: Option<u32>,
    inner: socket2::Socket,
    state: UdpSocketState,
    /// Off once the kernel refused a segmented send.
    segmentation: bool,
    buffer: Vec<u8>,
    /// Reads ICMP errors from the kernel, and the destinations that refused packets.
    heeds_refusals: bool,
    refused: Vec<SocketAddr>,
    /// Cached probe socket for questions about MTUs.
    asking: Cell<Option<socket2::Socket>>,
    pub(crate) stats: SocketStats,
}

/// One message from the kernel: several packets of `stride` bytes; the last may be shorter.
pub(crate) struct Message<'a> {
    pub(crate) at: Time,
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) stride: usize,
    pub(crate) bytes: &'a mut [u8],
}

fn open(bind: &Bind, raw: bool, mark: Option<u32>, shared: bool) -> io::Result<socket2::Socket> {
    let domain = Domain::for_address(bind.addr);
    let socket = match raw {
        true => socket2::Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(IPPROTO_DCCP))))?,
        false => socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?,
    };
    socket.set_nonblocking(true)?;
    // Raw IPv6 sockets never see IPv4.
    if bind.addr.is_ipv6() && !raw {
        socket.set_only_v6(true)?;
    }
    grant::prepare_socket(&socket, mark)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    bind.set_interface(&socket)?;
    socket.bind(&SockAddr::from(bind.addr))?;
    Ok(socket)
}

/// Makes the kernel deliver each datagram to the socket whose number is in byte 4, or by a hash of its
/// addresses if there is no such socket. Without this, shards hand over more datagrams to each other.
fn shard_by_header(socket: &socket2::Socket, shards: u8) {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let program = [
        // Load byte 4. For a shorter datagram the program ends and returns 0, the first socket.
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 4),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, shards.into()),
        // No socket has this number.
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    if let Err(e) = setsockopt(socket, AttachReusePortCbpf, &program) {
        tracing::info!(
            "the kernel cannot select the shard of a datagram ({e}); shards hand datagrams over instead"
        );
    }
}

/// Sets up the control messages of received packets. quinn-udp's control buffer has room for three of receive
/// time, addresses, segment size and ECN field; with all four, the ECN field is lost. Raw sockets have no
/// segments. UDP sockets bound to an address omit the addresses; others omit the time.
fn set_up(socket: &socket2::Socket, bind: &Bind, raw: bool) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(socket.into())?;
    if !raw && bind.is_wildcard() {
        setsockopt(socket, ReceiveTimestampns, &false)?;
    } else if !raw && bind.addr.is_ipv4() {
        setsockopt(socket, Ipv4PacketInfo, &false)?;
    } else if !raw {
        setsockopt(socket, Ipv6RecvPacketInfo, &false)?;
    }
    Ok(state)
}

/// Opens a fully configured socket, one of `shards` at the same address.
fn open_whole(
    bind: &Bind,
    raw: bool,
    mark: Option<u32>,
    shards: Option<u8>,
) -> io::Result<(socket2::Socket, UdpSocketState)> {
    let inner = open(bind, raw, mark, shards.is_some())?;
    if let Some(shards) = shards {
        shard_by_header(&inner, shards);
    }
    let state = set_up(&inner, bind, raw)?;
    Ok((inner, state))
}

impl Socket {
    /// `shard` has the number of the socket among several at the same address, and their count.
    pub(crate) fn new(
        bind: Bind,
        raw: bool,
        mark: Option<u32>,
        shard: Option<(u8, u8)>,
    ) -> io::Result<Socket> {
        if matches!(shard, Some((0, _))) {
            // Fails if another program has sharing sockets at this address.
            open(&bind, raw, mark, false)?;
        }
        let (inner, state) = open_whole(&bind, raw, mark, shard.map(|(_, shards)| shards))?;
        let segmentation = !raw && state.max_gso_segments() > 1;
        let buffer = vec![0; BATCH_SIZE * RECEIVE];
        let (asking, stats) = (Cell::default(), SocketStats::default());
        let (heeds_refusals, refused) = (false, Vec::new());
        Ok(Socket {
            bind,
            raw,
            mark,
            inner,
            state,
            segmentation,
            buffer,
            heeds_refusals,
            refused,
            asking,
            stats,
        })
    }

    /// Enables [`refused`](Self::refused), the destinations whose hosts answered with ICMP unreachable.
    pub(crate) fn heed_refusals(&mut self) -> io::Result<()> {
        if self.raw && self.bind.addr.is_ipv6() {
            // Raw IPv6 sockets refuse the option for IPv4, which the call below sets as well.
            setsockopt(&self.inner, Ipv6RecvErr, &true)?;
        } else {
            self.state.enable_transport_errors((&self.inner).into())?;
        }
        self.heeds_refusals = true;
        Ok(())
    }

    /// Removes and returns the destinations that are new.
    pub(crate) fn refused(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.refused)
    }

    /// Reads pending errors of earlier packets, which the kernel reports in place of a send or receive; true
    /// if there was one.
    fn read_errors(&mut self) -> bool {
        if !self.heeds_refusals {
            return false;
        }
        let mut any = false;
        for _ in 0..MOST_ERRORS {
            let Some(refused) = icmp::next(&self.inner) else { break };
            any = true;
            let new = refused.filter(|to| !self.refused.contains(to));
            self.refused.extend(new.filter(|_| self.refused.len() < MOST_REFUSED));
        }
        any
    }

    pub(crate) fn bind(&self) -> &Bind {
        &self.bind
    }

    pub(crate) fn fd(&self) -> rustix::fd::BorrowedFd<'_> {
        rustix::fd::AsFd::as_fd(&self.inner)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))
    }

    /// A temporary UDP socket, bound like this one and connected to `remote`, to learn the system's view of
    /// the path.
    pub(crate) fn probe(&self, remote: SocketAddr) -> io::Result<socket2::Socket> {
        let mut bind = self.bind.clone();
        bind.addr.set_port(0);
        let socket = open(&bind, false, self.mark, false)?;
        connect(&socket, remote)?;
        Ok(socket)
    }

    pub(crate) fn check(&mut self, remote: SocketAddr) -> io::Result<()> {
        watch::present(&self.bind)?;
        // An interface that returned has a new index, for which the kernel reports no name.
        let bound = || self.inner.device().ok().flatten();
        if self.bind.interface.as_ref().is_some_and(|name| bound().as_deref() != Some(name.as_bytes())) {
            self.open_again()?;
        }
        self.probe(remote)?;
        self.segmentation = !self.raw && self.state.max_gso_segments() > 1;
        Ok(())
    }

    /// Replaces this socket by a new one: rebinding to another interface needs CAP_NET_RAW.
    fn open_again(&mut self) -> io::Result<()> {
        let mut bind = self.bind.clone();
        bind.addr.set_port(self.local_addr()?.port());
        self.asking.take();
        (self.inner, self.state) = open_whole(&self.bind, self.raw, self.mark, None)?;
        if self.heeds_refusals {
            self.heed_refusals()?;
        }
        // Keep the port: it is free now, and NATs may know the socket by it.
        if let Ok((inner, state)) = open_whole(&bind, self.raw, self.mark, None) {
            (self.inner, self.state) = (inner, state);
            if self.heeds_refusals {
                self.heed_refusals()?;
            }
        }
        Ok(())
    }

    /// Runs `question` on a temporary socket connected to `remote`.
    fn ask<T>(
        &self,
        remote: SocketAddr,
        question: impl Fn(&socket2::Socket) -> io::Result<T>,
    ) -> io::Result<T> {
        let asking = match self.asking.take() {
            // Reuse the socket: with many paths, opening one each time would dominate the cost.
            Some(socket) => disconnect(&socket).and_then(|()| connect(&socket, remote)).map(|()| socket),
            None => self.probe(remote),
        };
        let socket = asking?;
        let answer = question(&socket);
        self.asking.set(Some(socket));
        answer
    }

    pub(crate) fn source(&self, remote: SocketAddr) -> io::Result<IpAddr> {
        let bound = self.bind.addr.ip();
        if bound.is_unspecified() { self.ask(remote, source) } else { Ok(bound) }
    }

    /// The interface that packets to `remote` leave through.
    pub(crate) fn device(&self, remote: SocketAddr) -> io::Result<String> {
        match &self.bind.interface {
            Some(name) => Ok(name.clone()),
            None => egress::interface(self.source(remote)?, remote.ip(), self.mark),
        }
    }

    pub(crate) fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        let mtu = self.ask(remote, |socket| {
            Ok(match remote {
                SocketAddr::V4(_) => sockopt::ip_mtu(socket)?,
                SocketAddr::V6(_) => sockopt::ipv6_mtu(socket)?,
            })
        })?;
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    pub(crate) fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        self.ask(remote, |socket| match &self.bind.interface {
            Some(name) => watch::mtu(socket, name),
            None => watch::mtu(socket, &watch::holder(source(socket)?)?),
        })
    }

    /// Sends a burst, in one call if possible, and counts it.
    pub(crate) fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        if self.segmentation && burst.bytes.len() > burst.segment {
            match self.transmit(burst, burst.bytes, Some(burst.segment)) {
                // Some drivers do not segment packets: from here on, send one packet per call.
                Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::IO | Errno::INVAL)) => {
                    tracing::info!(
                        "the kernel refused segmentation offload ({e}); packets are sent one by one"
                    );
                    self.segmentation = false;
                }
                result => return self.count(result, burst.bytes, burst.segment),
            }
        }
        let mut rest = burst.bytes;
        while !rest.is_empty() {
            let (packet, later) = rest.split_at(burst.segment.min(rest.len()));
            match self.transmit(burst, packet, None) {
                Ok(()) => self.count(Ok(()), packet, burst.segment)?,
                // After an error the rest of the burst is not sent either.
                Err(e) => return self.count(Err(e), rest, burst.segment),
            }
            rest = later;
        }
        Ok(())
    }

    fn transmit(&mut self, burst: &Burst<'_>, bytes: &[u8], segment: Option<usize>) -> io::Result<()> {
        let (tos, class) = (burst.tos(), i32::from(burst.tos()));
        let segment = segment.map(u16::try_from).transpose().map_err(io::Error::other)?;
        let (from4, from6) = source_info(burst.local);
        let mut control = Vec::with_capacity(3);
        control.push(match burst.remote {
            SocketAddr::V4(_) => ControlMessage::Ipv4Tos(&tos),
            SocketAddr::V6(_) => ControlMessage::Ipv6TClass(&class),
        });
        control.extend(segment.as_ref().map(ControlMessage::UdpGsoSegments));
        control.extend(from4.as_ref().map(ControlMessage::Ipv4PacketInfo));
        control.extend(from6.as_ref().map(ControlMessage::Ipv6PacketInfo));
        let to = SockaddrStorage::from(burst.remote);
        let fd = self.inner.as_raw_fd();
        let mut told = false;
        loop {
            match sendmsg(fd, &[IoSlice::new(bytes)], &control, MsgFlags::MSG_DONTWAIT, Some(&to)) {
                Err(nix::Error::EINTR) => {}
                Err(e) if !matches!(e, nix::Error::EAGAIN | nix::Error::ENOBUFS) && !told => {
                    // The error may belong to an earlier packet, perhaps to another
                    // destination; this packet has not left.
                    told = true;
                    if !self.read_errors() {
                        return Err(e.into());
                    }
                }
                result => return result.map(drop).map_err(io::Error::from),
            }
        }
    }

    /// Counts the result of sending packets of `segment` bytes each; the last may be shorter.
    fn count(&mut self, result: io::Result<()>, bytes: &[u8], segment: usize) -> Result<(), SendError> {
        let packets = bytes.len().div_ceil(segment) as u64;
        let Err(e) = result else {
            let ip = if self.bind.addr.is_ipv4() { 20 } else { 40 };
            let header = if self.raw { ip } else { ip + 8 };
            self.stats.tx_packets += packets;
            self.stats.tx_bytes += bytes.len() as u64 + packets * header;
            self.stats.tx_calls += 1;
            return Ok(());
        };
        match Errno::from_io_error(&e) {
            Some(Errno::AGAIN | Errno::NOBUFS) => {
                self.stats.tx_buffer_full += packets;
                Err(SendError::BufferFull)
            }
            Some(Errno::MSGSIZE) => {
                self.stats.tx_too_big += packets;
                Err(SendError::TooBig)
            }
            _ => {
                self.stats.tx_link_down += packets;
                Err(SendError::LinkDown(e))
            }
        }
    }

    /// One batched receive.
    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(&mut SocketStats, Message<'_>)) -> io::Result<()> {
        let mut slices = self.buffer.chunks_mut(RECEIVE).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| slices.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let n = match self.state.recv((&self.inner).into(), &mut slices, &mut meta) {
            Ok(n) => n,
            Err(e) => {
                let told = self.read_errors();
                return if told || e.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(e) };
            }
        };
        self.stats.rx_calls += 1;
        // Kernel timestamps are wall-clock time, so compute each packet's age. Read both clocks now, in this
        // order: receiving megabytes takes as long as a short round trip, and a packet must not seem to
        // arrive before it was sent.
        let wall = Duration::from_nanos(Clock.wall_nanos());
        let now = Clock.now();
        let wildcard = self.bind.is_wildcard();
        for (meta, bytes) in meta.iter().zip(&mut slices).take(n) {
            let ago = meta.timestamp.map_or(Duration::ZERO, |t| wall.saturating_sub(t));
            // A step of the wall clock must not make packets look old.
            let ago = if ago < Duration::from_millis(100) { ago } else { Duration::ZERO };
            each(
                &mut self.stats,
                Message {
                    at: now - ago,
                    local: meta.dst_ip.filter(|_| wildcard || self.raw),
                    remote: meta.addr,
                    ecn: Ecn::from_bits(meta.ecn.map_or(0, |e| e as u8)),
                    stride: meta.stride.max(1),
                    bytes: &mut bytes[..meta.len],
                },
            );
        }
        Ok(())
    }
}

/// Connects a UDP socket; native DCCP has no port, but UDP needs one.
fn connect(socket: &socket2::Socket, mut remote: SocketAddr) -> io::Result<()> {
    if remote.port() == 0 {
        remote.set_port(9);
    }
    socket.connect(&SockAddr::from(remote))
}

/// Disconnects a UDP socket; this also removes its source address, unless that was bound.
fn disconnect(socket: &socket2::Socket) -> io::Result<()> {
    Ok(rustix::net::connect_unspec(socket)?)
}

/// The source address of a connected socket.
fn source(socket: &socket2::Socket) -> io::Result<IpAddr> {
    Ok(socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?.ip())
}

/// Control message that makes the kernel send from an address.
fn source_info(local: Option<IpAddr>) -> (Option<libc::in_pktinfo>, Option<libc::in6_pktinfo>) {
    match local {
        None => (None, None),
        Some(IpAddr::V4(ip)) => {
            let ipi_spec_dst = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            let ipi_addr = libc::in_addr { s_addr: 0 };
            (Some(libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr }), None)
        }
        Some(IpAddr::V6(ip)) => {
            let ipi6_addr = libc::in6_addr { s6_addr: ip.octets() };
            (None, Some(libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 }))
        }
    }
}
