//! Counts dropped inner packets by reason.

mpdccp_units::named! {
    /// The reason why an inner packet was dropped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DropReason {
        /// Neither IPv4 nor IPv6.
        NotIp = "not_ip",
        /// The interface has no address yet.
        NoAddress = "no_address",
        /// No peer's `allowed_ips` include the packet's destination.
        NoPeer = "no_peer",
        /// There is no session with the peer.
        NotConnected = "not_connected",
        /// The packet is larger than the paths can carry. Its sender was notified by ICMP.
        TooBigTold = "too_big_told",
        /// The packet is larger than the paths can carry, but no ICMP error may be sent about it.
        TooBig = "too_big",
        /// Some pieces of the packet did not arrive.
        Incomplete = "incomplete",
        /// The packet arrived from a session that has ended.
        NoSession = "no_session",
        /// The packet arrived with a congestion mark, but its flow does not support ECN.
        CeNotEct = "ce_not_ect",
        /// The packet is a tunnel message of a type that this version does not know.
        UnknownControl = "unknown_control",
        /// The packet's source is not in the peer's `allowed_ips`.
        BadSource = "bad_source",
        /// The packet exceeds `receive_rate`.
        OverRate = "over_rate",
        /// A client requested an address, but none was free.
        NoAddressToAssign = "no_address_to_assign",
        /// A super-packet from the interface (several segments in one packet, as with TSO) could not be cut.
        NotCut = "not_cut",
        /// The interface is down.
        InterfaceDown = "interface_down",
        /// The kernel refused the packet.
        RefusedByKernel = "refused_by_kernel",
        /// The queue of the packet's shard is full.
        OtherShardFull = "other_shard_full",
    }
}

/// A counter for each reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    pub(crate) fn add(&mut self, why: DropReason, packets: u64) {
        self.0[why as usize] += packets;
    }

    /// Counters that are not 0.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.into_iter().map(|why| (why, self.0[why as usize])).filter(|(_, n)| *n > 0)
    }
}
