//! The two codes at the end of a handshake message, as in WireGuard. The first proves that the sender knows
//! the receiver's public key, the second that the sender can receive datagrams at its address.

use crate::header::{self, HEADER, Kind, Receiver, TAG};
use crate::{Address, PublicKey};
use blake2::digest::consts::{U16, U32};
use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use chacha20poly1305::{AeadInPlace, XChaCha20Poly1305};
use core::net::SocketAddr;
use mpdccp_units::{Duration, Time};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

pub(crate) const MAC: usize = 16;
pub(crate) type Code = [u8; MAC];
const NONCE: usize = 24;
/// Length of a cookie reply, bytes.
pub(crate) const REPLY: usize = HEADER + NONCE + MAC + TAG;
/// How long a cookie secret is in use. Cookies made with the current or the previous secret are valid.
const LIFE: Duration = Duration::from_secs(120);

/// Returns keyed BLAKE2s with a 16-byte output.
fn code(key: &[u8], parts: &[&[u8]]) -> Code {
    // Keys of BLAKE2s have at most 32 bytes, and no key here is longer.
    let Ok(mut mac) = <Blake2sMac<U16> as KeyInit>::new_from_slice(key) else { return [0; MAC] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Returns keyed BLAKE2s with a 32-byte output, for deriving keys.
pub(crate) fn derive(key: &[u8; 32], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let Ok(mut mac) = <Blake2sMac<U32> as KeyInit>::new_from_slice(key) else { return Zeroizing::default() };
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

fn hash(label: &[u8], key: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain_update(label).chain_update(key.0).finalize().into()
}

/// Keys for writing and checking the codes in messages to one receiver.
#[derive(Clone, Debug)]
pub(crate) struct Codes {
    first: [u8; 32],
    cookie: [u8; 32],
}

impl Codes {
    pub(crate) fn new(receiver: &PublicKey) -> Codes {
        Codes { first: hash(b"mpdccp mac1", receiver), cookie: hash(b"mpdccp cookie", receiver) }
    }

    /// Writes both codes at the end of a message. Returns the first.
    pub(crate) fn write(&self, message: &mut [u8], cookie: Option<&Code>) -> Code {
        let Some(body) = message.len().checked_sub(2 * MAC) else { return [0; MAC] };
        let first = code(&self.first, &[&message[..body]]);
        message[body..body + MAC].copy_from_slice(&first);
        let second = cookie.map_or([0; MAC], |cookie| code(cookie, &[&message[..body + MAC]]));
        message[body + MAC..].copy_from_slice(&second);
        first
    }

    /// Returns whether the first code is valid.
    pub(crate) fn first_is_right(&self, message: &[u8]) -> bool {
        let Some(body) = message.len().checked_sub(2 * MAC) else { return false };
        code(&self.first, &[&message[..body]]).ct_eq(&message[body..body + MAC]).into()
    }

    /// Decrypts the cookie in a reply. `first` is the first code of the message that the reply answers.
    pub(crate) fn open_reply(&self, first: &Code, reply: &[u8]) -> Option<Code> {
        let sealed: &[u8; REPLY] = reply.try_into().ok()?;
        let (nonce, rest) = sealed[HEADER..].split_at(NONCE);
        let (cookie, tag) = rest.split_at(MAC);
        let mut cookie: Code = cookie.try_into().ok()?;
        let cipher = XChaCha20Poly1305::new(&self.cookie.into());
        cipher.decrypt_in_place_detached(nonce.into(), first, &mut cookie, tag.into()).ok()?;
        Some(cookie)
    }

    /// Creates a reply that contains a cookie.
    fn seal_reply(&self, first: &Code, to: Receiver, mut cookie: Code, nonce: [u8; NONCE]) -> Vec<u8> {
        let mut reply = vec![0; REPLY];
        if let Some(head) = reply.first_chunk_mut() {
            header::write(to, Kind::Cookie, head);
        }
        reply[HEADER..HEADER + NONCE].copy_from_slice(&nonce);
        let cipher = XChaCha20Poly1305::new(&self.cookie.into());
        if let Ok(tag) = cipher.encrypt_in_place_detached(&nonce.into(), first, &mut cookie) {
            reply[HEADER + NONCE..][..MAC].copy_from_slice(&cookie);
            reply[HEADER + NONCE + MAC..].copy_from_slice(&tag);
        }
        reply
    }
}

/// The secrets from which a responder computes cookies.
#[derive(Debug)]
pub(crate) struct CookieJar {
    secret: Zeroizing<[u8; 32]>,
    before: Zeroizing<[u8; 32]>,
    made: Option<Time>,
}

impl CookieJar {
    pub(crate) fn new() -> CookieJar {
        CookieJar { secret: Zeroizing::default(), before: Zeroizing::default(), made: None }
    }

    fn renew(&mut self, now: Time, rng: &mut ChaCha20Rng) {
        if self.made.is_none_or(|at| now.since(at) >= LIFE) {
            self.before = self.secret.clone();
            rng.fill_bytes(&mut *self.secret);
            if self.made.is_none_or(|at| now.since(at) >= 2 * LIFE) {
                rng.fill_bytes(&mut *self.before);
            }
            self.made = Some(now);
        }
    }

    /// Computes the cookie for an address and port.
    fn cookie(secret: &[u8; 32], from: SocketAddr) -> Code {
        let ip = match from.ip().to_canonical() {
            core::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            core::net::IpAddr::V6(ip) => ip,
        };
        code(secret, &[&ip.octets(), &from.port().to_be_bytes()])
    }

    /// Returns whether the second code was computed with a cookie for this address.
    pub(crate) fn second_is_right(
        &mut self,
        now: Time,
        from: &Address,
        message: &[u8],
        rng: &mut ChaCha20Rng,
    ) -> bool {
        self.renew(now, rng);
        let Some(body) = message.len().checked_sub(MAC) else { return false };
        [&self.secret, &self.before].into_iter().any(|secret| {
            let cookie = CookieJar::cookie(secret, from.remote);
            bool::from(code(&cookie, &[&message[..body]]).ct_eq(&message[body..]))
        })
    }

    /// Creates the cookie reply to a message, which asks the message's sender to prove its address.
    pub(crate) fn reply(
        &mut self,
        now: Time,
        codes: &Codes,
        (from, to): (&Address, Receiver),
        message: &[u8],
        rng: &mut ChaCha20Rng,
    ) -> Vec<u8> {
        self.renew(now, rng);
        let mut first = [0; MAC];
        if let Some(at) = message.len().checked_sub(2 * MAC) {
            first.copy_from_slice(&message[at..at + MAC]);
        }
        let mut nonce = [0; NONCE];
        rng.fill_bytes(&mut nonce);
        codes.seal_reply(&first, to, CookieJar::cookie(&self.secret, from.remote), nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    fn address(port: u16) -> Address {
        Address { socket: 0, local: None, remote: ([192, 0, 2, 1], port).into() }
    }

    #[test]
    fn a_cookie_is_good_for_its_address_and_port_and_for_a_time() {
        let rng = &mut ChaCha20Rng::from_seed([1; 32]);
        let codes = Codes::new(&PublicKey([5; 32]));
        let mut jar = CookieJar::new();
        let mut message = vec![7; 100];
        let first = codes.write(&mut message, None);
        assert!(codes.first_is_right(&message));
        assert!(!Codes::new(&PublicKey([6; 32])).first_is_right(&message));
        let now = Time::from_millis(1);
        assert!(!jar.second_is_right(now, &address(9), &message, rng));

        let reply = jar.reply(now, &codes, (&address(9), Receiver::default()), &message, rng);
        assert!(reply.len() < message.len());
        assert_eq!(codes.open_reply(&[0; 16], &reply), None, "a reply to another message must be refused");
        let cookie = codes.open_reply(&first, &reply).unwrap();
        codes.write(&mut message, Some(&cookie));
        assert!(jar.second_is_right(now, &address(9), &message, rng));
        assert!(!jar.second_is_right(now, &address(10), &message, rng));
        assert!(
            jar.second_is_right(now + LIFE, &address(9), &message, rng),
            "the previous secret must still be valid"
        );
        assert!(!jar.second_is_right(now + 2 * LIFE, &address(9), &message, rng));
    }

    #[test]
    fn a_cookie_does_not_outlive_a_silence() {
        let rng = &mut ChaCha20Rng::from_seed([1; 32]);
        let codes = Codes::new(&PublicKey([5; 32]));
        let mut jar = CookieJar::new();
        let mut message = vec![7; 100];
        let first = codes.write(&mut message, None);
        let reply =
            jar.reply(Time::from_millis(1), &codes, (&address(9), Receiver::default()), &message, rng);
        codes.write(&mut message, codes.open_reply(&first, &reply).as_ref());
        assert!(!jar.second_is_right(Time::from_millis(3_600_000), &address(9), &message, rng));
    }
}
