use crate::{Fifo, Item, Ledger, Reason, mark};
use mpdccp_units::{Duration, Time};

/// Controlled delay (RFC 8289). Once sojourn times have exceeded `target` for an `interval`, packets are
/// dropped at the head, with growing frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelConfig {
    /// Acceptable standing delay.
    pub target: Duration,
    /// Roughly the longest round-trip time among the flows.
    pub interval: Duration,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for CoDelConfig {
    /// Returns a target of 5 ms and an interval of 100 ms (RFC 8289 section 4.4), without ECN.
    fn default() -> CoDelConfig {
        CoDelConfig { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
    }
}

/// State of one controlled queue. The names in parentheses are the corresponding ones in
/// RFC 8289 section 5.3.
#[derive(Clone, Debug, Default)]
pub struct CoDel {
    config: CoDelConfig,
    /// Time at which the delay will have been above the target for a full interval (first_above_time_).
    above_until: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Number of drops since dropping began (count_).
    count: u32,
    /// Value of `count` when dropping last began (lastcount_).
    last_count: u32,
    /// Size of the largest packet seen (maxpacket_).
    max_packet: u32,
}

impl CoDel {
    /// Creates a controller.
    pub fn new(config: CoDelConfig) -> CoDel {
        CoDel { config, ..CoDel::default() }
    }

    /// Changes the settings of a running controller.
    pub fn set(&mut self, config: CoDelConfig) {
        self.config = config;
    }

    /// Returns the next packet of `fifo` to send.
    pub fn dequeue<P>(&mut self, now: Time, fifo: &mut Fifo<P>, ledger: &mut impl Ledger) -> Option<Item<P>> {
        let (mut item, mut too_late) = self.take(now, fifo)?;
        if self.dropping {
            if !too_late {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if self.marked(&mut item, ledger) {
                    self.drop_next = self.after(self.drop_next);
                    return Some(item);
                }
                ledger.dropped(Reason::Early, item.meta.bytes);
                let Some(next) = self.take(now, fifo) else {
                    self.dropping = false;
                    return None;
                };
                (item, too_late) = next;
                self.dropping = too_late;
                if self.dropping {
                    self.drop_next = self.after(self.drop_next);
                }
            }
        } else if too_late {
            self.begin_dropping(now);
            if !self.marked(&mut item, ledger) {
                ledger.dropped(Reason::Early, item.meta.bytes);
                item = self.take(now, fifo)?.0;
            }
        }
        Some(item)
    }

    /// Removes a packet. Also returns whether the delay has been above the target for a full interval.
    fn take<P>(&mut self, now: Time, fifo: &mut Fifo<P>) -> Option<(Item<P>, bool)> {
        let Some(item) = fifo.pop() else {
            self.above_until = None;
            return None;
        };
        self.max_packet = self.max_packet.max(item.meta.bytes);
        // If at most one packet is left, the delay comes from the link and not from the queue
        // (RFC 8289 section 5.4).
        let fine = now.since(item.arrived) < self.config.target || fifo.len().bytes <= self.max_packet.into();
        let too_late = match self.above_until {
            _ if fine => {
                self.above_until = None;
                false
            }
            None => {
                self.above_until = Some(now + self.config.interval);
                false
            }
            Some(until) => now >= until,
        };
        Some((item, too_late))
    }

    /// If dropping ended only recently, it resumes near its previous frequency (RFC 8289 section 5.5).
    fn begin_dropping(&mut self, now: Time) {
        let gained = self.count - self.last_count;
        let lately = now.since(self.drop_next) < self.config.interval.saturating_mul(16);
        self.count = if gained > 1 && lately { gained } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.after(now);
        self.dropping = true;
    }

    /// Returns when the next drop is due after a drop at `time` (control_law).
    fn after(&self, time: Time) -> Time {
        let ns = self.config.interval.as_nanos() as f64 / libm::sqrt(self.count.into());
        time + Duration::from_nanos(ns as u64)
    }

    fn marked<P>(&self, item: &mut Item<P>, ledger: &mut impl Ledger) -> bool {
        self.config.ecn && mark(&mut item.meta, ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meta;
    use crate::tests::Counts;
    use alloc::vec::Vec;
    use mpdccp_units::Ecn;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    struct Rig {
        codel: CoDel,
        fifo: Fifo<()>,
        stats: Counts,
        ecn: Ecn,
    }

    impl Rig {
        fn new(config: CoDelConfig, ecn: Ecn) -> Rig {
            Rig { codel: CoDel::new(config), fifo: Fifo::default(), stats: Counts::default(), ecn }
        }

        /// Sends one packet per millisecond from `from` to `to`, each with a sojourn time of `waited`.
        /// Returns the times of drops or marks, in ms.
        fn run(&mut self, from: u64, to: u64, waited: Duration) -> Vec<u64> {
            let mut signals = Vec::new();
            for now in from..to {
                // Refill the queue each time, so that it stays long and every packet has the same delay.
                self.fifo = Fifo::default();
                for _ in 0..20 {
                    let meta = Meta { bytes: 1_000, ecn: self.ecn, flow: 0 };
                    self.fifo.push(Item { arrived: ms(now) - waited, meta, packet: () });
                }
                let before = self.stats.early + self.stats.marked;
                assert!(self.codel.dequeue(ms(now), &mut self.fifo, &mut self.stats).is_some());
                let new = self.stats.early + self.stats.marked - before;
                signals.extend((0..new).map(|_| now));
            }
            signals
        }
    }

    const LATE: Duration = Duration::from_millis(20);

    #[test]
    fn drops_follow_the_control_law() {
        let mut rig = Rig::new(CoDelConfig::default(), Ecn::NotEct);
        // The first drop comes after one interval. After that, the n-th gap between drops is interval /
        // sqrt(n): 100, 70.7, 57.7, 50, 44.7, 40.8 ms.
        assert_eq!(rig.run(1_000, 1_480, LATE), [1_100, 1_200, 1_271, 1_329, 1_379, 1_424, 1_464]);
    }

    #[test]
    fn short_delays_are_left_alone() {
        let mut rig = Rig::new(CoDelConfig::default(), Ecn::NotEct);
        assert_eq!(rig.run(1_000, 3_000, Duration::from_nanos(4_999_999)), []);
        // One packet with a low delay in every interval is enough to prevent drops.
        for start in (3_000..5_000).step_by(100) {
            assert_eq!(rig.run(start, start + 99, LATE), []);
            rig.run(start + 99, start + 100, Duration::ZERO);
        }
        assert_eq!(rig.stats.early, 0);
    }

    #[test]
    fn a_single_packet_is_never_dropped() {
        let mut rig = Rig::new(CoDelConfig::default(), Ecn::NotEct);
        for now in 1_000..2_000 {
            let meta = Meta { bytes: 1_000, ..Meta::default() };
            rig.fifo.push(Item { arrived: ms(now) - LATE, meta, packet: () });
            rig.fifo.push(Item { arrived: ms(now) - LATE, meta, packet: () });
            assert!(rig.codel.dequeue(ms(now), &mut rig.fifo, &mut rig.stats).is_some());
            rig.fifo.pop();
        }
        assert_eq!(rig.stats.early, 0);
    }

    #[test]
    fn resumes_near_the_old_frequency() {
        let mut rig = Rig::new(CoDelConfig::default(), Ecn::NotEct);
        assert_eq!(rig.run(1_000, 2_000, LATE).len(), 27);
        rig.run(2_000, 2_001, Duration::ZERO);
        // The count has grown from 1 to 27, so dropping resumes at 26. The second drop comes 100 / sqrt(26)
        // ms after the first.
        assert_eq!(rig.run(2_001, 2_145, LATE), [2_101, 2_121, 2_140]);
        // Much later, the count starts from one again.
        rig.run(2_145, 2_146, Duration::ZERO);
        assert_eq!(rig.run(9_000, 9_210, LATE), [9_100, 9_200]);
    }

    /// A drop that ends the dropping does not prolong the time in which dropping resumes near its previous
    /// frequency (RFC 8289 section 5.5).
    #[test]
    fn the_last_drop_schedules_no_other() {
        let mut rig = Rig::new(CoDelConfig::default(), Ecn::NotEct);
        assert_eq!(rig.run(1_000, 1_379, LATE), [1_100, 1_200, 1_271, 1_329]);
        // A drop has been due since 1,378.6 ms. The packet behind the dropped one has a low delay.
        rig.fifo = Fifo::default();
        for arrived in [1_300, 1_379, 1_379, 1_379] {
            let meta = Meta { bytes: 1_000, ..Meta::default() };
            rig.fifo.push(Item { arrived: ms(arrived), meta, packet: () });
        }
        assert!(rig.codel.dequeue(ms(1_379), &mut rig.fifo, &mut rig.stats).is_some());
        assert_eq!(rig.stats.early, 5);
        // At 3,000 ms, more than 16 intervals have passed since that drop was due.
        assert_eq!(rig.run(2_900, 3_110, LATE), [3_000, 3_100]);
    }

    #[test]
    fn stops_at_the_first_good_packet_however_many_drops_are_due() {
        let mut rig = Rig::new(CoDelConfig::default(), Ecn::NotEct);
        assert_eq!(rig.run(1_000, 1_150, LATE), [1_100]);
        // At 1,400 ms, the drops that were due at 1,200, 1,271, 1,329 and 1,379 ms are overdue.
        rig.fifo = Fifo::default();
        for arrived in [1_300, 1_310, 1_399, 1_399, 1_399, 1_399] {
            let meta = Meta { bytes: 1_000, ..Meta::default() };
            rig.fifo.push(Item { arrived: ms(arrived), meta, packet: () });
        }
        let out = rig.codel.dequeue(ms(1_400), &mut rig.fifo, &mut rig.stats);
        assert_eq!(out.map(|item| item.arrived), Some(ms(1_399)));
        assert_eq!(rig.stats.early, 1 + 2);
    }

    #[test]
    fn marks_what_can_be_marked() {
        let config = CoDelConfig { ecn: true, ..CoDelConfig::default() };
        let mut rig = Rig::new(config, Ecn::Ect0);
        assert_eq!(rig.run(1_000, 1_340, LATE), [1_100, 1_200, 1_271, 1_329]);
        assert_eq!((rig.stats.marked, rig.stats.early), (4, 0));
        let mut rig = Rig::new(config, Ecn::NotEct);
        rig.run(1_000, 1_340, LATE);
        assert_eq!((rig.stats.marked, rig.stats.early), (0, 4));
    }
}
