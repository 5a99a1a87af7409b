//! The entries of the flow table.

use crate::segment::{Icmp, Tuple};
use crate::verdict::{AsPacket, Flow};
use mpdccp_units::Time;
use std::collections::{HashMap, VecDeque};

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
    /// The number of the peer at the other end, if known.
    pub(crate) peer: Option<usize>,
}

/// The addresses of entries that expire, by peer and in order of expiry.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    queues: HashMap<Option<usize>, VecDeque<(Time, Tuple)>>,
    pub(crate) len: usize,
}

impl Remembered {
    /// Adds an entry. If there are now more than `most`, removes and returns the first entry of the peer with
    /// the most entries.
    pub(crate) fn add(
        &mut self,
        peer: Option<usize>,
        entry: (Time, Tuple),
        most: usize,
    ) -> Option<(Time, Tuple)> {
        self.queues.entry(peer).or_default().push_back(entry);
        self.len += 1;
        if self.len <= most {
            return None;
        }
        self.len -= 1;
        self.queues.values_mut().max_by_key(|queue| queue.len())?.pop_front()
    }

    /// Returns whether there are at least `most` entries, of which this peer has an equal share or more.
    pub(crate) fn has_share(&self, peer: Option<usize>, most: usize) -> bool {
        let own = self.queues.get(&peer).map_or(0, VecDeque::len);
        self.len >= most && own * self.queues.len() >= most
    }

    /// Removes and returns the entries that have expired.
    pub(crate) fn expired(&mut self, now: Time) -> Vec<(Time, Tuple)> {
        let mut expired = Vec::new();
        self.queues.retain(|_, queue| {
            let n = queue.partition_point(|(until, _)| *until <= now);
            expired.extend(queue.drain(..n));
            !queue.is_empty()
        });
        self.len -= expired.len();
        expired
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
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
            peer: None,
        }
    }
}
