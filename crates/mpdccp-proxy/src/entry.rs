//! The entries of the flow table.

use crate::segment::Icmp;
use crate::verdict::{AsPacket, Flow};
use mpdccp_units::Time;

#[derive(Debug)]
pub(crate) enum State {
    /// The table is holding the SYN while the far end connects.
    Held(Held),
    /// This end is connecting to its host. The state contains an ICMP error if one has arrived.
    Connecting(Option<Icmp>),
    /// The far end is connected, and the host is completing its handshake with the private namespace.
    Accepting,
    Open,
    /// The flow has ended. Late segments of the flow still go to the private namespace.
    Ended,
    /// The flow travels as packets, for this reason.
    Packets(AsPacket),
    /// The connection died when an end of the tunnel restarted. Segments of the host are answered with RST.
    Dead,
    /// Only used as an argument of `end`, which then removes the entry. No stored entry has this state.
    Free,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) since: Time,
    pub(crate) syn: Vec<u8>,
    pub(crate) seq: u32,
    pub(crate) length: u32,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) flow: Flow,
    pub(crate) state: State,
    /// When an entry in the state [`State::Ended`], [`State::Packets`] or [`State::Dead`] expires.
    pub(crate) until: Time,
    /// The expected sequence number of the host's next segment.
    pub(crate) next: u32,
    /// The host's keepalive, held until the far host has answered.
    pub(crate) keepalive: Option<Vec<u8>>,
    /// Whether the far host has asked whether this host is alive.
    pub(crate) asked: bool,
    /// Whether to drop the next SYN, because the host has sent FIN or RST, or because the namespace may not
    /// have the held SYN yet.
    pub(crate) drop_syn: bool,
    /// The line of the flow in the journal.
    pub(crate) line: Option<u32>,
}

impl Entry {
    pub(crate) fn new(flow: Flow, state: State) -> Entry {
        Entry {
            flow,
            state,
            until: Time::ZERO,
            next: 0,
            keepalive: None,
            asked: false,
            drop_syn: false,
            line: None,
        }
    }
}
