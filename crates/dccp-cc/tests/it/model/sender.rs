//! The sender of one path. It has a delivery-rate sampler and a controller, counts rounds, and detects a loss
//! after three later packets.

use dccp_cc::{AckEvent, Amount, Controller, Lost, Pacer, RateSampler, RttEstimator, Sent, Snapshot};
use mpdccp_units::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy)]
struct Out {
    snapshot: Snapshot,
    bytes: u32,
    later_acked: u32,
}

/// Content of one acknowledgement.
#[derive(Clone)]
pub struct Ack {
    pub seqs: Vec<u64>,
    pub ce: u64,
    /// Time that the newest packet waited at the receiver.
    pub held: Duration,
}

pub struct Sender {
    pub cc: Box<dyn Controller>,
    pub est: RttEstimator,
    pub inflight: Amount,
    pub lost: u64,
    pub spurious: u64,
    pub rtos: u64,
    pub marked: u64,
    sampler: RateSampler,
    pacer: Pacer,
    out: BTreeMap<u64, Out>,
    /// Packets declared lost, with the time of the declaration. They may still arrive.
    ghosts: BTreeMap<u64, (Time, Out)>,
    next_seq: u64,
    round_end_at: u64,
    recovery_until: u64,
    spurious_left: BTreeSet<u64>,
    last_limited: Time,
    idle_since_start: bool,
    backoff: u32,
    rto_from: Time,
}

impl Sender {
    pub fn new(cc: Box<dyn Controller>) -> Sender {
        Sender {
            cc,
            est: RttEstimator::default(),
            inflight: Amount::default(),
            lost: 0,
            spurious: 0,
            rtos: 0,
            marked: 0,
            sampler: RateSampler::default(),
            pacer: Pacer::default(),
            out: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            next_seq: 0,
            round_end_at: 0,
            recovery_until: 0,
            spurious_left: BTreeSet::new(),
            last_limited: Time::ZERO,
            idle_since_start: true,
            backoff: 0,
            rto_from: Time::ZERO,
        }
    }

    pub fn delivered(&self) -> Amount {
        self.sampler.delivered()
    }

    /// Returns when the next packet may be sent, or `None` if the window is full.
    pub fn gate(&self, now: Time) -> Option<Time> {
        let l = self.cc.limits();
        l.cwnd
            .has_room(self.inflight)
            .then(|| if l.pacing.is_some() { self.pacer.next_send(now) } else { now })
    }

    /// Records that a packet for this path could not be sent.
    pub fn note_limited(&mut self, now: Time) {
        self.last_limited = now;
    }

    fn app_limited(&self, now: Time) -> bool {
        now.since(self.last_limited) > self.est.srtt().unwrap_or_default()
    }

    /// Records that the session sends no further packet on this path now.
    pub fn note_pumped(&mut self, now: Time) {
        if self.app_limited(now) {
            self.sampler.set_app_limited(self.inflight);
        }
    }

    pub fn send(&mut self, now: Time, bytes: u32) -> u64 {
        if self.inflight.packets == 0 {
            self.rto_from = now;
            if !self.idle_since_start && self.sampler.app_limited() {
                self.cc.on_idle_restart(now);
            }
            self.idle_since_start = false;
        }
        let snapshot = self.sampler.on_sent(now, bytes, self.inflight);
        self.cc.on_sent(&Sent { now, bytes, inflight: self.inflight });
        let l = self.cc.limits();
        if let Some(rate) = l.pacing {
            self.pacer.on_sent(now, bytes, rate, l.quantum);
        }
        self.inflight = self.inflight.plus(bytes);
        let seq = self.next_seq;
        self.next_seq += 1;
        self.out.insert(seq, Out { snapshot, bytes, later_acked: 0 });
        seq
    }

    /// Handles an acknowledgement. `returning` is the time that it spent in queues; as in a connection, rate
    /// samples do not contain this time.
    pub fn on_ack(&mut self, now: Time, ack: &Ack, returning: Duration) {
        self.marked += ack.ce;
        let inflight_before = self.inflight;
        let (mut acked, mut lost) = (Amount::default(), Amount::default());
        let mut rtt = None;
        let mut round_end = false;
        for seq in &ack.seqs {
            let o = if let Some(o) = self.out.remove(seq) {
                self.inflight = self.inflight.minus(one(o.bytes));
                o
            } else if let Some((declared, o)) = self.ghosts.remove(seq) {
                self.spurious += 1;
                self.cc.on_late_packet(declared);
                if self.spurious_left.remove(seq) && self.spurious_left.is_empty() {
                    self.cc.on_spurious_loss(now);
                }
                o
            } else {
                continue;
            };
            acked = acked.plus(o.bytes);
            self.sampler.on_acked(now - returning, &o.snapshot, o.bytes);
            round_end |= o.snapshot.delivered.packets >= self.round_end_at;
            if Some(seq) == ack.seqs.iter().max() {
                rtt = Some(now.since(o.snapshot.sent_at).saturating_sub(ack.held));
            }
            for (_, o) in self.out.range_mut(..seq) {
                o.later_acked += 1;
            }
        }
        let gone: Vec<u64> = self
            .out
            .range(..self.next_seq)
            .take_while(|(_, o)| o.later_acked > 0)
            .filter(|(_, o)| o.later_acked >= 3)
            .map(|(s, _)| *s)
            .collect();
        let mut congestion = ack.ce > 0 && ack.seqs.iter().any(|s| *s >= self.recovery_until);
        for seq in gone {
            lost = lost.plus(self.lose(now, seq));
            if seq >= self.recovery_until {
                congestion = true;
                self.spurious_left.clear();
            }
            self.spurious_left.insert(seq);
        }
        if congestion {
            self.recovery_until = self.next_seq;
        }
        if round_end {
            self.round_end_at = self.sampler.delivered().packets;
        }
        if let Some(rtt) = rtt {
            self.est.update(now, rtt);
        }
        if acked.packets > 0 {
            self.backoff = 0;
            self.rto_from = now;
        }
        // By now, a TCP would have retransmitted what was lost.
        if !congestion && ack.seqs.iter().any(|s| *s >= self.recovery_until) {
            self.cc.on_repaired(now);
        }
        let rate = self.sampler.sample(self.est.min().map(|m| m.0));
        let app_limited = self.app_limited(now);
        self.cc.on_ack(&AckEvent {
            now,
            acked,
            lost,
            ce: ack.ce,
            congestion,
            rtt,
            returning,
            estimator: &self.est,
            rate,
            inflight_before,
            inflight: self.inflight,
            delivered: self.sampler.delivered(),
            round_end,
            app_limited,
        });
    }

    fn lose(&mut self, now: Time, seq: u64) -> u32 {
        let o = self.out.remove(&seq).unwrap();
        self.inflight = self.inflight.minus(one(o.bytes));
        self.sampler.on_lost(o.bytes);
        self.cc.on_packet_lost(&Lost {
            now,
            snapshot: &o.snapshot,
            bytes: o.bytes,
            lost: self.sampler.lost(),
            delivered: self.sampler.delivered(),
        });
        self.lost += 1;
        self.ghosts.insert(seq, (now, o));
        if self.ghosts.len() > 2_000 {
            self.ghosts.pop_first();
        }
        o.bytes
    }

    pub fn rto_at(&self) -> Option<Time> {
        (self.inflight.packets > 0).then(|| self.rto_from + self.est.rto() * 2u32.pow(self.backoff.min(6)))
    }

    pub fn on_rto(&mut self, now: Time) {
        let declared: Vec<u64> = self.out.keys().copied().collect();
        for seq in &declared {
            self.lose(now, *seq);
        }
        self.rtos += 1;
        self.backoff += 1;
        self.rto_from = now;
        self.recovery_until = self.next_seq;
        self.spurious_left = declared.into_iter().collect();
        self.cc.on_rto(now);
    }
}

fn one(bytes: u32) -> Amount {
    Amount::default().plus(bytes)
}
