//! Curve25519 as handshakes use it: this host's public key and what it has in common with each peer do not change, and are computed once.

use crate::{PrivateKey, PublicKey};
use curve25519_dalek::montgomery::MontgomeryPoint;
use snow::types::{Dh, Random};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

type Shared = Zeroizing<[u8; 32]>;

/// The public half of a private key.
pub(crate) fn public(private: &[u8; 32]) -> [u8; 32] {
    MontgomeryPoint::mul_base_clamped(*private).to_bytes()
}

/// This host's key, and its shared secrets with those that are peers.
pub(crate) struct Identity {
    private: PrivateKey,
    public: PublicKey,
    /// None until a handshake wants it. Only of peers, so that strangers fill nothing.
    shared: Mutex<BTreeMap<PublicKey, Option<Shared>>>,
}

impl core::fmt::Debug for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Identity(..)")
    }
}

impl Identity {
    pub(crate) fn new(private: PrivateKey) -> Arc<Identity> {
        let public = private.public();
        Arc::new(Identity { private, public, shared: Mutex::default() })
    }

    pub(crate) fn private(&self) -> &PrivateKey {
        &self.private
    }

    pub(crate) fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn add_peer(&self, key: PublicKey) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).insert(key, None);
    }

    pub(crate) fn remove_peer(&self, key: &PublicKey) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn agree(&self, with: PublicKey) -> Shared {
        let compute = || agree(self.private.bytes(), with);
        match self.shared.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&with) {
            Some(known) => known.get_or_insert_with(compute).clone(),
            None => compute(),
        }
    }
}

fn agree(private: &[u8; 32], public: PublicKey) -> Shared {
    Zeroizing::new(MontgomeryPoint(public.0).mul_clamped(*private).to_bytes())
}

/// One of the two keys of a handshake: this host's, or one for this handshake alone.
pub(crate) struct X25519 {
    identity: Arc<Identity>,
    private: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl X25519 {
    pub(crate) fn new(identity: Arc<Identity>) -> X25519 {
        X25519 { identity, private: Zeroizing::default(), public: [0; 32] }
    }

    fn is_identity(&self) -> bool {
        self.public == self.identity.public.0
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(private);
        let own = *private == self.identity.private.bytes()[..];
        self.public = if own { self.identity.public.0 } else { public(&self.private) };
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        rng.try_fill_bytes(&mut *self.private)?;
        self.public = public(&self.private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.private
    }

    fn dh(&self, with: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        // Buffers are as long as those of the longest curve.
        let with = PublicKey(*with.first_chunk().ok_or(snow::Error::Dh)?);
        let shared = if self.is_identity() { self.identity.agree(with) } else { agree(&self.private, with) };
        out.get_mut(..32).ok_or(snow::Error::Dh)?.copy_from_slice(&*shared);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748 section 6.1.
    #[test]
    fn both_sides_agree_whether_the_other_is_a_peer_or_not() {
        let alice: PrivateKey = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=".parse().unwrap();
        let bob: PrivateKey = "XasIfmJKikt54X+Lg4AO5m87sSkmGLb9HC+LJ/+I4Os=".parse().unwrap();
        let expected = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
        let hex = |shared: Shared| shared.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let identity = Identity::new(alice.clone());
        assert_eq!(hex(identity.agree(bob.public())), expected);
        identity.add_peer(bob.public());
        for _ in 0..2 {
            assert_eq!(hex(identity.agree(bob.public())), expected);
        }
        assert_eq!(hex(agree(bob.bytes(), alice.public())), expected);
    }

    #[test]
    fn only_what_is_shared_with_peers_is_kept() {
        let identity = Identity::new(PrivateKey::from_random([1; 32]));
        let [peer, stranger] = [2, 3].map(|n| PrivateKey::from_random([n; 32]).public());
        let kept = || identity.shared.lock().unwrap().values().flatten().count();
        identity.add_peer(peer);
        identity.agree(stranger);
        assert_eq!(kept(), 0);
        identity.agree(peer);
        assert_eq!(kept(), 1);
        identity.remove_peer(&peer);
        assert_eq!(kept(), 0);
    }
}
