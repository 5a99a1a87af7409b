use mpdccp_units::{Duration, Rate, Time};

/// Burst allowed after a pause, as the time that it takes at this rate.
const CREDIT: Duration = Duration::from_millis(2);

/// A rate limit set by the owner; initially there is none. A packet may be sent once the time that the
/// earlier packets take at this rate has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cap {
    rate: Option<Rate>,
    /// Time at which the packets sent so far would all have left at exactly the rate.
    paid: Time,
}

impl Cap {
    pub(crate) fn set(&mut self, rate: Option<Rate>) {
        let rate = rate.filter(|rate| *rate > Rate::ZERO);
        if core::mem::replace(&mut self.rate, rate) != rate {
            // At a very low rate, a single packet takes minutes. A new rate must not wait for that.
            self.paid = Time::ZERO;
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.rate.is_some()
    }

    /// Returns the time until which no packet may be sent, or `None` if one may be sent now.
    pub(crate) fn shut(&self, now: Time) -> Option<Time> {
        self.rate.map(|_| self.paid).filter(|paid| *paid > now)
    }

    /// Charges `bytes` that were sent: bytes of IP packets on a path, or bytes of datagrams in a session.
    pub(crate) fn on_sent(&mut self, now: Time, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let credit = Time::from_nanos(now.as_nanos().saturating_sub(CREDIT.as_nanos() as u64));
        self.paid = self.paid.max(credit) + rate.time_for(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_leaves_than_the_rate_and_a_little_at_first() {
        let mut cap = Cap::default();
        let mut now = Time::from_millis(1_000);
        cap.on_sent(now, 1 << 30);
        assert_eq!(cap.shut(now), None, "without a limit, packets may be sent");
        cap.set(Some(Rate::from_bps(8_000_000)));
        // At this rate, 1,000 bytes take a millisecond. Three packets may be sent at once, and then one per
        // millisecond.
        for _ in 0..3 {
            assert_eq!(cap.shut(now), None);
            cap.on_sent(now, 1_000);
        }
        let mut sent = 0u64;
        while now < Time::from_millis(2_000) {
            match cap.shut(now) {
                Some(at) => now = at,
                None => {
                    cap.on_sent(now, 1_000);
                    sent += 1;
                }
            }
        }
        assert_eq!(sent, 999);
        cap.set(Some(Rate::ZERO));
        assert_eq!(cap.shut(now), None);
    }

    #[test]
    fn a_new_rate_does_not_wait_for_what_was_sent_at_the_old_one() {
        let (mut cap, now) = (Cap::default(), Time::from_millis(1_000));
        let [slow, fast] = [10, 10_000_000].map(|bps| Some(Rate::from_bps(bps)));
        cap.set(slow);
        cap.on_sent(now, 1_000);
        cap.set(slow);
        let paid = now + (Duration::from_secs(800) - CREDIT);
        assert_eq!(cap.shut(now), Some(paid), "the same rate changes nothing");
        cap.set(fast);
        assert_eq!(cap.shut(now), None);
    }
}
