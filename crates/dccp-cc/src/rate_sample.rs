use crate::Amount;
use mpdccp_units::{Duration, Rate, Time};

/// Delivery state recorded for a packet when it is sent
/// (draft-cheng-iccrg-delivery-rate-estimation section 3.2).
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Amount delivered when the packet was sent.
    pub delivered: Amount,
    /// Time at which the delivered amount last increased.
    pub delivered_at: Time,
    /// Send time of the packet that began the current send interval.
    pub first_sent_at: Time,
    /// Time at which this packet was sent.
    pub sent_at: Time,
    /// Whether the sender was application-limited when this packet was sent.
    pub app_limited: bool,
    /// Amount outstanding when the packet was sent, including this packet.
    pub inflight: Amount,
    /// Amount lost on the connection until the packet was sent.
    pub lost: Amount,
}

/// Delivery-rate sample of one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Amount delivered over the interval, divided by the interval.
    pub rate: Rate,
    /// The rate in packets per second.
    pub packets_per_sec: f64,
    /// Amount delivered over the interval.
    pub delivered: Amount,
    /// Amount lost over the interval.
    pub lost: Amount,
    /// The longer of `send_interval` and `ack_interval`.
    pub interval: Duration,
    /// Time that the sender took to send the delivered amount.
    pub send_interval: Duration,
    /// Time that the receiver took to acknowledge the delivered amount.
    pub ack_interval: Duration,
    /// Total delivered when the newest acknowledged packet was sent.
    pub prior_delivered: Amount,
    /// Amount outstanding when the newest acknowledged packet was sent.
    pub prior_inflight: Amount,
    /// Time at which the newest acknowledged packet was sent.
    pub sent_at: Time,
    /// Whether the sender was application-limited when it sent the newest acknowledged packet.
    pub app_limited: bool,
    /// Sum of the ages of the newly acknowledged packets, and number of these packets.
    pub ages: (Duration, u32),
}

/// Delivery-rate estimator of one connection (draft-cheng-iccrg-delivery-rate-estimation).
///
/// For each packet sent, call [`on_sent`](Self::on_sent) and keep the snapshot. For each acknowledgement,
/// call [`on_acked`](Self::on_acked) for every newly received packet, then [`sample`](Self::sample) once.
#[derive(Clone, Debug, Default)]
pub struct RateSampler {
    delivered: Amount,
    delivered_at: Time,
    first_sent_at: Time,
    /// Time at which both intervals last began anew.
    began_at: Time,
    lost: Amount,
    /// Packets sent until this many packets have been delivered are marked application-limited. 0 means no
    /// marking.
    app_limited_until: u64,
    /// Snapshot of the newest packet in the current acknowledgement.
    newest: Option<Snapshot>,
    /// Sum of the ages of the packets in the current acknowledgement, and number of these packets.
    ages: (Duration, u32),
}

impl RateSampler {
    /// A packet of `bytes` is sent. `inflight` is the amount outstanding before this packet.
    pub fn on_sent(&mut self, now: Time, bytes: u32, inflight: Amount) -> Snapshot {
        // Section 3.2: after idle time, both intervals start with this packet.
        if inflight.packets == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
            self.began_at = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            sent_at: now,
            app_limited: self.app_limited(),
            inflight: inflight.plus(bytes),
            lost: self.lost,
        }
    }

    /// The packet with this snapshot and size was reported received.
    pub fn on_acked(&mut self, now: Time, snapshot: &Snapshot, bytes: u32) {
        // After a spurious timeout, packets from before the intervals began can still arrive. They are not
        // part of these intervals.
        if snapshot.sent_at < self.began_at {
            return;
        }
        self.delivered = self.delivered.plus(bytes);
        self.delivered_at = self.delivered_at.max(now);
        self.ages = (self.ages.0.saturating_add(now.since(snapshot.sent_at)), self.ages.1 + 1);
        // Section 3.3: the most recently sent packet of the acknowledgement gives the sample.
        let key = |s: &Snapshot| (s.sent_at, s.delivered.packets);
        if self.newest.as_ref().is_none_or(|n| key(snapshot) >= key(n)) {
            self.newest = Some(*snapshot);
        }
    }

    /// A packet of `bytes` was declared lost.
    pub fn on_lost(&mut self, bytes: u32) {
        self.lost = self.lost.plus(bytes);
    }

    /// The sender has nothing more to send, and neither window nor pacing has limited it within the last
    /// round.
    pub fn set_app_limited(&mut self, inflight: Amount) {
        self.app_limited_until = self.delivered.packets.saturating_add(inflight.packets).max(1);
    }

    /// Returns the total delivered so far.
    pub fn delivered(&self) -> Amount {
        self.delivered
    }

    /// Returns the total declared lost so far.
    pub fn lost(&self) -> Amount {
        self.lost
    }

    /// Returns whether packets sent now are marked application-limited.
    pub fn app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// Ends one acknowledgement and returns its sample. Returns `None` if nothing new was delivered or the
    /// interval is shorter than `min_rtt`.
    pub fn sample(&mut self, min_rtt: Option<Duration>) -> Option<RateSample> {
        // Section 3.4: the application-limited period ends when everything that was in flight at its start
        // has been delivered.
        if self.app_limited_until != 0 && self.delivered.packets > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let newest = self.newest.take()?;
        let ages = core::mem::take(&mut self.ages);
        // The next send interval starts where this one ends. If an older packet arrives late, it does not
        // move this start back.
        self.first_sent_at = self.first_sent_at.max(newest.sent_at);
        let send_interval = newest.sent_at.since(newest.first_sent_at);
        let ack_interval = self.delivered_at.since(newest.delivered_at);
        let interval = send_interval.max(ack_interval);
        // Section 3.3: delivery takes at least a round trip, so a shorter interval is a measurement error.
        if interval.is_zero() || min_rtt.is_some_and(|m| interval < m) {
            return None;
        }
        let delivered = self.delivered.minus(newest.delivered);
        Some(RateSample {
            rate: Rate::from_bytes_per(delivered.bytes, interval),
            packets_per_sec: delivered.packets as f64 / interval.as_secs_f64(),
            delivered,
            lost: self.lost.minus(newest.lost),
            interval,
            send_interval,
            ack_interval,
            prior_delivered: newest.delivered,
            prior_inflight: newest.inflight,
            sent_at: newest.sent_at,
            app_limited: newest.app_limited,
            ages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn packets(n: u64) -> Amount {
        Amount { packets: n, bytes: n * 1000 }
    }

    /// Sends `n` packets, the first at `start` ms and the others `gap` ms apart.
    fn send(s: &mut RateSampler, start: u64, gap: u64, n: u64) -> Vec<Snapshot> {
        (0..n).map(|i| s.on_sent(ms(start + i * gap), 1000, packets(i))).collect()
    }

    #[test]
    fn late_packets_from_before_a_timeout_do_not_raise_the_rate() {
        let mut s = RateSampler::default();
        let old = send(&mut s, 0, 10, 10);
        // All ten count as lost, so nothing is in flight. The next packet begins new intervals.
        old.iter().for_each(|_| s.on_lost(1000));
        let new = s.on_sent(ms(1_000), 1000, Amount::default());
        for (i, p) in old.iter().enumerate() {
            s.on_acked(ms(1_010 + i as u64), p, 1000);
            assert!(s.sample(None).is_none());
        }
        s.on_acked(ms(1_100), &new, 1000);
        assert_eq!(s.sample(None).unwrap().delivered.packets, 1);
    }

    #[test]
    fn the_slower_of_sending_and_acknowledging_counts() {
        let mut s = RateSampler::default();
        let sent = send(&mut s, 0, 1, 10);
        for (i, p) in sent.iter().enumerate() {
            s.on_acked(ms(20 + 2 * i as u64), p, 1000);
            let got = s.sample(Some(Duration::from_millis(20))).unwrap();
            assert_eq!(got.delivered.packets, i as u64 + 1);
            assert_eq!(got.send_interval, Duration::from_millis(i as u64));
            assert_eq!(got.ack_interval, Duration::from_millis(20 + 2 * i as u64));
            assert_eq!(got.interval, got.ack_interval);
            assert_eq!(got.rate, Rate::from_bytes_per(got.delivered.bytes, got.interval));
        }
        // In the steady state, one packet arrives every 2 ms. A packet sent when 5 packets had been delivered
        // is acknowledged after 10 more have been delivered.
        assert_eq!(s.delivered(), packets(10));
    }

    #[test]
    fn compressed_acknowledgements_do_not_raise_the_rate() {
        let mut s = RateSampler::default();
        let sent = send(&mut s, 0, 10, 10);
        // All packets arrive at once at 110 ms. Sending the 10 packets took 90 ms, and acknowledging them
        // took 110 ms.
        for p in &sent {
            s.on_acked(ms(110), p, 1000);
        }
        let got = s.sample(Some(Duration::from_millis(20))).unwrap();
        assert_eq!((got.delivered.packets, got.interval), (10, Duration::from_millis(110)));
        assert!(s.sample(None).is_none(), "nothing new");
    }

    #[test]
    fn intervals_below_the_smallest_rtt_are_rejected() {
        let mut s = RateSampler::default();
        let sent = send(&mut s, 0, 1, 1);
        s.on_acked(ms(5), &sent[0], 1000);
        assert!(s.sample(Some(Duration::from_millis(6))).is_none());
        assert_eq!(s.delivered(), packets(1));
    }

    #[test]
    fn an_application_limited_mark_ends_when_what_it_covered_is_delivered() {
        let mut s = RateSampler::default();
        let first = send(&mut s, 0, 1, 2);
        s.set_app_limited(packets(2));
        let marked = s.on_sent(ms(5), 1000, packets(2));
        assert!(marked.app_limited && !first[0].app_limited);
        for p in first.iter().chain([&marked]) {
            s.on_acked(ms(30), p, 1000);
        }
        let got = s.sample(None).unwrap();
        assert!(got.app_limited && got.prior_delivered == Amount::default());
        assert!(!s.app_limited());
        assert!(!s.on_sent(ms(31), 1000, packets(0)).app_limited);
    }

    #[test]
    fn idleness_and_losses_are_kept_out_of_the_rate() {
        let mut s = RateSampler::default();
        let a = send(&mut s, 0, 1, 1);
        s.on_acked(ms(10), &a[0], 1000);
        s.sample(None);
        let b = send(&mut s, 5_000, 1, 2);
        s.on_lost(1000);
        s.on_acked(ms(5_011), &b[1], 1000);
        let got = s.sample(None).unwrap();
        assert_eq!((got.delivered.packets, got.lost.packets), (1, 1));
        assert_eq!(got.interval, Duration::from_millis(11));
        assert_eq!(s.lost(), packets(1));
    }
}
