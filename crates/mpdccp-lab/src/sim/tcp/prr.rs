//! Implements proportional rate reduction during recovery (RFC 6937, updated by RFC 9937 and Linux).

/// State of one recovery, in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// Window before the recovery (RecoverFS), and the recovery's target window (ssthresh).
    prior: u64,
    target: u64,
    delivered: u64,
    out: u64,
    window: u64,
}

impl Prr {
    /// Starts a recovery that reduces the window from `prior` to `target`.
    pub(super) fn new(prior: u64, target: u64) -> Prr {
        Prr { prior: prior.max(1), target, delivered: 0, out: 0, window: 0 }
    }

    /// Returns the number of packets allowed in flight now.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Counts a packet that was sent.
    pub(super) fn on_sent(&mut self) {
        self.out += 1;
    }

    /// Handles an acknowledgement. `delivered` packets have arrived, and `inflight` are outstanding.
    /// `progress` means that the cumulative acknowledgement advanced without new losses being found.
    pub(super) fn on_ack(&mut self, delivered: u64, inflight: u64, progress: bool) {
        if delivered == 0 && self.window > 0 {
            return;
        }
        self.delivered += delivered;
        let send = if inflight > self.target {
            (self.target * self.delivered).div_ceil(self.prior).saturating_sub(self.out)
        } else {
            // The slow-start reduction bound allows as many packets as have arrived, plus one if there are no
            // new losses.
            let bound = self.delivered.saturating_sub(self.out).max(delivered) + u64::from(progress);
            bound.min(self.target - inflight)
        };
        // Let the first retransmission leave immediately.
        self.window = inflight + send.max(u64::from(self.out == 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_the_rate_while_much_is_out() {
        // The example in RFC 6937 section 4: going from 20 packets in flight to a target of 10, one packet
        // leaves for every two that arrive.
        let mut prr = Prr::new(20, 10);
        let mut inflight = 19;
        let mut sent = Vec::new();
        for _ in 0..18 {
            inflight -= 1;
            prr.on_ack(1, inflight, false);
            let now = prr.window().saturating_sub(inflight);
            (0..now).for_each(|_| prr.on_sent());
            inflight += now;
            sent.push(now);
        }
        assert_eq!(sent[..16], [1, 0].repeat(8));
        assert_eq!(inflight, 10);
    }

    #[test]
    fn fills_up_to_the_target_as_fast_as_packets_arrive() {
        // After a burst of losses, 4 of 20 packets are in flight.
        let mut prr = Prr::new(20, 10);
        prr.on_ack(1, 3, false);
        assert_eq!(prr.window(), 4);
        prr.on_sent();
        prr.on_ack(1, 3, true);
        assert_eq!(prr.window(), 5, "one more packet while the cumulative acknowledgement advances");
        (0..2).for_each(|_| prr.on_sent());
        prr.on_ack(8, 9, true);
        assert_eq!(prr.window(), 10);
    }
}
