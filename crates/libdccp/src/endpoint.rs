//! The protocol without clock, socket or thread, for programs with an event loop and a clock of their own.

use crate::errno::{Outcome, answer, failure, invalid};
use crate::handles::{Table, output};
use crate::memory::{Structure, bytes, give, room, take};
use crate::observe::{dccp_event, event_of};
use crate::options::{dccp_options, read};
use dccp_sockets::Options;
use mpdccp_proto::{
    Endpoint, ListenConfig, PathConfig, PathName, PeerFilter, PktInfo, SessionEvent, SessionId,
};
use mpdccp_units::{Ecn, Time};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// IP and UDP headers.
const OVERHEAD: u16 = 28;
/// What IPv6 takes more.
const MORE: u16 = 20;

/// All connections of one event loop, without socket, clock or thread. The program carries packets in UDP datagrams, and says what time it is.
pub struct dccp_endpoint {
    _opaque: [u8; 0],
}

/// An address as dccp_endpoint functions have it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct dccp_address {
    /// The address, 4 or 16 bytes in network byte order.
    pub ip: [u8; 16],
    /// 4 or 6.
    pub version: u16,
    /// UDP port, in host byte order.
    pub port: u16,
    /// Interface of a link-local IPv6 address.
    pub scope: u32,
}

/// A packet for the network.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_packet {
    /// sizeof(struct dccp_packet)
    pub size: usize,
    /// Room for the payload of a UDP datagram; 65507 bytes are enough.
    pub data: *mut c_void,
    /// How much room there is; from dccp_endpoint_transmit() the bytes of the packet.
    pub len: usize,
    /// Where it goes.
    pub to: dccp_address,
    /// By which of the program's sockets.
    pub socket: u32,
    /// ECN field of the IP header.
    pub ecn: u32,
}

// SAFETY: it begins with its size, and has numbers and a pointer alone.
unsafe impl Structure for dccp_packet {
    const NAME: &'static str = "struct dccp_packet";
    const OLDEST: usize = 56;
}

struct Out {
    route: dccp_proto::Route,
    ecn: Ecn,
    bytes: Vec<u8>,
}

struct Loop {
    endpoint: Endpoint,
    options: Options,
    out: VecDeque<Out>,
    delivered: Option<(SessionId, Vec<u8>)>,
    /// The latest time it was told.
    now: Time,
}

/// Takes packets.
struct Keep<'a>(&'a mut VecDeque<Out>);

impl dccp_proto::Sink for Keep<'_> {
    fn reserve(&mut self, route: &dccp_proto::Route, ecn: Ecn, len: usize) -> &mut [u8] {
        self.0.push_back(Out { route: *route, ecn, bytes: vec![0; len] });
        self.0.back_mut().map_or(&mut [], |out| &mut out.bytes)
    }
}

static ENDPOINTS: Table<Mutex<Loop>> = Table::new();

fn address(addr: SocketAddr) -> dccp_address {
    let mut ip = [0; 16];
    let (version, scope) = match addr {
        SocketAddr::V4(addr) => {
            ip[..4].copy_from_slice(&addr.ip().octets());
            (4, 0)
        }
        SocketAddr::V6(addr) => {
            ip = addr.ip().octets();
            (6, addr.scope_id())
        }
    };
    dccp_address { ip, version, port: addr.port(), scope }
}

/// Where the caller says.
///
/// # Safety
/// `from` is null or can be read.
unsafe fn place(from: *const dccp_address) -> Outcome<SocketAddr> {
    if from.is_null() {
        return Err(invalid("the address is null"));
    }
    // SAFETY: the caller says so.
    let dccp_address { ip, version, port, scope } = unsafe { from.read() };
    match version {
        4 => Ok(SocketAddr::new(IpAddr::from([ip[0], ip[1], ip[2], ip[3]]), port)),
        6 => Ok(SocketAddrV6::new(ip.into(), port, 0, scope).into()),
        other => Err(invalid(format!("dccp_address.version is {other}, not 4 or 6"))),
    }
}

impl Loop {
    /// Time never goes back.
    fn at(&mut self, now_ns: u64) -> Time {
        self.now = self.now.max(Time::from_nanos(now_ns));
        self.now
    }

    fn path(&self, to: SocketAddr, socket: u32, local_port: u16) -> PathConfig {
        let overhead = if to.is_ipv4() { OVERHEAD } else { OVERHEAD + MORE };
        PathConfig {
            route: dccp_proto::Route { socket, local: None, remote: to },
            ports: dccp_proto::Ports { local: local_port, remote: self.options.listening_port() },
            name: PathName::default(),
            prio: 3,
            mtu: self.options.largest_packet(),
            overhead,
        }
    }
}

/// Does something with an endpoint; threads take turns.
fn with<T>(endpoint: *const dccp_endpoint, act: impl FnOnce(&mut Loop) -> Outcome<T>) -> Outcome<T> {
    let made = ENDPOINTS.get(endpoint)?;
    let mut inner: MutexGuard<'_, Loop> = made.lock().unwrap_or_else(PoisonError::into_inner);
    act(&mut inner)
}

/// Makes an endpoint. The seed is 32 bytes of the system's randomness: keys derive from it. Of the options those about sockets, paths, queues and
/// encryption have no meaning here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_new(
    seed: *const u8,
    options: *const dccp_options,
    endpoint: *mut *mut dccp_endpoint,
) -> c_int {
    answer(|| {
        output(endpoint)?;
        // SAFETY: the header has the caller see to it.
        let (options, seed) = unsafe { (read(options)?.0, bytes(seed, 32)?) };
        let seed = *seed.first_chunk().ok_or_else(|| invalid("the seed is null"))?;
        let made = Loop {
            endpoint: Endpoint::new(seed),
            options,
            out: VecDeque::new(),
            delivered: None,
            now: Time::ZERO,
        };
        made.options.session_config(false)?;
        // SAFETY: as above.
        unsafe { ENDPOINTS.put(Mutex::new(made), endpoint) };
        Ok(0)
    })
}

/// Takes sessions from now on, at the DCCP port of the options.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_listen(endpoint: *mut dccp_endpoint) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            let options = &inner.options;
            inner.endpoint.listen(ListenConfig {
                port: options.listening_port(),
                session: options.session_config(true)?,
                peers: vec![PeerFilter { id: 0, remotes: Vec::new() }],
                strangers: false,
                mtu: options.largest_packet(),
                overhead: OVERHEAD,
                max_sessions: options.most_connections().0,
                max_sessions_per_source: options.most_connections().1,
            });
            Ok(0)
        })
    })
}

/// Begins a session, by the number of a socket of the program's. It goes on in dccp_endpoint_transmit(). local_port is a DCCP port that no other
/// session to this peer has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_connect(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    socket: u32,
    to: *const dccp_address,
    local_port: u16,
    session: *mut u64,
) -> c_int {
    answer(|| {
        if session.is_null() {
            return Err(invalid("there is no room for the session's number"));
        }
        // SAFETY: the header has the caller see to it.
        let to = unsafe { place(to) }?;
        with(endpoint, |inner| {
            let (now, path) = (inner.at(now_ns), inner.path(to, socket, local_port));
            let config = inner.options.session_config(inner.options.wants_multipath())?;
            let SessionId(number) = inner.endpoint.connect(now, config, path);
            // SAFETY: as above.
            unsafe { session.write(number) };
            Ok(0)
        })
    })
}

/// Adds a path to a client's multipath session; its number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_add_path(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    session: u64,
    socket: u32,
    to: *const dccp_address,
    local_port: u16,
) -> c_int {
    answer(|| {
        // SAFETY: the header has the caller see to it.
        let to = unsafe { place(to) }?;
        with(endpoint, |inner| {
            let (now, path) = (inner.at(now_ns), inner.path(to, socket, local_port));
            let added = inner.endpoint.add_path(now, SessionId(session), path);
            let added = added.ok_or_else(|| failure(Errno::NOTCONN, "no such session, or not a client's"));
            Ok(added?.0 as usize)
        })
    })
}

/// The payload of a UDP datagram came in on a socket of the program's, with this ECN field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_receive(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    socket: u32,
    from: *const dccp_address,
    ecn: u32,
    data: *const c_void,
    len: usize,
) -> c_int {
    answer(|| {
        // SAFETY: the header has the caller see to it.
        let (remote, data) = unsafe { (place(from)?, bytes(data.cast(), len)?) };
        with(endpoint, |inner| {
            let now = inner.at(now_ns);
            let route = dccp_proto::Route { socket, local: None, remote };
            let headers = u32::from(if remote.is_ipv4() { OVERHEAD } else { OVERHEAD + MORE });
            let ip_len = u32::try_from(data.len()).unwrap_or(u32::MAX).saturating_add(headers);
            inner.endpoint.handle_datagram(now, &route, Ecn::from_bits(ecn as u8 & 3), ip_len, data);
            Ok(0)
        })
    })
}

/// The next packet for the network: 1, or 0 if none may leave now. -EMSGSIZE if it is larger than the room; it is still there then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_transmit(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    packet: *mut dccp_packet,
) -> c_int {
    answer(|| {
        // SAFETY: the header has the caller see to it.
        let given = unsafe { take(packet) }?;
        // SAFETY: as above.
        let into = unsafe { room(given.data.cast(), given.len) }?;
        with(endpoint, |inner| {
            let now = inner.at(now_ns);
            if inner.out.is_empty() {
                inner.endpoint.poll_transmit(now, &mut Keep(&mut inner.out));
            }
            let Some(next) = inner.out.front() else { return Ok(0) };
            let len = next.bytes.len();
            if len > into.len() {
                return Err(failure(Errno::MSGSIZE, format!("the packet has {len} bytes")));
            }
            into[..len].copy_from_slice(&next.bytes);
            let value = dccp_packet {
                size: 0,
                data: given.data,
                len,
                to: address(next.route.remote),
                socket: next.route.socket,
                ecn: next.ecn.bits().into(),
            };
            // SAFETY: as above.
            unsafe { give(packet, &value) }?;
            inner.out.pop_front();
            Ok(1)
        })
    })
}

/// When to call dccp_endpoint_handle_timeout(), in nanoseconds of the program's clock; INT64_MAX for never.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_timeout(endpoint: *const dccp_endpoint) -> i64 {
    let mut at = i64::MAX;
    let done = answer(|| {
        with(endpoint, |inner| {
            if let Some((time, _)) = inner.endpoint.poll_timeout() {
                at = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            }
            Ok(0)
        })
    });
    if done < 0 { done.into() } else { at }
}

/// The time of dccp_endpoint_timeout() has come. Then ask dccp_endpoint_transmit() for packets.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_handle_timeout(endpoint: *mut dccp_endpoint, now_ns: u64) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            let now = inner.at(now_ns);
            inner.endpoint.handle_timeout(now);
            Ok(0)
        })
    })
}

/// Queues a datagram of a session. What the queue cannot hold is dropped; look at dccp_endpoint_queued() before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_send(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    session: u64,
    data: *const c_void,
    len: usize,
) -> c_int {
    answer(|| {
        // SAFETY: the header has the caller see to it.
        let data = unsafe { bytes(data.cast(), len) }?;
        if data.is_empty() {
            return Err(invalid("an empty datagram cannot be sent"));
        }
        with(endpoint, |inner| {
            let (now, id) = (inner.at(now_ns), SessionId(session));
            let status = inner.endpoint.status(now, id);
            let status = status.ok_or_else(|| failure(Errno::NOTCONN, "no such session"))?;
            let most = status.max_payload.unwrap_or(0);
            if status.max_payload.is_some() && data.len() > most {
                let text = format!("{} bytes are more than the {most} that a packet can carry", data.len());
                return Err(failure(Errno::MSGSIZE, text));
            }
            inner.endpoint.send(now, id, data.to_vec(), PktInfo::default());
            Ok(0)
        })
    })
}

/// How many datagrams of a session wait for the congestion window.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_queued(endpoint: *const dccp_endpoint, session: u64) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            let now = inner.now;
            Ok(inner.endpoint.backlog(now, SessionId(session)).packets as usize)
        })
    })
}

/// The next datagram that arrived, and of which session: its bytes, or -EAGAIN. -EMSGSIZE if it is larger than the buffer; it is still there
/// then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_recv(
    endpoint: *mut dccp_endpoint,
    session: *mut u64,
    buffer: *mut c_void,
    len: usize,
) -> isize {
    crate::errno::answer_size(|| {
        // SAFETY: the header has the caller see to it.
        let into = unsafe { room(buffer.cast(), len) }?;
        with(endpoint, |inner| {
            let next = inner.delivered.take().or_else(|| inner.endpoint.poll_deliver());
            let (id, data) = next.ok_or_else(|| failure(Errno::AGAIN, "no datagram is there"))?;
            if data.len() > into.len() {
                let text = format!("the next datagram has {} bytes", data.len());
                inner.delivered = Some((id, data));
                return Err(failure(Errno::MSGSIZE, text));
            }
            into[..data.len()].copy_from_slice(&data);
            if !session.is_null() {
                // SAFETY: as above.
                unsafe { session.write(id.0) };
            }
            Ok(data.len())
        })
    })
}

/// The next event: 1, or 0 if there is none. dccp_event.session says of which session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_next_event(
    endpoint: *mut dccp_endpoint,
    event: *mut dccp_event,
) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            // Asked first, so that an event is not lost on a caller without room for it.
            // SAFETY: the header has the caller see to it.
            unsafe { give(event, &dccp_event::default()) }?;
            while let Some((SessionId(session), told)) = inner.endpoint.poll_event() {
                let told = match told {
                    SessionEvent::Opened { .. } => {
                        dccp_event { kind: crate::observe::DCCP_EVENT_OPENED, ..dccp_event::default() }
                    }
                    SessionEvent::PathUp(path) => event_of(dccp_sockets::Event::PathUp(path)),
                    SessionEvent::PathSuspect(path) => event_of(dccp_sockets::Event::PathSuspect(path)),
                    SessionEvent::PathDown(path, why) => event_of(dccp_sockets::Event::PathDown(path, why)),
                    SessionEvent::Closed(why) => event_of(dccp_sockets::Event::Closed(why)),
                    _ => continue,
                };
                // SAFETY: as above.
                unsafe { give(event, &dccp_event { session, ..told }) }?;
                return Ok(1);
            }
            Ok(0)
        })
    })
}

/// Closes a session in good order; what is queued is dropped.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_close(endpoint: *mut dccp_endpoint, now_ns: u64, session: u64) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            let now = inner.at(now_ns);
            inner.endpoint.close(now, SessionId(session));
            Ok(0)
        })
    })
}

/// Forgets the endpoint and all its sessions; their peers are not told.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_free(endpoint: *mut dccp_endpoint) -> c_int {
    answer(|| ENDPOINTS.remove(endpoint).map(|_| 0))
}
