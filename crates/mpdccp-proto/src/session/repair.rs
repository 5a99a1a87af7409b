//! Loss repair: what a path lost, or left on a dead path, goes once more, on whichever path the scheduler picks, with the same MP_SEQ.

use super::Session;
use super::encode;
use super::private::Private;
use super::subflow::Subflow;
use crate::blocks::Blocks;
use crate::queue::Queued;
use crate::{PathId, RepairStats};
use alloc::collections::{BTreeMap, VecDeque};
use dccp_proto::ccid::Fated;
use dccp_wire::Seq;
use units::{Duration, Time};

/// Most bytes kept of what was sent; beyond, the oldest cannot be repaired any more.
const MAX_BYTES: usize = 16 << 20;
/// What a repair takes beside round trips: timers, and the peer's.
const MARGIN: Duration = Duration::from_millis(10);
/// How often the peer is told, at least, how long repair takes; the option may be lost.
const TELL: Duration = Duration::from_secs(1);
/// A path that sent nothing for so long, and takes so many times the nearest one's round trip, has nothing to repair.
const USED: Duration = Duration::from_secs(10);
const DISTANT: u32 = 4;

/// A datagram that left.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) packet: Queued,
    pub(super) mp_seq: Seq,
    /// How far back the packet before of its flow is.
    pub(super) back: u8,
    /// Since when the peer may miss it: when it first left, or later where all that left after it went astray too.
    pub(super) first: Time,
}

/// What left on one path, in order, until it is known to have arrived.
type Kept = VecDeque<(Seq, Option<Copy>)>;

/// What was sent and is not acknowledged yet, and what of it is to be sent again.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// The peer waits for repairs, and we make some.
    on: bool,
    kept: BTreeMap<PathId, Kept>,
    /// Of both what is kept and what is due.
    bytes: usize,
    due: VecDeque<Copy>,
    /// The path that carried all data of late, since when.
    alone: Option<(PathId, Time)>,
    /// For how long a repair is worth making: the peer waits for it no longer.
    worth: Duration,
    told: Option<(Time, Duration)>,
    stats: RepairStats,
}

impl Repair {
    pub(super) fn stats(&self) -> RepairStats {
        RepairStats { bytes: self.bytes as u64, ..self.stats }
    }

    /// Keeps what left on `path` under number `seq`.
    fn keep(&mut self, now: Time, path: PathId, seq: Seq, copy: Copy) {
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

    fn on_fate(&mut self, path: PathId, fated: Fated, blocks: &mut Blocks) {
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

    /// The path is silent or gone: what left on it may never arrive.
    ///
    /// A peer that got nothing newer over other paths does not miss it yet, nor will it before all of it was sent again, which takes a
    /// path that was idle some round trips: it is worth `most` from now on.
    pub(super) fn on_silence(&mut self, now: Time, path: PathId, most: Duration) {
        let alone = self.alone.filter(|(alone, _)| *alone == path);
        for mut copy in self.kept.remove(&path).into_iter().flatten().filter_map(|(_, copy)| copy) {
            if alone.is_some_and(|(_, since)| copy.first >= since) {
                copy.first = now + most.saturating_sub(self.worth);
            }
            self.due.push_back(copy);
        }
    }

    /// The next datagram to send again. What is too old is given up.
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

    /// Nothing will be sent any more.
    pub(super) fn clear(&mut self) {
        (self.on, self.bytes) = (false, 0);
        self.kept.clear();
        self.due.clear();
    }
}

impl Session {
    /// The peer told what it understands.
    pub(super) fn on_hello(&mut self, repairs: bool, flows: bool, parities: bool) {
        self.fec.on = parities;
        self.repair.on = repairs && self.cfg.repair;
        self.order_flows = flows && self.cfg.flow_order;
    }

    /// What we tell in the handshake.
    pub(super) fn hello(&self) -> Private {
        let repairs = self.reorderer.waits_for_repairs();
        Private::Hello { repairs, flows: repairs && self.cfg.flow_order, parities: true }
    }

    /// A datagram left on one path.
    pub(super) fn keep_for_repair(&mut self, now: Time, path: PathId, seq: Seq, copy: Copy, again: bool) {
        self.repair.stats.sent += u64::from(again);
        if self.repair.alone.is_none_or(|(alone, _)| alone != path) {
            self.repair.alone = Some((path, now));
        }
        match self.repair.on {
            true => self.repair.keep(now, path, seq, copy),
            false => self.blocks.put(copy.packet.data),
        }
    }

    /// Learns what became of what left on a path.
    pub(super) fn follow_fates(&mut self, now: Time, i: usize) {
        if !self.repair.on {
            return;
        }
        let path = &mut self.paths[i];
        let Some(conn) = &mut path.conn else { return };
        conn.track_fates();
        while let Some(fated) = conn.poll_fate() {
            self.repair.on_fate(path.id, fated, &mut self.blocks);
        }
        self.tell_repair_time(now, i);
    }

    /// Works out how long a repair may take: to notice that a path is dead takes two answer times, the way of what is then sent
    /// elsewhere most of one. Tells the peer now and then.
    fn tell_repair_time(&mut self, now: Time, i: usize) {
        let live = || self.paths.iter().filter(|p| p.is_live() && p.prio() > 0);
        // Without their queues, or one's own would make a distant path near.
        let nearest =
            live().filter(|p| p.is_up()).filter_map(Subflow::min_rtt).min().unwrap_or(Duration::MAX);
        let near = |p: &&Subflow| p.min_rtt().is_none_or(|rtt| rtt / DISTANT <= nearest);
        let used = live().filter(|p| near(p) || p.has_sent(now, USED));
        let slowest = used.map(|p| p.answer).max().unwrap_or_default();
        let repair = &mut self.repair;
        repair.worth = (slowest * 3 + MARGIN).min(self.cfg.repair_max);
        let wait = if self.cfg.wait_for_repairs { repair.worth } else { Duration::ZERO };
        let outdated = repair.told.is_none_or(|(at, told)| {
            now.since(at) >= TELL || wait > told + told / 4 && now.since(at) > slowest
        });
        if let Some(conn) = self.paths[i].conn.as_mut().filter(|_| outdated) {
            repair.told = Some((now, wait));
            Private::Repair(wait).with(|option| conn.send_options(encode(&[option]).as_bytes()));
        }
    }

    /// A path became silent: the peer is told over another one, lest it go on there.
    pub(super) fn tell_silence(&mut self, i: usize) {
        let silent = Private::Silent(self.paths[i].local_addr, self.paths[i].remote_addr);
        let other = self.paths.iter_mut().find(|p| p.is_up()).and_then(|p| p.conn.as_mut());
        if let Some(conn) = other.filter(|_| self.peer_is_ours) {
            silent.with(|option| conn.send_options(encode(&[option]).as_bytes()));
        }
    }
}
