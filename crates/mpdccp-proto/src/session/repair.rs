//! Loss repair: packets that were lost on a path, or sent on a dead path, are retransmitted with the same
//! MP_SEQ. The scheduler picks the path of the retransmission.

use crate::blocks::Blocks;
use crate::queue::Queued;
use crate::{PathId, RepairStats};
use alloc::collections::{BTreeMap, VecDeque};
use dccp_proto::ccid::Fated;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// Maximum number of bytes of sent packets that are kept. If there are more, the oldest ones can no longer be
/// repaired.
const MAX_BYTES: usize = 16 << 20;
/// Maximum time to wait for a retransmission.
pub(super) const MAX_WAIT: Duration = Duration::from_millis(500);

/// A sent datagram.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) packet: Queued,
    pub(super) mp_seq: Seq,
    /// Distance to the previous packet of the same flow.
    pub(super) back: u8,
    /// Earliest time at which the peer may notice the loss: the first transmission, or later if all packets
    /// after it were lost too.
    pub(super) first: Time,
}

/// Packets that were sent on one path and are not known to have arrived, in order.
type Kept = VecDeque<(Seq, Option<Copy>)>;

/// Sent packets that are not acknowledged, and packets that must be retransmitted.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// Whether the peer waits for repairs and this end performs them.
    pub(super) on: bool,
    pub(super) kept: BTreeMap<PathId, Kept>,
    /// Bytes of `kept` and `due` together.
    pub(super) bytes: usize,
    pub(super) due: VecDeque<Copy>,
    /// If all recent data was sent on a single path: that path, and the time since which this has been so.
    pub(super) alone: Option<(PathId, Time)>,
    /// How long a repair is useful. After that, the peer no longer waits for it.
    pub(super) worth: Duration,
    pub(super) told: Option<(Time, Duration)>,
    pub(super) stats: RepairStats,
}

impl Repair {
    pub(super) fn stats(&self) -> RepairStats {
        RepairStats { bytes: self.bytes as u64, ..self.stats }
    }

    /// Keeps a packet that was sent on `path` under the number `seq`.
    pub(super) fn keep(&mut self, now: Time, path: PathId, seq: Seq, copy: Copy) {
        self.bytes += copy.packet.data.len();
        self.kept.entry(path).or_default().push_back((seq, Some(copy)));
        let worth = self.worth;
        let old = |copy: &Option<Copy>| copy.as_ref().is_none_or(|copy| now.since(copy.first) > worth);
        while let Some((_, copy)) =
            self.kept.get_mut(&path).and_then(|kept| kept.pop_front_if(|(_, c)| old(c)))
        {
            self.bytes -= copy.map_or(0, |copy| copy.packet.data.len());
        }
        while self.bytes > MAX_BYTES
            && let Some(copy) = (self.kept.values_mut().find_map(VecDeque::pop_front).map(|(_, copy)| copy))
                .or_else(|| self.due.pop_front().map(Some))
        {
            self.stats.forgotten += u64::from(copy.is_some());
            self.bytes -= copy.map_or(0, |copy| copy.packet.data.len());
        }
    }

    pub(super) fn on_fate(&mut self, path: PathId, fated: Fated, blocks: &mut Blocks) {
        let Some(kept) = self.kept.get_mut(&path) else { return };
        let end = fated.first.add(fated.packets);
        let first = kept.partition_point(|(seq, _)| seq.before(fated.first));
        for (_, slot) in kept.range_mut(first..).take_while(|(seq, _)| seq.before(end)) {
            let Some(copy) = slot.take() else { continue };
            if fated.lost {
                self.due.push_back(copy);
            } else {
                self.bytes -= copy.packet.data.len();
                blocks.put(copy.packet.data);
            }
        }
        while kept.pop_front_if(|(_, copy)| copy.is_none()).is_some() {}
    }

    /// Call this when a path is silent or gone, because packets sent on it may never arrive.
    ///
    /// If no other path carried newer packets, the peer notices the loss only once all packets sent on this
    /// path have been retransmitted. This takes some round trips on a path that was idle. Repairs are
    /// therefore useful for [`MAX_WAIT`] from now on.
    pub(super) fn on_silence(&mut self, now: Time, path: PathId) {
        let alone = self.alone.filter(|(alone, _)| *alone == path);
        for mut copy in self.kept.remove(&path).into_iter().flatten().filter_map(|(_, copy)| copy) {
            if alone.is_some_and(|(_, since)| copy.first >= since) {
                copy.first = now + MAX_WAIT.saturating_sub(self.worth);
            }
            self.due.push_back(copy);
        }
    }

    /// Returns the next datagram to retransmit. Drops datagrams that are too old.
    pub(super) fn head(&mut self, now: Time) -> Option<&Copy> {
        if self.due.is_empty() {
            return None;
        }
        let worth = self.worth;
        while let Some(old) = self.due.pop_front_if(|copy| now.since(copy.first) > worth) {
            self.bytes -= old.packet.data.len();
            self.stats.given_up += 1;
        }
        self.due.front()
    }

    pub(super) fn pop(&mut self) -> Option<Copy> {
        let copy = self.due.pop_front()?;
        self.bytes -= copy.packet.data.len();
        Some(copy)
    }

    /// Ends repair, because nothing more is sent.
    pub(super) fn clear(&mut self) {
        (self.on, self.bytes) = (false, 0);
        self.kept.clear();
        self.due.clear();
    }
}
