//! The newest packet of each inner flow, as the receiver saw it.

use super::Back;
use crate::PathId;
use alloc::boxed::Box;

/// Flows are distinguished by their hash. A new flow replaces one with the same remainder.
const FLOWS: usize = 256;
/// A flow is steady once this many packets in a row had a long distance. Then no two of its packets are so close that
/// one may be taken for the other.
const STEADY: u8 = 8;

/// Makes long distances exact. The peer [rounds](Back::write) distances above 127; a call during a download has such
/// distances. A packet that waits for all packets up to the rounded distance waits for other flows on slower paths.
#[derive(Debug, Default)]
pub(super) struct NewestOfFlow(Option<Box<[Newest; FLOWS]>>);

#[derive(Clone, Copy, Debug)]
struct Newest {
    flow: u32,
    path: PathId,
    position: u64,
    /// Number of packets in a row with a long distance.
    long: u8,
}

impl NewestOfFlow {
    /// Records a packet at `position`; returns the distance to the flow's previous packet. This is the flow's newest
    /// packet here if the peer would round its distance to `back`, and either the flow is steady, or both packets took
    /// the same path and no packet before the second is still missing there. `path` is the packet's path if none is
    /// missing there. Flow 0 means an unknown flow.
    pub(super) fn refine(&mut self, flow: u32, position: u64, path: Option<PathId>, back: Back) -> Back {
        if flow == 0 {
            return back;
        }
        let empty = Newest { flow: 0, path: PathId(0), position: 0, long: 0 };
        let newest = &mut self.0.get_or_insert_with(|| Box::new([empty; FLOWS]))[flow as usize % FLOWS];
        let before = if newest.flow == flow { *newest } else { Newest { flow, ..empty } };
        let long = if matches!(back, Back::Beyond(_)) { before.long.saturating_add(1) } else { 0 };
        *newest = Newest { long, ..before };
        if position <= before.position {
            return back;
        }
        (newest.position, newest.path) = (position, path.unwrap_or(before.path));
        let distance = position - before.position;
        let fits = Back::read(Back::write(distance)) == Some(back);
        match fits && (before.long >= STEADY || path == Some(before.path)) {
            true => Back::Exactly(distance),
            false => back,
        }
    }
}
