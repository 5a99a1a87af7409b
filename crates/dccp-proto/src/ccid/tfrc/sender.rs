use super::counter::{Counter, wrapped};
use super::options::{MAX_24, Told};
use super::sent_log::{Sent, SentLog};
use crate::ccid::{Counts, Feedback, HalfConfig, Handover, SenderHalf, SenderRequest, TxView};
use crate::{Gate, Why};
use alloc::vec::Vec;
use dccp_cc::tfrc::{LossInterval, NINTERVAL, Report, TfrcConfig, TfrcSender, loss_event_rate};
use dccp_cc::{Amount, Pacer, RttEstimator, Window};
use dccp_wire::Seq;
use mpdccp_units::{Duration, Rate, Time};

/// Approximate size of IP, UDP and DCCP headers, used until a packet has been measured.
const HEADERS: u32 = 60;
/// Round-trip time before any estimate (RFC 4340 section 3.4).
const DEFAULT_RTT: Duration = Duration::from_millis(200);
/// Minimum time between data packets of CCID 4 (RFC 5622 section 5).
const SMALL_PACKET_INTERVAL: Duration = Duration::from_millis(10);
/// Largest burst, as time at the current rate.
const QUANTUM: Duration = Duration::from_millis(1);
/// Number of loss intervals remembered: those in the average, and as many older ones for discounting.
const MAX_INTERVALS: usize = 2 * NINTERVAL + 1;
/// Sequence Window as a multiple of the packets per round trip (RFC 4340 section 7.5.2), and its minimum and
/// maximum.
const WINDOW_FACTOR: f64 = 5.0;
const MIN_WINDOW: u64 = 1 << 10;
const MAX_WINDOW: u64 = 1 << 21;
/// If the rate rises by more than this factor, the next packet may leave earlier than scheduled.
const RISE: f64 = 1.5;

/// A loss interval and its first packet.
#[derive(Clone, Copy, Debug)]
struct Known {
    first: Seq,
    /// Window counter at the beginning of the interval, if known.
    counter: Option<u64>,
    interval: LossInterval,
}

/// Sending half of CCIDs 3 and 4: sends at the rate that [`TfrcSender`] permits.
#[derive(Debug)]
pub struct TfrcSenderHalf {
    tfrc: TfrcSender,
    /// Whether this is CCID 4.
    small_packets: bool,
    mtu: u16,
    pacer: Pacer,
    /// The rate that the pacer used last.
    paced: Rate,
    counter: Counter,
    log: SentLog,
    /// Reported loss intervals, newest first.
    intervals: Vec<Known>,
    rtt: RttEstimator,
    inflight: Amount,
    /// Only the halves that this half succeeds have counted spurious losses, marks and timeouts here.
    counts: Counts,
    receive_rate: f64,
    last_sent: Option<(Time, u32)>,
    window: u64,
    window_asked: u64,
    ack_peer: bool,
}

impl TfrcSenderHalf {
    /// Creates a half. `small_packets` is true for CCID 4.
    pub fn new(small_packets: bool, cfg: &HalfConfig) -> TfrcSenderHalf {
        let wire = u32::from(cfg.mtu);
        let tfrc = TfrcConfig {
            small_packets,
            oscillation_reduction: !cfg.cc.plain_tfrc,
            payload: wire.saturating_sub(HEADERS).max(1),
            wire,
        };
        let mut rtt = RttEstimator::default();
        if let Some(sample) = cfg.handshake_rtt {
            rtt.update(cfg.now, sample);
        }
        TfrcSenderHalf {
            tfrc: TfrcSender::new(tfrc, cfg.now, cfg.handshake_rtt),
            small_packets,
            mtu: cfg.mtu,
            pacer: Pacer::default(),
            paced: Rate::ZERO,
            counter: Counter::default(),
            log: SentLog::new(cfg.first_seq),
            intervals: Vec::new(),
            rtt,
            inflight: Amount::default(),
            counts: Counts::default(),
            receive_rate: 0.0,
            last_sent: None,
            window: 0,
            window_asked: 0,
            ack_peer: false,
        }
    }

    /// Returns when the next data packet may leave.
    fn release(&self, now: Time) -> Time {
        let paced = self.pacer.next_send(now);
        match self.last_sent.filter(|_| self.small_packets) {
            Some((last, _)) => paced.max(last + SMALL_PACKET_INTERVAL),
            None => paced,
        }
    }

    /// Returns the maximum number of bytes that may be sent at once. RFC 5348 section 4.6 permits as many
    /// bytes as are sent in a round trip, but a slow link cannot buffer that many.
    fn quantum(&self, rate: Rate) -> u32 {
        let round = self.tfrc.rtt().unwrap_or(DEFAULT_RTT);
        let bytes =
            rate.bytes_in(QUANTUM.min(round)).max(u64::from(self.last_sent.map_or(1, |(_, bytes)| bytes)));
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    fn on_data_sent(&mut self, now: Time, payload: u32, bytes: u32) {
        let release = self.release(Time::ZERO);
        // The sender used its full rate if the pacer delayed the packet and the packet left soon after the
        // pacer released it.
        let limited = self.last_sent.is_some_and(|(last, _)| {
            let held = release.since(last);
            !held.is_zero() && now.since(release) <= held / 4
        });
        self.last_sent = Some((now, bytes));
        self.tfrc.on_sent(now, payload, bytes, limited);
        self.paced = self.tfrc.wire_rate();
        self.pacer.on_sent(now, bytes, self.paced, self.quantum(self.paced));
        self.inflight = self.inflight.plus(bytes);
        self.counts.sent = self.counts.sent.plus(bytes);
    }

    /// `packets` packets with `bytes` bytes are no longer in flight, and at least `lost` of them were lost.
    /// The report does not say exactly how many.
    fn settle(&mut self, (packets, bytes): (u64, u64), lost: u64) {
        let gone = Amount { packets, bytes };
        self.inflight = self.inflight.minus(gone);
        let lost = lost.min(packets);
        let lost = Amount { packets: lost, bytes: bytes.checked_div(packets).unwrap_or(0) * lost };
        self.counts.lost = self.counts.lost.and(lost);
        self.counts.delivered = self.counts.delivered.and(gone.minus(lost));
    }

    /// Records the reported loss intervals, and returns the number of new loss events.
    fn learn(&mut self, ack: Seq, told: &Told) -> u64 {
        let mut next = ack.next().sub(told.skip);
        let mut known: Vec<Known> = Vec::with_capacity(MAX_INTERVALS);
        for interval in &told.intervals {
            let first = next.sub(interval.packets());
            let old = self.intervals.iter().find(|old| old.first == first);
            let counter = old.and_then(|old| old.counter).or(self.log.get(first).map(|sent| sent.counter));
            // RFC 4342 section 6.1.1: only the very first interval may have a larger Data Length than its
            // number of packets.
            let oldest = interval.lossy == 0;
            let data = if oldest { interval.data } else { interval.data.min(interval.packets()) };
            known.push(Known { first, counter, interval: LossInterval { data, ..*interval } });
            next = first;
        }
        // Keep intervals that the receiver need not repeat (RFC 4342 section 8.6.1). An interval without
        // losses is the receiver's first one, so if it is reported, drop older intervals.
        if told.intervals.last().is_some_and(|interval| interval.lossy > 0) {
            known.extend(self.intervals.iter().filter(|old| old.first.before(next)));
        }
        known.truncate(MAX_INTERVALS);
        let mut end = self.log.get(ack).map(|sent| sent.counter);
        for known in &mut known {
            known.interval.quarters = end.zip(known.counter).map(|(end, start)| end.saturating_sub(start));
            end = known.counter;
        }
        let newest = self.intervals.iter().find(|old| old.interval.lossy > 0).map(|old| old.first);
        // An interval with the highest length that the option can carry began earlier than computed, so it is
        // not new.
        let is_new = |k: &&Known| {
            k.interval.lossy > 0
                && k.interval.lossless < MAX_24
                && newest.is_none_or(|newest| k.first.after(newest))
        };
        let events = known.iter().filter(is_new).count() as u64;
        self.intervals = known;
        events
    }

    /// Returns the loss event rate p and the number of new loss events. p follows from the reported loss
    /// intervals; if there are none, it is the rate that the receiver computed.
    fn judge(&mut self, ack: Seq, told: &Told) -> Option<(f64, u64)> {
        if told.intervals.is_empty() {
            let p = told.p()?;
            return Some((p, u64::from(p > self.tfrc.loss_event_rate())));
        }
        let events = self.learn(ack, told);
        let intervals: Vec<LossInterval> = self.intervals.iter().map(|known| known.interval).collect();
        Some((loss_event_rate(&intervals, true, self.small_packets), events))
    }

    fn on_report(&mut self, now: Time, feedback: &Feedback<'_>, receive_rate: u32, p: f64, events: u64) {
        let sent = self.log.get(feedback.ack).copied();
        let sample = sent.map(|sent| now.since(sent.at).saturating_sub(feedback.elapsed));
        let sample = sample.filter(|sample| !sample.is_zero());
        if let Some(sample) = sample {
            self.rtt.update(now, sample);
        }
        if let Some(sent) = sent.filter(|sent| sent.bytes > 0) {
            self.counter.on_acked(now, sent.counter);
        }
        self.receive_rate = f64::from(receive_rate);
        self.tfrc.on_report(
            now,
            &Report {
                rtt: sample,
                sent: sent.map_or(now, |sent| sent.at.min(now)),
                receive_rate: self.receive_rate,
                loss_event_rate: p,
                new_loss_event: events > 0,
            },
        );
        self.hurry();
        let round = self.tfrc.rtt().unwrap_or(DEFAULT_RTT);
        let packets =
            self.inflight.packets.max(self.tfrc.wire_rate().bytes_in(round) / u64::from(self.mtu.max(1)));
        let window = (packets as f64 * WINDOW_FACTOR) as u64;
        self.window = self.window.max(window.clamp(MIN_WINDOW, MAX_WINDOW).next_power_of_two());
    }

    /// Lets the next packet leave earlier if the rate has risen a lot since the last packet.
    fn hurry(&mut self) {
        let rate = self.tfrc.wire_rate();
        if let Some((at, bytes)) = self.last_sent
            && rate > self.paced.scale(RISE)
        {
            self.paced = rate;
            self.pacer = Pacer::default();
            self.pacer.on_sent(at, bytes, rate, bytes);
        }
    }
}

impl SenderHalf for TfrcSenderHalf {
    fn gate(&self, now: Time) -> Gate {
        let release = self.release(now);
        if release > now {
            return Gate::At(release, Why::Pacing);
        }
        let rate = self.tfrc.wire_rate();
        let burst = if self.small_packets { 1 } else { self.pacer.burst(now, rate, self.quantum(rate)) };
        Gate::Open { burst: burst.max(1) }
    }

    fn ccval(&self, now: Time) -> u8 {
        wrapped(self.counter.at(now, self.tfrc.rtt()))
    }

    fn on_sent(&mut self, now: Time, seq: Seq, bytes: u32, payload: Option<u32>) {
        let rtt = self.tfrc.rtt();
        let counter =
            if payload.is_some() { self.counter.on_sent(now, rtt) } else { self.counter.at(now, rtt) };
        let data = if payload.is_some() { bytes.max(1) } else { 0 };
        self.log.push(seq, Sent { at: now, counter, bytes: data });
        if let Some(payload) = payload {
            self.on_data_sent(now, payload, bytes.max(1));
        }
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        let gone = self.log.acknowledge(feedback.ack);
        // RFC 4342 section 6.3: the receiver drops Ack Vector state only when its acknowledgements are
        // acknowledged.
        self.ack_peer |= !feedback.vector.is_empty();
        let told = Told::read(feedback.options);
        let judged = told.receive_rate.and_then(|rate| Some((rate, self.judge(feedback.ack, &told)?)));
        let lost = judged.map_or(0, |(_, (_, events))| events);
        self.settle(gone, lost);
        // RFC 4342 section 6: an acknowledgement without these options is not feedback for the rate.
        if let Some((rate, (p, events))) = judged {
            self.on_report(now, feedback, rate, p, events);
        }
    }

    fn on_slow_receiver(&mut self, _now: Time, buffer_drops: u64) {
        self.tfrc.on_slow_receiver(buffer_drops);
        self.ack_peer |= buffer_drops > 0;
    }

    fn on_timeout(&mut self, now: Time) {
        let before = self.tfrc.timeouts();
        self.tfrc.on_timeout(now);
        if self.tfrc.timeouts() > before {
            let gone = self.log.acknowledge_all();
            self.settle(gone, gone.0);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.tfrc.next_timeout()
    }

    fn poll_request(&mut self) -> Option<SenderRequest> {
        if self.window > self.window_asked {
            self.window_asked = self.window;
            return Some(SenderRequest::SequenceWindow(self.window));
        }
        core::mem::take(&mut self.ack_peer).then_some(SenderRequest::AckPeer)
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    fn hand_over(&self, now: Time, acked: Seq) -> Handover {
        let outstanding = self.log.outstanding(acked);
        Handover::of(&self.view(), now, self.mtu, self.tfrc.settled(), outstanding)
    }

    fn take_over(&mut self, from: &Handover) {
        if let Some(found) = &from.found {
            self.tfrc.inherit(found);
            if let Some(srtt) = found.srtt {
                self.rtt = RttEstimator::default();
                self.rtt.update(found.now, srtt);
            }
        }
        for packet in &from.outstanding {
            self.log.push(packet.seq, Sent { at: packet.at, counter: 0, bytes: packet.bytes.max(1) });
            self.inflight = self.inflight.plus(packet.bytes);
        }
        self.counts = from.counts;
    }

    fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Returns the complete state. TFRC has no window, so `cwnd` is the rate times the round-trip time.
    /// `lost` counts one packet for each loss event, because reports do not say how many packets were lost.
    fn view(&self) -> TxView {
        let rate = self.tfrc.wire_rate();
        let round = self.tfrc.rtt().unwrap_or(DEFAULT_RTT);
        let wire_share = rate.bps() as f64 / (self.tfrc.rate() * 8.0).max(1.0);
        let last_sent = self.last_sent.map(|(at, _)| at);
        TxView {
            cwnd: Window::Bytes(rate.bytes_in(round).max(1)),
            inflight: self.inflight,
            pacing: Some(rate),
            rtt: self.rtt.clone(),
            delivery_rate: Rate::from_bps((self.receive_rate * wire_share * 8.0) as u64),
            bottleneck: None,
            app_limited: last_sent.is_none_or(|last| self.tfrc.data_limited_since(last - round)),
            phase: self.tfrc.phase(),
            sent: self.counts.sent,
            delivered: self.counts.delivered,
            lost: self.counts.lost,
            spurious: self.counts.spurious,
            ce: self.counts.ce,
            timeouts: self.counts.timeouts + self.tfrc.timeouts(),
            last_sent,
            probing_rtt: false,
            resumption: None,
            capacity: None,
        }
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
