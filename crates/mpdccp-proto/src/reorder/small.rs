use crate::PathId;
use alloc::boxed::Box;
use mpdccp_units::{Duration, Time};

/// Which inner flows are small and travel on one path: they need not wait for what others lack, for on one path packets come in order.
#[derive(Debug, Default)]
pub(super) struct SmallFlows {
    /// By the flow's hash; made with the first packet.
    flows: Option<Box<[Flow; TABLE]>>,
}

const TABLE: usize = 256;
/// A flow is small with at most so many bytes in a window: about a megabit per second.
const WINDOW: Duration = Duration::from_millis(100);
const BYTES: usize = 12_000;
/// How long a flow that was not small, or changed its path, has to wait as all others.
const PROBATION: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Flow {
    hash: u32,
    path: PathId,
    window: Time,
    bytes: usize,
    /// Waits as all others until then.
    until: Time,
    /// Position of its last packet that had to wait.
    held: u64,
}

impl SmallFlows {
    /// A packet of the flow arrived on `path`; whether the flow is small and has been on that path alone of late. Flow 0 is no flow.
    pub(super) fn on_packet(&mut self, now: Time, hash: u32, path: PathId, bytes: usize) -> bool {
        if hash == 0 {
            return false;
        }
        let empty = Flow { hash: 0, path, window: now, bytes: 0, until: now, held: 0 };
        let flows = self.flows.get_or_insert_with(|| Box::new([empty; TABLE]));
        let flow = &mut flows[hash as usize % TABLE];
        if flow.hash != hash {
            // Its first packets cannot be out of order with anything; whether it is small shows at once.
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

    /// A packet of the flow has to wait at `position`: those behind it do too, until it is gone.
    pub(super) fn on_held(&mut self, hash: u32, position: u64) {
        let flow = self.flows.as_mut().map(|flows| &mut flows[hash as usize % TABLE]);
        if let Some(flow) = flow.filter(|flow| flow.hash == hash) {
            flow.held = flow.held.max(position);
        }
    }

    /// Where the last packet of the flow that had to wait stands, or stood.
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
        assert!(!on(20, 0, 0, 200), "no flow");
        assert!(!on(40, 5, 1, 200), "another path");
        assert!(!on(1_000, 5, 1, 200), "on probation");
        assert!(on(2_100, 5, 1, 200));
        assert!((0..20).any(|n| !on(3_000 + n, 7, 0, 1_400)), "not small");
        assert!(!on(4_000, 7, 0, 100));
    }
}
