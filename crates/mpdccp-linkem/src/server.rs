//! The transmitter, which sends one packet or burst at a time, with exact timing.

use mpdccp_units::{Duration, Rate, Time};

use crate::RateModel;
use crate::trace::{OPPORTUNITY, Trace};

/// Work, in units of what a link of 1 bit/s transmits in a nanosecond. A link of r bit/s does r units per
/// nanosecond, so nothing is rounded.
pub(crate) type Work = u128;

pub(crate) fn work(bytes: u32) -> Work {
    Work::from(bytes) * 8_000_000_000
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    model: RateModel,
    /// Start time of the rate model.
    start: Time,
    spare: Spare,
    job: Option<Job>,
}

/// Work that the link could have done by `at` but has not. It is left if the end of a packet was rounded up
/// to a nanosecond, if a packet did not fill an opportunity of a trace, or if a token bucket has tokens left.
/// Except for tokens, only a packet that starts at `at` may use this work.
#[derive(Clone, Copy, Debug, Default)]
struct Spare {
    at: Time,
    work: Work,
    /// Number of the trace's first unused opportunity.
    opportunity: u64,
}

impl Spare {
    /// Returns a model's initial state. A bucket starts full.
    fn full(model: &RateModel, at: Time) -> Spare {
        match model {
            RateModel::TokenBucket { burst, .. } => Spare { at, work: work(*burst), opportunity: 0 },
            _ => Spare::default(),
        }
    }
}

#[derive(Clone, Debug)]
struct Job {
    since: Time,
    need: Work,
    /// When the transmission ends; `None` while the rate stays zero.
    end: Option<Time>,
    /// Unused work at the end of the packet.
    after: Spare,
}

enum Progress {
    Done { at: Time, spare: Spare },
    Left(Work),
}

impl Server {
    pub(crate) fn new(model: RateModel, start: Time) -> Server {
        let spare = Spare::full(&model, start);
        Server { model, start, spare, job: None }
    }

    /// Starts a packet. The previous one must be done.
    pub(crate) fn begin(&mut self, now: Time, bytes: u32) {
        self.schedule(now, work(bytes));
    }

    /// Returns when the transmission of the current packet ends, or `None` if there is no packet or if it
    /// would never end at this rate.
    pub(crate) fn end(&self) -> Option<Time> {
        self.job.as_ref().and_then(|job| job.end)
    }

    /// Ends the transmission of a packet that is done.
    pub(crate) fn finish(&mut self) {
        if let Some(job) = self.job.take() {
            self.spare = job.after;
        }
    }

    /// Aborts the packet in transmission.
    pub(crate) fn abort(&mut self) {
        self.job = None;
    }

    /// Switches to `model`, whose time starts at `now`. A packet being transmitted continues from where it
    /// is. A bucket keeps its tokens, up to the new burst.
    pub(crate) fn set_model(&mut self, now: Time, model: RateModel) {
        let tokens = self.tokens(now);
        let left = self.job.take().map(|job| match self.serve(job.since, now, job.need) {
            Progress::Left(need) => need,
            Progress::Done { .. } => 0,
        });
        self.spare = Spare::full(&model, now);
        // A packet being transmitted has used all tokens.
        self.spare.work = match tokens {
            Some(tokens) if left.is_none() => self.spare.work.min(tokens),
            Some(_) => 0,
            None => self.spare.work,
        };
        self.model = model;
        self.start = now;
        if let Some(need) = left {
            self.schedule(now, need);
        }
    }

    fn schedule(&mut self, now: Time, need: Work) {
        self.job = Some(match self.serve(now, Time::MAX, need) {
            Progress::Done { at, spare } => Job { since: now, need, end: Some(at), after: spare },
            Progress::Left(_) => Job { since: now, need, end: None, after: Spare::default() },
        });
    }

    /// Does `need` units of work from the time `from` on, but at most until `until`.
    fn serve(&self, from: Time, until: Time, need: Work) -> Progress {
        let unused = if self.spare.at == from { self.spare.work } else { 0 };
        let carried = self.tokens(from).unwrap_or(unused);
        if carried >= need {
            return Progress::Done {
                at: from,
                spare: Spare { at: from, work: carried - need, ..self.spare },
            };
        }
        let need = need - carried;
        match &self.model {
            RateModel::Trace(trace) => self.serve_trace(trace, from, until, need),
            _ => self.serve_rate(from, until, need),
        }
    }

    /// Returns the tokens at `now`, or `None` without a bucket.
    fn tokens(&self, now: Time) -> Option<Work> {
        let RateModel::TokenBucket { rate, burst } = self.model else { return None };
        let earned = Work::from(rate.bps()) * now.since(self.spare.at).as_nanos();
        Some((self.spare.work + earned).min(work(burst)))
    }

    fn serve_rate(&self, from: Time, until: Time, mut need: Work) -> Progress {
        let mut now = from;
        while now < until {
            let (rate, change) = self.segment(now);
            let Some(rate) = rate else {
                return Progress::Done { at: now, spare: Spare::default() };
            };
            let (rate, end) = (Work::from(rate.bps()), change.min(until));
            let can = rate * (end - now).as_nanos();
            if can >= need {
                let ns = need.div_ceil(rate);
                let at = now + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
                return Progress::Done { at, spare: Spare { at, work: ns * rate - need, opportunity: 0 } };
            }
            need -= can;
            now = end;
        }
        Progress::Left(need)
    }

    fn serve_trace(&self, trace: &Trace, from: Time, until: Time, mut need: Work) -> Progress {
        let mut next = trace.first_from(from.since(self.start)).max(self.spare.opportunity);
        loop {
            let at = self.start + trace.time(next);
            if at > until {
                return Progress::Left(need);
            }
            next += 1;
            if need <= work(OPPORTUNITY) {
                let spare = Spare { at, work: work(OPPORTUNITY) - need, opportunity: next };
                return Progress::Done { at, spare };
            }
            need -= work(OPPORTUNITY);
        }
    }

    /// Returns the rate at `now`; for a trace, its mean rate.
    pub(crate) fn rate(&self, now: Time) -> Rate {
        match &self.model {
            RateModel::Trace(trace) => trace.mean_rate(),
            _ => self.segment(now).0.unwrap_or(Rate::MAX),
        }
    }

    /// Returns the rate at `now` and the time of its next change. A rate of `None` means unlimited.
    fn segment(&self, now: Time) -> (Option<Rate>, Time) {
        match &self.model {
            // The callers handle traces.
            RateModel::Unlimited | RateModel::Trace(_) => (None, Time::MAX),
            RateModel::Constant(rate) | RateModel::TokenBucket { rate, .. } => (Some(*rate), Time::MAX),
            RateModel::Steps(steps) => {
                let next = steps.partition_point(|s| s.0 <= now.since(self.start));
                let rate = next.checked_sub(1).map_or(Rate::ZERO, |i| steps[i].1);
                (Some(rate), steps.get(next).map_or(Time::MAX, |s| self.start + s.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn mbps(m: u64) -> Rate {
        Rate::from_bps(m * 1_000_000)
    }

    /// Sends `n` packets of `bytes` back to back from time zero, and returns when the last one is done.
    fn back_to_back(server: &mut Server, n: u32, bytes: u32) -> Time {
        let mut now = Time::ZERO;
        for _ in 0..n {
            server.begin(now, bytes);
            now = server.end().expect("rate is not zero");
            server.finish();
        }
        now
    }

    #[test]
    fn no_drift() {
        // At 7 Mbit/s, a packet of 1,000 bytes takes 1,142,857.14 ns, and 7,000 packets take exactly 8 s.
        let mut server = Server::new(RateModel::Constant(mbps(7)), Time::ZERO);
        assert_eq!(back_to_back(&mut server, 7_000, 1_000), Time::from_millis(8_000));
    }

    #[test]
    fn more_than_a_packet_a_nanosecond() {
        let mut server = Server::new(RateModel::Constant(Rate::from_bps(24_000_000_000_000)), Time::ZERO);
        assert_eq!(back_to_back(&mut server, 30, 1_000), Time::from_nanos(10));
    }

    #[test]
    fn a_packet_spans_steps() {
        // 1,250 bytes are 10,000 bits. They take 1 ms at 5 Mbit/s and 2 ms at zero. The last 5,000 bits are
        // sent at 10 Mbit/s.
        let ms = Duration::from_millis;
        let steps = vec![(ms(0), mbps(5)), (ms(1), Rate::ZERO), (ms(3), mbps(10))];
        let mut server = Server::new(RateModel::Steps(steps), Time::ZERO);
        assert_eq!(back_to_back(&mut server, 1, 1_250), Time::from_micros(3_500));
    }

    #[test]
    fn traces_share_and_span_opportunities() {
        let trace = Trace::parse("2\n5\n5\n10\n").unwrap();
        let mut server = Server::new(RateModel::Trace(trace), Time::ZERO);
        let mut send = |from, bytes| {
            server.begin(Time::from_millis(from), bytes);
            let end = server.end().unwrap();
            server.finish();
            end.as_nanos() / 1_000_000
        };
        assert_eq!(send(0, 500), 2, "a packet waits for the first opportunity");
        assert_eq!(send(2, 1_000), 2, "the second packet uses the remainder");
        assert_eq!(send(2, 1), 5, "the opportunity at 2 ms is used up");
        assert_eq!(send(5, 2_000), 5, "the remainder and the second one at 5 ms");
        assert_eq!(send(6, 1), 10, "an unused remainder is lost");
        assert_eq!(send(10, 3_000), 15, "the remainder, 12 ms, and one of two at 15 ms");
        assert_eq!(send(15, 3_000), 20, "the remainder at 15 ms, the other one, and a part at 20 ms");
        assert_eq!(send(1_000, 1_500), 1_000, "an opportunity at that moment can be used");
    }

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_the_rate() {
        // At 1,000 bytes per millisecond, tokens for three packets have accumulated.
        let model = RateModel::TokenBucket { rate: mbps(8), burst: 3_000 };
        let mut server = Server::new(model, Time::ZERO);
        assert_eq!(back_to_back(&mut server, 3, 1_000), Time::ZERO);
        let mut send = |from| {
            server.begin(Time::from_micros(from), 1_000);
            let end = server.end().unwrap();
            server.finish();
            end.as_nanos() / 1_000
        };
        assert_eq!(send(0), 1_000);
        assert_eq!(send(1_500), 2_000, "half of the tokens had accumulated");
        assert_eq!(send(10_000), 10_000);
        assert_eq!(
            (send(10_000), send(10_000), send(10_000)),
            (10_000, 10_000, 11_000),
            "at most a burst may accumulate"
        );
    }

    #[test]
    fn a_bucket_is_not_refilled_by_a_change_of_its_rate() {
        let model = |m| RateModel::TokenBucket { rate: mbps(m), burst: 3_000 };
        let mut server = Server::new(model(8), Time::ZERO);
        assert_eq!(back_to_back(&mut server, 3, 1_000), Time::ZERO);
        // In half a millisecond, 500 tokens accumulate. At the new rate, 500 more take a quarter.
        server.set_model(Time::from_micros(500), model(16));
        server.begin(Time::from_micros(500), 1_000);
        assert_eq!(server.end(), Some(Time::from_micros(750)));
        // The rest of this packet, 250 bytes, takes 250 µs at 8 Mbit/s, and leaves no tokens.
        server.set_model(Time::from_micros(625), model(8));
        assert_eq!(server.end(), Some(Time::from_micros(875)));
        server.finish();
        server.begin(Time::from_micros(875), 1_000);
        assert_eq!(server.end(), Some(Time::from_micros(1_875)));
        server.finish();
        // A bucket that a link gets later begins full.
        server.set_model(Time::from_micros(1_875), RateModel::Unlimited);
        server.set_model(Time::from_micros(1_875), model(8));
        server.begin(Time::from_micros(1_875), 3_000);
        assert_eq!(server.end(), Some(Time::from_micros(1_875)));
    }

    #[test]
    fn a_trace_can_give_way_to_a_rate() {
        let mut server = Server::new(RateModel::Trace(Trace::parse("1\n2\n").unwrap()), Time::ZERO);
        server.begin(Time::ZERO, 4_000);
        server.set_model(Time::from_millis(2), RateModel::Constant(mbps(8)));
        assert_eq!(server.end(), Some(Time::from_millis(3)), "1,000 bytes remain at the new rate");
    }

    #[test]
    fn the_rest_goes_at_the_new_rate() {
        let mut server = Server::new(RateModel::Constant(mbps(10)), Time::ZERO);
        server.begin(Time::ZERO, 1_250);
        assert_eq!(server.end(), Some(Time::from_millis(1)));
        server.set_model(Time::from_micros(400), RateModel::Constant(Rate::ZERO));
        assert_eq!(server.end(), None);
        server.set_model(Time::from_millis(5), RateModel::Constant(mbps(1)));
        assert_eq!(server.end(), Some(Time::from_millis(11)));
        server.set_model(Time::from_millis(6), RateModel::Unlimited);
        assert_eq!(server.end(), Some(Time::from_millis(6)));
    }
}
