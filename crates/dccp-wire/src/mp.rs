use crate::Seq;
use core::net::IpAddr;

/// Multipath options, option type 46 (RFC 9897 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpOption<'a> {
    /// Groups of options being confirmed, verbatim (0).
    Confirm(&'a [u8]),
    /// Address identifier, connection identifier of the peer, nonce (1).
    Join {
        /// Address identifier.
        addr_id: u8,
        /// Connection identifier of the receiver of this option.
        ci: u32,
        /// Fresh random number.
        nonce: u32,
    },
    /// Key data of the peer (2).
    FastClose(&'a [u8]),
    /// Own connection identifier, then key type and key data, repeated (3); read with [`MpOption::keys`].
    Key {
        /// Connection identifier of the sender.
        ci: u32,
        /// Key types and data.
        keys: &'a [u8],
    },
    /// Number of the datagram in the session (4).
    Seq(Seq),
    /// Leftmost 20 bytes of an HMAC-SHA256 (5).
    Hmac(&'a [u8; 20]),
    /// Round-trip time and its age, milliseconds (6).
    Rtt {
        /// How it was measured.
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
        /// Absent: the port of the subflow that carried the option.
        port: Option<u16>,
    },
    /// An address no longer valid (8).
    RemoveAddr {
        /// Address identifier.
        addr_id: u8,
        /// Fresh random number.
        nonce: u32,
    },
    /// Priority of the subflow that carries it, 0 to 15 (9).
    Prio(u8),
    /// Key data of the peer (10).
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
    /// Unassigned; its length is unknown, so nothing after it can be read.
    Other(u8),
}

impl<'a> MpOption<'a> {
    /// Reads the key list of MP_KEY: (type, data) until the end or an unknown type (whose data is all the rest).
    pub fn keys(keys: &'a [u8]) -> impl Iterator<Item = (KeyType, &'a [u8])> {
        let _ = keys;
        core::iter::from_fn(|| todo!())
    }
}
