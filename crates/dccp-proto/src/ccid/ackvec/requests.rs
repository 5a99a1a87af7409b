use super::ack_ratio::{AckRatio, RatioRule};
use crate::ccid::{Arrival, SenderRequest};

/// Number of acknowledged packets after which the peer is asked to trim its Ack Vector state. If the window
/// is smaller than this, the peer is asked once per window. Trimming more often would add an Ack to each
/// packet of an exchange, whereas a slightly larger state costs almost nothing.
const TRIM: u64 = 16;
/// Sequence Window as a multiple of the congestion window (RFC 4340 section 7.5.2 recommends about five).
const WINDOW_FACTOR: u64 = 5;
/// Minimum and maximum Sequence Window requested.
const MIN_WINDOW: u64 = 1 << 10;
const MAX_WINDOW: u64 = 1 << 21;
/// The Sequence Window is lowered after this many rounds in which a quarter of it was enough.
const LOW_ROUNDS: u32 = 64;
/// `reach` decays: each round subtracts `reach` divided by this number, rounded up.
const REACH_FADES: u64 = 32;

/// Requests that a sending half makes to its connection.
#[derive(Debug)]
pub(crate) struct Requests {
    ratio: AckRatio,
    ratio_asked: u16,
    window: u64,
    window_asked: u64,
    low_rounds: u32,
    /// For a packet, the number of packets sent until its acknowledgement arrived, including itself. This is
    /// the recent maximum, and it decays.
    reach: u64,
    /// Packets acknowledged since the last request to trim the peer's state.
    since_trim: u64,
    ack_peer: bool,
    probe: bool,
}

impl Requests {
    pub(crate) fn new(rule: RatioRule) -> Requests {
        Requests {
            ratio: AckRatio::new(rule),
            ratio_asked: 2,
            window: 0,
            window_asked: 0,
            low_rounds: 0,
            reach: 0,
            since_trim: 0,
            ack_peer: false,
            probe: false,
        }
    }

    /// Creates the requests for a new controller. The values requested for the old controller stay in force.
    pub(crate) fn anew(rule: RatioRule) -> Requests {
        Requests { ratio_asked: 0, ..Requests::new(rule) }
    }

    /// A packet of the peer arrived.
    pub(crate) fn on_peer_packet(&mut self, arrival: &Arrival) {
        self.ratio.on_packet(arrival);
    }

    /// A round ended with a congestion window of `cwnd` packets. Just before its end, `inflight` packets were
    /// outstanding. `paced` means that the sender paces and does not need many acknowledgements. At most
    /// one change is requested per round (RFC 4341 section 6.1.2). The peer's Ack Vector state is trimmed
    /// once per window (section 6.2).
    pub(crate) fn on_round(&mut self, cwnd: u64, inflight: u64, paced: bool) {
        self.since_trim = self.since_trim.saturating_add(inflight.max(1));
        if self.since_trim >= cwnd.min(TRIM) {
            (self.since_trim, self.ack_peer) = (0, true);
        }
        self.ratio.on_window(cwnd, paced.then_some(inflight));
        let needed = width(cwnd.max(inflight).max(self.reach));
        self.reach -= self.reach.div_ceil(REACH_FADES);
        self.low_rounds = if needed.saturating_mul(4) <= self.window { self.low_rounds + 1 } else { 0 };
        if needed > self.window {
            self.window = needed;
        } else if self.low_rounds >= LOW_ROUNDS {
            self.window = needed * 2;
            self.low_rounds = 0;
        }
    }

    /// The acknowledgement of a packet arrived after `packets` packets had been sent, including that packet.
    /// With reordering, late packets are this far behind the newest, and the Sequence Window must cover them,
    /// because the peer drops packets outside the window.
    pub(crate) fn on_reach(&mut self, packets: u64) {
        self.reach = self.reach.max(packets);
        let needed = width(packets);
        if needed > self.window.max(MIN_WINDOW) {
            self.window = needed;
        }
    }

    /// Raises the Sequence Window for `packets` packets, which may be in flight soon.
    pub(crate) fn expect(&mut self, packets: u64) {
        self.window = self.window.max(width(packets));
    }

    /// The congestion window fell abruptly to `cwnd` packets, so the Ack Ratio may now exceed the number of
    /// packets that may be sent.
    pub(crate) fn on_collapse(&mut self, cwnd: u64) {
        self.ratio.fit(cwnd);
    }

    /// Asks the peer for an acknowledgement.
    pub(crate) fn probe(&mut self) {
        self.probe = true;
    }

    /// Returns the next request.
    pub(crate) fn poll(&mut self) -> Option<SenderRequest> {
        if core::mem::take(&mut self.probe) {
            return Some(SenderRequest::Probe);
        }
        let ratio = self.ratio.wanted();
        if ratio != self.ratio_asked {
            self.ratio_asked = ratio;
            return Some(SenderRequest::AckRatio(ratio));
        }
        if self.window != self.window_asked {
            self.window_asked = self.window;
            return Some(SenderRequest::SequenceWindow(self.window));
        }
        core::mem::take(&mut self.ack_peer).then_some(SenderRequest::AckPeer)
    }
}

/// Returns the Sequence Window to request for `packets` packets per round trip.
fn width(packets: u64) -> u64 {
    packets.saturating_mul(WINDOW_FACTOR).clamp(MIN_WINDOW, MAX_WINDOW).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn drain(requests: &mut Requests) -> Vec<SenderRequest> {
        core::iter::from_fn(|| requests.poll()).collect()
    }

    #[test]
    fn sequence_window_follows_with_hysteresis() {
        let mut requests = Requests::new(RatioRule::AckCongestion);
        assert_eq!(drain(&mut requests), []);
        requests.on_round(10, 10, false);
        assert_eq!(drain(&mut requests), [SenderRequest::SequenceWindow(1024), SenderRequest::AckPeer]);
        requests.on_round(200, 200, false);
        assert_eq!(drain(&mut requests), [SenderRequest::AckPeer]);
        requests.on_round(205, 100, false);
        assert_eq!(drain(&mut requests), [SenderRequest::SequenceWindow(2048), SenderRequest::AckPeer]);
        // With small packets, more packets are in flight than the window in full packets suggests.
        requests.on_round(100, 5000, false);
        assert_eq!(drain(&mut requests), [SenderRequest::SequenceWindow(32768), SenderRequest::AckPeer]);
        for _ in 1..LOW_ROUNDS {
            requests.on_round(1638, 1638, false);
            assert_eq!(drain(&mut requests), [SenderRequest::AckPeer]);
        }
        requests.on_round(1638, 1638, false);
        assert_eq!(drain(&mut requests), [SenderRequest::SequenceWindow(16384), SenderRequest::AckPeer]);
        requests.on_round(u64::MAX, 0, false);
        assert_eq!(drain(&mut requests).first(), Some(&SenderRequest::SequenceWindow(MAX_WINDOW)));
    }

    #[test]
    fn the_peers_state_is_trimmed_once_a_window_and_not_for_every_packet() {
        for (cwnd, rounds) in [(4, 4), (10, 10), (100, 16)] {
            let mut requests = Requests::new(RatioRule::AckCongestion);
            drain(&mut requests);
            requests.on_round(cwnd, 1, false);
            requests.window_asked = requests.window;
            for _ in 2..rounds {
                requests.on_round(cwnd, 1, false);
                assert_eq!(drain(&mut requests), [], "{cwnd}");
            }
            requests.on_round(cwnd, 1, false);
            assert_eq!(drain(&mut requests), [SenderRequest::AckPeer], "{cwnd}");
        }
    }

    #[test]
    fn sequence_window_reaches_as_far_as_late_packets_come() {
        let mut requests = Requests::new(RatioRule::AckCongestion);
        requests.on_reach(150);
        assert_eq!(drain(&mut requests), []);
        requests.on_reach(300);
        assert_eq!(drain(&mut requests), [SenderRequest::SequenceWindow(2048)]);
        // A low number of packets in flight lowers the window only once the late packets are long past.
        for _ in 0..LOW_ROUNDS {
            requests.on_round(10, 10, false);
            assert_eq!(drain(&mut requests), [SenderRequest::AckPeer]);
        }
        requests.on_reach(400);
        requests.on_round(10, 10, false);
        for _ in 0..2 * LOW_ROUNDS {
            requests.on_round(10, 10, false);
            drain(&mut requests);
        }
        assert_eq!(requests.window, 2048);
    }

    #[test]
    fn ack_ratio_follows_the_window_before_it_stalls() {
        let mut requests = Requests::new(RatioRule::Window);
        requests.on_round(640, 640, false);
        assert_eq!(drain(&mut requests)[0], SenderRequest::AckRatio(10));
        // A paced sender needs less feedback, and does not request small changes.
        requests.on_round(640, 640, true);
        assert_eq!(drain(&mut requests), [SenderRequest::AckRatio(64), SenderRequest::AckPeer]);
        requests.on_round(700, 240, true);
        assert_eq!(drain(&mut requests), [SenderRequest::AckPeer]);
        requests.on_collapse(4);
        assert_eq!(drain(&mut requests), [SenderRequest::AckRatio(2)]);
        requests.on_collapse(1);
        assert_eq!(drain(&mut requests), [SenderRequest::AckRatio(1)]);
    }
}
