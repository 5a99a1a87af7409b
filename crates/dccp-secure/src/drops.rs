mpdccp_units::named! {
    /// The reason why a datagram was dropped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Reason {
        /// Not a message of this protocol.
        NoMessage = "no_message",
        /// A handshake message that has the wrong size, or whose sender does not know this host's public key.
        Stranger = "stranger",
        /// A handshake message at an end that accepts none.
        NotAccepting = "not_accepting",
        /// A handshake without a cookie while there were too many handshakes. A cookie was sent.
        NoCookie = "no_cookie",
        /// A handshake from a source that sent too many, while there were too many in total.
        SourceLimited = "source_limited",
        /// A handshake that exceeds the peer's rate limit.
        PeerLimited = "peer_limited",
        /// A handshake that cannot be decrypted: it was made for another key, with another preshared key or
        /// by another version, or it is forged.
        BadHandshake = "bad_handshake",
        /// A handshake with a public key that no peer has.
        UnknownPeer = "unknown_peer",
        /// A handshake that is not newer than an earlier one.
        OldHandshake = "old_handshake",
        /// The two ends have no cipher in common.
        NoCommonCipher = "no_common_cipher",
        /// No free index is left, or too many peers that are not configured have channels.
        TooMany = "too_many",
        /// A datagram for a different server, or an answer from a server other than the one that answered
        /// first.
        OtherServer = "other_server",
        /// A record for an index that is not in use.
        UnknownIndex = "unknown_index",
        /// A record under an expired key.
        KeyExpired = "key_expired",
        /// A record that was replayed or is too old for the replay window, or a repeated handshake.
        Replayed = "replayed",
        /// A record that fails authentication.
        Forged = "forged",
        /// An echo request that exceeds the peer's rate limit or the limit of pending answers, or a
        /// stranger's echo request for answers larger in total than the request.
        EchoLimited = "echo_limited",
    }
}
