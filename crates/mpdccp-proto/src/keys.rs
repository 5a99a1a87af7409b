//! Keys, connection identifiers and HMACs (RFC 9897 sections 3.2.4 and 3.2.6).

use core::net::IpAddr;
use dccp_wire::{KeyType, MpOption};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Key data of type 0, in the clear (RFC 9897 section 3.2.4).
pub(crate) type Key = [u8; 8];
/// The leftmost 160 bits of an HMAC-SHA256 (RFC 9897 section 3.2.6).
pub(crate) type Tag = [u8; 20];

/// Both ends' keys and identifiers, as one end sees them.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    pub(crate) local_ci: u32,
    pub(crate) remote_ci: u32,
    pub(crate) local: Key,
    pub(crate) remote: Key,
}

impl core::fmt::Debug for Keys {
    /// Keys stay out of logs.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Keys({:#x}, {:#x})", self.local_ci, self.remote_ci)
    }
}

/// Whose HMAC: the derived key starts with the sender's own part (RFC 9897 section 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Local,
    Remote,
}

impl Keys {
    fn tag(&self, by: By, message: &[&[u8]]) -> Tag {
        let (first, second) = match by {
            By::Local => (self.local, self.remote),
            By::Remote => (self.remote, self.local),
        };
        let mut key = [0; 64];
        // HMAC pads a short key with zeros to the block (RFC 2104 section 2), so this is the 16-byte derived key.
        key[..8].copy_from_slice(&first);
        key[8..16].copy_from_slice(&second);
        let mut mac = Hmac::<Sha256>::new(&key.into());
        message.iter().for_each(|part| mac.update(part));
        let full = mac.finalize().into_bytes();
        let mut tag = [0; 20];
        tag.copy_from_slice(&full[..20]);
        tag
    }

    /// For MP_JOIN: the sender's nonce first.
    pub(crate) fn join(&self, by: By, local_nonce: u32, remote_nonce: u32) -> Tag {
        let (first, second) = match by {
            By::Local => (local_nonce, remote_nonce),
            By::Remote => (remote_nonce, local_nonce),
        };
        self.tag(by, &[&first.to_be_bytes(), &second.to_be_bytes()])
    }

    /// For MP_ADDADDR; an absent port counts as zero.
    pub(crate) fn add_addr(&self, by: By, addr_id: u8, nonce: u32, addr: IpAddr, port: Option<u16>) -> Tag {
        let port = port.unwrap_or(0).to_be_bytes();
        let nonce = nonce.to_be_bytes();
        match addr {
            IpAddr::V4(ip) => self.tag(by, &[&[addr_id], &nonce, &ip.octets(), &port]),
            IpAddr::V6(ip) => self.tag(by, &[&[addr_id], &nonce, &ip.octets(), &port]),
        }
    }

    /// For MP_REMOVEADDR: with the nonce, as the formula has it (the prose beside it names the Address ID alone).
    pub(crate) fn remove_addr(&self, by: By, addr_id: u8, nonce: u32) -> Tag {
        self.tag(by, &[&[addr_id], &nonce.to_be_bytes()])
    }

    /// Whether MP_CLOSE or MP_FAST_CLOSE carries our key.
    pub(crate) fn is_ours(&self, key: &[u8]) -> bool {
        same(&self.local, key)
    }
}

/// Equality in constant time.
pub(crate) fn same(ours: &[u8], theirs: &[u8]) -> bool {
    ours.ct_eq(theirs).into()
}

/// The key of type 0 in MP_KEY, if it is offered.
pub(crate) fn plain_key(keys: &[u8]) -> Option<Key> {
    MpOption::keys(keys).find(|(kind, _)| *kind == KeyType::Plain)?.1.try_into().ok()
}

/// The key data of MP_KEY for one key of type 0.
pub(crate) fn key_data(key: &Key) -> [u8; 9] {
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    [KeyType::Plain.number(), k0, k1, k2, k3, k4, k5, k6, k7]
}
