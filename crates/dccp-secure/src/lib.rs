//! Encrypted channels for packets over UDP. A channel seals whole packets, including their headers.
//!
//! A *peer* is a static Curve25519 key. A *channel* connects two peers over one path. A
//! `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s` handshake opens the channel, which then carries *records*, each of
//! which is one packet sealed with an AEAD. Channels renew their keys, and follow a peer whose address
//! changes. A sender that does not know the host's public key gets no answer.
//!
//! docs/channels.md is the specification. The crate has no sockets, clock or source of randomness: the caller
//! passes datagrams, the time and a seed to [`Channels`].

mod address;
mod channel;
mod channels;
mod ciphers;
mod cookie;
mod curve;
mod drops;
mod echo;
mod handshake_limits;
mod header;
mod indices;
mod keylog;
mod keys;
mod noise;
mod replay;
mod slots;
mod strangers;
mod timestamp;
mod x25519;

pub use address::Address;
pub use channel::{ChannelId, ChannelStats, Unready};
pub use channels::{Channels, Event, Handover, Input, PeerStats, Settings, home};
pub use ciphers::{Aead, UnknownAead};
pub use drops::Reason;
pub use echo::{EchoAnswer, EchoQuestion, HostFacts};
pub use header::{HEADER, OVERHEAD, TAG, is_handshake};
pub use keylog::KeyLog;
pub use keys::{KeyError, PresharedKey, PrivateKey, PublicKey};
