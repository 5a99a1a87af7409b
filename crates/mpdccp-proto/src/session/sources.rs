//! Where the next packet to send comes from: a repair, a class queue, or the streams.

use super::Session;
use super::class_queues::{ClassQueues, Source, Waiting};
use crate::PktInfo;
use crate::policy::Policy;
use crate::queue::{QueueStats, Queued};
use crate::sched::SchedulerKind;
use mpdccp_units::Time;

impl Session {
    /// Returns the class of a packet that is waiting to be sent.
    pub(super) fn class_of(&self, info: &PktInfo) -> usize {
        // The packet may be a retransmission whose rule no longer exists.
        Some(usize::from(info.class)).filter(|class| *class < self.classes.all.len()).unwrap_or(0)
    }

    /// Returns the next source that is not in `waiting`: first repairs, then the queues and streams, which
    /// share by bytes. If they took turns by packets, sources of small packets would get little.
    pub(super) fn next_source(&mut self, now: Time, waiting: &Waiting) -> Option<(Source, PktInfo)> {
        if !waiting.has(Source::Repair)
            && let Some(copy) = self.repair.head(now)
        {
            return Some((Source::Repair, copy.packet.info));
        }
        let (sources, turn) = (self.classes.sent.len(), self.classes.turn);
        let mut next: Option<(u64, (Source, PktInfo))> = None;
        for n in (0..sources).map(|n| (turn + n) % sources) {
            let Some(head) = self.head_of(now, n, waiting) else { continue };
            let sent = self.classes.sent[n];
            if next.is_none_or(|(least, _)| sent < least) {
                next = Some((sent, head));
            }
        }
        next.map(|(_, head)| head)
    }

    /// Returns the first packet of source number `n`.
    fn head_of(&mut self, now: Time, n: usize, waiting: &Waiting) -> Option<(Source, PktInfo)> {
        if let Some(class) = n.checked_sub(self.classes.all.len()) {
            return self.stream_head(now, class).filter(|(source, _)| !waiting.has(*source));
        }
        let queue = &mut self.classes.all[n].queue;
        if !waiting.has(Source::Aside(n))
            && let Some(head) = queue.aside_head(now)
        {
            return Some((Source::Aside(n), head.info));
        }
        if waiting.has(Source::Queue(n)) {
            return None;
        }
        queue.head(now).map(|head| (Source::Queue(n), head.info))
    }

    /// Removes and returns the packet that [`next_source`](Self::next_source) showed.
    pub(super) fn take(&mut self, source: Source) -> Option<Queued> {
        match source {
            Source::Streams(_) => None,
            Source::Repair => self.repair.pop().map(|copy| copy.packet),
            Source::Aside(l) | Source::Queue(l) => {
                let queue = &mut self.classes.all[l].queue;
                let packet = if source == Source::Queue(l) { queue.pop() } else { queue.pop_aside() };
                self.classes.on_sent(l, packet.as_ref().map_or(0, |packet| packet.data.len()));
                packet
            }
        }
    }

    /// Drops a packet that no path can carry.
    pub(super) fn drop_too_big(&mut self, source: Source) {
        match source {
            // Stream packets are sized to fit the path.
            Source::Streams(_) => {}
            Source::Repair => drop(self.repair.pop()),
            Source::Aside(l) => self.classes.all[l].queue.drop_aside_too_big(),
            Source::Queue(l) => self.classes.all[l].queue.drop_too_big(),
        }
    }

    /// Changes the session's scheduler.
    pub(crate) fn set_scheduler(&mut self, kind: SchedulerKind) {
        self.cfg.scheduler = kind;
        for class in 0..self.classes.all.len() {
            if self.classes.rule(class).is_none_or(|rule| rule.scheduler.is_none()) {
                self.classes.all[class].scheduler = kind.scheduler();
                self.classes.all[class].stream_scheduler = kind.scheduler();
            }
        }
    }

    /// Changes the policy rules, including for packets that are already waiting. Streams match no rule until
    /// their owner classifies them again.
    pub(crate) fn set_policy(&mut self, now: Time, policy: &Policy) {
        if self.cfg.policy == *policy {
            return;
        }
        self.cfg.policy = policy.clone();
        if let Some(carried) = &mut self.streams {
            carried.streams.declassify();
        }
        let mut old = core::mem::replace(&mut self.classes, ClassQueues::new(&self.cfg));
        let stats = old.stats();
        while let Some(Queued { info, data, .. }) = old.all.iter_mut().find_map(|class| class.queue.pop_any())
        {
            self.classes.push(now, data, PktInfo { class: 0, ..info });
        }
        let moved = self.classes.stats();
        self.classes.all.iter_mut().for_each(|class| class.queue.set_stats(QueueStats::default()));
        // The moved packets were accepted before. Those that no longer fit were dropped.
        let stats = QueueStats { accepted: stats.accepted, ..stats.plus(&moved) };
        self.classes.all[0].queue.set_stats(stats);
    }
}
