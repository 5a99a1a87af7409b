//! The content of Init Cookies (RFC 4340 section 8.1.4): the state of a Request, and an authentication tag.

use crate::keys::same;
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::{Ports, Route};
use dccp_wire::{Header, Opt, Packet, PacketType, Seq};
use hmac::{Hmac, Mac};
use mpdccp_units::{Duration, Time};
use sha2::Sha256;

/// Lifetime of a cookie. It is long because a client in PARTOPEN repeats its Ack after 200 ms, 400 ms, ...,
/// and some of these Acks may be lost.
const LIFE: Duration = Duration::from_secs(30);
/// Maximum length of the value of an Init Cookie option, bytes.
const MAX_LEN: usize = 253;
const TAG: usize = 16;
/// Combined length of the time, Sequence Number and Service Code, bytes.
const FIXED: usize = 8 + 8 + 4;

/// Creates and opens cookies. A cookie contains the time and a Request's Sequence Number, Service Code and
/// options. A tag authenticates these values and the source of the Request. Everything else in the Response
/// follows from a seed derived from the same values, so the cookie need not contain it.
#[derive(Debug)]
pub(super) struct Cookies {
    secret: [u8; 32],
}

/// A Request that was answered without keeping state.
pub(super) struct Remembered {
    /// Arrival time of the Request.
    pub(super) at: Time,
    /// The Request without its data.
    pub(super) request: Vec<u8>,
    pub(super) seed: [u8; 32],
}

/// Finds the first Init Cookie in a packet of a type that may return one to a listener.
pub(super) fn find<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    if matches!(packet.header.ptype, PacketType::Ack | PacketType::DataAck) { cookie(packet) } else { None }
}

/// Finds the first Init Cookie in a packet.
pub(super) fn cookie<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    packet.options().map_while(Result::ok).find_map(|option| match option {
        Opt::InitCookie(value) => Some(value),
        _ => None,
    })
}

/// Returns an option area without trailing Padding (RFC 4340 section 5.8).
fn without_padding(options: &[u8]) -> &[u8] {
    let (mut at, mut end) = (0, 0);
    while let Some(kind) = options.get(at) {
        at += if *kind < 32 { 1 } else { options.get(at + 1).map_or(1, |len| usize::from((*len).max(2))) };
        if *kind != 0 {
            end = at;
        }
    }
    options.get(..end).unwrap_or(options)
}

impl Cookies {
    pub(super) fn new(secret: [u8; 32]) -> Cookies {
        Cookies { secret }
    }

    fn hash(&self, what: &[u8], route: &Route, ports: Ports, body: &[u8]) -> [u8; 32] {
        let mut key = [0; 64];
        key[..32].copy_from_slice(&self.secret);
        let mut mac = Hmac::<Sha256>::new(&key.into());
        let ip = match route.remote.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        mac.update(what);
        mac.update(&ip.octets());
        mac.update(&route.remote.port().to_be_bytes());
        mac.update(&route.socket.to_be_bytes());
        mac.update(&ports.local.to_be_bytes());
        mac.update(&ports.remote.to_be_bytes());
        mac.update(body);
        mac.finalize().into_bytes().into()
    }

    /// Creates a cookie for a Request, and the seed of the answer. Returns `None` if the cookie does not fit.
    pub(super) fn make(
        &self,
        now: Time,
        route: &Route,
        ports: Ports,
        request: &Packet<'_>,
    ) -> Option<(Vec<u8>, [u8; 32])> {
        let header = &request.header;
        let mut cookie = Vec::with_capacity(MAX_LEN);
        cookie.extend_from_slice(&now.as_nanos().to_be_bytes());
        cookie.extend_from_slice(&header.seq.value().to_be_bytes());
        cookie.extend_from_slice(&header.service_code.unwrap_or(0).to_be_bytes());
        cookie.extend_from_slice(without_padding(request.option_bytes));
        if cookie.len() + TAG > MAX_LEN {
            return None;
        }
        let seed = self.hash(b"seed", route, ports, &cookie);
        let tag = self.hash(b"tag", route, ports, &cookie);
        cookie.extend_from_slice(&tag[..TAG]);
        Some((cookie, seed))
    }

    /// Opens a returned cookie. Returns `None` if it is forged, too old, or from another source.
    pub(super) fn open(&self, now: Time, route: &Route, ports: Ports, cookie: &[u8]) -> Option<Remembered> {
        let (body, tag) = cookie.split_at_checked(cookie.len().checked_sub(TAG)?)?;
        if !same(&self.hash(b"tag", route, ports, body)[..TAG], tag) {
            return None;
        }
        let (fixed, options) = body.split_first_chunk::<FIXED>()?;
        let [t0, t1, t2, t3, t4, t5, t6, t7, s0, s1, s2, s3, s4, s5, s6, s7, c0, c1, c2, c3] = *fixed;
        let at = Time::from_nanos(u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]));
        if now.since(at) > LIFE {
            return None;
        }
        let seq = Seq::new(u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]));
        let header = Header {
            service_code: Some(u32::from_be_bytes([c0, c1, c2, c3])),
            ..Header::new((ports.remote, ports.local), PacketType::Request, seq)
        };
        let mut request = alloc::vec![0; header.packet_len(options.len(), 0)];
        header.emit(options, &mut request);
        Some(Remembered { at, request, seed: self.hash(b"seed", route, ports, body) })
    }
}
