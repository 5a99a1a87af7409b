//! Inner packets that go no further, by reason.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// Why an inner packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            const ALL: &[DropReason] = &[$(DropReason::$name),*];

            /// As status and metrics name it.
            pub fn name(self) -> &'static str {
                match self {
                    $(DropReason::$name => $word,)*
                }
            }
        }
    };
}

reasons! {
    /// Neither IPv4 nor IPv6.
    NotIp = "not_ip";
    /// The interface has no address yet.
    NoAddress = "no_address";
    /// No peer has its destination in `allowed_ips`.
    NoPeer = "no_peer";
    /// There is no session with the peer.
    NotConnected = "not_connected";
    /// Larger than the paths carry; its sender was told.
    TooBigTold = "too_big_told";
    /// Larger than the paths carry, and no answer is allowed.
    TooBig = "too_big";
    /// Pieces of it did not come.
    Incomplete = "incomplete";
    /// Came from a session that is over.
    NoSession = "no_session";
    /// Congestion was marked on a packet whose flow does not know marks.
    CeNotEct = "ce_not_ect";
    /// A message that this version does not know.
    UnknownControl = "unknown_control";
    /// Its source is not in the peer's `allowed_ips`.
    BadSource = "bad_source";
    /// More than `receive_rate`.
    OverRate = "over_rate";
    /// A client asked for an address, and there was none.
    NoAddressToAssign = "no_address_to_assign";
    /// A super-packet of the interface that cannot be cut.
    NotCut = "not_cut";
    /// The interface is down.
    InterfaceDown = "interface_down";
    /// The kernel refused it.
    RefusedByKernel = "refused_by_kernel";
    /// The shard it is for has too much to do.
    OtherShardFull = "other_shard_full";
}

/// A counter for each reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    pub(crate) fn add(&mut self, why: DropReason, packets: u64) {
        self.0[why as usize] += packets;
    }

    /// Those that are not 0.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().map(|why| (*why, self.0[*why as usize])).filter(|(_, n)| *n > 0)
    }
}
