use crate::curve::Key;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::fmt;
use core::str::FromStr;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Error while parsing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not base64.
    NotBase64,
    /// The key's length is not 32 bytes. The value is the actual length.
    Length(usize),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::NotBase64 => f.write_str("not base64 (a key is 44 characters that end in `=`)"),
            KeyError::Length(n) => write!(f, "the base64 decodes to {n} bytes; a key has 32 bytes"),
        }
    }
}

impl core::error::Error for KeyError {}

fn decode(text: &str) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| KeyError::NotBase64)?);
    let key = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| KeyError::Length(bytes.len()))?;
    Ok(Zeroizing::new(key))
}

/// A Curve25519 public key, in WireGuard's format: 32 bytes in base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        decode(text).map(|key| PublicKey(*key))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A Curve25519 private key. Its memory is wiped when dropped, and debug output does not show it.
#[derive(Clone)]
pub struct PrivateKey(Zeroizing<[u8; 32]>);

impl PrivateKey {
    /// Creates a key from 32 random bytes.
    pub fn from_random(bytes: [u8; 32]) -> PrivateKey {
        let mut key = Zeroizing::new(bytes);
        // RFC 7748 section 5: store the key in clamped form, as other programs expect.
        key[0] &= 248;
        key[31] = key[31] & 127 | 64;
        PrivateKey(key)
    }

    /// Returns the public key that belongs to this private key.
    pub fn public(&self) -> PublicKey {
        PublicKey(Key::new(&self.0).public())
    }

    /// Returns whether a text given as a public key is in fact this private key.
    pub fn is_written_as(&self, key: &PublicKey) -> bool {
        self.0.ct_eq(&key.0).into()
    }
}

/// 32 secret bytes that two peers share in addition to their keys. If all bytes are zero, the peers share no
/// such secret.
#[derive(Clone, Default)]
pub struct PresharedKey(Zeroizing<[u8; 32]>);

impl PresharedKey {
    /// Creates a key from 32 random bytes.
    pub fn from_random(bytes: [u8; 32]) -> PresharedKey {
        PresharedKey(Zeroizing::new(bytes))
    }
}

/// Implements what secret keys have in common.
macro_rules! secret {
    ($($key:ident),+) => { $(
        impl $key {
            pub(crate) fn bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Returns the key in base64, for writing it to a file.
            pub fn to_base64(&self) -> Zeroizing<String> {
                Zeroizing::new(STANDARD.encode(*self.0))
            }
        }

        impl PartialEq for $key {
            /// Compares in constant time.
            fn eq(&self, other: &$key) -> bool {
                self.0.ct_eq(&*other.0).into()
            }
        }

        impl FromStr for $key {
            type Err = KeyError;

            fn from_str(text: &str) -> Result<$key, KeyError> {
                decode(text).map($key)
            }
        }
    )+ };
}

secret!(PrivateKey, PresharedKey);
mpdccp_units::hidden!(PrivateKey, PresharedKey);

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748 section 6.1.
    #[test]
    fn public_key_of_the_rfc() {
        let alice = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
        let key: PrivateKey = alice.parse().unwrap();
        assert_eq!(key.public().to_string(), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=");
        assert_eq!(key.to_base64().as_str(), alice);
    }

    #[test]
    fn keys_are_read_or_said_to_be_wrong() {
        assert_eq!("#".parse::<PublicKey>(), Err(KeyError::NotBase64));
        assert_eq!("AAAA".parse::<PublicKey>(), Err(KeyError::Length(3)));
        let key = PublicKey([7; 32]);
        assert_eq!(key.to_string().parse::<PublicKey>(), Ok(key));
    }

    #[test]
    fn secrets_do_not_show() {
        let key = PrivateKey::from_random([1; 32]);
        assert_eq!(format!("{key:?} {:?}", PresharedKey::default()), "PrivateKey(..) PresharedKey(..)");
    }
}
