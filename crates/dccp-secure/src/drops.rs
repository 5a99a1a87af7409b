/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// Not a message of this protocol.
    NoMessage,
    /// A handshake message of somebody who does not know this host's public key, or of the wrong size.
    Stranger,
    /// A handshake, where none is answered.
    NotAccepting,
    /// There are many handshakes, and this one came without a cookie; one was sent.
    NoCookie,
    /// There are many handshakes, and too many of them from this source.
    SourceLimited,
    /// Too many handshakes of this peer.
    PeerLimited,
    /// A handshake that cannot be read: for another key, forged, of another version, or by another preshared key.
    BadHandshake,
    /// A handshake of a key that no peer has.
    UnknownPeer,
    /// A handshake not newer than one seen before.
    OldHandshake,
    /// The two ends have no cipher in common.
    NoCommonCipher,
    /// No index is free.
    TooMany,
    /// For an index that is not in use.
    UnknownIndex,
    /// Under a key that is too old.
    KeyExpired,
    /// A record seen before, or too old to tell.
    Replayed,
    /// A record that does not authenticate.
    Forged,
    /// A question that asks for more than its peer may have, or than can wait.
    EchoLimited,
}

impl Reason {
    /// A stable name for counters.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoMessage => "no_message",
            Reason::Stranger => "stranger",
            Reason::NotAccepting => "not_accepting",
            Reason::NoCookie => "no_cookie",
            Reason::SourceLimited => "source_limited",
            Reason::PeerLimited => "peer_limited",
            Reason::BadHandshake => "bad_handshake",
            Reason::UnknownPeer => "unknown_peer",
            Reason::OldHandshake => "old_handshake",
            Reason::NoCommonCipher => "no_common_cipher",
            Reason::TooMany => "too_many",
            Reason::UnknownIndex => "unknown_index",
            Reason::KeyExpired => "key_expired",
            Reason::Replayed => "replayed",
            Reason::Forged => "forged",
            Reason::EchoLimited => "echo_limited",
        }
    }
}
