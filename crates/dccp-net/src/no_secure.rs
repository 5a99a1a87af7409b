//! Stands in for the crate `dccp-secure` if the feature `encryption` is off. Keys and channels have types
//! with the same names but without values.
#![expect(missing_docs, reason = "documented in dccp-secure")]

use mpdccp_units::{Duration, Time};
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Size of a record's header: 0, because there are no records.
pub const HEADER: usize = 0;
pub const TAG: usize = 0;
pub const OVERHEAD: usize = 0;

/// The error of all functions here: this build has no encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError;

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("encryption is not built in; enable the feature `encryption`")
    }
}

impl std::error::Error for KeyError {}

/// Defines types without values. Their methods are never called.
macro_rules! without_values {
    ($($(#[$meta:meta])* $name:ident { $($method:ident($($arg:ty),*) -> $result:ty;)* })*) => { $(
        $(#[$meta])*
        pub struct $name(Infallible);

        impl $name { $(
            pub fn $method(&self $(, _: $arg)*) -> $result {
                match self.0 {}
            }
        )* }
    )* };
}

without_values! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    PublicKey {}

    #[derive(Clone, Debug)]
    PrivateKey {
        public() -> PublicKey;
    }

    Channels {
        address(ChannelId) -> Option<Address>;
        close(ChannelId) -> ();
        handle(Time, &Address, &mut [u8]) -> Input;
        handle_timeout(Time) -> ();
        has_peer(u32, &PublicKey, &PresharedKey) -> bool;
        number(&PublicKey) -> Option<u32>;
        on_suspended(Time, Duration) -> ();
        open(Time, u32, Address) -> Option<ChannelId>;
        peer(ChannelId) -> Option<u32>;
        peer_key(u32) -> Option<PublicKey>;
        poll_event() -> Option<Event>;
        poll_handover() -> Option<Handover>;
        poll_key() -> Option<String>;
        poll_timeout() -> Option<Time>;
        poll_transmit() -> Option<(Address, Vec<u8>)>;
        remove_peer(u32) -> ();
        seal(Time, ChannelId, &mut [u8], usize) -> Result<Address, Reason>;
        stranger() -> Option<&PublicKey>;
        take_over(Time, Handover) -> Input;
    }
}

impl Channels {
    pub fn new(settings: Settings) -> Channels {
        match settings.0.0 {}
    }

    pub fn add_peer(&mut self, _: u32, _: PublicKey, _: PresharedKey) {
        match self.0 {}
    }

    pub fn admit_strangers(&mut self, _: usize, _: usize) {
        match self.0 {}
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

/// The only value is the default, which means that there is no key.
#[derive(Clone, Debug, Default)]
pub struct PresharedKey(());

/// No text is a key.
macro_rules! unreadable {
    ($($key:ident),*) => { $(
        impl FromStr for $key {
            type Err = KeyError;

            fn from_str(_: &str) -> Result<$key, KeyError> {
                Err(KeyError)
            }
        }
    )* };
}

unreadable!(PublicKey, PrivateKey, PresharedKey);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub socket: u32,
    pub local: Option<IpAddr>,
    pub remote: SocketAddr,
}

pub struct Handover {
    pub shard: u8,
    from: Address,
}

impl Handover {
    pub fn from(&self) -> &Address {
        &self.from
    }
}

pub struct EchoQuestion {
    pub number: u64,
    pub answer: u16,
    pub answers: u8,
    pub wait: Duration,
}

impl EchoQuestion {
    pub fn write(&self, _len: usize) -> Vec<u8> {
        Vec::new()
    }
}

pub enum EchoAnswer {}

impl EchoAnswer {
    pub fn read(_packet: &[u8]) -> Option<EchoAnswer> {
        None
    }
}

pub struct Settings(PrivateKey);

impl Settings {
    pub fn new(private_key: PrivateKey, _: bool, _: Duration, _: [u8; 32]) -> Settings {
        Settings(private_key)
    }
}

pub enum Input {
    Packet { channel: ChannelId, peer: u32, len: usize },
    Handled,
    Elsewhere(u8),
    Dropped(Reason),
}

pub enum Event {
    Ready(ChannelId),
    Moved(ChannelId),
    Gone(ChannelId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Stranger,
    BadHandshake,
    UnknownPeer,
    OldHandshake,
    NoCommonCipher,
    Replayed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_the_missing_feature() {
        let key = "GCuSGFg9ETQNy5vLQ1CQmbQzEdfcaLk+rTRR0yMyO14=";
        let texts = [
            key.parse::<PrivateKey>().map(drop),
            key.parse::<PublicKey>().map(drop),
            key.parse::<PresharedKey>().map(drop),
        ];
        for text in texts {
            assert!(text.unwrap_err().to_string().contains("feature `encryption`"));
        }
    }
}
