use super::counter::{CounterClock, is_round_trip_later};
use super::options::{Told, loss_event_rate as as_option};
use crate::Ecn;
use crate::ccid::ackvec::AckVectorReport;
use crate::ccid::{AckDue, Arrival, Feedback, HalfConfig, ReceiverHalf};
use alloc::collections::VecDeque;
use dccp_cc::tfrc::equation::loss_event_rate_for;
use dccp_cc::tfrc::{Arrived, LossHistory, loss_event_rate};
use dccp_wire::ack_vector::State;
use dccp_wire::{Opt, OptionBuf, Seq};
use mpdccp_units::{Duration, Time};

/// Round-trip time before any estimate (RFC 4340 section 3.4).
const DEFAULT_RTT: Duration = Duration::from_millis(200);
/// Unwrapped number of the first packet, chosen to leave room for reordered packets with lower numbers.
const ORIGIN: u64 = 1 << 56;
/// Maximum number of packets that are not judged yet (RFC 4342 section 8.6.1, NDUPACK).
const MAX_SKIP: u64 = 3;
/// Maximum number of timestamps kept for measuring the receive rate.
const MAX_MARKS: usize = 16;
/// Packets per round trip assumed for a connection that begins with a loss (RFC 5348 section 6.3.1).
const LEAST_TARGET: f64 = 0.5;
/// Segment size in the equation, and header size, for small packets (RFC 5622 section 5).
const NOMINAL_SEGMENT: f64 = 1460.0;
const HEADER: f64 = 36.0;
/// Maximum length of an Elapsed Time option, bytes.
const ELAPSED_LEN: usize = 6;

/// Data received so far.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    packets: u64,
    bytes: u64,
}

/// Receiving half of CCIDs 3 and 4. It reports loss intervals and the receive rate about once per round trip
/// (RFC 4342 section 6).
#[derive(Debug)]
pub struct TfrcReceiver {
    /// Whether this is CCID 4.
    small_packets: bool,
    history: LossHistory,
    /// The newest packet: its sequence number, unwrapped number and arrival time.
    newest: Option<(Seq, u64, Time)>,
    clock: CounterClock,
    /// Round-trip time known by the connection's other half.
    rtt: Option<Duration>,
    total: Total,
    /// Times of past reports, oldest first, each with the totals at that time.
    marks: VecDeque<(Time, Total)>,
    /// Highest receive rate so far: packets per second and bytes per second.
    best: (f64, f64),
    /// Greatest window counter received, and the counter of the last feedback (last_counter).
    counter: Option<u8>,
    told_counter: Option<u8>,
    /// Arrival time of the first data not yet reported, if any.
    waiting_since: Option<Time>,
    at_once: bool,
    /// Ack Vectors, if the sender requested them (RFC 4340 section 11.5, RFC 4342 section 8).
    vectors: Option<AckVectorReport>,
}

impl TfrcReceiver {
    /// Creates a half. `small_packets` is true for CCID 4.
    pub fn new(small_packets: bool, cfg: &HalfConfig) -> TfrcReceiver {
        TfrcReceiver {
            small_packets,
            history: LossHistory::default(),
            newest: None,
            clock: CounterClock::default(),
            rtt: cfg.handshake_rtt,
            total: Total::default(),
            marks: VecDeque::new(),
            best: (0.0, 0.0),
            counter: None,
            told_counter: None,
            waiting_since: None,
            at_once: false,
            vectors: None,
        }
    }

    /// Returns the round-trip time estimated from data packets or, if there is no such estimate, the
    /// round-trip time known by the other half.
    fn rtt(&self) -> Duration {
        self.clock.rtt().or(self.rtt).unwrap_or(DEFAULT_RTT).max(Duration::from_micros(1))
    }

    fn unwrap(&self, seq: Seq) -> u64 {
        match self.newest {
            Some((newest, number, _)) => number.saturating_add_signed(seq.diff(newest)),
            None => ORIGIN,
        }
    }

    /// Returns packets and bytes per second, measured since the newest report that is at least a round trip
    /// old. RFC 4342 section 8.3 specifies the last round trip, or the time since the last report if that is
    /// longer. RFC 5348 section 6.2 permits a somewhat longer time.
    fn receive_rate(&self, now: Time) -> (f64, f64) {
        let rtt = self.rtt();
        let long_ago = self.marks.iter().rev().find(|(at, _)| now.since(*at) >= rtt);
        // RFC 5348 section 6.3: the first report has a receive rate of zero.
        let Some((at, then)) = long_ago.or(self.marks.front()) else { return (0.0, 0.0) };
        let time = now.since(*at).max(rtt).as_secs_f64();
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / time;
        (per_second(self.total.packets, then.packets), per_second(self.total.bytes, then.bytes))
    }

    fn measure(&mut self, now: Time) -> f64 {
        let (packets, bytes) = self.receive_rate(now);
        self.best = (self.best.0.max(packets), self.best.1.max(bytes));
        bytes
    }

    /// Returns the length of the initial interval that corresponds to the best receive rate so far
    /// (RFC 5348 section 6.3.1).
    fn initial_length(&self) -> u64 {
        let rtt = self.rtt().as_secs_f64();
        let packets = self.best.0.max(LEAST_TARGET / rtt);
        let p = if self.small_packets {
            let size = (self.total.bytes as f64 / self.total.packets.max(1) as f64).max(1.0);
            loss_event_rate_for(packets * (size + HEADER), NOMINAL_SEGMENT, rtt)
        } else {
            loss_event_rate_for(packets, 1.0, rtt)
        };
        libm::round(1.0 / p) as u64
    }

    /// Returns when feedback is due if no more data arrives. While data arrives, the window counter triggers
    /// feedback earlier. RFC 4342 section 10.3 leaves this timer to the implementation.
    fn timer(&self, since: Time) -> Time {
        let last = self.marks.back().map_or(since, |(at, _)| *at);
        (last + self.rtt() * 5 / 4).max(since)
    }
}

impl ReceiverHalf for TfrcReceiver {
    fn on_packet(&mut self, now: Time, arrival: &Arrival) {
        if let Some(vectors) = &mut self.vectors {
            let marked = arrival.ecn == Ecn::Ce;
            vectors.record(arrival.seq, if marked { State::ReceivedEcnMarked } else { State::Received });
        }
        let number = self.unwrap(arrival.seq);
        let lossless = self.history.is_lossless();
        if arrival.data {
            self.total.packets = self.total.packets.saturating_add(1);
            self.total.bytes = self.total.bytes.saturating_add(u64::from(arrival.payload));
            self.waiting_since.get_or_insert(now);
            // RFC 5348 section 6.3: the first data packet triggers a report at once.
            self.at_once |= self.total.packets == 1;
        }
        let change = self.history.on_packet(&Arrived {
            seq: number,
            counter: arrival.ccval,
            data: arrival.data,
            marked: arrival.ecn == Ecn::Ce,
            no_data_before: arrival.ndp.unwrap_or(0),
        });
        // RFC 5348 section 6: report at once when a loss event begins, or when a late packet removes a loss
        // event.
        self.at_once |= change.began || change.ended;
        if change.began && lossless {
            self.measure(now);
            self.history.set_initial_length(self.initial_length());
        }
        if self.newest.is_some_and(|(_, newest, _)| number <= newest) {
            return;
        }
        self.newest = Some((arrival.seq, number, now));
        if arrival.data {
            self.clock.on_packet(now, arrival.ccval);
            self.counter = Some(arrival.ccval);
            self.at_once |= self.told_counter.is_some_and(|told| is_round_trip_later(arrival.ccval, told));
        }
    }

    fn ack_due(&self, now: Time) -> AckDue {
        if self.at_once {
            return AckDue::Now;
        }
        match self.waiting_since.map(|since| self.timer(since)) {
            None => AckDue::No,
            Some(due) if due <= now => AckDue::Now,
            Some(due) => AckDue::At(due),
        }
    }

    fn write_feedback(&mut self, now: Time, seq: Seq, ack: Seq, room: usize, out: &mut OptionBuf) {
        let before = out.len();
        self.write_report(now, ack, room, out);
        if let Some(vectors) = &mut self.vectors {
            if vectors.newest().is_none_or(|newest| ack.after(newest)) {
                vectors.record(ack, State::Received);
            }
            vectors.write(seq, ack, room.saturating_sub(out.len() - before), out);
        }
    }

    fn on_ack_of_ack(&mut self, _now: Time, feedback: &Feedback<'_>) {
        if let Some(vectors) = &mut self.vectors {
            vectors.on_ack_of_ack(feedback);
        }
    }

    fn on_send_ack_vector(&mut self, on: bool) {
        self.vectors = on.then(AckVectorReport::default);
    }

    fn on_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(rtt);
    }
}

impl TfrcReceiver {
    fn write_report(&mut self, now: Time, ack: Seq, room: usize, out: &mut OptionBuf) {
        // RFC 5348 section 6.2: without new data there is no report.
        if !self.at_once && self.waiting_since.is_none() {
            return;
        }
        let start = out.len();
        let number = self.unwrap(ack);
        let held = match self.newest {
            Some((newest, _, at)) if newest == ack => now.since(at),
            _ => Duration::ZERO,
        };
        let held = u32::try_from(held.as_micros() / 10).unwrap_or(u32::MAX);
        if room >= ELAPSED_LEN {
            out.push(&Opt::ElapsedTime(held));
        }
        let rate = self.measure(now).min(f64::from(u32::MAX)) as u32;
        let mut intervals = self.history.intervals();
        let p = loss_event_rate(&intervals, true, self.small_packets);
        let waiting = number.saturating_sub(self.history.judged().unwrap_or(number));
        let skip = waiting.min(MAX_SKIP);
        if let Some(newest) = intervals.first_mut() {
            // After a long gap, more than `MAX_SKIP` packets can be undecided. Report the older ones as
            // received.
            newest.lossless = newest.lossless.saturating_add(waiting - skip);
        }
        let (receive_rate, loss_event_rate) = (Some(rate), Some(as_option(p)));
        let told = Told { receive_rate, loss_event_rate, skip, intervals };
        told.write(self.small_packets, room.saturating_sub(out.len() - start), out);

        self.marks.push_back((now, self.total));
        if self.marks.len() > MAX_MARKS {
            self.marks.pop_front();
        }
        self.told_counter = self.counter;
        self.waiting_since = None;
        self.at_once = false;
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
