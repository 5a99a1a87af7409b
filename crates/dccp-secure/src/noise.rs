//! The handshake: the two messages of `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`, their payloads, and the keys
//! that result.

use crate::ciphers::{Aead, RecordKey};
use crate::cookie::derive;
use crate::header::{HEADER, TAG};
use crate::timestamp::Timestamp;
use crate::x25519::{Identity, X25519};
use crate::{PresharedKey, PublicKey};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use std::sync::Arc;
use zeroize::Zeroizing;

const NAME: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"mpdccp channel v1";
/// Position of the preshared key in the Noise pattern.
const PSK: usize = 2;
const VERSION: u8 = 1;
const DH: usize = 32;
const HELLO: usize = 24;
const ANSWER: usize = 8;
/// Lengths of the Noise messages in bytes.
pub(crate) const FIRST: usize = DH + (DH + TAG) + (HELLO + TAG);
pub(crate) const SECOND: usize = DH + (ANSWER + TAG);
/// Lengths of the whole datagrams, in bytes. Each datagram has a header, a Noise message, mac1 and mac2 (16
/// bytes each). An initiation also has the initiator's index (4 bytes) after the header.
pub(crate) const INITIATION: usize = HEADER + 4 + FIRST + 32;
pub(crate) const RESPONSE: usize = HEADER + SECOND + 32;

/// Payload of the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Offered AEADs, one bit per AEAD number.
    pub(crate) aeads: u8,
    /// Random number by which the initiator identifies the channel. It is the same in all handshakes of the
    /// channel.
    pub(crate) path: u64,
    pub(crate) time: Timestamp,
}

/// Payload of the second message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) aead: Aead,
    /// Server and index of the responder, which records to it must carry.
    pub(crate) server: u32,
    pub(crate) index: u32,
}

/// Derives random numbers from `seed`, so that the same input always yields the same bytes.
struct Resolver {
    seed: [u8; 32],
    identity: Arc<Identity>,
}

struct Rng(ChaCha20Rng);

impl Random for Rng {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill_bytes(dest);
        Ok(())
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Rng(ChaCha20Rng::from_seed(self.seed))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(X25519::new(self.identity.clone())) as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

fn builder(identity: &Arc<Identity>, seed: [u8; 32]) -> Option<Builder<'_>> {
    let params: NoiseParams = NAME.parse().ok()?;
    let resolver = Resolver { seed, identity: identity.clone() };
    let builder = Builder::with_resolver(params, Box::new(resolver)).prologue(PROLOGUE).ok()?;
    builder.local_private_key(identity.private().bytes()).ok()
}

/// State of the initiator between the two messages.
pub(crate) struct Initiating(HandshakeState);

mpdccp_units::hidden!(Initiating);

impl Initiating {
    /// Starts a handshake, and writes the first message. Returns `None` if the peer's key is not a usable
    /// point on the curve.
    pub(crate) fn start(
        local: &Arc<Identity>,
        remote: &PublicKey,
        psk: &PresharedKey,
        hello: &Hello,
        seed: [u8; 32],
    ) -> Option<(Initiating, [u8; FIRST])> {
        let builder =
            builder(local, seed)?.remote_public_key(&remote.0).ok()?.psk(PSK as u8, psk.bytes()).ok()?;
        let mut state = builder.build_initiator().ok()?;
        let mut payload = [0; HELLO];
        payload[0] = VERSION;
        payload[1] = hello.aeads;
        payload[4..12].copy_from_slice(&hello.path.to_be_bytes());
        payload[12..].copy_from_slice(&hello.time.0);
        let mut message = [0; FIRST];
        let len = state.write_message(&payload, &mut message).ok()?;
        (len == FIRST).then_some((Initiating(state), message))
    }

    /// Reads the second message. A forged message leaves the state unchanged.
    pub(crate) fn finish(&mut self, message: &[u8]) -> Option<(Answer, Secrets)> {
        let mut payload = [0; ANSWER];
        let len = self.0.read_message(message, &mut payload).ok()?;
        if len != ANSWER {
            return None;
        }
        let server = u32::from_be_bytes([0, payload[1], payload[2], payload[3]]);
        let index = u32::from_be_bytes(*payload[4..].first_chunk()?);
        let answer = Answer { aead: Aead::from_number(payload[0])?, server, index };
        Some((answer, Secrets::of(&mut self.0)))
    }
}

mpdccp_units::hidden!(Offered);

/// State of the responder between the two messages.
pub(crate) struct Offered {
    state: HandshakeState,
    pub(crate) remote: PublicKey,
    pub(crate) hello: Hello,
}

impl Offered {
    /// Reads a first message. The message proves that its sender has the private key of `remote`, but not
    /// that the message is new.
    pub(crate) fn read(local: &Arc<Identity>, message: &[u8], seed: [u8; 32]) -> Option<Offered> {
        let mut state = builder(local, seed)?.build_responder().ok()?;
        let mut payload = [0; HELLO];
        let len = state.read_message(message, &mut payload).ok()?;
        if len != HELLO || payload[0] != VERSION {
            return None;
        }
        let hello = Hello {
            aeads: payload[1],
            path: u64::from_be_bytes(*payload[4..].first_chunk()?),
            time: Timestamp(*payload[12..].first_chunk()?),
        };
        let remote = PublicKey(state.get_remote_static()?.try_into().ok()?);
        Some(Offered { state, remote, hello })
    }

    /// Writes the second message.
    pub(crate) fn answer(mut self, psk: &PresharedKey, answer: &Answer) -> Option<([u8; SECOND], Secrets)> {
        self.state.set_psk(PSK, psk.bytes()).ok()?;
        let mut payload = [0; ANSWER];
        payload[..4].copy_from_slice(&answer.server.to_be_bytes());
        payload[0] = answer.aead.number();
        payload[4..].copy_from_slice(&answer.index.to_be_bytes());
        let mut message = [0; SECOND];
        let len = self.state.write_message(&payload, &mut message).ok()?;
        (len == SECOND).then(|| (message, Secrets::of(&mut self.state)))
    }
}

/// The secrets that both ends share after the handshake.
pub(crate) struct Secrets {
    from_initiator: Zeroizing<[u8; 32]>,
    from_responder: Zeroizing<[u8; 32]>,
    transcript: [u8; 32],
}

impl Secrets {
    fn of(state: &mut HandshakeState) -> Secrets {
        let (from_initiator, from_responder) = state.dangerously_get_raw_split();
        let mut transcript = [0; 32];
        transcript.copy_from_slice(state.get_handshake_hash());
        Secrets {
            from_initiator: Zeroizing::new(from_initiator),
            from_responder: Zeroizing::new(from_responder),
            transcript,
        }
    }

    /// Returns the record keys of the initiator and of the responder, which depend on the whole handshake,
    /// including the choice of AEAD.
    pub(crate) fn keys(&self, aead: Aead) -> Option<(RecordKey, RecordKey)> {
        let (first, second) = self.material(aead);
        Some((RecordKey::new(aead, &first)?, RecordKey::new(aead, &second)?))
    }

    /// Returns the key material of both record keys.
    pub(crate) fn material(&self, aead: Aead) -> (Zeroizing<[u8; 32]>, Zeroizing<[u8; 32]>) {
        let key = |secret| derive(secret, &[b"mpdccp record", &[aead.number()], &self.transcript]);
        (key(&self.from_initiator), key(&self.from_responder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrivateKey;
    use crate::cookie::Codes;
    use crate::header::{self, Kind, Receiver};

    const HELLO: Hello = Hello { aeads: 7, path: 99, time: Timestamp([4; 12]) };
    const ANSWER: Answer = Answer { aead: Aead::Aes128Gcm, server: 0x0a_0b0c, index: 0x0506_0708 };

    fn keys() -> (Arc<Identity>, Arc<Identity>) {
        (Identity::new(PrivateKey::from_random([1; 32])), Identity::new(PrivateKey::from_random([2; 32])))
    }

    #[test]
    fn both_sides_agree() {
        let (alice, bob) = keys();
        let psk = PresharedKey::from_random([3; 32]);
        let (mut ours, first) = Initiating::start(&alice, bob.public(), &psk, &HELLO, [7; 32]).unwrap();
        let offered = Offered::read(&bob, &first, [8; 32]).unwrap();
        assert_eq!((offered.remote, offered.hello), (*alice.public(), HELLO));
        let (second, theirs) = offered.answer(&psk, &ANSWER).unwrap();
        let mut forged = second;
        forged[40] ^= 1;
        assert!(ours.finish(&forged).is_none());
        let (answer, secrets) =
            ours.finish(&second).expect("the forged message before did not change the state");
        assert_eq!(answer, ANSWER);
        let (send, _) = secrets.keys(answer.aead).unwrap();
        let (receive, _) = theirs.keys(answer.aead).unwrap();
        let mut record = [1; 64];
        assert!(send.seal(0, &mut record));
        assert_eq!(receive.open(0, &mut record), Some(32));
        let (other, _) = theirs.keys(Aead::Aes256Gcm).unwrap();
        assert!(send.seal(1, &mut record));
        assert_eq!(other.open(1, &mut record), None);
    }

    #[test]
    fn another_preshared_key_or_host_key_fails() {
        let (alice, bob) = keys();
        let psk = PresharedKey::from_random([3; 32]);
        let (mut ours, first) = Initiating::start(&alice, bob.public(), &psk, &HELLO, [7; 32]).unwrap();
        assert!(Offered::read(&alice, &first, [8; 32]).is_none());
        let offered = Offered::read(&bob, &first, [8; 32]).unwrap();
        let (second, _) = offered.answer(&PresharedKey::default(), &ANSWER).unwrap();
        assert!(ours.finish(&second).is_none());
    }

    /// The test vectors come from a Python script that implements docs/channels.md and shares no code with
    /// this program.
    #[test]
    fn vectors_of_an_independent_implementation() {
        let vectors = include_str!("../tests/vectors.txt");
        let vector = |name: &str| -> Vec<u8> {
            let line = vectors.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = ")).unwrap();
            let byte = |i: usize| u8::from_str_radix(&line[i..i + 2], 16).unwrap();
            (0..line.len()).step_by(2).map(byte).collect()
        };
        let (alice, bob) = keys();
        let psk = PresharedKey::from_random([3; 32]);
        let (mut ours, first) = Initiating::start(&alice, bob.public(), &psk, &HELLO, [7; 32]).unwrap();
        assert_eq!(first[..], vector("first"));
        let offered = Offered::read(&bob, &first, [8; 32]).unwrap();
        let (second, _) = offered.answer(&psk, &ANSWER).unwrap();
        assert_eq!(second[..], vector("second"));
        let mut initiation = vec![0; INITIATION];
        let anywhere = Receiver { server: 0, index: u32::MAX };
        header::write(anywhere, Kind::Initiation, initiation.first_chunk_mut().unwrap());
        initiation[HEADER..HEADER + 4].copy_from_slice(&[9, 0, 0, 1]);
        initiation[HEADER + 4..][..FIRST].copy_from_slice(&first);
        Codes::new(bob.public()).write(&mut initiation, None);
        assert_eq!(initiation, vector("initiation"));
        let (_, secrets) = ours.finish(&second).unwrap();
        for aead in Aead::ALL {
            let (forward, reverse) = secrets.keys(aead).unwrap();
            for (key, direction) in [(forward, "forward"), (reverse, "reverse")] {
                let mut record = vec![0; HEADER];
                let to = Receiver { server: 0x0a_0b0c, index: 0x0506_0708 };
                header::write(to, Kind::Record(77), record.first_chunk_mut().unwrap());
                record.extend_from_slice(b"a packet");
                record.extend_from_slice(&[0; TAG]);
                assert!(key.seal(77, &mut record));
                assert_eq!(record, vector(&format!("{} {direction}", aead.name())), "{aead:?} {direction}");
            }
        }
    }

    #[test]
    fn same_seed_same_bytes() {
        let (alice, bob) = keys();
        let start =
            |seed| Initiating::start(&alice, bob.public(), &PresharedKey::default(), &HELLO, seed).unwrap().1;
        assert_eq!(start([7; 32]), start([7; 32]));
        assert_ne!(start([7; 32]), start([8; 32]));
    }
}
