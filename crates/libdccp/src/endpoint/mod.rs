//! The protocol without a clock, sockets or threads, for programs that have their own event loop and clock.

pub mod address;
pub mod inner;
pub mod streams;

use crate::errno::{answer, failure, invalid};
use crate::handles::output;
use crate::memory::{Structure, bytes, give, give_text, room, take};
use crate::observe::{dccp_event, event_of};
use crate::options::{dccp_options, read};
use address::{address, dccp_address, place};
use inner::{ENDPOINTS, Loop, MORE, OVERHEAD, dccp_endpoint, with};
use mpdccp_proto::{Endpoint, ListenConfig, PktInfo, SessionEvent, SessionId};
use mpdccp_units::{Ecn, Time};
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

/// A packet to send to the network.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_packet {
    /// sizeof(struct dccp_packet)
    pub size: usize,
    /// Buffer for the payload of a UDP datagram; 65507 bytes are always enough.
    pub data: *mut c_void,
    /// Size of the buffer. After dccp_endpoint_transmit(), the length of the packet.
    pub len: usize,
    /// Destination of the packet.
    pub to: dccp_address,
    /// The program's socket that has to send the packet.
    pub socket: u32,
    /// ECN field of the IP header.
    pub ecn: u32,
}

// SAFETY: the structure begins with its size, and contains only numbers and a pointer.
unsafe impl Structure for dccp_packet {
    const NAME: &'static str = "struct dccp_packet";
    const OLDEST: usize = 56;
}

/// Creates an endpoint. The seed is 32 random bytes from the system, from which keys are derived. Options
/// about sockets, paths and queues have no effect here. With a private key, everything is encrypted, and each
/// connection goes to the first peer in the options. Times must then count from 1970; otherwise, peers would
/// reject the handshakes of a restarted endpoint as old.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_new(
    seed: *const u8,
    options: *const dccp_options,
    endpoint: *mut *mut dccp_endpoint,
) -> c_int {
    answer(|| {
        output(endpoint)?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        let (options, seed) = unsafe { (read(options)?.0, bytes(seed, 32)?) };
        let seed = *seed.first_chunk().ok_or_else(|| invalid("the seed is null"))?;
        let made = Loop {
            endpoint: Endpoint::new(seed),
            routes: inner::channels(&options, seed),
            opened: BTreeMap::new(),
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

/// Accepts sessions from now on, at the DCCP port in the options.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_listen(endpoint: *mut dccp_endpoint) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            let overhead = OVERHEAD + inner.sealing();
            let options = &inner.options;
            inner.endpoint.listen(ListenConfig {
                port: options.listening_port(),
                session: options.session_config(true)?,
                peers: options.named_peers(),
                strangers: options.admits_any_peer(),
                mtu: options.largest_packet(),
                overhead,
                max_sessions: options.most_connections().0,
                max_sessions_per_source: options.most_connections().1,
            });
            Ok(0)
        })
    })
}

/// Starts a session over one of the program's sockets, which the program identifies by the number socket.
/// dccp_endpoint_transmit() returns the session's first packet. No other session with this peer may use
/// local_port as its DCCP port.
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
            return Err(invalid("the argument that receives the session's number is null"));
        }
        // SAFETY: dccp.h requires valid pointers from the caller.
        let to = unsafe { place(to) }?;
        with(endpoint, |inner| {
            let now = inner.at(now_ns);
            let path = inner.path(now, to, socket, local_port)?;
            let config = inner.options.session_config(inner.options.wants_multipath())?;
            let id = inner.endpoint.connect(now, config, path);
            inner.note(id, path.route.socket);
            let SessionId(number) = id;
            // SAFETY: as above.
            unsafe { session.write(number) };
            Ok(0)
        })
    })
}

/// Adds a path to a client's multipath session, and returns the number of the path.
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
        // SAFETY: dccp.h requires valid pointers from the caller.
        let to = unsafe { place(to) }?;
        with(endpoint, |inner| {
            let (now, id) = (inner.at(now_ns), SessionId(session));
            let path = inner.path(now, to, socket, local_port)?;
            let added = inner.endpoint.add_path(now, id, path);
            if added.is_none() {
                inner.routes.iter_mut().for_each(|routes| routes.close(path.route.socket));
            }
            let added = added
                .ok_or_else(|| failure(Errno::NOTCONN, "no such session, or not a session of a client"))?;
            inner.note(id, path.route.socket);
            Ok(added.0 as usize)
        })
    })
}

/// Handles the payload of a UDP datagram that arrived with this ECN field on the program's socket of this
/// number.
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
        // SAFETY: dccp.h requires valid pointers from the caller.
        let (remote, data) = unsafe { (place(from)?, bytes(data.cast(), len)?) };
        inner::check_socket(socket)?;
        with(endpoint, |inner| {
            let now = inner.at(now_ns);
            let route = dccp_proto::Route { socket, local: None, remote };
            let headers = u32::from(if remote.is_ipv4() { OVERHEAD } else { OVERHEAD + MORE });
            let ip_len = u32::try_from(data.len()).unwrap_or(u32::MAX).saturating_add(headers);
            inner.receive(now, &route, Ecn::from_bits(ecn as u8 & 3), ip_len, data);
            Ok(0)
        })
    })
}

/// Writes the next packet for the network. Returns 1, or 0 if no packet may be sent now; -EMSGSIZE if the
/// packet is larger than the buffer, in which case it stays for the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_transmit(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    packet: *mut dccp_packet,
) -> c_int {
    answer(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let given = unsafe { take(packet) }?;
        // SAFETY: as above.
        let into = unsafe { room(given.data.cast(), given.len) }?;
        with(endpoint, |inner| {
            let now = inner.at(now_ns);
            if inner.out.is_empty() {
                inner.fill(now);
            }
            let Some(next) = inner.out.front() else { return Ok(0) };
            let len = next.bytes.len();
            if len > into.len() {
                return Err(failure(
                    Errno::MSGSIZE,
                    format!("the packet of {len} bytes is larger than the buffer"),
                ));
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

/// When to call dccp_endpoint_handle_timeout() next, in nanoseconds of the program's clock; INT64_MAX for
/// never.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_timeout(endpoint: *const dccp_endpoint) -> i64 {
    let mut at = i64::MAX;
    let done = answer(|| {
        with(endpoint, |inner| {
            if let Some(time) = inner.next_timeout() {
                at = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            }
            Ok(0)
        })
    });
    if done < 0 { done.into() } else { at }
}

/// Handles the timers that have expired. Call dccp_endpoint_transmit() afterwards for any packets.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_handle_timeout(endpoint: *mut dccp_endpoint, now_ns: u64) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            let now = inner.at(now_ns);
            inner.handle_timeout(now);
            Ok(0)
        })
    })
}

/// Queues a datagram of a session. If the queue is full, datagrams are dropped, so check
/// dccp_endpoint_queued() first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_send(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    session: u64,
    data: *const c_void,
    len: usize,
) -> c_int {
    answer(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
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
                let text = format!(
                    "datagram of {} bytes is too large; a packet carries at most {most} bytes",
                    data.len()
                );
                return Err(failure(Errno::MSGSIZE, text));
            }
            inner.endpoint.send(now, id, data.to_vec(), PktInfo::default());
            Ok(0)
        })
    })
}

/// Number of a session's datagrams waiting for the congestion window.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_queued(endpoint: *const dccp_endpoint, session: u64) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            let now = inner.now;
            Ok(inner.endpoint.backlog(now, SessionId(session)).packets as usize)
        })
    })
}

/// Copies the next received datagram, and writes the number of its session. Returns its length; -EAGAIN if
/// there is none; -EMSGSIZE if it is larger than the buffer, in which case it stays for the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_recv(
    endpoint: *mut dccp_endpoint,
    session: *mut u64,
    buffer: *mut c_void,
    len: usize,
) -> isize {
    crate::errno::answer_size(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let into = unsafe { room(buffer.cast(), len) }?;
        with(endpoint, |inner| {
            // An empty datagram is the padding of a probe.
            let mut arrived = std::iter::from_fn(|| inner.endpoint.poll_deliver());
            let next = inner.delivered.take().or_else(|| arrived.find(|(_, data)| !data.is_empty()));
            let (id, data) = next.ok_or_else(|| failure(Errno::AGAIN, "no datagram is available"))?;
            if data.len() > into.len() {
                let text = format!("the next datagram has {} bytes; the buffer is smaller", data.len());
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

/// Writes the next event. Returns 1, or 0 if there is none. dccp_event.session is the session that the event
/// belongs to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_next_event(
    endpoint: *mut dccp_endpoint,
    event: *mut dccp_event,
) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            // Check first, so that no event is lost if the caller's structure is invalid. SAFETY: the header
            // requires this of the caller.
            unsafe { give(event, &dccp_event::default()) }?;
            while let Some((id, told)) = inner.endpoint.poll_event() {
                let told = match told {
                    SessionEvent::Stream(of) => match streams::told(inner, id, of) {
                        Some(told) => told,
                        None => continue,
                    },
                    SessionEvent::Opened { .. } => {
                        dccp_event { kind: crate::observe::DCCP_EVENT_OPENED, ..dccp_event::default() }
                    }
                    SessionEvent::PathUp(path) => event_of(dccp_sockets::Event::PathUp(path)),
                    SessionEvent::PathSuspect(path) => event_of(dccp_sockets::Event::PathSuspect(path)),
                    SessionEvent::PathDown(path, why) => event_of(dccp_sockets::Event::PathDown(path, why)),
                    SessionEvent::Closed(why) => {
                        inner.forget(id);
                        event_of(dccp_sockets::Event::Closed(why))
                    }
                    _ => continue,
                };
                // SAFETY: as above.
                unsafe { give(event, &dccp_event { session: id.0, ..told }) }?;
                return Ok(1);
            }
            Ok(0)
        })
    })
}

/// Closes a session gracefully. Its queue is dropped.
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

/// Frees the endpoint and all its sessions without telling their peers.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_free(endpoint: *mut dccp_endpoint) -> c_int {
    answer(|| ENDPOINTS.remove(endpoint).map(|_| 0))
}

/// Writes the public key of a session's peer in base64, and returns its length. -ENODATA if the session is
/// not encrypted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_peer_key(
    endpoint: *const dccp_endpoint,
    session: u64,
    into: *mut c_char,
    size: usize,
) -> c_int {
    answer(|| {
        with(endpoint, |inner| {
            let status = inner.endpoint.status(inner.now, SessionId(session));
            let status = status.ok_or_else(|| failure(Errno::NOTCONN, "no such session"))?;
            let key = inner
                .routes
                .as_ref()
                .zip(status.paths.first())
                .and_then(|(routes, path)| routes.channels.peer_key(routes.peer(path.route.socket)?));
            let key = key.ok_or_else(|| failure(Errno::NODATA, "the session is not encrypted"))?;
            // SAFETY: dccp.h requires valid pointers from the caller.
            unsafe { give_text(into, size, &key.to_string()) }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::ptr::{null, null_mut};

    /// A program would take the length 0 for the end of the data.
    #[test]
    fn padding_is_not_a_datagram() {
        let mut ends = [null_mut(); 2];
        for (seed, end) in (1u8..).zip(&mut ends) {
            let seed = [seed; 32];
            // SAFETY: all pointers here are valid.
            assert_eq!(unsafe { dccp_endpoint_new(seed.as_ptr(), null(), end) }, 0);
        }
        let at = [1u8, 2].map(|n| address(SocketAddr::from(([192, 0, 2, n], u16::from(n)))));
        let (mut session, mut bytes) = (0u64, [0u8; 2000]);
        assert_eq!(dccp_endpoint_listen(ends[1]), 0);
        // SAFETY: as above.
        assert_eq!(unsafe { dccp_endpoint_connect(ends[0], 1, 0, &at[1], 50_000, &mut session) }, 0);
        for turn in 1..40u64 {
            let now = turn * 5_000_000;
            for (n, from) in at.iter().enumerate() {
                assert_eq!(dccp_endpoint_handle_timeout(ends[n], now), 0);
                loop {
                    let mut packet = dccp_packet {
                        size: size_of::<dccp_packet>(),
                        data: bytes.as_mut_ptr().cast(),
                        len: bytes.len(),
                        to: *from,
                        socket: 0,
                        ecn: 0,
                    };
                    // SAFETY: as above.
                    if unsafe { dccp_endpoint_transmit(ends[n], now, &mut packet) } == 0 {
                        break;
                    }
                    let dccp_packet { data, len, ecn, .. } = packet;
                    // SAFETY: as above.
                    let done = unsafe { dccp_endpoint_receive(ends[1 - n], now, 0, from, ecn, data, len) };
                    assert_eq!(done, 0);
                }
            }
            if turn == 20 {
                let padded = with(ends[0], |inner| {
                    inner.endpoint.pad(inner.now, SessionId(session));
                    Ok(())
                });
                padded.unwrap();
                // SAFETY: as above.
                assert_eq!(unsafe { dccp_endpoint_send(ends[0], now, session, c"x".as_ptr().cast(), 1) }, 0);
            }
        }
        // SAFETY: as above.
        let mut recv = || unsafe { dccp_endpoint_recv(ends[1], null_mut(), bytes.as_mut_ptr().cast(), 9) };
        assert_eq!((recv(), recv()), (1, -(Errno::AGAIN.raw_os_error() as isize)));
    }
}
