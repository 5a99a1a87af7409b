//! The common part of the UDP and raw encapsulations: a bound, non-blocking socket that sends and receives
//! the ECN field, reports receive times, and receives packets in batches.

use crate::SocketStats;
use crate::bind::Bind;
use crate::clock::Clock;
use crate::grant;
use crate::outgoing_interface;
use crate::socket_send::Outlet;
use crate::watch;
use dccp_proto::Ecn;
use dccp_wire::IPPROTO_DCCP;
use mpdccp_units::{Duration, Time};
use nix::libc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{
    AttachReusePortCbpf, Ipv4PacketInfo, Ipv6RecvErr, Ipv6RecvPacketInfo, ReceiveTimestampns,
};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, Type};
use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

/// Size of a receive buffer. Generic receive offload coalesces at most this much.
const RECEIVE: usize = 65_536;

pub(crate) struct Socket {
    bind: Bind,
    raw: bool,
    /// Mark of sent packets (SO_MARK), for policy routing.
    mark: Option<u32>,
    /// The sending part, which owns the system's socket.
    pub(crate) outlet: Outlet,
    state: UdpSocketState,
    buffer: Vec<u8>,
    /// A UDP socket that is reused to ask the system about paths.
    asking: Cell<Option<socket2::Socket>>,
    /// Counters of received packets.
    received: SocketStats,
}

/// A message from the kernel, consisting of packets of `stride` bytes each; only the last may be shorter.
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
    // Raw IPv6 sockets never receive IPv4 packets.
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

/// Makes the kernel deliver each datagram to the socket whose number is in byte 4 of the datagram. If there
/// is no socket with this number, the kernel uses a hash of the addresses. Without this program, shards would
/// have to hand over more datagrams to each other.
fn shard_by_header(socket: &socket2::Socket, shards: u8) {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let program = [
        // Load byte 4. If the datagram is shorter, the program ends and returns 0, which selects the first
        // socket.
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 4),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, shards.into()),
        // No socket has this number, so the kernel uses the hash.
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    if let Err(e) = setsockopt(socket, AttachReusePortCbpf, &program) {
        tracing::info!(
            "the kernel cannot select the shard of a datagram ({e}); shards pass datagrams to each other instead"
        );
    }
}

/// Disables one control message of received packets where necessary. There are four: receive time, addresses,
/// segment size and ECN field. quinn-udp's control buffer has room for only three; with all four, the ECN
/// field would be lost. Raw sockets have no segment size. UDP sockets do without the receive time if they
/// need the addresses ([`Bind::tells_local`]), and otherwise without the addresses. Errors are ignored: an
/// emulator of Linux that lacks an option does not send its message either.
fn set_up(socket: &socket2::Socket, bind: &Bind, raw: bool) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(socket.into())?;
    let _ = match bind.addr {
        _ if raw => Ok(()),
        _ if bind.tells_local() => setsockopt(socket, ReceiveTimestampns, &false),
        SocketAddr::V4(_) => setsockopt(socket, Ipv4PacketInfo, &false),
        SocketAddr::V6(_) => setsockopt(socket, Ipv6RecvPacketInfo, &false),
    };
    Ok(state)
}

/// Opens and configures a socket. `shards` is the number of sockets at the same address.
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

/// Returns whether the kernel can split a send into segments.
fn segments(raw: bool, state: &UdpSocketState) -> bool {
    !raw && state.max_gso_segments() > 1
}

impl Socket {
    /// Opens a socket. If several sockets share the address, `shard` has the number of this socket and the
    /// number of sockets.
    pub(crate) fn new(
        bind: Bind,
        raw: bool,
        mark: Option<u32>,
        shard: Option<(u8, u8)>,
    ) -> io::Result<Socket> {
        if matches!(shard, Some((0, _))) {
            // First open a socket that does not share the address, which fails if another program has a
            // socket there.
            open(&bind, raw, mark, false)?;
        }
        let (inner, state) = open_whole(&bind, raw, mark, shard.map(|(_, shards)| shards))?;
        let outlet = Outlet::new(inner, raw, bind.addr.is_ipv4(), segments(raw, &state));
        let buffer = vec![0; BATCH_SIZE * RECEIVE];
        let (asking, received) = (Cell::default(), SocketStats::default());
        Ok(Socket { bind, raw, mark, outlet, state, buffer, asking, received })
    }

    /// Counters of both directions.
    pub(crate) fn stats(&self) -> SocketStats {
        let SocketStats { rx_packets, rx_bytes, rx_calls, rx_bad_checksum, rx_malformed, .. } = self.received;
        SocketStats { rx_packets, rx_bytes, rx_calls, rx_bad_checksum, rx_malformed, ..self.outlet.stats }
    }

    /// Makes the outlet store the destinations that answer with ICMP unreachable.
    pub(crate) fn heed_refusals(&mut self) -> io::Result<()> {
        let inner = &self.outlet.inner;
        if self.raw && self.bind.addr.is_ipv6() {
            // The call in the other branch also sets the option for IPv4, which raw IPv6 sockets refuse.
            setsockopt(inner, Ipv6RecvErr, &true)?;
        } else {
            self.state.enable_transport_errors(inner.into())?;
        }
        self.outlet.heeds_refusals = true;
        Ok(())
    }

    pub(crate) fn bind(&self) -> &Bind {
        &self.bind
    }

    pub(crate) fn fd(&self) -> rustix::fd::BorrowedFd<'_> {
        rustix::fd::AsFd::as_fd(&self.outlet.inner)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.outlet.inner.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))
    }

    /// Opens a temporary UDP socket with the same binding and connects it to `remote`, to find out what the
    /// system knows about the path.
    pub(crate) fn probe(&self, remote: SocketAddr) -> io::Result<socket2::Socket> {
        let mut bind = self.bind.clone();
        bind.addr.set_port(0);
        let socket = open(&bind, false, self.mark, false)?;
        connect(&socket, remote)?;
        Ok(socket)
    }

    pub(crate) fn check(&mut self, remote: SocketAddr) -> io::Result<()> {
        watch::present(&self.bind)?;
        // If the interface has disappeared and returned, it has a new index, and the kernel reports no name
        // for the old index.
        let bound = || self.outlet.inner.device().ok().flatten();
        if self.bind.interface.as_ref().is_some_and(|name| bound().as_deref() != Some(name.as_bytes())) {
            self.open_again()?;
        }
        self.probe(remote)?;
        self.outlet.segmentation = segments(self.raw, &self.state);
        Ok(())
    }

    /// Replaces this socket by a new one, because the old one cannot be bound to another interface without
    /// CAP_NET_RAW.
    fn open_again(&mut self) -> io::Result<()> {
        let mut bind = self.bind.clone();
        bind.addr.set_port(self.local_addr()?.port());
        self.asking.take();
        self.replace(open_whole(&self.bind, self.raw, self.mark, None)?)?;
        // Keep the port, because NATs may have a binding for it. Closing the old socket frees the port.
        if let Ok(inner) = open(&bind, self.raw, self.mark, false) {
            let state = set_up(&inner, &self.bind, self.raw)?;
            self.replace((inner, state))?;
        }
        Ok(())
    }

    fn replace(&mut self, (inner, state): (socket2::Socket, UdpSocketState)) -> io::Result<()> {
        self.outlet.inner = inner;
        self.state = state;
        if self.outlet.heeds_refusals { self.heed_refusals() } else { Ok(()) }
    }

    /// Calls `question` with a temporary UDP socket that is connected to `remote`.
    fn ask<T>(
        &self,
        remote: SocketAddr,
        question: impl Fn(&socket2::Socket) -> io::Result<T>,
    ) -> io::Result<T> {
        let asking = match self.asking.take() {
            // Reuse the socket: with many paths, opening one each time would be the largest cost.
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

    /// Returns the interface through which packets to `remote` leave.
    pub(crate) fn device(&self, remote: SocketAddr) -> io::Result<String> {
        match &self.bind.interface {
            Some(name) => Ok(name.clone()),
            None => outgoing_interface::find(self.source(remote)?, remote.ip(), self.mark),
        }
    }

    pub(crate) fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        let mtu = self.ask(remote, |socket| {
            Ok(match remote {
                SocketAddr::V4(_) => sockopt::ip_mtu(socket)?,
                SocketAddr::V6(_) => sockopt::ipv6_mtu(socket)?,
            })
        });
        match mtu {
            // Emulators of Linux may lack the option. In that case, use the MTU of the interface, which path
            // MTU discovery corrects.
            Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => self.device_mtu(remote),
            mtu => Ok(u16::try_from(mtu?).unwrap_or(u16::MAX)),
        }
    }

    pub(crate) fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
        self.ask(remote, |socket| match &self.bind.interface {
            Some(name) => watch::mtu(socket, name),
            None => watch::mtu(socket, &watch::holder(source(socket)?)?),
        })
    }

    /// Receives one batch of messages.
    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(&mut SocketStats, Message<'_>)) -> io::Result<()> {
        let mut slices = self.buffer.chunks_mut(RECEIVE).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| slices.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let n = match self.state.recv((&self.outlet.inner).into(), &mut slices, &mut meta) {
            Ok(n) => n,
            Err(e) => {
                let told = self.outlet.read_errors();
                return if told || e.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(e) };
            }
        };
        self.received.rx_calls += 1;
        // The kernel's timestamps are wall-clock times, so compute how long ago each packet arrived. Read
        // both clocks here, and in this order: receiving megabytes takes as long as a short round trip, and
        // no packet may appear to have arrived before it was sent.
        let wall = Duration::from_nanos(Clock.wall_nanos());
        let now = Clock.now();
        let tells_local = self.raw || self.bind.tells_local();
        for (meta, bytes) in meta.iter().zip(&mut slices).take(n) {
            let ago = meta.timestamp.map_or(Duration::ZERO, |t| wall.saturating_sub(t));
            // Packets must not seem to be old just because the wall clock was changed.
            let ago = if ago < Duration::from_millis(100) { ago } else { Duration::ZERO };
            each(
                &mut self.received,
                Message {
                    at: now - ago,
                    local: meta.dst_ip.filter(|_| tells_local),
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

/// Connects a UDP socket. UDP needs a port, but addresses of native DCCP have none.
fn connect(socket: &socket2::Socket, mut remote: SocketAddr) -> io::Result<()> {
    if remote.port() == 0 {
        remote.set_port(9);
    }
    socket.connect(&SockAddr::from(remote))
}

/// Disconnects a UDP socket, which also removes the source address that the system has chosen.
fn disconnect(socket: &socket2::Socket) -> io::Result<()> {
    Ok(rustix::net::connect_unspec(socket)?)
}

/// Returns the source address of a connected socket.
fn source(socket: &socket2::Socket) -> io::Result<IpAddr> {
    Ok(socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?.ip())
}

/// Defines the methods of `Encapsulation` that only call the `Socket` in the field `$socket`.
macro_rules! socket_methods {
    ($socket:tt) => {
        fn present(&self) -> io::Result<()> {
            crate::watch::present(self.$socket.bind())
        }

        fn check(&mut self, remote: SocketAddr) -> io::Result<()> {
            self.$socket.check(remote)
        }

        fn path_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
            self.$socket.path_mtu(remote)
        }

        fn device_mtu(&self, remote: SocketAddr) -> io::Result<u16> {
            self.$socket.device_mtu(remote)
        }

        fn source(&self, remote: SocketAddr) -> io::Result<IpAddr> {
            self.$socket.source(remote)
        }

        fn device(&self, remote: SocketAddr) -> io::Result<String> {
            self.$socket.device(remote)
        }

        fn heed_refusals(&mut self) -> io::Result<()> {
            self.$socket.heed_refusals()
        }

        fn refused(&mut self) -> Vec<SocketAddr> {
            self.$socket.outlet.refused()
        }

        fn stats(&self) -> SocketStats {
            self.$socket.stats()
        }
    };
}
pub(crate) use socket_methods;
