/// The reason why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// Not a message of this protocol.
    NoMessage,
    /// A handshake message that has the wrong size, or whose sender does not know this host's public key.
    Stranger,
    /// A handshake message at an end that accepts none.
    NotAccepting,
    /// A handshake without a cookie while there were too many handshakes. A cookie was sent.
    NoCookie,
    /// A handshake from a source that sent too many, while there were too many in total.
    SourceLimited,
    /// A handshake that exceeds the peer's rate limit.
    PeerLimited,
    /// A handshake that cannot be decrypted: it was made for another key, with another preshared key or by
    /// another version, or it is forged.
    BadHandshake,
    /// A handshake with a public key that no peer has.
    UnknownPeer,
    /// A handshake that is not newer than an earlier one.
    OldHandshake,
    /// The two ends have no cipher in common.
    NoCommonCipher,
    /// No free index is left, or too many peers that are not configured have channels.
    TooMany,
    /// A datagram for a different server, or an answer from a server other than the one that answered first.
    OtherServer,
    /// A record for an index that is not in use.
    UnknownIndex,
    /// A record under an expired key.
    KeyExpired,
    /// A record that was replayed, or that is too old for the replay window.
    Replayed,
    /// A record that fails authentication.
    Forged,
    /// An echo request that exceeds the peer's rate limit or the limit of pending answers, or a stranger's
    /// echo request for answers larger in total than the request.
    EchoLimited,
}

impl Reason {
    /// Returns the counter's stable name.
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
