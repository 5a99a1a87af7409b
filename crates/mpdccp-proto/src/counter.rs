//! What is counted, by name.

use alloc::collections::BTreeMap;
use dccp_wire::ParseError;

/// Declares each counter once: what it counts, and its name.
macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Drops, refusals and oddities of sessions and endpoints.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Counter {
            $($(#[$doc])* $variant,)*
            /// Bytes that are no DCCP packet.
            Unparsable(ParseError),
        }

        impl Counter {
            /// Its name, for machines; it does not change.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Counter::$variant => $name,)*
                    Counter::Unparsable(error) => error.name(),
                }
            }
        }
    };
}

counters! {
    /// MP_ADDADDR whose HMAC is wrong.
    AddAddrBadHmac = "add_addr_bad_hmac",
    /// MP_ADDADDR for an Address ID that has another address.
    AddAddrIdInUse = "add_addr_id_in_use",
    /// MP_ADDADDR of an address that no host can have.
    AddAddrNotUnicast = "add_addr_not_unicast",
    /// MP_ADDADDR beyond as many as are kept.
    AddAddrTooMany = "add_addr_too_many",
    /// A Request of many was answered with an Init Cookie, and nothing kept of it.
    AnsweredWithCookie = "answered_with_cookie",
    /// An answer to an address that is not proven, of more than three times what came from there, or beyond what may leave in a second.
    AnswerTooLarge = "answer_too_large",
    /// An Init Cookie that is not ours, or too old.
    BadInitCookie = "bad_init_cookie",
    /// MP_KEY of a type that was not offered, or of a wrong length.
    BadMpKey = "bad_mp_key",
    /// A path beyond [`crate::SessionConfig::max_paths`].
    BeyondMaxPaths = "beyond_max_paths",
    /// MP_CLOSE on another packet than Close and CloseReq.
    CloseOnWrongType = "close_on_wrong_type",
    /// MP_CLOSE with a key that is not ours.
    CloseWithWrongKey = "close_with_wrong_key",
    /// MP_CONFIRM that cannot be read.
    ConfirmMalformed = "confirm_malformed",
    /// MP_CONFIRM of what was not sent.
    ConfirmUnexpected = "confirm_unexpected",
    /// Data without MP_SEQ.
    DataWithoutMpSeq = "data_without_mp_seq",
    /// Datagrams that waited to be sent when the session ended.
    DroppedAtClose = "dropped_at_close",
    /// Datagrams that a policy rule drops.
    DroppedByScheduler = "dropped_by_scheduler",
    /// The peer does not speak Multipath DCCP; the session goes on as plain DCCP.
    FallbackToPlain = "fallback_to_plain",
    /// MP_FAST_CLOSE on another Reset, or with a key that is not ours.
    FastCloseInvalid = "fast_close_invalid",
    /// A join that had proved nothing made room for another.
    HalfOpenJoinDisplaced = "half_open_join_displaced",
    /// Packets behind a hole were delivered before it was filled, as the memory of all sessions was full.
    HeldBeyondMemory = "held_beyond_memory",
    /// MP_JOIN or MP_KEY after the handshake.
    HandshakeOptionLate = "handshake_option_late",
    /// Data with an MP_SEQ far from all others.
    ImplausibleMpSeq = "implausible_mp_seq",
    /// MP_JOIN that cannot be read.
    JoinMalformedOrOtherVersion = "join_malformed_or_other_version",
    /// MP_JOIN for a session that this end opened and whose peer may not join.
    JoinOfClientSession = "join_of_client_session",
    /// MP_JOIN for a session of plain DCCP.
    JoinOfPlainSession = "join_of_plain_session",
    /// A join answered without Multipath DCCP.
    JoinOtherVersion = "join_other_version",
    /// MP_JOIN that names no session here.
    JoinUnknownCi = "join_unknown_ci",
    /// MP_JOIN for a session that is not open.
    JoinWhileNotOpen = "join_while_not_open",
    /// A join without its HMAC.
    JoinWithoutHmac = "join_without_hmac",
    /// A join answered without MP_JOIN.
    JoinWithoutMpJoin = "join_without_mp_join",
    /// A join answered with another connection identifier.
    JoinWrongCi = "join_wrong_ci",
    /// A join with a wrong HMAC.
    JoinWrongHmac = "join_wrong_hmac",
    /// DCCP-Listen (RFC 5596) that nobody waits for.
    Listen = "listen",
    /// A multipath option that cannot be read.
    MalformedMpOption = "malformed_mp_option",
    /// MP_EXP of others that the application does not want, or unknown ones of ours.
    MpExpIgnored = "mp_exp_ignored",
    /// MP_EXP that the application did not fetch.
    MpExpTooMany = "mp_exp_too_many",
    /// The peer's MP_SEQ went on elsewhere, and is followed.
    MpSeqMoved = "mp_seq_moved",
    /// No Address ID for another path.
    NoAddressIdLeft = "no_address_id_left",
    /// A packet of no connection.
    NoConnection = "no_connection",
    /// Datagrams of a plain connection that the application did not fetch.
    NotFetchedByApplication = "not_fetched_by_application",
    /// A join that opened without multipath options.
    OpenWithoutMpOptions = "open_without_mp_options",
    /// A session whose Init Cookie came back.
    OpenedByCookie = "opened_by_cookie",
    /// An option that needs confirmation, without MP_SEQ.
    OptionWithoutMpSeq = "option_without_mp_seq",
    /// An option older than one that was followed.
    OutdatedMpOption = "outdated_mp_option",
    /// An FEC packet that cannot be read.
    FecMalformed = "fec_malformed",
    /// An FEC packet that does not fit the packets that it is for.
    FecWrong = "fec_wrong",
    /// A Request for a port where nobody listens.
    PortNotBound = "port_not_bound",
    /// Datagrams that the bound on all queues does not allow.
    QueuesFull = "queues_full",
    /// Refused: no Multipath DCCP.
    RefusedNoMultipath = "refused_no_multipath",
    /// A Request from where no peer may come from.
    RefusedPeer = "refused_peer",
    /// A Request that asks for what is not to be had.
    RefusedRequest = "refused_request",
    /// MP_REMOVEADDR whose HMAC is wrong.
    RemoveAddrBadHmac = "remove_addr_bad_hmac",
    /// MP_REMOVEADDR for an Address ID that is not known.
    RemoveAddrUnknown = "remove_addr_unknown",
    /// Resets not sent, as too many were.
    ResetRateLimited = "reset_rate_limited",
    /// A Reset of no connection.
    ResetWithoutConnection = "reset_without_connection",
    /// Empty datagrams, which Multipath DCCP does not carry.
    SendEmpty = "send_empty",
    /// Datagrams for a session that ends.
    SendWhileClosing = "send_while_closing",
    /// Datagrams for a session that is gone.
    SendWithoutSession = "send_without_session",
    /// A packet of a connection in TIMEWAIT.
    TimeWait = "time_wait",
    /// A Request that no Init Cookie can hold.
    TooLongForACookie = "too_long_for_a_cookie",
    /// More options than are confirmed at once.
    TooManyOptions = "too_many_options",
    /// A Request beyond [`crate::ListenConfig::max_sessions`].
    TooManySessions = "too_many_sessions",
    /// A Request beyond [`crate::ListenConfig::max_sessions_per_source`].
    TooManySessionsOfSource = "too_many_sessions_of_source",
    /// Data with a multipath option that is not known.
    UnknownMpOption = "unknown_mp_option",
    /// A path that the scheduler picked and that could not take the packet.
    UnusablePick = "unusable_pick",
}

/// How often, of each that occurred.
pub type Counters = BTreeMap<Counter, u64>;

/// One more.
pub(crate) fn count(counters: &mut Counters, what: Counter) {
    *counters.entry(what).or_insert(0) += 1;
}
