use super::rto::DEFAULT_RTT;
use dccp_cc::{Limits, Window};
use mpdccp_units::{Duration, Rate, Time};

/// Limits that the peer requests, which apply to any congestion control. For one round trip, the sender must
/// not exceed its current rate (Slow Receiver, RFC 4340 section 11.6). It must also slow down by one packet
/// per round trip for each packet that the peer's buffer dropped (Drop Code 2, section 11.7.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restraint {
    until: Time,
    cwnd: Window,
    pacing: Option<Rate>,
}

impl Restraint {
    /// Records a request that arrived at `now`, when the limits `limits` were in force.
    pub(crate) fn new(now: Time, limits: &Limits, drops: u64, mtu: u16, rtt: Option<Duration>) -> Restraint {
        let rtt = rtt.unwrap_or(DEFAULT_RTT).max(Duration::from_micros(1));
        let (mtu, least) = (u64::from(mtu), 1);
        let cwnd = match limits.cwnd {
            Window::Packets(w) => Window::Packets(w.saturating_sub(drops).max(least)),
            Window::Bytes(w) => Window::Bytes(w.saturating_sub(drops.saturating_mul(mtu)).max(mtu)),
        };
        let in_a_round = |packets: u64| (packets.saturating_mul(mtu) as f64 * 8.0 / rtt.as_secs_f64()) as u64;
        let pacing = limits.pacing.map(|rate| {
            Rate::from_bps(
                rate.bps().saturating_sub(in_a_round(drops)).max(in_a_round(least)).min(rate.bps()),
            )
        });
        Restraint { until: now + rtt, cwnd, pacing }
    }

    /// Applies the restraint to `limits`.
    pub(crate) fn apply(&self, now: Time, limits: Limits) -> Limits {
        if now >= self.until {
            return limits;
        }
        let cwnd = match (limits.cwnd, self.cwnd) {
            (Window::Packets(a), Window::Packets(b)) => Window::Packets(a.min(b)),
            (Window::Bytes(a), Window::Bytes(b)) => Window::Bytes(a.min(b)),
            (cwnd, _) => cwnd,
        };
        let pacing = match (limits.pacing, self.pacing) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (pacing, _) => pacing,
        };
        Limits { cwnd, pacing, ..limits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_for_a_round_trip_and_takes_off_what_was_dropped() {
        let rtt = Some(Duration::from_millis(12));
        let limits =
            Limits { cwnd: Window::Bytes(30_000), pacing: Some(Rate::from_mbps(20.0)), quantum: 1500 };
        let faster =
            Limits { cwnd: Window::Bytes(60_000), pacing: Some(Rate::from_mbps(40.0)), quantum: 1500 };
        let held = Restraint::new(Time::ZERO, &limits, 0, 1500, rtt);
        assert_eq!(held.apply(Time::from_millis(11), faster), limits);
        assert_eq!(held.apply(Time::from_millis(12), faster), faster);
        // 1500 bytes in 12 ms is 1 Mbit/s.
        let slower = Restraint::new(Time::ZERO, &limits, 3, 1500, rtt).apply(Time::ZERO, faster);
        assert_eq!((slower.cwnd, slower.pacing), (Window::Bytes(25_500), Some(Rate::from_mbps(17.0))));
        let least = Restraint::new(Time::ZERO, &limits, 1000, 1500, rtt).apply(Time::ZERO, faster);
        assert_eq!((least.cwnd, least.pacing), (Window::Bytes(1500), Some(Rate::from_mbps(1.0))));
    }
}
