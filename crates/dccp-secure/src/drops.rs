/// Reason for dropping a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// Not a message of this protocol.
    NoMessage,
    /// A handshake message whose sender does not know this host's public key, or of the wrong size.
    Stranger,
    /// A handshake at an end that accepts none.
    NotAccepting,
    /// Too many handshakes, and this one had no cookie; one was sent.
    NoCookie,
    /// Too many handshakes, and too many from this source.
    SourceLimited,
    /// Too many handshakes of this peer.
    PeerLimited,
    /// A handshake that cannot be decrypted: for another key, forged, of another version, or with another
    /// preshared key.
    BadHandshake,
    /// A handshake with the key of no peer.
    UnknownPeer,
    /// A handshake not newer than an earlier one.
    OldHandshake,
    /// No common cipher.
    NoCommonCipher,
    /// No index is free.
    TooMany,
    /// An answer from another server than the one that answered the peer's other channels first.
    OtherServer,
    /// A record for an index that is not in use.
    UnknownIndex,
    /// A record under an expired key.
    KeyExpired,
    /// A replayed record, or one too old to tell.
    Replayed,
    /// A record that fails authentication.
    Forged,
    /// An echo request that exceeds the peer's limit, or the limit of waiting answers.
    EchoLimited,
}

impl Reason {
    /// Stable name for counters.
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
            Reason::OtherServer => "other_server",
            Reason::UnknownIndex => "unknown_index",
            Reason::KeyExpired => "key_expired",
            Reason::Replayed => "replayed",
            Reason::Forged => "forged",
            Reason::EchoLimited => "echo_limited",
        }
    }
}
