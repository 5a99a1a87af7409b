//! Counters by name.

use alloc::collections::BTreeMap;
use dccp_wire::ParseError;

mpdccp_units::named! {
    /// Drops, refusals and unexpected events of sessions and endpoints.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Counter
    with
        /// Bytes that are not a DCCP packet.
        Unparsable(ParseError)
    {
        /// MP_ADDADDR whose HMAC is wrong.
        AddAddrBadHmac = "add_addr_bad_hmac",
        /// MP_ADDADDR with an Address ID that is in use for another address.
        AddAddrIdInUse = "add_addr_id_in_use",
        /// MP_ADDADDR with an address that is not unicast.
        AddAddrNotUnicast = "add_addr_not_unicast",
        /// MP_ADDADDR beyond the number of addresses kept.
        AddAddrTooMany = "add_addr_too_many",
        /// A Request answered with an Init Cookie, under load, without keeping state.
        AnsweredWithCookie = "answered_with_cookie",
        /// An answer withheld because it would exceed the budget per second, or three times the bytes
        /// received from an unproven address.
        AnswerTooLarge = "answer_too_large",
        /// An Init Cookie that is forged or too old.
        BadInitCookie = "bad_init_cookie",
        /// MP_KEY of a type that was not offered, or of wrong length.
        BadMpKey = "bad_mp_key",
        /// A path beyond [`crate::SessionConfig::max_paths`].
        BeyondMaxPaths = "beyond_max_paths",
        /// MP_CLOSE on a packet other than Close and CloseReq.
        CloseOnWrongType = "close_on_wrong_type",
        /// MP_CLOSE with a wrong key.
        CloseWithWrongKey = "close_with_wrong_key",
        /// MP_CONFIRM that cannot be read.
        ConfirmMalformed = "confirm_malformed",
        /// MP_CONFIRM of an option that was not sent.
        ConfirmUnexpected = "confirm_unexpected",
        /// Data without MP_SEQ.
        DataWithoutMpSeq = "data_without_mp_seq",
        /// Datagrams in the send queue when the session ended or the peer's application stopped listening.
        DroppedAtClose = "dropped_at_close",
        /// Datagrams dropped by a policy rule.
        DroppedByScheduler = "dropped_by_scheduler",
        /// The peer does not speak Multipath DCCP; the session goes on as plain DCCP.
        FallbackToPlain = "fallback_to_plain",
        /// MP_FAST_CLOSE on a Reset that does not allow it, or with a wrong key.
        FastCloseInvalid = "fast_close_invalid",
        /// An unauthenticated half-open join that was closed to make room for another.
        HalfOpenJoinDisplaced = "half_open_join_displaced",
        /// Packets behind a hole that were delivered early because the sessions already held as many bytes as
        /// allowed.
        HeldBeyondMemory = "held_beyond_memory",
        /// MP_JOIN or MP_KEY after the handshake.
        HandshakeOptionLate = "handshake_option_late",
        /// Data whose MP_SEQ is too far from those of all other packets.
        ImplausibleMpSeq = "implausible_mp_seq",
        /// A join with an invalid multipath option or another version.
        JoinMalformedOrOtherVersion = "join_malformed_or_other_version",
        /// MP_JOIN for a session that this end opened with joins disallowed.
        JoinOfClientSession = "join_of_client_session",
        /// MP_JOIN for a plain DCCP session.
        JoinOfPlainSession = "join_of_plain_session",
        /// A join whose Response does not agree on Multipath DCCP version 0.
        JoinOtherVersion = "join_other_version",
        /// MP_JOIN with an unknown connection identifier.
        JoinUnknownCi = "join_unknown_ci",
        /// MP_JOIN for a session that is not open.
        JoinWhileNotOpen = "join_while_not_open",
        /// A join without its HMAC.
        JoinWithoutHmac = "join_without_hmac",
        /// A join answered without MP_JOIN.
        JoinWithoutMpJoin = "join_without_mp_join",
        /// A join answered with a wrong connection identifier.
        JoinWrongCi = "join_wrong_ci",
        /// A join with a wrong HMAC.
        JoinWrongHmac = "join_wrong_hmac",
        /// DCCP-Listen (RFC 5596) for which there is no client in REQUEST.
        Listen = "listen",
        /// A multipath option that cannot be parsed.
        MalformedMpOption = "malformed_mp_option",
        /// An MP_EXP option that the application has not asked for, or an unknown private option of mpdccp.
        MpExpIgnored = "mp_exp_ignored",
        /// MP_EXP options dropped because the application did not fetch them.
        MpExpTooMany = "mp_exp_too_many",
        /// The peer's MP_SEQ jumped, and the receiver continues from the new value.
        MpSeqMoved = "mp_seq_moved",
        /// No free Address ID for another path.
        NoAddressIdLeft = "no_address_id_left",
        /// A packet that belongs to no connection.
        NoConnection = "no_connection",
        /// Datagrams of a plain connection dropped because the application did not fetch them.
        NotFetchedByApplication = "not_fetched_by_application",
        /// A join that opened without multipath options.
        OpenWithoutMpOptions = "open_without_mp_options",
        /// A session opened by a client that returned its Init Cookie.
        OpenedByCookie = "opened_by_cookie",
        /// An option that needs confirmation, on a packet without MP_SEQ.
        OptionWithoutMpSeq = "option_without_mp_seq",
        /// An option older than one already processed, or a copy of one.
        OutdatedMpOption = "outdated_mp_option",
        /// An FEC packet that cannot be parsed.
        FecMalformed = "fec_malformed",
        /// An FEC packet that does not match the packets it protects.
        FecWrong = "fec_wrong",
        /// A Request for a port without a listener.
        PortNotBound = "port_not_bound",
        /// Datagrams dropped because of the limit on all queues together.
        QueuesFull = "queues_full",
        /// A Request refused because the peer does not support Multipath DCCP.
        RefusedNoMultipath = "refused_no_multipath",
        /// A Request from a peer that the listener does not accept: an unknown address or, with keys, an
        /// unknown peer.
        RefusedPeer = "refused_peer",
        /// A Request refused because a feature or service that it requires is not available.
        RefusedRequest = "refused_request",
        /// MP_REMOVEADDR whose HMAC is wrong.
        RemoveAddrBadHmac = "remove_addr_bad_hmac",
        /// MP_REMOVEADDR with an unknown Address ID.
        RemoveAddrUnknown = "remove_addr_unknown",
        /// Resets suppressed by the rate limit.
        ResetRateLimited = "reset_rate_limited",
        /// A Reset that belongs to no connection.
        ResetWithoutConnection = "reset_without_connection",
        /// Empty datagrams, which Multipath DCCP does not carry.
        SendEmpty = "send_empty",
        /// Datagrams for a session that is closing.
        SendWhileClosing = "send_while_closing",
        /// Datagrams for a session that is gone.
        SendWithoutSession = "send_without_session",
        /// A Sync with an Init Cookie before the Ack that opens the session.
        SyncBeforeCookie = "sync_before_cookie",
        /// A packet of a connection in TIMEWAIT.
        TimeWait = "time_wait",
        /// A Request too long for an Init Cookie.
        TooLongForACookie = "too_long_for_a_cookie",
        /// A packet with more options to confirm than this end processes per packet. The rest are ignored.
        TooManyOptions = "too_many_options",
        /// A Request beyond [`crate::ListenConfig::max_sessions`].
        TooManySessions = "too_many_sessions",
        /// A Request beyond [`crate::ListenConfig::max_sessions_per_source`].
        TooManySessionsOfSource = "too_many_sessions_of_source",
        /// Data with an unknown multipath option.
        UnknownMpOption = "unknown_mp_option",
        /// The scheduler picked a path that could not take the packet.
        UnusablePick = "unusable_pick",
    }
}

/// How often each counted event has occurred.
pub type Counters = BTreeMap<Counter, u64>;

/// Increments a counter.
pub(crate) fn count(counters: &mut Counters, what: Counter) {
    *counters.entry(what).or_insert(0) += 1;
}
