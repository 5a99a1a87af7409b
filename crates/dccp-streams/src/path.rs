//! Unacknowledged packets of one path, and the detection of their loss. Each path has its own packet numbers,
//! so that the delay of a slower path does not look like loss.

use crate::arrivals::MAX_ACK_DELAY;
use crate::ranges::RangeSet;
use crate::wire::Ack;
use alloc::collections::VecDeque;
use dccp_cc::RttEstimator;
use mpdccp_units::{Duration, Time};

/// Maximum number of packets kept per path. Once this is reached, no data is sent over the path until some
/// packets have been acknowledged.
const MAX_PACKETS: usize = 1 << 16;
/// A missing packet counts as lost once this many later packets of the path have arrived.
const REORDERING: u64 = 3;
/// Late arrivals increase the reordering tolerance at most this many times.
const MAX_PATIENCE: u32 = 8;
/// Maximum number of doublings of the probe timeout.
const MAX_BACKOFF: u32 = 6;
/// Minimum variation of the round-trip time that timers allow for.
const GRANULARITY: Duration = Duration::from_millis(1);

/// A sent frame. The fate of its packet decides whether the frame is retransmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Data { id: u64, offset: u64, len: u32, fin: bool },
    Reset(u64),
    Stop(u64),
    StreamWindow(u64),
    Blocked(u64),
    SessionWindow,
    Streams,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Acked,
    /// Lost, because later packets had arrived.
    Overtaken,
    /// Lost, because a timer expired or the path went down.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    at: Time,
    /// End of the packet's frames, counted from the first frame sent on the path.
    frames_end: u64,
    state: State,
}

/// Frames of packets that were acknowledged or lost.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    pub(crate) acked: VecDeque<Sent>,
    pub(crate) lost: VecDeque<Sent>,
    pub(crate) packets_lost: u64,
    pub(crate) losses_taken_back: u64,
    pub(crate) probe_timeouts: u64,
}

#[derive(Debug)]
pub(crate) struct Path {
    /// The owner's identifier of the path, or `None` if the path has gone down.
    pub(crate) id: Option<u32>,
    /// The path's identifier on the wire, which is never reused for another path.
    pub(crate) name: u64,
    /// Number of the oldest packet kept.
    base: u64,
    packets: VecDeque<Packet>,
    /// Numbers of the packets kept that have been acknowledged. An acknowledgement names most of them again,
    /// and these are skipped.
    acked: RangeSet,
    frames: VecDeque<Sent>,
    /// Number of frames removed from the front so far.
    frames_base: u64,
    /// All packets with lower numbers have been acknowledged or lost.
    oldest: u64,
    in_flight: usize,
    largest_acked: Option<u64>,
    rtt: RttEstimator,
    /// Time at which the probe timer was started: when a packet in flight was last acknowledged, when the
    /// timer last expired, or when sending began with nothing in flight, whichever was last. If the oldest
    /// packet was sent later than this, its send time counts instead.
    progress: Time,
    backoff: u32,
    patience: u32,
    /// Time at which a packet last requested an immediate acknowledgement.
    asked: Option<Time>,
    /// When to look for stuck packets again.
    look_at: Time,
    /// Bit set of the classes that the owner has offered this path to.
    classes: [u64; 4],
}

impl Path {
    pub(crate) fn new(id: u32, name: u64, now: Time, rtt: Option<Duration>) -> Path {
        let mut estimator = RttEstimator::default();
        if let Some(rtt) = rtt {
            estimator.update(now, rtt);
        }
        Path {
            id: Some(id),
            name,
            base: 0,
            packets: VecDeque::new(),
            acked: RangeSet::default(),
            frames: VecDeque::new(),
            frames_base: 0,
            oldest: 0,
            in_flight: 0,
            largest_acked: None,
            rtt: estimator,
            progress: now,
            backoff: 0,
            patience: 0,
            asked: None,
            look_at: now,
            classes: [0; 4],
        }
    }

    /// Records that the owner lets a class use this path.
    pub(crate) fn offer(&mut self, class: usize) {
        self.classes[class / 64] |= 1 << (class % 64);
    }

    /// Returns the classes that may use this path.
    pub(crate) fn classes(&self) -> impl Fn(usize) -> bool + use<> {
        let classes = self.classes;
        move |class| classes[class / 64] >> (class % 64) & 1 == 1
    }

    /// Returns the number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= MAX_PACKETS
    }

    /// Returns whether the packet being sent requests an acknowledgement. There are four such requests per
    /// round trip. The last packet of the waiting data also carries a request, provided that half of the
    /// interval between requests has passed.
    pub(crate) fn asks(&mut self, now: Time, last: bool) -> bool {
        let wait = self.rtt.srtt().unwrap_or_default() / if last { 8 } else { 4 };
        let asks = self.asked.is_none_or(|at| now.since(at) >= wait);
        if asks {
            self.asked = Some(now);
        }
        asks
    }

    /// Adds a frame to the packet to be sent next.
    pub(crate) fn push_frame(&mut self, frame: Sent) {
        self.frames.push_back(frame);
    }

    /// Records that the packet with the added frames has been sent. Returns false if there were no frames, in
    /// which case the packet has no number.
    pub(crate) fn on_sent(&mut self, now: Time) -> bool {
        let frames_end = self.frames_base + self.frames.len() as u64;
        if self.packets.back().map_or(self.frames_base, |p| p.frames_end) == frames_end {
            return false;
        }
        if self.in_flight == 0 {
            self.progress = now;
        }
        self.in_flight += 1;
        self.packets.push_back(Packet { at: now, frames_end, state: State::InFlight });
        true
    }

    fn packet(&mut self, number: u64) -> Option<&mut Packet> {
        self.packets.get_mut(number.checked_sub(self.base)? as usize)
    }

    fn frames_of(&self, number: u64) -> impl Iterator<Item = &Sent> {
        let index = (number - self.base) as usize;
        let start = index.checked_sub(1).map_or(self.frames_base, |before| self.packets[before].frames_end);
        let range = start - self.frames_base..self.packets[index].frames_end - self.frames_base;
        self.frames.range(range.start as usize..range.end as usize)
    }

    /// Handles an acknowledgement. Returns false if it includes a number that was never sent.
    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack<'_>, fates: &mut Fates) -> bool {
        if ack.largest >= self.next_number() {
            return false;
        }
        let (base, mut progress) = (self.base, false);
        for range in ack.ranges() {
            if range.end <= base {
                break;
            }
            let mut from = range.start.max(base);
            while from < range.end {
                let known = self.acked.first_within(from..range.end).unwrap_or(range.end..range.end);
                for number in from..known.start {
                    progress |= self.on_acked(now, number, ack, fates);
                }
                self.acked.insert(from..known.start);
                from = known.end;
            }
        }
        if progress {
            (self.progress, self.backoff) = (now, 0);
        }
        self.detect(now, fates);
        self.forget(now);
        true
    }

    fn on_acked(&mut self, now: Time, number: u64, ack: &Ack<'_>, fates: &mut Fates) -> bool {
        let Some(packet) = self.packet(number) else { return false };
        let (at, state) = (packet.at, packet.state);
        packet.state = State::Acked;
        match state {
            State::Acked => return false,
            State::InFlight => {
                self.in_flight -= 1;
                if number == ack.largest {
                    let rtt = now.since(at).saturating_sub(Duration::from_micros(ack.delay));
                    self.rtt.update(now, rtt);
                }
            }
            State::Overtaken => {
                self.patience = (self.patience + 1).min(MAX_PATIENCE);
                fates.losses_taken_back += 1;
            }
            State::GivenUp => {}
        }
        self.largest_acked = self.largest_acked.max(Some(number));
        fates.acked.extend(self.frames_of(number).cloned());
        true
    }

    /// Returns the time after which an overtaken packet counts as lost. The time counts from the sending of
    /// the packet, so it includes the round trip.
    fn reordering_time(&self) -> Duration {
        let rtt = self.rtt.srtt().unwrap_or_default().max(self.rtt.latest().unwrap_or_default());
        rtt + (rtt * (1 + 2 * self.patience) / 8).max(GRANULARITY)
    }

    /// Declares a packet lost if later packets of this path have overtaken it by too many packet numbers or
    /// by too much time.
    fn detect(&mut self, now: Time, fates: &mut Fates) {
        let Some(largest) = self.largest_acked else { return };
        let threshold = REORDERING << self.patience;
        let wait = self.reordering_time();
        for number in self.oldest.max(self.base)..largest {
            let overdue = |p: &Packet| largest - number >= threshold || p.at + wait <= now;
            if self.packet(number).is_some_and(|p| p.state == State::InFlight && overdue(p)) {
                self.lose(number, State::Overtaken, fates);
            }
        }
        self.advance();
    }

    fn lose(&mut self, number: u64, state: State, fates: &mut Fates) {
        if let Some(packet) = self.packet(number) {
            packet.state = state;
            self.in_flight -= 1;
            fates.packets_lost += 1;
            fates.lost.extend(self.frames_of(number).cloned());
        }
    }

    /// Finds the oldest packet in flight.
    fn advance(&mut self) {
        self.oldest = self.oldest.max(self.base);
        let next = self.next_number();
        while self.oldest < next && self.packet(self.oldest).is_some_and(|p| p.state != State::InFlight) {
            self.oldest += 1;
        }
    }

    /// Removes acknowledged packets at once, but lost packets only after a while, because their data need not
    /// be retransmitted if it still arrives.
    fn forget(&mut self, now: Time) {
        let mut keep = self.rtt.srtt().unwrap_or_default() * 4;
        if self.id.is_none() {
            keep = keep.max(RttEstimator::INITIAL_RTO);
        }
        while let Some(front) = self.packets.front() {
            let decided = match front.state {
                State::InFlight => false,
                State::Acked => true,
                State::Overtaken | State::GivenUp => front.at + keep <= now,
            };
            if !decided {
                break;
            }
            self.frames.drain(..(front.frames_end - self.frames_base) as usize);
            self.frames_base = front.frames_end;
            self.base += 1;
            self.packets.pop_front();
        }
        self.acked.remove(0..self.base);
    }

    fn probe_at(&self) -> Option<Time> {
        let oldest = self.packets.get(self.oldest.checked_sub(self.base)? as usize)?;
        let wait = match self.rtt.srtt() {
            Some(srtt) => srtt + (self.rtt.rttvar() * 4).max(GRANULARITY) + MAX_ACK_DELAY,
            None => RttEstimator::INITIAL_RTO,
        };
        Some(oldest.at.max(self.progress) + wait * (1 << self.backoff))
    }

    /// Returns when to call [`on_timeout`](Self::on_timeout).
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        if self.in_flight == 0 {
            return None;
        }
        let overtaken = self.largest_acked.filter(|largest| *largest > self.oldest);
        let oldest = self.packets.get(self.oldest.checked_sub(self.base)? as usize)?;
        let overdue = overtaken.map(|_| oldest.at + self.reordering_time());
        overdue.into_iter().chain(self.probe_at()).min()
    }

    pub(crate) fn on_timeout(&mut self, now: Time, fates: &mut Fates) {
        self.advance();
        self.detect(now, fates);
        if self.in_flight > 0 && self.probe_at().is_some_and(|at| at <= now) {
            fates.probe_timeouts += 1;
            if self.backoff == 0 {
                // On the first timeout, retransmit only the oldest packet, as a probe.
                self.lose(self.oldest, State::GivenUp, fates);
                self.advance();
            } else {
                self.give_up(fates);
            }
            self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
            (self.asked, self.progress) = (None, now);
        }
        self.forget(now);
    }

    /// Records that the path has gone down, so that all its packets in flight count as lost. They are kept
    /// for a while, because they may have arrived before, or arrive after all if the path was only slow.
    pub(crate) fn retire(&mut self, fates: &mut Fates) {
        self.id = None;
        self.give_up(fates);
    }

    /// Returns whether the path has gone down and none of its packets is kept any more.
    pub(crate) fn is_over(&mut self, now: Time) -> bool {
        if self.id.is_none() {
            self.forget(now);
        }
        self.id.is_none() && self.packets.is_empty()
    }

    /// Returns whether a round trip takes at least twice as long as on `other`, which answers.
    pub(crate) fn is_much_slower_than(&self, other: &Path) -> bool {
        let rtts = self.rtt.srtt().zip(other.rtt.srtt());
        other.id.is_some() && other.backoff == 0 && rtts.is_some_and(|(own, others)| others * 2 <= own)
    }

    /// Declares packets lost that have been in flight much longer than usual and have a frame that `moves`.
    /// The probe timer does not expire for them if the path has become slow but still delivers the packets
    /// ahead of them. Looks for such packets only now and then, because there may be thousands that do not
    /// move.
    pub(crate) fn give_up_stuck(&mut self, now: Time, moves: impl Fn(&Sent) -> bool, fates: &mut Fates) {
        let Some(usual) = self.rtt.recent_min().filter(|_| self.look_at <= now) else { return };
        self.look_at = now + MAX_ACK_DELAY;
        let wait = RttEstimator::INITIAL_RTO + usual * 2;
        self.advance();
        for number in self.oldest..self.next_number() {
            let Some(packet) = self.packet(number).filter(|packet| packet.at + wait <= now) else { break };
            if packet.state == State::InFlight && self.frames_of(number).any(&moves) {
                self.lose(number, State::GivenUp, fates);
            }
        }
        self.advance();
    }

    /// Declares all packets in flight lost.
    fn give_up(&mut self, fates: &mut Fates) {
        for number in self.base..self.next_number() {
            if self.packet(number).is_some_and(|p| p.state == State::InFlight) {
                self.lose(number, State::GivenUp, fates);
            }
        }
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// Thousands of packets may be stuck, and packets of other paths keep arriving.
    #[test]
    fn stuck_packets_that_may_not_move_are_rarely_examined() {
        let (start, examined) = (Time::from_millis(1), Cell::new(0));
        let mut path = Path::new(0, 0, start, Some(Duration::from_millis(20)));
        for _ in 0..1_000 {
            path.push_frame(Sent::SessionWindow);
            path.on_sent(start);
        }
        let stays = |_: &Sent| {
            examined.set(examined.get() + 1);
            false
        };
        for n in 0..10_000 {
            let now = start + Duration::from_secs(2) + Duration::from_micros(10) * n;
            path.give_up_stuck(now, stays, &mut Fates::default());
        }
        assert_eq!(examined.get(), 4 * 1_000, "examined more than once in 25 ms");
    }
}
