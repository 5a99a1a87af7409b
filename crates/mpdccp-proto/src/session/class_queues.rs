//! The queues of a session: one per policy rule, and one for packets without a rule, so that packets waiting
//! for one path do not delay packets that may take another. The queues share the paths by bytes.

use super::fec::Block;
use crate::policy::{MAX_RULES, Policy, Rule, RuleStats};
use crate::queue::{QueueStats, QueueView, SendQueue};
use crate::sched::{Scheduler, SchedulerKind};
use crate::{PktInfo, SessionConfig};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use mpdccp_units::Time;

/// Maximum number of classes. A class consists of the packets of one policy rule, or of the packets without a
/// rule.
pub(super) const CLASSES: usize = MAX_RULES + 1;

/// The queue of one class, and its schedulers.
#[derive(Debug)]
pub(super) struct ClassQueue {
    pub(super) queue: SendQueue,
    pub(super) scheduler: Box<dyn Scheduler>,
    /// Scheduler for the streams of this class, whose packets are not in the queue.
    pub(super) stream_scheduler: Box<dyn Scheduler>,
    /// Packets sent since the last FEC packet.
    pub(super) block: Block,
    pub(super) stats: RuleStats,
}

/// All classes: first the class of packets without a rule, then one per rule.
#[derive(Debug)]
pub(super) struct ClassQueues {
    pub(super) all: Vec<ClassQueue>,
    pub(super) policy: Policy,
    /// For each source, the number of bytes that it has sent. The source with the smallest number goes next.
    /// Sources are numbered with the queues of all classes first, then their streams.
    pub(super) sent: Vec<u64>,
    /// The source that goes next among those with equal numbers.
    pub(super) turn: usize,
}

/// Source of the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A retransmission.
    Repair,
    /// Packets of a class that were set aside to wait until a path with a larger MTU opens.
    Aside(usize),
    /// The queue of a class.
    Queue(usize),
    /// The streams of a class.
    Streams(usize),
}

/// The sources whose first packet is waiting for a path.
#[derive(Debug, Default)]
pub(super) struct Waiting(u64);

impl Waiting {
    fn bit(source: Source) -> u64 {
        1 << match source {
            Source::Repair => 0,
            Source::Aside(class) => 1 + 3 * class,
            Source::Queue(class) => 2 + 3 * class,
            Source::Streams(class) => 3 + 3 * class,
        }
    }

    pub(super) fn add(&mut self, source: Source) {
        self.0 |= Waiting::bit(source);
    }

    pub(super) fn has(&self, source: Source) -> bool {
        self.0 & Waiting::bit(source) != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl ClassQueues {
    pub(super) fn new(cfg: &SessionConfig) -> ClassQueues {
        let mut policy = cfg.policy.clone();
        policy.0.truncate(MAX_RULES);
        let class = |kind: SchedulerKind| ClassQueue {
            queue: SendQueue::new(cfg.queue),
            scheduler: kind.scheduler(),
            stream_scheduler: kind.scheduler(),
            block: Block::default(),
            stats: RuleStats::default(),
        };
        let kinds = policy.0.iter().map(|rule| rule.scheduler.unwrap_or(cfg.scheduler));
        let all: Vec<_> = core::iter::once(cfg.scheduler).chain(kinds).map(class).collect();
        let sent = alloc::vec![0; 2 * all.len()];
        ClassQueues { all, policy, sent, turn: 0 }
    }

    /// Records that a source sent bytes. Sources that have sent less had nothing to send or no path. They do
    /// not catch up later.
    pub(super) fn on_sent(&mut self, source: usize, bytes: usize) {
        let least = self.sent[source];
        self.sent.iter_mut().for_each(|sent| *sent = least.max(*sent));
        self.sent[source] += bytes as u64;
        self.turn = source + 1;
    }

    pub(super) fn rule(&self, class: usize) -> Option<&Rule> {
        self.policy.0.get(class.checked_sub(1)?)
    }

    /// Returns the class of a packet: the one that the caller set, or else that of the first matching rule.
    pub(super) fn class_for(&self, info: &PktInfo, data: &[u8]) -> usize {
        match usize::from(info.class) {
            given if (1..self.all.len()).contains(&given) => given,
            _ => self.policy.rule_for(info, data).map_or(0, |rule| rule + 1),
        }
    }

    /// Adds a packet to its class, or drops it if its rule says so.
    pub(super) fn push(&mut self, now: Time, data: Vec<u8>, info: PktInfo) {
        let class = self.class_for(&info, &data);
        let rule = class.checked_sub(1);
        let ClassQueue { queue, stats, .. } = &mut self.all[class];
        stats.packets += 1;
        stats.bytes += data.len() as u64;
        match rule.is_some_and(|rule| self.policy.0[rule].drop) {
            true => stats.dropped += 1,
            false => queue.push(now, data, PktInfo { class: class as u8, ..info }),
        }
    }

    /// Drops everything and returns the number of packets.
    pub(super) fn clear(&mut self) -> u64 {
        self.all.iter_mut().map(|class| class.queue.clear()).sum()
    }

    /// Drops expired packets.
    pub(super) fn expire(&mut self, now: Time) {
        for class in &mut self.all {
            class.queue.head(now);
        }
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.all.iter().filter_map(|class| class.queue.next_expiry()).min()
    }

    /// Returns the total backlog.
    pub(super) fn view(&self, now: Time) -> QueueView {
        let views = self.all.iter().map(|class| class.queue.view(now));
        views.fold(QueueView::default(), |sum, view| QueueView {
            packets: sum.packets + view.packets,
            bytes: sum.bytes + view.bytes,
            oldest: sum.oldest.max(view.oldest),
            flow_bytes: sum.flow_bytes.max(view.flow_bytes),
            streams: false,
        })
    }

    pub(super) fn stats(&self) -> QueueStats {
        self.all.iter().fold(QueueStats::default(), |sum, class| sum.plus(&class.queue.stats()))
    }

    /// Counters of each rule.
    pub(super) fn rules(&self) -> Vec<(String, RuleStats)> {
        let rules = self.policy.0.iter().zip(&self.all[1..]);
        rules.map(|(rule, class)| (rule.name.clone(), class.stats)).collect()
    }
}
