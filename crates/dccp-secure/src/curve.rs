use aws_lc_rs::agreement::{self, UnparsedPublicKey, X25519 as ALGORITHM};
use zeroize::Zeroizing;

/// The shared secret of two key pairs.
pub(crate) type Shared = Zeroizing<[u8; 32]>;

/// A private key in the form that the library needs, with its public key precomputed. The key's memory is
/// wiped on drop.
pub(crate) struct Key(agreement::PrivateKey);

impl Key {
    pub(crate) fn new(private: &[u8; 32]) -> Key {
        let key = agreement::PrivateKey::from_private_key(&ALGORITHM, private);
        Key(key.expect("any 32 bytes are a valid key; only the allocation can fail"))
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        let public = self.0.compute_public_key().ok();
        *public.as_ref().and_then(|key| key.as_ref().first_chunk()).expect("a public key has 32 bytes")
    }

    /// Computes a shared secret. Returns `None` if the other key is one of the few points that give the same
    /// result with every private key (RFC 7748 section 6.1).
    pub(crate) fn agree(&self, with: &[u8; 32]) -> Option<Shared> {
        agreement::agree(&self.0, UnparsedPublicKey::new(&ALGORITHM, with), (), |secret| {
            let mut shared = Shared::default();
            shared.copy_from_slice(secret);
            Ok(shared)
        })
        .ok()
    }
}
