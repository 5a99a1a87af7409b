//! Messages between the two ends of a tunnel, sent as datagrams of the session. Their first four bits
//! distinguish them from IP packets.

use crate::config::Mtu;
use ipnet::IpNet;
use std::net::IpAddr;

/// Type of the message by which a server asks a client to use another server.
const LEAVE: [u8; 2] = [0x10, 1];
const ASK: [u8; 2] = [0x10, 2];
const GIVE: [u8; 2] = [0x10, 3];
const REFUSE: [u8; 2] = [0x10, 4];
const NAMES: [u8; 2] = [0x10, 5];
/// Type of the message that asks whether a host is alive. The type is followed by a stream number.
const PROBE: [u8; 2] = [0x10, 7];
const ALIVE: [u8; 2] = [0x10, 8];
/// Longest path name, bytes.
const LONGEST_NAME: usize = 40;
/// Size of the largest message, in bytes. With all headers, an encrypted message then fits into 576 bytes,
/// the size of the IPv4 packets that every host must accept.
const MAX_MESSAGE: usize = 484;
/// Size of the largest message that is accepted. Earlier versions send messages of this size.
const MAX_ACCEPTED: usize = 500;

/// Addresses and routes that a server assigns to a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gift {
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) routes: Vec<IpNet>,
    /// Size of the largest inner packet that the server allows; 0 for no limit.
    pub(crate) mtu: u16,
}

/// Why a server assigns no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The server has no pool.
    NoPool = 1,
    /// The pool is exhausted.
    Exhausted = 2,
}

impl Refusal {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Refusal::NoPool => {
                "the server assigns no addresses; set `addresses` here, or [assign] at the server"
            }
            Refusal::Exhausted => "the server has no free address left in the pool of its [assign]",
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// The server asks its client to use another server.
    Leave,
    Ask,
    Give(Gift),
    Refuse(Refusal),
    /// The names that the client gave its paths.
    Names(Vec<String>),
    /// Asks whether the host at the other end still has the TCP connection of this stream.
    Probe(u64),
    /// Answers that the host still has the TCP connection of this stream.
    Alive(u64),
}

impl Message {
    /// Encodes the message as a datagram.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Message::Leave => LEAVE.to_vec(),
            Message::Ask => ASK.to_vec(),
            Message::Probe(stream) => [&PROBE[..], &stream.to_be_bytes()].concat(),
            Message::Alive(stream) => [&ALIVE[..], &stream.to_be_bytes()].concat(),
            Message::Refuse(why) => [&REFUSE[..], &[*why as u8]].concat(),
            Message::Names(names) => {
                let mut out = NAMES.to_vec();
                // The server refuses the whole message if it contains another name.
                for name in names.iter().filter(|name| is_name(name)) {
                    if out.len() + 1 + name.len() <= MAX_MESSAGE {
                        out.push(name.len() as u8);
                        out.extend(name.as_bytes());
                    }
                }
                out
            }
            Message::Give(gift) => {
                let mut out = [GIVE, gift.mtu.to_be_bytes()].concat();
                let kinds = [(0x00, &gift.addresses), (0x10, &gift.routes)];
                for (kind, net) in
                    kinds.iter().flat_map(|(kind, nets)| nets.iter().map(move |net| (kind, net)))
                {
                    let version = if net.addr().is_ipv4() { 4 } else { 6 };
                    out.extend([kind | version, net.prefix_len()]);
                    match net.addr() {
                        IpAddr::V4(ip) => out.extend(ip.octets()),
                        IpAddr::V6(ip) => out.extend(ip.octets()),
                    }
                }
                out
            }
        }
    }

    /// Parses a datagram; `None` if it is invalid or of another type.
    pub(crate) fn parse(data: &[u8]) -> Option<Message> {
        let (kind, rest) = data.split_first_chunk::<2>()?;
        match (*kind, rest) {
            (LEAVE, []) => Some(Message::Leave),
            (ASK, []) => Some(Message::Ask),
            (PROBE, rest) => Some(Message::Probe(u64::from_be_bytes(rest.try_into().ok()?))),
            (ALIVE, rest) => Some(Message::Alive(u64::from_be_bytes(rest.try_into().ok()?))),
            (REFUSE, [1]) => Some(Message::Refuse(Refusal::NoPool)),
            (REFUSE, [2]) => Some(Message::Refuse(Refusal::Exhausted)),
            (NAMES, mut rest) => {
                let mut names = Vec::new();
                while let [len, after @ ..] = rest {
                    let (name, after) = after.split_at_checked(usize::from(*len))?;
                    let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?;
                    names.push(name.to_owned());
                    rest = after;
                }
                (data.len() <= MAX_ACCEPTED).then_some(Message::Names(names))
            }
            (GIVE, [high, low, entries @ ..]) => {
                let mut gift = Gift { mtu: u16::from_be_bytes([*high, *low]), ..Gift::default() };
                let mut rest = entries;
                while let [kind, prefix, after @ ..] = rest {
                    let ip: IpAddr;
                    (ip, rest) = match kind & 15 {
                        4 => after.split_first_chunk::<4>().map(|(ip, rest)| ((*ip).into(), rest))?,
                        6 => after.split_first_chunk::<16>().map(|(ip, rest)| ((*ip).into(), rest))?,
                        _ => return None,
                    };
                    let net = IpNet::new(ip, *prefix).ok()?;
                    match kind >> 4 {
                        0 if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() => return None,
                        0 => gift.addresses.push(net),
                        1 => gift.routes.push(net.trunc()),
                        _ => return None,
                    }
                }
                let fits = rest.is_empty() && data.len() <= MAX_ACCEPTED;
                // The kernel would refuse a tiny MTU each time that the paths change.
                let sound = gift.mtu == 0 || Mtu::SIZES.contains(&gift.mtu);
                (fits && sound && !gift.addresses.is_empty()).then_some(Message::Give(gift))
            }
            _ => None,
        }
    }

    pub(crate) fn fits(&self) -> bool {
        self.to_bytes().len() <= MAX_MESSAGE
    }
}

/// Returns whether a peer's name for a path may appear in logs and on terminals.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.chars().all(|c| c.is_alphanumeric() || " -_.@:/+".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gift() -> Gift {
        let nets = |list: &[&str]| list.iter().map(|net| net.parse().unwrap()).collect();
        Gift {
            addresses: nets(&["10.0.0.5/24", "fd00::5/64"]),
            routes: nets(&["192.168.0.0/16", "fd01::/16"]),
            mtu: 1300,
        }
    }

    #[test]
    fn messages_are_read_as_written() {
        let refusals = [Refusal::NoPool, Refusal::Exhausted].map(Message::Refuse);
        let names = Message::Names(vec!["dsl".into(), "Büro LTE".into()]);
        for message in
            refusals.into_iter().chain([Message::Leave, Message::Ask, Message::Give(gift()), names])
        {
            let bytes = message.to_bytes();
            assert_eq!(bytes[0] >> 4, 1, "not an IP packet");
            assert_eq!(Message::parse(&bytes), Some(message));
        }
        let bytes = Message::Give(gift()).to_bytes();
        assert_eq!(bytes[..10], [0x10, 3, 0x05, 0x14, 4, 24, 10, 0, 0, 5], "as docs/tunnel.md says");
    }

    #[test]
    fn the_largest_message_fits_into_the_smallest_packet() {
        let names = Message::Names(vec!["x".into(); 1_000]).to_bytes();
        assert_eq!(names.len(), MAX_MESSAGE);
        let overhead = 28 + dccp_secure::OVERHEAD as u16;
        assert_eq!(names.len(), usize::from(crate::packet::mtu::inner(576, overhead)));
    }

    #[test]
    fn a_name_that_the_server_refuses_does_not_cost_the_others() {
        let names = ["dsl (home)", "lte", &"a".repeat(LONGEST_NAME + 1)].map(str::to_owned);
        let message = Message::parse(&Message::Names(names.into()).to_bytes());
        assert_eq!(message, Some(Message::Names(vec!["lte".into()])));
    }

    #[test]
    fn truncated_and_invalid_messages_are_rejected() {
        let bytes = Message::Give(gift()).to_bytes();
        // Entries at the end of a message may be missing, as long as none is cut short and at least one
        // address remains.
        let whole = [10, 28, 34];
        for n in 0..bytes.len() {
            assert_eq!(Message::parse(&bytes[..n]).is_some(), whole.contains(&n), "{n} bytes");
        }
        let with = |entry: &[u8]| Message::parse(&[&GIVE[..], &[0, 0], entry].concat());
        assert!(with(&[4, 24, 10, 0, 0, 5]).is_some());
        for wrong in [[4, 33, 10, 0, 0, 5], [5, 24, 10, 0, 0, 5], [0x24, 24, 10, 0, 0, 5]] {
            assert_eq!(with(&wrong), None, "prefix, version, kind");
        }
        let sized =
            |mtu: u16| Message::parse(&[&GIVE[..], &mtu.to_be_bytes(), &[4, 24, 10, 0, 0, 5]].concat());
        assert_eq!(
            [0, 1, 575, 576, 9000, 9001].map(|mtu| sized(mtu).is_some()),
            [true, false, false, true, true, false]
        );
        for wrong in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1]] {
            assert_eq!(with(&[&[4, 8][..], &wrong].concat()), None);
        }
        // A server that sends more entries than fit wants to keep the client busy.
        assert!(with(&[4u8, 24, 10, 0, 0, 5].repeat(82)).is_some());
        assert_eq!(with(&[4u8, 24, 10, 0, 0, 5].repeat(83)), None);
        let list = |names: usize| Message::parse(&[&NAMES[..], &[1, b'x'].repeat(names)].concat());
        assert!(list(249).is_some(), "500 bytes, as an earlier version may send");
        assert_eq!(list(250), None);
        let named = |name: &[u8]| Message::parse(&[&NAMES[..], &[name.len() as u8], name].concat());
        assert!(named(b"dsl").is_some());
        for wrong in [&b""[..], b"\x1b[2J", b"a\nb", b"\xff", &[b'a'; LONGEST_NAME + 1]] {
            assert_eq!(named(wrong), None, "{wrong:?}");
        }
        assert_eq!(Message::parse(&[0x10, 5, 3, b'd']), None);
        assert_eq!(Message::parse(&[0x10, 2, 0]), None);
        assert_eq!(Message::parse(&[0x10, 4, 9]), None);
    }
}
