//! Encrypted channels for packets over UDP: whole packets are sealed, headers and all.
//!
//! A *peer* is a static Curve25519 key. A *channel* joins two peers over one path; it is set up by a handshake of
//! `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s` and carries *records*, each one packet under an AEAD. Channels replace their keys as they
//! go and follow a peer that changes its address. Whoever does not know the host's public key gets no answer at all.
//!
//! docs/security.md is the specification. The crate has no socket, no clock and no source of randomness: [`Channels`] is handed
//! datagrams, the time and a seed.

mod address;
mod aead;
mod channel;
mod channels;
mod cookie;
mod curve;
mod drops;
mod echo;
mod header;
mod indices;
mod keylog;
mod keys;
mod limit;
mod noise;
mod replay;
mod slots;
mod strangers;
mod timestamp;
mod x25519;

pub use address::Address;
pub use aead::{Aead, UnknownAead};
pub use channel::{ChannelId, ChannelStats, Unready};
pub use channels::{Channels, Event, Handover, Input, PeerStats, Settings, home};
pub use drops::Reason;
pub use echo::{EchoAnswer, EchoQuestion, HostFacts, QUESTION};
pub use header::{HEADER, OVERHEAD, TAG, shard_of};
pub use keylog::KeyLog;
pub use keys::{KeyError, PresharedKey, PrivateKey, PublicKey};
pub use timestamp::Timestamp;
