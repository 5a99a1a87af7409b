//! Models the three-way handshake (RFC 9293 section 3.5).

use core::time::Duration;

use mpdccp_units::Time;

/// First retransmission timeout of a SYN (RFC 6298 section 2.1), which doubles with each retransmission.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A packet of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Syn,
    SynAck,
    Ack,
}

/// State of the handshake, for both ends.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    /// When the last SYN was sent, and how many SYNs were sent so far.
    syn: Option<(Time, u32)>,
    open: bool,
    /// Packet that each end must send.
    client_due: Option<Step>,
    server_due: Option<Step>,
}

impl Handshake {
    /// Returns whether the client may send data.
    pub(super) fn open(&self) -> bool {
        self.open
    }

    /// Handles the arrival of `step`. If this opens the connection after a single SYN, returns the round-trip
    /// time.
    pub(super) fn on_step(&mut self, now: Time, step: Step) -> Option<Duration> {
        match step {
            Step::Syn => self.server_due = Some(Step::SynAck),
            Step::SynAck => {
                self.client_due = Some(Step::Ack);
                let first = !core::mem::replace(&mut self.open, true);
                return self.syn.filter(|(_, n)| first && *n == 1).map(|(at, _)| now.since(at));
            }
            Step::Ack => {}
        }
        None
    }

    /// Returns when the client is to retransmit a SYN.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        match self.syn {
            _ if self.open => None,
            None => Some(Time::ZERO),
            Some((at, n)) => Some(at + TIMEOUT * (1 << (n - 1).min(6))),
        }
    }

    /// Returns the packet that leaves now, if any.
    pub(super) fn poll(&mut self, now: Time) -> Option<Step> {
        if self.next_timeout().is_some_and(|t| t <= now) {
            self.syn = Some((now, self.syn.map_or(1, |(_, n)| n + 1)));
            return Some(Step::Syn);
        }
        self.server_due.take().or_else(|| self.client_due.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_in_a_round_trip_and_repeats_what_is_lost() {
        let ms = Time::from_millis;
        let mut h = Handshake::default();
        assert_eq!(h.poll(ms(5)), Some(Step::Syn));
        assert_eq!((h.poll(ms(5)), h.next_timeout()), (None, Some(ms(1_005))));
        assert_eq!(h.on_step(ms(20), Step::Syn), None);
        assert_eq!(h.poll(ms(20)), Some(Step::SynAck));
        assert_eq!(h.on_step(ms(35), Step::SynAck), Some(Duration::from_millis(30)));
        assert_eq!((h.poll(ms(35)), h.poll(ms(35))), (Some(Step::Ack), None));
        assert!(h.open() && h.next_timeout().is_none());

        let mut h = Handshake::default();
        assert_eq!(h.poll(ms(0)), Some(Step::Syn));
        assert_eq!(h.poll(ms(999)), None);
        assert_eq!(h.poll(ms(1_000)), Some(Step::Syn));
        assert_eq!(h.next_timeout(), Some(ms(3_000)));
        // After a retransmission it is unknown which SYN the answer belongs to, so there is no round-trip
        // time (Karn's algorithm).
        assert_eq!(h.on_step(ms(1_030), Step::SynAck), None);
        assert!(h.open());
    }
}
