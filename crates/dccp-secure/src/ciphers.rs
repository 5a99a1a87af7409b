use crate::header::{HEADER, TAG};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use core::fmt;
use core::str::FromStr;

mpdccp_units::named! {
    /// The AEAD cipher of records.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Aead {
        /// AES-128-GCM (NIST SP 800-38D), which is fastest on processors with AES instructions.
        Aes128Gcm = "aes-128-gcm",
        /// AES-256-GCM: like [`Aes128Gcm`](Self::Aes128Gcm), with a longer key.
        Aes256Gcm = "aes-256-gcm",
        /// ChaCha20-Poly1305 (RFC 8439), which is fast on all processors.
        ChaCha20Poly1305 = "chacha20-poly1305",
    }
}

/// Error for an unknown cipher name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAead;

impl fmt::Display for UnknownAead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Aead::ALL.iter().map(|aead| aead.name()).collect();
        write!(f, "unknown cipher, expected one of {}", names.join(", "))
    }
}

impl core::error::Error for UnknownAead {}

impl FromStr for Aead {
    type Err = UnknownAead;

    fn from_str(name: &str) -> Result<Aead, UnknownAead> {
        Aead::ALL.into_iter().find(|aead| aead.name() == name).ok_or(UnknownAead)
    }
}

impl Aead {
    /// Returns the ciphers that are recommended on this host, fastest first.
    pub fn preferred() -> Vec<Aead> {
        if has_aes() { Aead::ALL.to_vec() } else { vec![Aead::ChaCha20Poly1305] }
    }

    /// Returns the cipher's number in handshakes.
    pub(crate) fn number(self) -> u8 {
        match self {
            Aead::ChaCha20Poly1305 => 0,
            Aead::Aes128Gcm => 1,
            Aead::Aes256Gcm => 2,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Aead> {
        Aead::ALL.into_iter().find(|aead| aead.number() == number)
    }

    /// Returns the key length in bytes.
    pub(crate) fn key_len(self) -> usize {
        match self {
            Aead::Aes128Gcm => 16,
            Aead::ChaCha20Poly1305 | Aead::Aes256Gcm => 32,
        }
    }

    /// Returns the set of ciphers that an initiator offers, one bit per cipher number.
    pub(crate) fn offer(list: &[Aead]) -> u8 {
        list.iter().fold(0, |set, aead| set | 1 << aead.number())
    }

    /// Returns the responder's choice: the first cipher of its own list that the initiator offered.
    pub(crate) fn pick(list: &[Aead], offered: u8) -> Option<Aead> {
        list.iter().copied().find(|aead| offered >> aead.number() & 1 == 1)
    }

    /// Returns the maximum number of records per key. For AES-GCM, this is 2^23 (RFC 9001 section 6.6).
    /// ChaCha20-Poly1305 has no such limit, so the value is 2^60, as in WireGuard.
    pub(crate) fn most_records(self) -> u64 {
        match self {
            Aead::ChaCha20Poly1305 => 1 << 60,
            Aead::Aes128Gcm | Aead::Aes256Gcm => 1 << 23,
        }
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull")
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

/// The key of one direction.
pub(crate) struct RecordKey(LessSafeKey);

mpdccp_units::hidden!(RecordKey);

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl RecordKey {
    /// Creates a key from as many leading bytes of `secret` as the AEAD needs. This never returns `None`,
    /// because no AEAD here needs more than 32 bytes.
    pub(crate) fn new(aead: Aead, secret: &[u8; 32]) -> Option<RecordKey> {
        let algorithm = match aead {
            Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Aead::Aes128Gcm => &AES_128_GCM,
            Aead::Aes256Gcm => &AES_256_GCM,
        };
        let key = UnboundKey::new(algorithm, secret.get(..algorithm.key_len())?).ok()?;
        Some(RecordKey(LessSafeKey::new(key)))
    }

    /// Seals a record in place. `record` consists of a complete header, the packet, and room for the tag. The
    /// counter must not have been used in an earlier call with this key. Returns false if the record is too
    /// short or too long for the AEAD.
    #[must_use]
    pub(crate) fn seal(&self, counter: u64, record: &mut [u8]) -> bool {
        let Some((header, rest)) = record.split_at_mut_checked(HEADER) else { return false };
        let Some(len) = rest.len().checked_sub(TAG) else { return false };
        let (packet, room) = rest.split_at_mut(len);
        match self.0.seal_in_place_separate_tag(nonce(counter), Aad::from(&*header), packet) {
            Ok(tag) => {
                room.copy_from_slice(tag.as_ref());
                true
            }
            Err(_) => false,
        }
    }

    /// Opens a record in place. Returns the length of the packet that follows the header, or `None` if the
    /// record is forged.
    pub(crate) fn open(&self, counter: u64, record: &mut [u8]) -> Option<usize> {
        let (header, rest) = record.split_at_mut_checked(HEADER)?;
        let packet = self.0.open_in_place(nonce(counter), Aad::from(&*header), rest).ok()?;
        Some(packet.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_records_open_and_changed_ones_do_not() {
        for aead in Aead::ALL {
            let key = RecordKey::new(aead, &[3; 32]).unwrap();
            let mut record = vec![9; HEADER + 5 + TAG];
            assert!(key.seal(77, &mut record));
            for i in 0..record.len() {
                let mut changed = record.clone();
                changed[i] ^= 1;
                assert_eq!(key.open(77, &mut changed), None, "byte {i}");
            }
            assert_eq!(key.open(78, &mut record.clone()), None);
            assert_eq!(key.open(77, &mut record), Some(5));
            assert_eq!(record[HEADER..HEADER + 5], [9; 5]);
            assert!(!key.seal(1, &mut [0; OVERHEAD_LESS_ONE]));
        }
    }

    const OVERHEAD_LESS_ONE: usize = HEADER + TAG - 1;

    #[test]
    fn both_ends_settle_on_the_responders_choice() {
        let offered = Aead::offer(&[Aead::ChaCha20Poly1305, Aead::Aes256Gcm]);
        assert_eq!(Aead::pick(&Aead::ALL, offered), Some(Aead::Aes256Gcm));
        assert_eq!(Aead::pick(&[Aead::Aes128Gcm], offered), None);
        for aead in Aead::ALL {
            assert_eq!(Aead::from_number(aead.number()), Some(aead));
            assert_eq!(aead.name().parse(), Ok(aead));
        }
    }
}
