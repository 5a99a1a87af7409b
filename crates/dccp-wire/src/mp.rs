use crate::Seq;
use crate::bytes::number;
use core::net::IpAddr;

/// Multipath options, option type 46 (RFC 9897 section 3.2). The number in parentheses is the subtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpOption<'a> {
    /// Groups of confirmed options, verbatim, newest group first (0). A group consists of the MP_SEQ of the
    /// confirmed packet, followed by that packet's options. Read the groups with [`crate::Options::new`].
    Confirm(&'a [u8]),
    /// Adds a subflow to a session (1).
    Join {
        /// Address identifier.
        addr_id: u8,
        /// Connection identifier of the end that receives this option.
        ci: u32,
        /// Fresh random number.
        nonce: u32,
    },
    /// Ends the session at once (2). Contains the peer's key data.
    FastClose(&'a [u8]),
    /// Connection identifier of the sender, then a list of key types and key data (3). Read the list with
    /// [`MpOption::keys`]; to write it, use [`KeyType::number`].
    Key {
        /// Connection identifier of the sender.
        ci: u32,
        /// Key types and data.
        keys: &'a [u8],
    },
    /// Sequence number of the datagram in the session (4).
    Seq(Seq),
    /// Leftmost 20 bytes of an HMAC-SHA256 (5).
    Hmac(&'a [u8; 20]),
    /// Round-trip time and its age, milliseconds (6).
    Rtt {
        /// How the round-trip time was measured.
        kind: RttType,
        /// Milliseconds.
        rtt_ms: u32,
        /// Milliseconds since it was measured.
        age_ms: u32,
    },
    /// An address of the sender (7).
    AddAddr {
        /// Address identifier.
        addr_id: u8,
        /// Fresh random number.
        nonce: u32,
        /// The address.
        addr: IpAddr,
        /// Port of the address. If absent, the port is that of the subflow that carried the option.
        port: Option<u16>,
    },
    /// An address that is no longer valid (8).
    RemoveAddr {
        /// Address identifier.
        addr_id: u8,
        /// Fresh random number.
        nonce: u32,
    },
    /// Priority of the subflow that carries the option, 0 to 15 (9).
    Prio(u8),
    /// Closes the session (10). Contains the peer's key data.
    Close(&'a [u8]),
    /// Private use (11).
    Exp(&'a [u8]),
    /// Any other subtype and its data.
    Unknown(u8, &'a [u8]),
}

/// Kinds of MP_RTT (RFC 9897 section 3.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RttType {
    Raw,
    Min,
    Max,
    Smooth,
    Other(u8),
}

/// Key types of MP_KEY (RFC 9897 section 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// 8 bytes in the clear.
    Plain,
    /// 64 bytes, experimental.
    Experimental,
    /// An unassigned type. The length of its key is unknown, so the rest of the list cannot be read.
    Other(u8),
}

impl RttType {
    fn from_number(number: u8) -> RttType {
        match number {
            0 => RttType::Raw,
            1 => RttType::Min,
            2 => RttType::Max,
            3 => RttType::Smooth,
            n => RttType::Other(n),
        }
    }

    fn number(self) -> u8 {
        match self {
            RttType::Raw => 0,
            RttType::Min => 1,
            RttType::Max => 2,
            RttType::Smooth => 3,
            RttType::Other(n) => n,
        }
    }
}

impl KeyType {
    /// Returns the type for the byte on the wire.
    pub const fn from_number(number: u8) -> KeyType {
        match number {
            0 => KeyType::Plain,
            255 => KeyType::Experimental,
            n => KeyType::Other(n),
        }
    }

    /// Returns the byte on the wire.
    pub const fn number(self) -> u8 {
        match self {
            KeyType::Plain => 0,
            KeyType::Experimental => 255,
            KeyType::Other(n) => n,
        }
    }

    /// Returns the length of the key data, if known.
    pub const fn key_len(self) -> Option<usize> {
        match self {
            KeyType::Plain => Some(8),
            KeyType::Experimental => Some(64),
            KeyType::Other(_) => None,
        }
    }
}

impl<'a> MpOption<'a> {
    /// Reads the key list of MP_KEY as pairs of type and data. The data of a key of unknown type is the whole
    /// rest of the list. In a parsed option, each key has the length that its type requires; in any other
    /// list, the last key may be truncated.
    pub fn keys(keys: &'a [u8]) -> impl Iterator<Item = (KeyType, &'a [u8])> {
        let mut list = keys;
        core::iter::from_fn(move || {
            let (&kind, rest) = list.split_first()?;
            let kind = KeyType::from_number(kind);
            let (data, rest) = rest.split_at(kind.key_len().unwrap_or(rest.len()).min(rest.len()));
            list = rest;
            Some((kind, data))
        })
    }

    /// Parses the data of an option 46: subtype and value. Returns `None` if a known subtype has an invalid
    /// value.
    pub(crate) fn parse(data: &'a [u8]) -> Option<MpOption<'a>> {
        // Fast path for MP_SEQ, which every data packet carries.
        if let [4, a, b, c, d, e, f] = *data {
            return Some(MpOption::Seq(Seq::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))));
        }
        let (&subtype, value) = data.split_first()?;
        // The table of RFC 9897 section 3.2 counts type, length and subtype too, so these lengths are three
        // bytes shorter.
        Some(match (subtype, value.len()) {
            (0, _) => MpOption::Confirm(value),
            (1, 9) => MpOption::Join {
                addr_id: value[0],
                ci: number(&value[1..5]) as u32,
                nonce: number(&value[5..]) as u32,
            },
            (2, _) => MpOption::FastClose(value),
            (3, 5..) => {
                // The first byte is reserved.
                let keys = &value[5..];
                let whole = |(kind, key): (KeyType, &[u8])| kind.key_len().is_none_or(|len| key.len() == len);
                if !MpOption::keys(keys).all(whole) {
                    return None;
                }
                MpOption::Key { ci: number(&value[1..5]) as u32, keys }
            }
            (5, _) => MpOption::Hmac(value.try_into().ok()?),
            (6, 9) => MpOption::Rtt {
                kind: RttType::from_number(value[0]),
                rtt_ms: number(&value[1..5]) as u32,
                age_ms: number(&value[5..]) as u32,
            },
            (7, 9 | 11 | 21 | 23) => {
                let (addr, port): (IpAddr, _) = match (value[5..].first_chunk::<16>(), &value[5..]) {
                    (Some(v6), rest) => ((*v6).into(), &rest[16..]),
                    (None, rest) => (rest.first_chunk::<4>().copied()?.into(), &rest[4..]),
                };
                MpOption::AddAddr {
                    addr_id: value[0],
                    nonce: number(&value[1..5]) as u32,
                    addr,
                    port: (!port.is_empty()).then_some(number(port) as u16),
                }
            }
            (8, 5) => MpOption::RemoveAddr { addr_id: value[0], nonce: number(&value[1..]) as u32 },
            (9, 1) => MpOption::Prio(value[0] & 15),
            (10, _) => MpOption::Close(value),
            (11, _) => MpOption::Exp(value),
            (1 | 3 | 4 | 6..=9, _) => return None,
            _ => MpOption::Unknown(subtype, value),
        })
    }

    /// Passes the bytes of subtype and value to `put`, in several parts.
    pub(crate) fn emit(&self, put: impl FnOnce(&[&[u8]]) -> bool) -> bool {
        match *self {
            MpOption::Confirm(options) => put(&[&[0], options]),
            MpOption::Join { addr_id, ci, nonce } => {
                put(&[&[1, addr_id], &ci.to_be_bytes(), &nonce.to_be_bytes()])
            }
            MpOption::FastClose(key) => put(&[&[2], key]),
            MpOption::Key { ci, keys } => put(&[&[3, 0], &ci.to_be_bytes(), keys]),
            MpOption::Seq(seq) => put(&[&[4], &seq.value().to_be_bytes()[2..]]),
            MpOption::Hmac(hmac) => put(&[&[5], hmac]),
            MpOption::Rtt { kind, rtt_ms, age_ms } => {
                put(&[&[6, kind.number()], &rtt_ms.to_be_bytes(), &age_ms.to_be_bytes()])
            }
            MpOption::AddAddr { addr_id, nonce, addr, port } => {
                let port = port.map(u16::to_be_bytes);
                let port = port.as_ref().map_or(&[][..], |port| port);
                let head = [7, addr_id];
                match addr {
                    IpAddr::V4(v4) => put(&[&head, &nonce.to_be_bytes(), &v4.octets(), port]),
                    IpAddr::V6(v6) => put(&[&head, &nonce.to_be_bytes(), &v6.octets(), port]),
                }
            }
            MpOption::RemoveAddr { addr_id, nonce } => put(&[&[8, addr_id], &nonce.to_be_bytes()]),
            MpOption::Prio(prio) => put(&[&[9, prio & 15]]),
            MpOption::Close(key) => put(&[&[10], key]),
            MpOption::Exp(data) => put(&[&[11], data]),
            MpOption::Unknown(subtype, data) => put(&[&[subtype], data]),
        }
    }
}
