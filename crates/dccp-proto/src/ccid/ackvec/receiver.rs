use super::ack_vector_state::Recorded;
use super::report::AckVectorReport;
use crate::Ecn;
use crate::ccid::{AckDue, Arrival, Feedback, HalfConfig, ReceiverHalf};
use dccp_wire::ack_vector::State;
use dccp_wire::{Opt, OptionBuf, Seq};
use mpdccp_units::{Duration, Time};

/// Longest delay of an Ack (RFC 4340 section 11.3 gives 0.2 s as the default).
const MAX_DELAY: Duration = Duration::from_millis(200);
/// Shortest time that an Ack waits for more data. With a shorter delay, the timer would cost more than the
/// Ack.
const MIN_DELAY: Duration = Duration::from_millis(2);
/// Delay while the round-trip time is unknown.
const DEFAULT_DELAY: Duration = Duration::from_millis(5);
/// Receiving half that acknowledges with Ack Vectors, sending one Ack for every Ack Ratio data packets
/// (RFC 4341 section 6).
#[derive(Debug)]
pub struct AckVecReceiver {
    report: AckVectorReport,
    /// Time at which the newest packet arrived.
    newest_at: Time,
    ratio: u16,
    /// Number of data packets since the last acknowledgement, and the arrival time of the first of them.
    waiting: u32,
    waiting_since: Time,
    at_once: bool,
    /// Time at which a mark last triggered an immediate Ack.
    marked_at: Option<Time>,
    rtt: Option<Duration>,
    vectors: bool,
}

impl AckVecReceiver {
    /// Creates a half.
    pub fn new(cfg: &HalfConfig) -> AckVecReceiver {
        AckVecReceiver {
            report: AckVectorReport::default(),
            newest_at: cfg.now,
            // RFC 4340 section 11.3: connections start with an Ack Ratio of 2.
            ratio: 2,
            waiting: 0,
            waiting_since: cfg.now,
            at_once: false,
            marked_at: None,
            rtt: cfg.handshake_rtt,
            // RFC 4340 section 11.5 permits Ack Vectors before the peer requests them.
            vectors: true,
        }
    }

    /// Returns how long an Ack may wait for more data: a quarter of the round trip. The sender thus receives
    /// at least four Acks per round even with few packets. Its RTT samples are not affected, because Elapsed
    /// Time reports the wait.
    fn delay(&self) -> Duration {
        match self.rtt {
            Some(rtt) => (rtt / 4).clamp(MIN_DELAY, MAX_DELAY),
            None => DEFAULT_DELAY,
        }
    }
}

impl ReceiverHalf for AckVecReceiver {
    fn on_packet(&mut self, now: Time, arrival: &Arrival) {
        let marked = arrival.ecn == Ecn::Ce;
        let state = if marked { State::ReceivedEcnMarked } else { State::Received };
        let recorded = self.report.record(arrival.seq, state);
        match recorded {
            Recorded::Next | Recorded::Gap => self.newest_at = now,
            Recorded::Filled => {}
            Recorded::Again | Recorded::TooOld => return,
        }
        // Do not acknowledge Acks, or both ends would acknowledge each other forever.
        if !arrival.data {
            return;
        }
        if self.waiting == 0 {
            self.waiting_since = now;
        }
        self.waiting = self.waiting.saturating_add(1);
        // RFC 4340 section 11.3: acknowledge out-of-order packets immediately, and marked packets once per
        // round trip.
        if recorded != Recorded::Next {
            self.at_once = true;
        }
        let rtt = self.rtt.unwrap_or(MAX_DELAY);
        if marked && self.marked_at.is_none_or(|at| now.since(at) >= rtt) {
            self.marked_at = Some(now);
            self.at_once = true;
        }
    }

    fn ack_due(&self, now: Time) -> AckDue {
        if self.waiting == 0 {
            return AckDue::No;
        }
        let due = self.waiting_since + self.delay();
        if self.at_once || self.waiting >= u32::from(self.ratio.max(1)) || now >= due {
            AckDue::Now
        } else {
            AckDue::At(due)
        }
    }

    fn write_feedback(&mut self, now: Time, seq: Seq, ack: Seq, room: usize, out: &mut OptionBuf) {
        // The connection may acknowledge a packet that arrived before this half existed.
        if self.report.newest().is_none_or(|newest| ack.after(newest)) {
            self.report.record(ack, State::Received);
            self.newest_at = now;
        }
        let newest = self.report.newest() == Some(ack);
        // RFC 4340 section 13.2: Elapsed Time has units of 10 microseconds, rounded down.
        let held = if newest { now.since(self.newest_at).as_micros() / 10 } else { 0 };
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let held_len = if held <= 0xffff { 4 } else { 6 };
        let least = if self.vectors { 3 } else { 0 };
        let tell_held = held > 0 && room >= held_len + least;
        if self.vectors {
            let vector_room = if tell_held { room - held_len } else { room };
            self.report.write(seq, ack, vector_room, out);
        }
        if tell_held {
            out.push(&Opt::ElapsedTime(held));
        }
        if newest && room >= least {
            self.waiting = 0;
            self.at_once = false;
        }
    }

    fn on_ack_of_ack(&mut self, _now: Time, feedback: &Feedback<'_>) {
        self.report.on_ack_of_ack(feedback);
    }

    fn on_ack_ratio(&mut self, ratio: u16) {
        self.ratio = ratio;
    }

    fn on_send_ack_vector(&mut self, on: bool) {
        self.vectors = on;
    }

    fn on_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(rtt);
    }
}
