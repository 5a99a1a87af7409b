use crate::Amount;
use units::{Duration, Rate, Time};

/// Delivery state stamped on a packet when it leaves (draft-cheng-iccrg-delivery-rate-estimation section 3.2).
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Delivered when the packet was sent.
    pub delivered: Amount,
    /// When that count was last raised.
    pub delivered_at: Time,
    /// Send time of the packet that began the current send interval.
    pub first_sent_at: Time,
    /// When this packet was sent.
    pub sent_at: Time,
    /// The sender was application-limited then.
    pub app_limited: bool,
    /// Outstanding when it left, itself included.
    pub inflight: Amount,
    /// Lost so far when it left.
    pub lost: Amount,
}

/// What one acknowledgement says about the delivery rate.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Delivered over the interval divided by it.
    pub rate: Rate,
    /// The same in packets per second.
    pub packets_per_sec: f64,
    /// Delivered over the interval.
    pub delivered: Amount,
    /// Lost over the interval.
    pub lost: Amount,
    /// The longer of the send and the acknowledgement interval.
    pub interval: Duration,
    /// Total delivered when the newest acknowledged packet was sent.
    pub prior_delivered: Amount,
    /// Outstanding when that packet was sent.
    pub prior_inflight: Amount,
    /// When that packet was sent.
    pub sent_at: Time,
    /// That packet was sent while application-limited.
    pub app_limited: bool,
}

/// Delivery-rate estimator of one connection.
///
/// For each packet sent call [`on_sent`](Self::on_sent) and keep the snapshot; for each acknowledgement call
/// [`on_acked`](Self::on_acked) for every newly received packet, then [`sample`](Self::sample) once.
#[derive(Clone, Debug, Default)]
pub struct RateSampler {
    // Filled in by the implementation.
}

impl RateSampler {
    /// A packet of `bytes` leaves; `inflight` is what is outstanding before it.
    pub fn on_sent(&mut self, now: Time, bytes: u32, inflight: Amount) -> Snapshot {
        let _ = (now, bytes, inflight);
        todo!()
    }

    /// The packet with this snapshot and size was reported received.
    pub fn on_acked(&mut self, now: Time, snapshot: &Snapshot, bytes: u32) {
        let _ = (now, snapshot, bytes);
        todo!()
    }

    /// A packet of `bytes` was declared lost.
    pub fn on_lost(&mut self, bytes: u32) {
        let _ = bytes;
        todo!()
    }

    /// The sender has no more to send and was not limited by window or pacing within the last round.
    pub fn set_app_limited(&mut self, inflight: Amount) {
        let _ = inflight;
        todo!()
    }

    /// Total delivered so far.
    pub fn delivered(&self) -> Amount {
        todo!()
    }

    /// Whether packets leaving now are marked application-limited.
    pub fn app_limited(&self) -> bool {
        todo!()
    }

    /// Closes one acknowledgement: `None` if nothing new was delivered or the interval is shorter than `min_rtt`.
    pub fn sample(&mut self, min_rtt: Option<Duration>) -> Option<RateSample> {
        let _ = min_rtt;
        todo!()
    }
}
