//! What the flow table decides, and within which bounds.

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
    /// The far end's SYN stayed unanswered.
    Unanswered,
    /// A policy rule is for its packets.
    Policy,
    /// The embedding said so.
    NotWanted,
}

impl AsPacket {
    /// All of them, in the order of [`FlowTable::as_packets`](crate::FlowTable::as_packets).
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

    /// As a metric names it.
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

/// What to do with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it through the tunnel.
    Packet,
    /// Write it to the private namespace's device.
    Proxy(Flow),
    /// It is a SYN: ask the far end to connect. The table keeps the SYN.
    Open(Flow, Request),
    /// It is a held SYN again: drop it.
    Held(Flow),
    /// The host withdrew its held SYN: tell the far end.
    Withdrawn(Flow),
    /// As [`Proxy`](Verdict::Proxy), and the host gave up before its handshake was complete: end the flow at the far end and in the namespace.
    Aborted(Flow),
    /// The host wants to know whether the far one lives: ask. The table keeps the packet until [`FlowTable::alive`](crate::FlowTable::alive).
    Keepalive(Flow),
    /// As [`Proxy`](Verdict::Proxy), and the far end asked whether the host lives: it does.
    Alive(Flow),
    /// Its connection is over, and the host does not know yet: write this, if anything, to the interface.
    Answer(Option<Vec<u8>>),
}

/// What the far end needs to know to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// From the host that opens to the host it wants.
    pub tuple: Tuple,
    /// TTL or hop limit of the SYN, which the far SYN carries too.
    pub ttl: u8,
    /// DSCP and ECN field of the SYN.
    pub traffic_class: u8,
    /// The SYN offers ECN.
    pub ecn: bool,
}

impl Request {
    /// A packet like the answers, to look up which rules hold for them.
    pub fn answer(&self) -> Vec<u8> {
        answer(self.tuple, self.traffic_class).unwrap_or_default()
    }
}

/// Bounds of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Flows at a time.
    pub flows: usize,
    /// Flows at a time that are not yet connected.
    pub half_open: usize,
    /// Of these, of one source address.
    pub half_open_per_source: usize,
}

impl Default for Limits {
    /// 65,536 flows, 4,096 half-open, 1,024 of one source.
    fn default() -> Limits {
        Limits { flows: 1 << 16, half_open: 1 << 12, half_open_per_source: 1 << 10 }
    }
}
