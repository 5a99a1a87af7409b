//! Decides which flows are proxied and why others travel as packets. Also defines the flow table's limits and
//! verdicts.

use crate::refusal::answer;
use crate::segment::{Segment, Tuple};

/// The number of a flow at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow(pub u64);

/// Why a TCP flow travels as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AsPacket {
    /// The proxy did not see the flow's SYN.
    Midstream,
    /// The SYN has MD5, TCP-AO or Multipath TCP.
    EndToEndOption,
    /// The SYN offers Accurate ECN, or is an L4S packet.
    AccurateEcn,
    /// The packet has IP options, extension headers or is a fragment.
    NotPlain,
    /// There are too many flows, or too many half-open flows of the same source.
    Limit,
    /// The far end's SYN got no answer.
    Unanswered,
    /// A policy rule excludes the flow from the proxy.
    Policy,
    /// The caller does not want this flow to be proxied.
    NotWanted,
}

impl AsPacket {
    /// All reasons, in the order of [`FlowTable::as_packets`](crate::FlowTable::as_packets).
    pub const ALL: [AsPacket; 8] = [
        AsPacket::Midstream,
        AsPacket::EndToEndOption,
        AsPacket::AccurateEcn,
        AsPacket::NotPlain,
        AsPacket::Limit,
        AsPacket::Unanswered,
        AsPacket::Policy,
        AsPacket::NotWanted,
    ];

    /// Name for metrics.
    pub fn name(self) -> &'static str {
        match self {
            AsPacket::Midstream => "midstream",
            AsPacket::EndToEndOption => "end_to_end_option",
            AsPacket::AccurateEcn => "accurate_ecn",
            AsPacket::NotPlain => "not_plain",
            AsPacket::Limit => "limit",
            AsPacket::Unanswered => "unanswered",
            AsPacket::Policy => "policy",
            AsPacket::NotWanted => "not_wanted",
        }
    }
}

/// Whether the flow of this SYN may be proxied. `wanted` is the caller's answer, and `room` says whether the
/// flow is within the limits. Flows without a SYN travel as packets anyway.
pub(crate) fn may_proxy(syn: &Segment, wanted: Result<(), AsPacket>, room: bool) -> Result<(), AsPacket> {
    wanted?;
    if syn.end_to_end_option {
        Err(AsPacket::EndToEndOption)
    } else if syn.accurate_ecn || syn.traffic_class & 3 == 1 {
        Err(AsPacket::AccurateEcn)
    } else if !syn.plain {
        Err(AsPacket::NotPlain)
    } else if !room {
        Err(AsPacket::Limit)
    } else {
        Ok(())
    }
}

/// The action for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send the packet through the tunnel.
    Packet,
    /// Write the packet to the private namespace's device.
    Proxy(Flow),
    /// The packet is a SYN. Ask the far end to connect; the table holds the SYN.
    Open(Flow, Request),
    /// The packet repeats a SYN that is held already. Drop it.
    Held(Flow),
    /// The host withdrew its held SYN. Tell the far end.
    Withdrawn(Flow),
    /// Like [`Proxy`](Verdict::Proxy), but the host gave up before its handshake was complete. End the flow
    /// at the far end and in the namespace.
    Aborted(Flow),
    /// The host asks whether the far host is alive. Ask the far end. The table holds the packet until
    /// [`FlowTable::alive`](crate::FlowTable::alive).
    Keepalive(Flow),
    /// Like [`Proxy`](Verdict::Proxy). The packet also answers the far end's probe: the host is alive.
    Alive(Flow),
    /// The connection has ended, but the host does not know yet. Write this packet, if any, to the interface.
    Answer(Option<Vec<u8>>),
}

/// The data that the far end needs to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Addresses and ports, from the opening host to its destination.
    pub tuple: Tuple,
    /// TTL or hop limit of the SYN. The far end's SYN gets the same value.
    pub ttl: u8,
    /// DSCP and ECN field of the SYN.
    pub traffic_class: u8,
    /// Whether the SYN offers ECN.
    pub ecn: bool,
}

impl Request {
    /// A packet as the destination would send it, to find matching policy rules.
    pub fn answer(&self) -> Vec<u8> {
        answer(self.tuple, self.traffic_class).unwrap_or_default()
    }
}

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of open flows.
    pub flows: usize,
    /// Maximum number of flows that are not connected yet.
    pub half_open: usize,
    /// Maximum number of flows of one source address that are not connected yet.
    pub half_open_per_source: usize,
}

impl Default for Limits {
    /// 65,536 flows, 4,096 half-open ones, 1,024 half-open ones of one source.
    fn default() -> Limits {
        Limits { flows: 1 << 16, half_open: 1 << 12, half_open_per_source: 1 << 10 }
    }
}
