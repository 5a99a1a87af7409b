//! Creates the messages of a sender and decides when sending ends.

use crate::perf::file::Source;
use crate::perf::message::{self, ClockId};
use mpdccp_units::{Duration, Rate, Time};

/// Largest burst; the same as in iperf3.
pub(crate) const MAX_BURST: u32 = 1000;

/// How much to send, and at what rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Size of each message in bytes.
    pub(crate) size: usize,
    /// Constant rate; `None` to send whenever the queue has room.
    pub(crate) rate: Option<Rate>,
    /// Number of messages that are sent back to back at a constant rate; at least 1.
    pub(crate) burst: u32,
    /// Number of messages after which sending ends.
    pub(crate) messages: Option<u64>,
    /// Time after which sending ends.
    pub(crate) time: Option<Duration>,
}

/// Creates the messages of one session.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) load: Load,
    clock: ClockId,
    started: Time,
    /// When the next message at a constant rate is due.
    due: Time,
    /// Number of messages created so far.
    pub(crate) made: u64,
    /// The source of the messages' data. Without a source, the data is zeros.
    source: Option<Source>,
    /// Number of bytes by which the last message of a file is shorter than the others.
    pub(crate) short: usize,
}

impl Sender {
    pub(crate) fn new(load: Load, source: Option<Source>, clock: ClockId, now: Time) -> Sender {
        Sender { load, clock, started: now, due: now, made: 0, source, short: 0 }
    }

    /// Restarts the test's clock. Call this only before the first message.
    pub(crate) fn restart(&mut self, now: Time) {
        (self.started, self.due) = (now, now);
    }

    /// Returns whether all messages have been created.
    pub(crate) fn is_done(&self, now: Time) -> bool {
        let all = self.load.messages.is_some_and(|n| self.made >= n);
        let all = all || self.source.as_ref().is_some_and(|source| source.ended);
        all || self.load.time.is_some_and(|t| now >= self.started + t)
    }

    /// Takes the error that ended the file of `-F` early, if any.
    pub(crate) fn take_read_error(&mut self) -> Option<std::io::Error> {
        self.source.as_mut()?.error.take()
    }

    /// Returns the next message if it is due. `room` means that the queue can take a message without dropping
    /// another one. `full` means that the queue was already full before this burst; only then may a message
    /// at a constant rate displace another one.
    pub(crate) fn poll(&mut self, now: Time, room: bool, full: bool) -> Option<Vec<u8>> {
        let ready = match self.load.rate {
            Some(_) => self.due <= now && (room || full),
            None => room,
        };
        if !ready || self.is_done(now) {
            return None;
        }
        let number = (self.made % message::NUMBERS) as u32;
        let mut data = message::write(number, self.load.size, self.clock, now);
        if let Some(source) = &mut self.source {
            if !source.fill(&mut data) {
                return None;
            }
            self.short = self.load.size.saturating_sub(data.len());
        }
        self.made += 1;
        if let Some(rate) = self.load.rate {
            // Compute the time from the start of the test, so that rounding errors do not accumulate.
            let before = self.made - self.made % u64::from(self.load.burst.max(1));
            let bits = u128::from(before) * self.load.size as u128 * 8 * 1_000_000_000;
            let nanos = bits / u128::from(rate.bps().max(1));
            self.due = self.started + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
        Some(data)
    }

    /// Returns the latest time at which `poll` must be called again; `None` if the load has neither a rate
    /// nor a duration.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let due = self.load.rate.map(|_| self.due);
        due.into_iter().chain(self.load.time.map(|t| self.started + t)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(load: Load) -> Sender {
        Sender::new(load, None, ClockId::here(), Time::from_millis(1000))
    }

    const LOAD: Load = Load { size: 1000, rate: None, burst: 1, messages: None, time: None };

    #[test]
    fn a_rate_is_kept_on_average_however_often_it_is_polled() {
        // At 3 Mbit/s, a message of 1000 bytes is due every 2.667 ms.
        let mut sender = sender(Load { rate: Some(Rate::from_mbps(3.0)), ..LOAD });
        let mut count = 0;
        for ms in (1000..2000).step_by(7) {
            while sender.poll(Time::from_millis(ms), false, true).is_some() {
                count += 1;
            }
        }
        assert!(
            sender.poll(Time::from_millis(3000), false, false).is_none(),
            "sends only after queued messages have left"
        );
        assert!((372..=376).contains(&count), "{count} of 375");
        assert!(sender.next_timeout().is_some());
    }

    #[test]
    fn bursts_leave_together_at_the_same_average_rate() {
        // At 8 Mbit/s, a message of 1000 bytes is due every millisecond.
        let mut sender = sender(Load { rate: Some(Rate::from_mbps(8.0)), burst: 10, ..LOAD });
        let mut made = |ms| std::iter::from_fn(|| sender.poll(Time::from_millis(ms), true, false)).count();
        assert_eq!(
            (1000..1030)
                .map(&mut made)
                .collect::<Vec<_>>()
                .chunks(10)
                .map(|ten| (ten[0], ten.iter().sum()))
                .collect::<Vec<_>>(),
            [(10, 10); 3]
        );
    }

    #[test]
    fn without_a_rate_the_queue_decides() {
        let mut sender = sender(Load { messages: Some(2), ..LOAD });
        let now = Time::from_millis(1000);
        assert_eq!(sender.next_timeout(), None);
        assert!(sender.poll(now, false, true).is_none());
        assert_eq!(sender.poll(now, true, false).unwrap()[..4], [0; 4]);
        assert_eq!(sender.poll(now, true, false).unwrap()[..4], [0, 0, 0, 1]);
        assert!(sender.is_done(now));
        assert!(sender.poll(now, true, false).is_none());
    }

    #[test]
    fn numbers_start_again_and_sending_goes_on() {
        let mut sender = sender(LOAD);
        sender.made = message::NUMBERS - 1;
        let mut number = || sender.poll(Time::from_millis(1000), true, false).unwrap()[..4].to_vec();
        assert_eq!([number(), number(), number()], [[255_u8, 255, 255, 254], [0; 4], [0, 0, 0, 1]]);
    }

    #[test]
    fn time_ends_it_too() {
        let mut sender = sender(Load { time: Some(Duration::from_millis(5)), ..LOAD });
        assert_eq!(sender.next_timeout(), Some(Time::from_millis(1005)));
        assert!(sender.poll(Time::from_millis(1004), true, false).is_some());
        assert!(sender.poll(Time::from_millis(1005), true, false).is_none());
        assert!(sender.is_done(Time::from_millis(1005)));
    }
}
