//! The queues of a session: one for each steering rule, and one for the rest. They take turns, so that what waits for one path does not
//! hold up what may take another.

use super::Session;
use super::fec::Block;
use crate::queue::{QueueStats, QueueView, Queued, SendQueue};
use crate::sched::{Scheduler, SchedulerKind};
use crate::steer::{MAX_RULES, Rule, RuleStats, Steering};
use crate::{PktInfo, SessionConfig};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use units::Time;

/// Packets of one kind, and what picks their paths.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) queue: SendQueue,
    pub(super) scheduler: Box<dyn Scheduler>,
    /// What left since the last parity.
    pub(super) block: Block,
    stats: RuleStats,
}

/// All lanes: the one of packets that no rule fits, then one for each rule.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) all: Vec<Lane>,
    steering: Steering,
    /// Whose turn it is.
    turn: usize,
}

/// Where the next packet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// What a path lost.
    Repair,
    /// What was set aside in a lane, for it waits for a wide path.
    Aside(usize),
    /// A lane's queue.
    Lane(usize),
}

/// Sources whose first packet waits for a path.
#[derive(Debug, Default)]
pub(super) struct Waiting(u64);

impl Waiting {
    fn bit(source: Source) -> u64 {
        1 << match source {
            Source::Repair => 0,
            Source::Aside(lane) => 1 + 2 * lane,
            Source::Lane(lane) => 2 + 2 * lane,
        }
    }

    pub(super) fn add(&mut self, source: Source) {
        self.0 |= Waiting::bit(source);
    }

    fn has(&self, source: Source) -> bool {
        self.0 & Waiting::bit(source) != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl Lanes {
    pub(super) fn new(cfg: &SessionConfig) -> Lanes {
        let mut steering = cfg.steer.clone();
        steering.0.truncate(MAX_RULES);
        let lane = |kind: SchedulerKind| Lane {
            queue: SendQueue::new(cfg.queue),
            scheduler: kind.scheduler(),
            block: Block::default(),
            stats: RuleStats::default(),
        };
        let kinds = steering.0.iter().map(|rule| rule.scheduler.unwrap_or(cfg.scheduler));
        let all = core::iter::once(cfg.scheduler).chain(kinds).map(lane).collect();
        Lanes { all, steering, turn: 0 }
    }

    pub(super) fn rule(&self, lane: usize) -> Option<&Rule> {
        self.steering.0.get(lane.checked_sub(1)?)
    }

    /// Puts a packet into the lane it belongs to, or drops it if its rule says so.
    pub(super) fn push(&mut self, now: Time, data: Vec<u8>, info: PktInfo) {
        let rule = self.steering.rule_for(&info, &data);
        let lane = rule.map_or(0, |rule| rule + 1);
        let Lane { queue, stats, .. } = &mut self.all[lane];
        stats.packets += 1;
        stats.bytes += data.len() as u64;
        match rule.is_some_and(|rule| self.steering.0[rule].drop) {
            true => stats.dropped += 1,
            false => queue.push(now, data, PktInfo { class: lane as u8, ..info }),
        }
    }

    /// Drops everything, and tells how many packets that was.
    pub(super) fn clear(&mut self) -> u64 {
        self.all.iter_mut().map(|lane| lane.queue.clear()).sum()
    }

    /// Drops what is too old.
    pub(super) fn expire(&mut self, now: Time) {
        for lane in &mut self.all {
            lane.queue.head(now);
        }
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.all.iter().filter_map(|lane| lane.queue.next_expiry()).min()
    }

    /// What waits in all.
    pub(super) fn view(&self, now: Time) -> QueueView {
        let views = self.all.iter().map(|lane| lane.queue.view(now));
        views.fold(QueueView::default(), |sum, view| QueueView {
            packets: sum.packets + view.packets,
            bytes: sum.bytes + view.bytes,
            oldest: sum.oldest.max(view.oldest),
            flow_bytes: sum.flow_bytes.max(view.flow_bytes),
        })
    }

    pub(super) fn stats(&self) -> QueueStats {
        self.all.iter().fold(QueueStats::default(), |sum, lane| sum.plus(&lane.queue.stats()))
    }

    /// What each rule met.
    pub(super) fn rules(&self) -> Vec<(String, RuleStats)> {
        let rules = self.steering.0.iter().zip(&self.all[1..]);
        rules.map(|(rule, lane)| (rule.name.clone(), lane.stats)).collect()
    }
}

impl Session {
    /// The lane of a packet that waits.
    pub(super) fn lane_of(&self, info: &PktInfo) -> usize {
        // A repair may be of a rule that is no more.
        Some(usize::from(info.class)).filter(|lane| *lane < self.lanes.all.len()).unwrap_or(0)
    }

    /// Whose packet is next, of those that do not wait: repairs, then the lanes in turn.
    pub(super) fn next_source(&mut self, now: Time, waiting: &Waiting) -> Option<(Source, PktInfo)> {
        if !waiting.has(Source::Repair)
            && let Some(copy) = self.repair.head(now)
        {
            return Some((Source::Repair, copy.packet.info));
        }
        let lanes = self.lanes.all.len();
        for l in (0..lanes).map(|n| (self.lanes.turn + n) % lanes) {
            let queue = &mut self.lanes.all[l].queue;
            if !waiting.has(Source::Aside(l))
                && let Some(head) = queue.aside_head(now)
            {
                return Some((Source::Aside(l), head.info));
            }
            if !waiting.has(Source::Lane(l))
                && let Some(head) = queue.head(now)
            {
                return Some((Source::Lane(l), head.info));
            }
        }
        None
    }

    /// Takes what [`next_source`](Self::next_source) showed.
    pub(super) fn take(&mut self, source: Source) -> Option<Queued> {
        match source {
            Source::Repair => self.repair.pop().map(|copy| copy.packet),
            Source::Aside(l) | Source::Lane(l) => {
                self.lanes.turn = (l + 1) % self.lanes.all.len();
                let queue = &mut self.lanes.all[l].queue;
                if source == Source::Lane(l) { queue.pop() } else { queue.pop_aside() }
            }
        }
    }

    /// No path can carry it.
    pub(super) fn drop_too_big(&mut self, source: Source) {
        match source {
            Source::Repair => drop(self.repair.pop()),
            Source::Aside(l) => self.lanes.all[l].queue.drop_aside_too_big(),
            Source::Lane(l) => self.lanes.all[l].queue.drop_too_big(),
        }
    }

    /// Has packets scheduled otherwise from now on.
    pub(crate) fn set_scheduler(&mut self, kind: SchedulerKind) {
        self.cfg.scheduler = kind;
        for lane in 0..self.lanes.all.len() {
            if self.lanes.rule(lane).is_none_or(|rule| rule.scheduler.is_none()) {
                self.lanes.all[lane].scheduler = kind.scheduler();
            }
        }
    }

    /// Has packets steered by other rules from now on; those that wait fall under them too.
    pub(crate) fn set_steering(&mut self, now: Time, steering: &Steering) {
        if self.cfg.steer == *steering {
            return;
        }
        self.cfg.steer = steering.clone();
        let mut old = core::mem::replace(&mut self.lanes, Lanes::new(&self.cfg));
        let stats = old.stats();
        while let Some(Queued { info, data, .. }) = old.all.iter_mut().find_map(|lane| lane.queue.pop_any()) {
            self.lanes.push(now, data, info);
        }
        self.lanes.all.iter_mut().for_each(|lane| lane.queue.set_stats(QueueStats::default()));
        self.lanes.all[0].queue.set_stats(stats);
    }
}
