//! Curve25519 for handshakes. This host's public key and its secrets shared with peers do not change, so each
//! is computed only once.

use crate::curve::{Key, Shared};
use crate::{PrivateKey, PublicKey};
use snow::types::{Dh, Random};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// This host's private key and its secrets shared with peers.
pub(crate) struct Identity {
    private: PrivateKey,
    key: Key,
    public: PublicKey,
    /// The secret shared with each peer, or `None` until a handshake needs it. Secrets shared with strangers
    /// are not stored, because strangers could fill the memory.
    shared: Mutex<BTreeMap<PublicKey, Option<Shared>>>,
}

mpdccp_units::hidden!(Identity);

impl Identity {
    pub(crate) fn new(private: PrivateKey) -> Arc<Identity> {
        let key = Key::new(private.bytes());
        let public = PublicKey(key.public());
        Arc::new(Identity { private, key, public, shared: Mutex::default() })
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

    fn agree(&self, with: &PublicKey) -> Option<Shared> {
        match self.shared.lock().unwrap_or_else(PoisonError::into_inner).get_mut(with) {
            Some(Some(known)) => Some(known.clone()),
            Some(unknown) => {
                *unknown = self.key.agree(&with.0);
                unknown.clone()
            }
            None => self.key.agree(&with.0),
        }
    }
}

/// One of the two private keys in a handshake: this host's key or an ephemeral key.
pub(crate) struct X25519 {
    identity: Arc<Identity>,
    private: Zeroizing<[u8; 32]>,
    /// The ephemeral key, or `None` if this is this host's key.
    key: Option<Key>,
    public: [u8; 32],
}

impl X25519 {
    pub(crate) fn new(identity: Arc<Identity>) -> X25519 {
        X25519 { identity, private: Zeroizing::default(), key: None, public: [0; 32] }
    }

    fn take(&mut self) {
        let key = Key::new(&self.private);
        self.public = key.public();
        self.key = Some(key);
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
        if *private == self.identity.private.bytes()[..] {
            self.key = None;
            self.public = self.identity.public.0;
        } else {
            self.take();
        }
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        rng.try_fill_bytes(&mut *self.private)?;
        self.take();
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.private
    }

    fn dh(&self, with: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        // The library passes buffers sized for the longest curve, so use only the leading bytes.
        let with = PublicKey(*with.first_chunk().ok_or(snow::Error::Dh)?);
        let shared = match &self.key {
            Some(key) => key.agree(&with.0),
            None => self.identity.agree(&with),
        };
        out.get_mut(..32).ok_or(snow::Error::Dh)?.copy_from_slice(&*shared.ok_or(snow::Error::Dh)?);
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
        let hex = |shared: Option<Shared>| {
            shared.unwrap().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let identity = Identity::new(alice.clone());
        assert_eq!(hex(identity.agree(&bob.public())), expected);
        identity.add_peer(bob.public());
        for _ in 0..2 {
            assert_eq!(hex(identity.agree(&bob.public())), expected);
        }
        assert_eq!(hex(Key::new(bob.bytes()).agree(&alice.public().0)), expected);
    }

    #[test]
    fn a_key_that_agrees_on_the_same_with_everybody_is_none() {
        let key = Key::new(&[1; 32]);
        for first in [0, 1] {
            let mut point = [0; 32];
            point[0] = first;
            assert!(key.agree(&point).is_none());
        }
    }

    #[test]
    fn only_what_is_shared_with_peers_is_kept() {
        let identity = Identity::new(PrivateKey::from_random([1; 32]));
        let [peer, stranger] = [2, 3].map(|n| PrivateKey::from_random([n; 32]).public());
        let kept = || identity.shared.lock().unwrap().values().flatten().count();
        identity.add_peer(peer);
        identity.agree(&stranger);
        assert_eq!(kept(), 0);
        identity.agree(&peer);
        assert_eq!(kept(), 1);
        identity.remove_peer(&peer);
        assert_eq!(kept(), 0);
    }
}
