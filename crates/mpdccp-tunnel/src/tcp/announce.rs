//! Headers of a stream that carries a TCP connection. The opener's header has the addresses of the
//! connection. The acceptor's header says whether the far host is connected.

use dccp_streams::Reason;
use mpdccp_proxy::{Icmp, Refusal, Request, Tuple};
use std::net::{IpAddr, SocketAddr};

/// First byte of the header that the opener sends for a TCP connection.
const CONNECTION: u8 = 0;
/// First byte of the acceptor's header if the far host is connected.
const CONNECTED: u8 = 0;
const ICMP: u8 = 1;
/// Flag in the opener's header: the SYN offers ECN.
const ECN: u8 = 1;

/// Number of the reason [`Refusal::Busy`].
const BUSY: u16 = 1;

/// Encodes the header that the opener sends.
pub(super) fn request(request: &Request) -> Vec<u8> {
    let Request { tuple, ttl, traffic_class, ecn } = *request;
    let mut header = vec![CONNECTION, if ecn { ECN } else { 0 }, ttl, traffic_class];
    for end in [tuple.from, tuple.to] {
        header.extend(octets(end.ip()));
        header.extend(end.port().to_be_bytes());
    }
    header
}

/// Parses the opener's header. Returns `None` if it is invalid or mixes IP versions.
pub(super) fn read_request(header: &[u8]) -> Option<Request> {
    let (&[CONNECTION, flags, ttl, traffic_class], ends) = header.split_first_chunk()? else { return None };
    let (from, to) = ends.split_at(ends.len() / 2);
    let tuple = Tuple { from: end(from)?, to: end(to)? };
    Some(Request { tuple, ttl, traffic_class, ecn: flags & ECN != 0 })
}

pub(super) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(octets).ok().map(IpAddr::from))
}

pub(super) fn end(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_last_chunk()?;
    Some(SocketAddr::new(address(ip)?, u16::from_be_bytes(*port)))
}

/// The acceptor's header that reports that the far host is connected.
pub(super) const ACCEPTED: [u8; 1] = [CONNECTED];

/// Encodes the acceptor's header for the case that an ICMP error arrived instead of an answer.
pub(super) fn icmp(icmp: &Icmp) -> Vec<u8> {
    let mut answer = vec![ICMP, icmp.kind, icmp.code];
    answer.extend(icmp.rest);
    answer.extend(octets(icmp.from));
    answer
}

/// Parses the acceptor's header. The error says why there is no connection.
pub(super) fn read_answer(answer: &[u8]) -> Result<(), Refusal> {
    match answer {
        [CONNECTED] => Ok(()),
        [ICMP, kind, code, a, b, c, d, from @ ..] => {
            let icmp = |from| Icmp { from, kind: *kind, code: *code, rest: [*a, *b, *c, *d] };
            // Other messages, such as redirects, must not reach the host.
            Err(address(from).map(icmp).filter(Icmp::is_error).map_or(Refusal::Silence, Refusal::Icmp))
        }
        _ => Err(Refusal::Silence),
    }
}

/// Returns the reason with which to reset the stream. A refusal by ICMP is sent in a header instead (`icmp`).
pub(super) fn reason(why: Refusal) -> Reason {
    match why {
        Refusal::Reset => Reason::Refused,
        Refusal::Busy => Reason::Application(BUSY),
        Refusal::Limit => Reason::Limit,
        Refusal::Silence | Refusal::Icmp(_) => Reason::TimedOut,
    }
}

/// Returns how to answer a host whose stream was reset with this reason.
pub(super) fn refusal(reason: Reason) -> Refusal {
    match reason {
        Reason::Refused | Reason::Reset => Refusal::Reset,
        Reason::Application(BUSY) | Reason::SessionLost => Refusal::Busy,
        Reason::Limit => Refusal::Limit,
        _ => Refusal::Silence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_messages_are_decoded_unchanged() {
        for (from, to) in [("10.0.0.1:1000", "192.0.2.1:80"), ("[fd00::1]:1000", "[2001:db8::1]:443")] {
            let tuple = Tuple { from: from.parse().unwrap(), to: to.parse().unwrap() };
            let asked = Request { tuple, ttl: 61, traffic_class: 0x20, ecn: true };
            let header = request(&asked);
            assert_eq!(read_request(&header), Some(asked));
            assert!((0..header.len()).all(|n| read_request(&header[..n]) != Some(asked)));
            let error = Icmp { from: tuple.to.ip(), kind: 3, code: 13, rest: [0, 0, 5, 220] };
            assert_eq!(read_answer(&icmp(&error)), Err(Refusal::Icmp(error)));
            let echo = Icmp { kind: if tuple.to.is_ipv4() { 8 } else { 128 }, ..error };
            assert_eq!(read_answer(&icmp(&echo)), Err(Refusal::Silence));
        }
        assert_eq!(read_answer(&ACCEPTED), Ok(()));
        assert_eq!(read_answer(&[ICMP, 3]), Err(Refusal::Silence));
        for why in [Refusal::Reset, Refusal::Busy, Refusal::Limit, Refusal::Silence] {
            assert_eq!(refusal(reason(why)), why);
        }
    }
}
