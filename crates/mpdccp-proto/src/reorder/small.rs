use crate::PathId;
use alloc::boxed::Box;
use mpdccp_units::{Duration, Time};

/// Detects small inner flows on a single path. They need not wait for missing packets of other flows, because one path
/// delivers in order.
#[derive(Debug, Default)]
pub(super) struct SmallFlows {
    /// Table indexed by the flow's hash. It is allocated with the first packet.
    flows: Option<Box<[Flow; TABLE]>>,
}

const TABLE: usize = 256;
/// A flow is small if it has at most this many bytes per window: about a megabit per second.
const WINDOW: Duration = Duration::from_millis(100);
const BYTES: usize = 12_000;
/// After a flow was large or changed its path, its packets wait like all others for this long.
const PROBATION: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Flow {
    hash: u32,
    path: PathId,
    window: Time,
    bytes: usize,
    /// Until then, packets of the flow wait like all others.
    until: Time,
    /// Position of the flow's last packet that had to wait.
    held: u64,
}

impl SmallFlows {
    /// Processes a packet of a flow on `path`. Returns true if the flow is small and recently used only that path. Flow
    /// 0 means an unknown flow.
    pub(super) fn on_packet(&mut self, now: Time, hash: u32, path: PathId, bytes: usize) -> bool {
        if hash == 0 {
            return false;
        }
        let empty = Flow { hash: 0, path, window: now, bytes: 0, until: now, held: 0 };
        let flows = self.flows.get_or_insert_with(|| Box::new([empty; TABLE]));
        let flow = &mut flows[hash as usize % TABLE];
        if flow.hash != hash {
            // The first packets of a new flow cannot be out of order, and they soon show the flow's size.
            *flow = Flow { hash, ..empty };
        }
        if now.since(flow.window) >= WINDOW {
            (flow.window, flow.bytes) = (now, 0);
        }
        flow.bytes += bytes;
        if flow.path != path || flow.bytes > BYTES {
            (flow.path, flow.until) = (path, now + PROBATION);
        }
        now >= flow.until
    }

    /// A packet of the flow waits at `position`. Later packets of the flow wait too, until it is delivered.
    pub(super) fn on_held(&mut self, hash: u32, position: u64) {
        let flow = self.flows.as_mut().map(|flows| &mut flows[hash as usize % TABLE]);
        if let Some(flow) = flow.filter(|flow| flow.hash == hash) {
            flow.held = flow.held.max(position);
        }
    }

    /// Position of the flow's last packet that had to wait, delivered or not.
    pub(super) fn last_held(&self, hash: u32) -> Option<u64> {
        let flow = self.flows.as_ref().map(|flows| &flows[hash as usize % TABLE]);
        flow.filter(|flow| flow.hash == hash).map(|flow| flow.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_flows_on_one_path_are_told_from_others() {
        let mut flows = SmallFlows::default();
        let mut on =
            |ms, hash, path, bytes| flows.on_packet(Time::from_millis(ms), hash, PathId(path), bytes);
        assert!(on(0, 5, 0, 200) && on(20, 5, 0, 200));
        assert!(!on(20, 0, 0, 200), "flow 0 is unknown");
        assert!(!on(40, 5, 1, 200), "the flow changed its path");
        assert!(!on(1_000, 5, 1, 200), "the flow is still on probation");
        assert!(on(2_100, 5, 1, 200));
        assert!((0..20).any(|n| !on(3_000 + n, 7, 0, 1_400)), "the flow is not small");
        assert!(!on(4_000, 7, 0, 100));
    }
}
