//! The newest known packet of each inner flow.

use alloc::boxed::Box;

/// Number of flows remembered. A new flow replaces one whose hash has the same remainder.
const FLOWS: usize = 256;

/// Positions of the flows' newest packets.
#[derive(Debug, Default)]
pub(super) struct NewestOfFlow(Option<Box<[Newest; FLOWS]>>);

/// The newest packet of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    flow: u32,
    /// The packet's position.
    pub(super) position: u64,
    /// Minimum distance between recent packets of the flow. With each packet it rises by a sixteenth plus
    /// one, so that it adapts to the flow.
    pub(super) least: u64,
}

impl NewestOfFlow {
    /// Records a packet whose distance to the flow's previous packet is at least `told`. Returns the packet
    /// that was the flow's newest before, or `None` if there was none or the recorded packet is late. Flow 0
    /// means an unknown flow.
    pub(super) fn replace(&mut self, flow: u32, position: u64, told: u64) -> Option<Newest> {
        let empty = Newest { flow: 0, position: 0, least: 0 };
        let newest = &mut self.0.get_or_insert_with(|| Box::new([empty; FLOWS]))[flow as usize % FLOWS];
        let before = Some(*newest).filter(|newest| newest.flow == flow && flow != 0);
        let least = before.map_or(0, |before| told.min(before.least + before.least / 16 + 1));
        *newest = Newest { flow, position: before.map_or(0, |before| before.position).max(position), least };
        before.filter(|before| before.position < position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_told_apart_and_late_packets_change_nothing() {
        let mut newest = NewestOfFlow::default();
        let mut on = |flow, position| newest.replace(flow, position, 160).map(|before| before.position);
        assert_eq!(on(5, 1_000), None);
        assert_eq!(on(5, 1_160), Some(1_000));
        assert_eq!(on(5, 1_080), None, "late");
        assert_eq!(on(5, 1_320), Some(1_160));
        assert_eq!(on(5 + FLOWS as u32, 1_400), None);
        assert_eq!(on(5, 1_480), None, "replaced by the other flow");
        assert_eq!((on(0, 1_500), on(0, 1_600)), (None, None), "unknown flows");
    }

    #[test]
    fn the_least_distance_follows_the_flow() {
        let mut newest = NewestOfFlow::default();
        let mut position = 0;
        let mut after = |told, packets| {
            let mut last = None;
            for _ in 0..=packets {
                position += told;
                last = newest.replace(5, position, told);
            }
            last.unwrap().least
        };
        assert_eq!(after(160, 5), 4);
        assert_eq!(after(160, 100), 160);
        assert_eq!(after(1, 1), 1);
        assert_eq!(after(160, 100), 160);
    }
}
