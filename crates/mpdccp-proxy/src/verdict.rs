//! Decides which flows are proxied, and why the others travel as packets. Also defines the verdicts and the
//! limits of the flow table.

use crate::refusal::answer;
use crate::segment::{Segment, Tuple};

/// The number of a flow, valid only at this end of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow(pub u64);

mpdccp_units::named! {
    /// The reason why a TCP flow travels as packets. [`FlowTable::as_packets`](crate::FlowTable::as_packets)
    /// returns the counters in the order of the variants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum AsPacket {
        /// The segment is no SYN, and its flow is not known: the proxy has not seen the SYN, or let the flow
        /// travel as packets. Segments are counted individually, because the proxy does not store such flows.
        Midstream = "midstream",
        /// The SYN has an option for MD5, TCP-AO or Multipath TCP.
        EndToEndOption = "end_to_end_option",
        /// The SYN offers Accurate ECN, or is an L4S packet.
        AccurateEcn = "accurate_ecn",
        /// The packet is a fragment, or has IP options or extension headers.
        NotPlain = "not_plain",
        /// The limit on flows has been reached, or the limit on half-open flows for all sources or for this
        /// one. Also counts connections that both hosts open at the same time.
        Limit = "limit",
        /// Nothing answered the SYN that the far end sent.
        Unanswered = "unanswered",
        /// A policy rule excludes the flow from the proxy.
        Policy = "policy",
        /// The caller does not want this flow to be proxied.
        NotWanted = "not_wanted",
    }
}

/// Returns whether the flow of this SYN may be proxied. `wanted` is the caller's decision, and `room` is true
/// if the flow is within the limits. Flows without a SYN never get here, because they travel as packets.
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

/// What the caller must do with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send the packet through the tunnel.
    Packet,
    /// Write the packet to the private namespace's device.
    Proxy(Flow),
    /// The packet is a SYN, which the table now holds. Ask the far end to connect.
    Open(Flow, Request),
    /// The packet repeats a SYN that the table holds. Drop the packet.
    Held(Flow),
    /// The host has given up on the connection of the held SYN. Tell the far end.
    Withdrawn(Flow),
    /// Write the packet to the device, as for [`Proxy`](Verdict::Proxy). The host has given up before its
    /// handshake was complete. End the flow at the far end and in the namespace.
    Aborted(Flow),
    /// The host wants to know whether the far host is alive. Ask the far end. The table holds the packet
    /// until the caller calls [`FlowTable::alive`](crate::FlowTable::alive).
    Keepalive(Flow),
    /// Write the packet to the device, as for [`Proxy`](Verdict::Proxy). Also tell the far end that this host
    /// is alive: the far end has asked, and the packet proves it.
    Alive(Flow),
    /// The connection has ended, but the host does not know it yet. Write this packet, if any, to the
    /// tunnel's interface.
    Answer(Option<Vec<u8>>),
}

/// What the far end needs to know in order to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Addresses and ports, from the opening host to its destination.
    pub tuple: Tuple,
    /// TTL or hop limit of the SYN, which the far end's SYN copies.
    pub ttl: u8,
    /// DSCP and ECN field of the SYN.
    pub traffic_class: u8,
    /// Whether the SYN offers ECN.
    pub ecn: bool,
}

impl Request {
    /// Returns a packet in the direction from the destination to the opening host, with which the caller
    /// finds matching policy rules.
    pub fn answer(&self) -> Vec<u8> {
        answer(self.tuple, self.traffic_class).unwrap_or_default()
    }
}

/// Limits of the flow table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of open flows.
    pub flows: usize,
    /// Maximum number of flows that have not connected yet.
    pub half_open: usize,
    /// Maximum number of flows from one source address that have not connected yet.
    pub half_open_per_source: usize,
}

impl Default for Limits {
    /// Allows 65,536 flows in total, of which 4,096 may be half-open, 1,024 of them from one source.
    fn default() -> Limits {
        Limits { flows: 1 << 16, half_open: 1 << 12, half_open_per_source: 1 << 10 }
    }
}
