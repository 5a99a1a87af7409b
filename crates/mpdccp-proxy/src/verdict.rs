//! Decisions of the flow table, and its limits.

use crate::answer::answer;
use crate::segment::Tuple;

/// A flow's number at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow(pub u64);

/// Why a TCP flow travels as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AsPacket {
    /// Its SYN was not seen.
    Midstream,
    /// MD5, TCP-AO or Multipath TCP.
    EndToEndOption,
    /// Accurate ECN or L4S.
    AccurateEcn,
    /// IP options, extension headers or fragments.
    NotPlain,
    /// Too many flows, or too many half-open ones of its source.
    Limit,
    /// The far end's SYN got no answer.
    Unanswered,
    /// A policy rule matches its packets.
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

/// Treatment of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send the packet through the tunnel.
    Packet,
    /// Write it to the private namespace's device.
    Proxy(Flow),
    /// A SYN: ask the far end to connect. The table holds the SYN.
    Open(Flow, Request),
    /// A repeated SYN that is held already: drop it.
    Held(Flow),
    /// The host withdrew its held SYN: tell the far end.
    Withdrawn(Flow),
    /// Like [`Proxy`](Verdict::Proxy), but the host gave up before its handshake was complete: end the flow
    /// at the far end and in the namespace.
    Aborted(Flow),
    /// The host asks whether the far host is alive: pass the question on. The table holds the packet until
    /// [`FlowTable::alive`](crate::FlowTable::alive).
    Keepalive(Flow),
    /// Like [`Proxy`](Verdict::Proxy), and it answers the far end's question: the host is alive.
    Alive(Flow),
    /// Its connection is over, but the host does not know yet: write this packet, if any, to the interface.
    Answer(Option<Vec<u8>>),
}

/// Parameters for the far end's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// From the opening host to its destination.
    pub tuple: Tuple,
    /// TTL or hop limit of the SYN; the far SYN gets the same.
    pub ttl: u8,
    /// DSCP and ECN field of the SYN.
    pub traffic_class: u8,
    /// The SYN offers ECN.
    pub ecn: bool,
}

impl Request {
    /// A packet like the answers, to look up matching policy rules.
    pub fn answer(&self) -> Vec<u8> {
        answer(self.tuple, self.traffic_class).unwrap_or_default()
    }
}

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Flows open at a time.
    pub flows: usize,
    /// Unconnected flows at a time.
    pub half_open: usize,
    /// Unconnected flows of one source address.
    pub half_open_per_source: usize,
}

impl Default for Limits {
    /// 65,536 flows, 4,096 half-open, 1,024 of one source.
    fn default() -> Limits {
        Limits { flows: 1 << 16, half_open: 1 << 12, half_open_per_source: 1 << 10 }
    }
}
