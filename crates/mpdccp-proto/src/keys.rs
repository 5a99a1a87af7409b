//! Keys, connection identifiers and HMACs (RFC 9897 sections 3.2.4 and 3.2.6).

use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_wire::{KeyType, MpOption};
use hmac::{Hmac, Mac};
use rand_core::RngCore;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The leftmost 160 bits of an HMAC-SHA256, as carried in options (RFC 9897 section 3.2.6).
pub(crate) type Tag = [u8; 20];

/// Length of the longest key data, which is that of type 255.
const LONGEST: usize = 64;

/// Both ends' keys and identifiers, as one end sees them.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) local_ci: u32,
    pub(crate) remote_ci: u32,
    /// Type of the key that is in use (RFC 9897 section 3.2.4).
    kind: KeyType,
    /// This end's key of each type that it offers.
    offered: Vec<(KeyType, Vec<u8>)>,
    remote: Vec<u8>,
}

impl core::fmt::Debug for Keys {
    /// Keeps keys out of logs.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Keys({:#x}, {:#x}, {:?})", self.local_ci, self.remote_ci, self.kind)
    }
}

/// The end that sends an HMAC. That end's key comes first in the derived key (RFC 9897 section 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Local,
    Remote,
}

impl Keys {
    /// Creates random key data for each type. Types of unknown length are left out.
    pub(crate) fn new(local_ci: u32, types: &[KeyType], rng: &mut impl RngCore) -> Keys {
        let mut offered = Vec::new();
        for &kind in types {
            let Some(len) = kind.key_len() else { continue };
            let mut data = alloc::vec![0; len];
            rng.fill_bytes(&mut data);
            offered.push((kind, data));
        }
        Keys { local_ci, remote_ci: 0, kind: KeyType::Plain, offered, remote: Vec::new() }
    }

    /// Returns the key data for MP_KEY with all types that this end offers.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.offered.iter().flat_map(|(kind, data)| [&[kind.number()], &data[..]].concat()).collect()
    }

    /// Returns the key data for MP_KEY with the negotiated type only.
    pub(crate) fn negotiated(&self) -> Vec<u8> {
        [&[self.kind.number()], self.local()].concat()
    }

    /// Chooses the first of this end's types that also appears in `keys`, the list from an MP_KEY. Returns
    /// false if there is none.
    pub(crate) fn choose(&mut self, keys: &[u8]) -> bool {
        let theirs = |kind: KeyType| {
            MpOption::keys(keys).find(|(k, data)| *k == kind && Some(data.len()) == kind.key_len())
        };
        let common = self.offered.iter().find_map(|(kind, _)| theirs(*kind));
        if let Some((kind, data)) = common {
            (self.kind, self.remote) = (kind, data.to_vec());
        }
        common.is_some()
    }

    /// Returns this end's key of the negotiated type.
    fn local(&self) -> &[u8] {
        self.offered.iter().find(|(kind, _)| *kind == self.kind).map_or(&[], |(_, data)| data)
    }

    /// Returns the peer's key, which MP_CLOSE and MP_FAST_CLOSE carry.
    pub(crate) fn remote(&self) -> &[u8] {
        &self.remote
    }

    fn tag(&self, by: By, message: &[&[u8]]) -> Tag {
        let (first, second) = match by {
            By::Local => (self.local(), self.remote()),
            By::Remote => (self.remote(), self.local()),
        };
        // The derived key is 16 or 128 bytes long. HMAC pads a key shorter than the block size with zeros,
        // and hashes a longer one (RFC 2104 section 2); this code does the same.
        let mut key = [0; LONGEST];
        if first.len() + second.len() <= key.len() {
            key[..first.len()].copy_from_slice(first);
            key[first.len()..first.len() + second.len()].copy_from_slice(second);
        } else {
            let hash = Sha256::new().chain_update(first).chain_update(second).finalize();
            key[..hash.len()].copy_from_slice(&hash);
        }
        let mut mac = Hmac::<Sha256>::new(&key.into());
        message.iter().for_each(|part| mac.update(part));
        let full = mac.finalize().into_bytes();
        let mut tag = [0; 20];
        tag.copy_from_slice(&full[..20]);
        tag
    }

    /// Computes the HMAC for MP_JOIN over both nonces, the sender's first.
    pub(crate) fn join(&self, by: By, local_nonce: u32, remote_nonce: u32) -> Tag {
        let (first, second) = match by {
            By::Local => (local_nonce, remote_nonce),
            By::Remote => (remote_nonce, local_nonce),
        };
        self.tag(by, &[&first.to_be_bytes(), &second.to_be_bytes()])
    }

    /// Computes the HMAC for MP_ADDADDR. An absent port counts as zero.
    pub(crate) fn add_addr(&self, by: By, addr_id: u8, nonce: u32, addr: IpAddr, port: Option<u16>) -> Tag {
        let port = port.unwrap_or(0).to_be_bytes();
        let nonce = nonce.to_be_bytes();
        match addr {
            IpAddr::V4(ip) => self.tag(by, &[&[addr_id], &nonce, &ip.octets(), &port]),
            IpAddr::V6(ip) => self.tag(by, &[&[addr_id], &nonce, &ip.octets(), &port]),
        }
    }

    /// Computes the HMAC for MP_REMOVEADDR. It covers the nonce, as in the RFC's formula, although the RFC's
    /// prose names only the Address ID.
    pub(crate) fn remove_addr(&self, by: By, addr_id: u8, nonce: u32) -> Tag {
        self.tag(by, &[&[addr_id], &nonce.to_be_bytes()])
    }

    /// Returns whether MP_CLOSE or MP_FAST_CLOSE carries this end's key. Before the negotiation, this end may
    /// have none.
    pub(crate) fn is_ours(&self, key: &[u8]) -> bool {
        !key.is_empty() && same(self.local(), key)
    }
}

/// Compares in constant time.
pub(crate) fn same(ours: &[u8], theirs: &[u8]) -> bool {
    ours.ct_eq(theirs).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    #[test]
    fn an_empty_key_is_not_the_key_of_an_end_without_one() {
        let mut rng = rand_chacha::ChaCha20Rng::from_seed([0; 32]);
        let keys = Keys::new(1, &[KeyType::Experimental], &mut rng);
        assert!(keys.local().is_empty() && !keys.is_ours(&[]));
    }
}
