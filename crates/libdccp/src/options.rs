//! Options of connections and listeners.

use crate::errno::{Failure, Outcome, invalid};
use crate::memory::{Structure, bytes, needed_text, take, take_all, text};
use dccp_sockets::{
    ConnectError, Encapsulation, Named, Options, Path, PublicKey, ReorderKind, SchedulerKind, SendPolicy,
};
use std::ffi::{c_char, c_void};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// In dccp_options.flags: request a multipath session, to which paths can be added. Setting two paths implies
/// this flag.
pub const DCCP_MULTIPATH: u32 = 1;
/// In dccp_options.flags: dccp_connect() does not wait for the peer's answer; see dccp_connected().
pub const DCCP_NONBLOCK: u32 = 2;
/// In dccp_options.flags: native DCCP, IP protocol 33, instead of DCCP in UDP. Needs CAP_NET_RAW.
pub const DCCP_RAW: u32 = 4;
/// In dccp_options.flags: accept data in the peer's first packet (see early_data). Otherwise, such data is
/// dropped.
pub const DCCP_TAKE_EARLY_DATA: u32 = 8;
/// In dccp_options.flags: use short sequence numbers (RFC 4340 section 7.6.2).
pub const DCCP_SHORT_NUMBERS: u32 = 16;
/// In dccp_options.flags: ask the peer to protect its data with a CRC-32c (RFC 4340 section 9.3).
pub const DCCP_DATA_CHECKSUM: u32 = 32;
/// In dccp_options.flags: a listener with a key accepts every client that has a key; see dccp_peer_key().
pub const DCCP_ANY_PEER: u32 = 64;
/// In dccp_options.flags: support reliable streams alongside datagrams, in a multipath session; see
/// dccp_open_stream().
pub const DCCP_STREAMS: u32 = 128;
/// In dccp_options.flags: do not probe the MTU of each path (RFC 8899), but use the MTU known to the system,
/// up to dccp_options.mtu.
pub const DCCP_NO_MTU_PROBING: u32 = 256;

/// In dccp_options.send_policy: make the sender wait while the queue is full. The default.
pub const DCCP_SEND_WAIT: u32 = 0;
/// In dccp_options.send_policy: drop the oldest datagram.
pub const DCCP_SEND_DROP_OLDEST: u32 = 1;
/// In dccp_options.send_policy: drop the new datagram.
pub const DCCP_SEND_DROP_NEWEST: u32 = 2;
/// In dccp_options.send_policy: drop the oldest datagram of the lowest priority. Higher priorities are sent
/// first.
pub const DCCP_SEND_PRIORITY: u32 = 3;

/// In dccp_options.keepalive_ms: never probe.
pub const DCCP_NEVER: u32 = u32::MAX;

const FLAGS: u32 = 511;

/// A path of a multipath connection. It needs a local address, an interface, or both.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_path {
    /// sizeof(struct dccp_path)
    pub size: usize,
    /// Numeric address of this host.
    pub local: *const c_char,
    /// Network interface that packets are sent through. An address alone does not select the interface.
    pub interface: *const c_char,
    /// Numeric address and port of the peer. NULL means the address that the connection is made to.
    pub remote: *const c_char,
    /// -1 never, 1 standby, 2 overflow, 3 to 15 primary (RFC 9897 section 3.2.10); 0 means 3. Among primary
    /// paths, only the schedulers "cpf", "acpf", "weighted-rr" and "handover" prefer higher values.
    pub priority: i32,
}

/// A peer and its keys, in base64 as in WireGuard.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_peer {
    /// sizeof(struct dccp_peer)
    pub size: usize,
    /// Public key of the peer.
    pub public_key: *const c_char,
    /// Preshared key, or NULL.
    pub preshared_key: *const c_char,
}

/// Settings of connections. Zero, or NULL, means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_options {
    /// sizeof(struct dccp_options)
    pub size: usize,
    /// Flags: DCCP_MULTIPATH and similar.
    pub flags: u32,
    /// Congestion control for data that this end sends: 2 is like TCP, 3 and 4 are TFRC, 5 is BBR (the
    /// default), and 7 is CUBIC.
    pub ccid: u32,
    /// Service Code, such as "SC:chat" or "SC=7". A listener can accept several, separated by commas.
    /// Default: 0.
    pub service: *const c_char,
    /// Network interface for all paths that do not set one themselves. Default: any.
    pub interface: *const c_char,
    /// Paths of a client's connection.
    pub paths: *const dccp_path,
    /// Number of paths.
    pub path_count: usize,
    /// Scheduler, which chooses the path of each packet: "auto" (the default), "cpf", "acpf", "rr",
    /// "weighted-rr", "srtt", "otias", "ecf", "blest", "redundant" or "handover"; docs/schedulers.md compares
    /// them.
    pub scheduler: *const c_char,
    /// Reordering of datagrams from several paths: "adaptive" (the default) delivers them in order, "passive"
    /// in the order of arrival. For "active-fixed" and "equalised", see docs/reordering.md.
    pub reordering: *const c_char,
    /// Mark of all packets, for policy routing (SO_MARK). Needs CAP_NET_ADMIN.
    pub mark: u32,
    /// Maximum number of datagrams waiting for the congestion window. Default: 16.
    pub queue: u32,
    /// Longest time that a datagram may wait before it is dropped, in milliseconds. Default: no limit.
    pub queue_time_ms: u32,
    /// Behaviour when the send queue is full: DCCP_SEND_WAIT and similar.
    pub send_policy: u32,
    /// Maximum number of received datagrams waiting for the application. Default: 4096.
    pub receive_queue: u32,
    /// Maximum number of connections waiting to be accepted. Default: 128.
    pub backlog: u32,
    /// Memory for received datagrams, in bytes, over all connections of a listener or connector. Default: 256
    /// MiB.
    pub receive_memory: usize,
    /// Maximum number of connections of a listener. Default: 16384.
    pub max_connections: u32,
    /// Maximum number of connections from one source, which is an IPv4 address or an IPv6 /64. Default: a
    /// quarter of max_connections, but at least 16.
    pub max_connections_per_source: u32,
    /// Largest IP packet, bytes, 576 to 65535. Default: 1500.
    pub mtu: u32,
    /// How long to wait for the peer's answer, milliseconds. Default: 5000.
    pub connect_timeout_ms: u32,
    /// How long a path may be idle before this end probes the peer, in milliseconds. Default: 12000, or 24000
    /// at a listener. DCCP_NEVER turns probes off.
    pub keepalive_ms: u32,
    /// How long a connection survives without a working path, milliseconds. Default: 60000.
    pub survive_ms: u32,
    /// This end's private key, in base64; enables encryption. Default: no encryption.
    pub private_key: *const c_char,
    /// Peers to accept. A client connects to the first.
    pub peers: *const dccp_peer,
    /// Number of peers.
    pub peer_count: usize,
    /// Data to send in this end's first packet, at most 512 bytes. An attacker who sees the packet can replay
    /// it.
    pub early_data: *const c_void,
    /// Length of early_data.
    pub early_data_len: usize,
    /// File for a trace in qlog format.
    pub qlog: *const c_char,
    /// UDP port that a client sends from. Default: any.
    pub source_udp_port: u16,
    /// DCCP port that a client sends from. Default: any.
    pub source_dccp_port: u16,
    /// DCCP port of the listener inside UDP. Default: 5001.
    pub dccp_port: u16,
    /// Checksum coverage of data that this end sends, 0 to 15 (RFC 4340 section 9.2). Only with DCCP_RAW.
    pub coverage: u8,
    /// Minimum checksum coverage of accepted data, 0 to 15 (RFC 4340 section 9.2.1).
    pub min_coverage: u8,
    /// DSCP in IP headers, 0 to 63. Default: 0.
    pub dscp: u32,
    /// Change in the allowed rate, in percent up to 255, that triggers a DCCP_EVENT_RATE. Default: no such
    /// events.
    pub tell_rate: u32,
}

// SAFETY: each structure begins with its size, and contains only numbers and pointers.
unsafe impl Structure for dccp_path {
    const NAME: &'static str = "struct dccp_path";
    const OLDEST: usize = 40;
}
// SAFETY: as above.
unsafe impl Structure for dccp_peer {
    const NAME: &'static str = "struct dccp_peer";
    const OLDEST: usize = 24;
}
// SAFETY: as above.
unsafe impl Structure for dccp_options {
    const NAME: &'static str = "struct dccp_options";
    const OLDEST: usize = 176;
}

fn milliseconds(number: u32) -> Duration {
    Duration::from_millis(number.into())
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str, what: &str) -> Outcome<T> {
    text.parse().map_err(|e| invalid(format!("{what} `{text}`: {e}")))
}

/// Sets an option to `number`, using `method`. Zero keeps the default.
fn set<N: Into<u64> + Copy>(
    number: N,
    options: Options,
    method: impl FnOnce(Options, N) -> Options,
) -> Options {
    if number.into() == 0 { options } else { method(options, number) }
}

/// Converts a path of the caller.
///
/// # Safety
/// The caller must follow the rules at the top of dccp.h.
pub(crate) unsafe fn path(given: &dccp_path) -> Outcome<Path> {
    // SAFETY: the caller guarantees this for all texts.
    let [local, interface, remote] = unsafe {
        [
            text(given.local, "dccp_path.local")?,
            text(given.interface, "dccp_path.interface")?,
            text(given.remote, "dccp_path.remote")?,
        ]
    };
    let mut path = match (local, interface) {
        (None, None) => return Err(invalid("struct dccp_path has neither a local address nor an interface")),
        (None, Some(interface)) => Path::on(interface),
        (Some(local), None) => Path::from(parse(local, "local address")?),
        (Some(local), Some(interface)) => Path::from(parse(local, "local address")?).interface(interface),
    };
    if let Some(remote) = remote {
        path = path.to(parse::<SocketAddr>(remote, "remote address")?);
    }
    Ok(match given.priority {
        0 => path,
        -1 => path.priority(0),
        1..=15 => path.priority(given.priority as u8),
        other => return Err(invalid(format!("invalid priority {other}; expected -1 to 15"))),
    })
}

/// Parses the public key and the preshared key of a peer.
///
/// # Safety
/// The caller must follow the rules at the top of dccp.h.
pub(crate) unsafe fn peer(
    public: *const c_char,
    preshared: *const c_char,
) -> Outcome<(PublicKey, dccp_sockets::PresharedKey)> {
    // SAFETY: the caller guarantees this for all texts.
    let (public, preshared) =
        unsafe { (needed_text(public, "the public key")?, text(preshared, "the preshared key")?) };
    let public = parse(public, "public key")?;
    // The error must not reveal the secret.
    let secret = |text: &str| text.parse().map_err(|e| invalid(format!("preshared key: {e}")));
    Ok((public, preshared.map(secret).transpose()?.unwrap_or_default()))
}

/// Converts the options. Also returns whether the call is to wait for the peer's answer.
///
/// # Safety
/// `from` must be null, or follow the rules at the top of dccp.h.
pub(crate) unsafe fn read(from: *const dccp_options) -> Outcome<(Options, bool)> {
    if from.is_null() {
        return Ok((Options::default(), true));
    }
    // SAFETY: the caller guarantees this for the structure and all its pointers.
    unsafe {
        let given = take(from)?;
        let mut options = numbers(&given)?;
        if let Some(services) = text(given.service, "dccp_options.service")? {
            for (n, service) in services.split(',').enumerate() {
                options = if n == 0 { options.service(service) } else { options.also_service(service) };
            }
        }
        if let Some(interface) = text(given.interface, "dccp_options.interface")? {
            options = options.interface(interface);
        }
        for given in take_all(given.paths, given.path_count)? {
            options = options.path(path(&given)?);
        }
        if let Some(name) = text(given.scheduler, "dccp_options.scheduler")? {
            options = options.scheduler(SchedulerKind::named(name).map_err(invalid)?);
        }
        if let Some(name) = text(given.reordering, "dccp_options.reordering")? {
            options = options.reordering(ReorderKind::named(name).map_err(invalid)?.into());
        }
        if let Some(key) = text(given.private_key, "dccp_options.private_key")? {
            options = options.key(key.parse().map_err(|e| invalid(format!("private key: {e}")))?);
        }
        for given in take_all(given.peers, given.peer_count)? {
            let (public, preshared) = peer(given.public_key, given.preshared_key)?;
            options = options.peer_with(public, preshared);
        }
        let early = bytes(given.early_data.cast(), given.early_data_len)?;
        if let Some(file) = text(given.qlog, "dccp_options.qlog")? {
            options = options.qlog(file);
        }
        Ok((options.early_data(early), given.flags & DCCP_NONBLOCK == 0))
    }
}

fn numbers(given: &dccp_options) -> Outcome<Options> {
    let unknown = given.flags & !FLAGS;
    if unknown != 0 {
        return Err(invalid(format!("dccp_options.flags has unknown bits: {unknown:#x}")));
    }
    let mut options = match given.ccid {
        0 => Options::default(),
        ccid => Options::ccid(u8::try_from(ccid).map_err(|_| invalid(format!("unknown CCID {ccid}")))?),
    };
    let flag = |flag| given.flags & flag != 0;
    options = options
        .multipath(flag(DCCP_MULTIPATH))
        .any_peer(flag(DCCP_ANY_PEER))
        .streams(flag(DCCP_STREAMS))
        .mtu_probing(!flag(DCCP_NO_MTU_PROBING))
        .take_early_data(flag(DCCP_TAKE_EARLY_DATA))
        .short_numbers(flag(DCCP_SHORT_NUMBERS))
        .data_checksum(flag(DCCP_DATA_CHECKSUM))
        .source_ports(given.source_udp_port, given.source_dccp_port)
        .coverage(given.coverage)
        .min_coverage(given.min_coverage)
        .send_policy(match given.send_policy {
            DCCP_SEND_WAIT => SendPolicy::Wait,
            DCCP_SEND_DROP_OLDEST => SendPolicy::DropOldest,
            DCCP_SEND_DROP_NEWEST => SendPolicy::DropNewest,
            DCCP_SEND_PRIORITY => SendPolicy::Priority,
            other => {
                return Err(invalid(format!(
                    "dccp_options.send_policy: unknown policy {other}; use a DCCP_SEND_ constant"
                )));
            }
        });
    if flag(DCCP_RAW) {
        options = options.encapsulation(Encapsulation::Raw);
    }
    let mtu = u16::try_from(given.mtu).ok().filter(|mtu| *mtu == 0 || *mtu >= 576);
    let mtu = mtu.ok_or_else(|| {
        invalid(format!("dccp_options.mtu: invalid value {}; expected 576 to 65535", given.mtu))
    })?;
    options = set(mtu, options, Options::mtu);
    let byte = |number: u32, name: &str| {
        u8::try_from(number)
            .map_err(|_| invalid(format!("dccp_options.{name}: {number} is too large; expected at most 255")))
    };
    options = options.dscp(byte(given.dscp, "dscp")?).tell_rate(byte(given.tell_rate, "tell_rate")?);
    options = set(given.dccp_port, options, Options::dccp_port);
    options = set(given.mark, options, Options::mark);
    options = set(given.queue, options, |o, n| o.queue(n as usize));
    options = set(given.receive_queue, options, |o, n| o.receive_queue(n as usize));
    options = set(given.backlog, options, |o, n| o.backlog(n as usize));
    options = set(given.receive_memory as u64, options, |o, n| o.receive_memory(n as usize));
    options = set(given.max_connections, options, |o, n| o.max_connections(n as usize));
    options = set(given.max_connections_per_source, options, |o, n| o.max_connections_per_source(n as usize));
    options = set(given.queue_time_ms, options, |o, n| o.queue_time(milliseconds(n)));
    options = set(given.connect_timeout_ms, options, |o, n| o.connect_timeout(milliseconds(n)));
    options = set(given.survive_ms, options, |o, n| o.survive(milliseconds(n)));
    Ok(match given.keepalive_ms {
        0 => options,
        DCCP_NEVER => options.keepalive(Duration::ZERO),
        idle => options.keepalive(milliseconds(idle)),
    })
}

/// Resolves a text of the form "host:port" to addresses.
///
/// # Safety
/// `from` must be null or a text.
pub(crate) unsafe fn addresses(from: *const c_char) -> Outcome<Vec<SocketAddr>> {
    // SAFETY: the caller guarantees this.
    let text = unsafe { needed_text(from, "the address") }?;
    let found = text.to_socket_addrs().map_err(|e| {
        let Failure { errno, text: why } = ConnectError::Io(e).into();
        crate::errno::failure(errno, format!("address `{text}`: {why}"))
    })?;
    Ok(found.collect())
}
