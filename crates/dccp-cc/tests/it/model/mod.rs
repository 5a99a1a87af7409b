//! A small network in virtual time: sessions of one or more paths over emulated links, to test controllers.
//!
//! Receivers acknowledge every second packet, or a single packet after 25 ms. Acknowledgements are never
//! lost. They either take a constant time, or pass through a link that may also carry data.
#![allow(dead_code, unreachable_pub)]

#[path = "../../../../../tests/page.rs"]
pub mod page;
pub mod scenario;
pub mod sender;

use dccp_cc::{Controller, Coupling, Seen};
use mpdccp_linkem::{Ecn, InFlight, Link, LinkConfig, LossModel, Meta, Verdict};
use mpdccp_units::{Duration, Rate, Time};
use sender::{Ack, Sender};
use std::collections::VecDeque;

pub const PAYLOAD: u32 = 1300;
/// IP bytes of a packet: payload, DCCP header with options, UDP header, IP header.
pub const WIRE: u32 = 1344;
/// IP bytes of an acknowledgement.
const ACK_WIRE: u32 = 64;
const ACK_DELAY: Duration = Duration::from_millis(25);

#[derive(Clone)]
struct Pkt {
    session: usize,
    path: usize,
    load: Load,
}

#[derive(Clone)]
enum Load {
    Data { seq: u64, born: Time },
    Ack { sent_at: Time, ack: Ack },
}

/// Source of packets.
pub enum Source {
    /// Always has another packet.
    Bulk,
    /// Writes payload at a constant `rate` into a queue of `queue` packets.
    Cbr { rate: Rate, queue: usize },
}

/// A packet that arrived.
#[derive(Clone, Copy)]
pub struct Got {
    pub born: Time,
    pub at: Time,
    pub path: usize,
}

#[derive(Default)]
struct Receiver {
    pending: Vec<(u64, Time)>,
    ce: u64,
}

struct Path {
    link: usize,
    reverse: Duration,
    /// Link that carries the acknowledgements. If `None`, they take the constant time `reverse`.
    back: Option<usize>,
    tx: Sender,
    rx: Receiver,
}

pub struct Session {
    source: Source,
    start: Time,
    next_born: Time,
    queue: VecDeque<Time>,
    paths: Vec<Path>,
    wake: Option<Time>,
    pub got: Vec<Got>,
    pub queue_drops: u64,
    /// Couples the session's paths.
    pub coupling: Option<Coupling>,
    /// The time and the new phase at each phase change of path 0, checked about every millisecond.
    pub phases: Vec<(Time, &'static str)>,
}

impl Session {
    /// Each element of `paths` has the index of its link, the delay of acknowledgements and a controller. A
    /// packet takes the first path that can send.
    pub fn new(source: Source, start: Time, paths: Vec<(usize, Duration, Box<dyn Controller>)>) -> Session {
        Session {
            source,
            start,
            next_born: start,
            queue: VecDeque::new(),
            paths: paths
                .into_iter()
                .map(|(link, reverse, cc)| Path {
                    link,
                    reverse,
                    back: None,
                    tx: Sender::new(cc),
                    rx: Receiver::default(),
                })
                .collect(),
            wake: Some(start),
            got: Vec::new(),
            queue_drops: 0,
            coupling: None,
            phases: Vec::new(),
        }
    }

    pub fn sender(&self, path: usize) -> &Sender {
        &self.paths[path].tx
    }

    fn couple(&mut self, now: Time, path: usize) {
        let Some(coupling) = &mut self.coupling else { return };
        let tx = &self.paths[path].tx;
        let seen = Seen {
            rtt: tx.est.latest().map(|rtt| (rtt, tx.est.updated())),
            delivered: tx.delivered().bytes,
            probing_rtt: tx.cc.probing_rtt(),
        };
        if coupling.on_seen(now, path as u32, &seen) {
            for (id, p) in (0..).zip(&mut self.paths) {
                p.tx.cc.couple(&coupling.part(id));
            }
        }
    }

    /// Moves this path to another link.
    pub fn move_path(&mut self, path: usize, link: usize) {
        self.paths[path].link = link;
    }

    /// Sends the acknowledgements of this path over a link.
    pub fn acknowledge_over(&mut self, path: usize, link: usize) {
        self.paths[path].back = Some(link);
    }

    fn fill(&mut self, now: Time) {
        let Source::Cbr { rate, queue } = &self.source else { return };
        while self.next_born <= now {
            if self.queue.len() < *queue {
                self.queue.push_back(self.next_born);
            } else {
                self.queue_drops += 1;
            }
            self.next_born += rate.time_for(u64::from(PAYLOAD));
        }
    }

    fn waiting(&self) -> bool {
        matches!(self.source, Source::Bulk) || !self.queue.is_empty()
    }
}

#[derive(Default)]
pub struct World {
    pub now: Time,
    links: Vec<Link<Pkt>>,
    pub sessions: Vec<Session>,
    acks: InFlight<(usize, usize, Ack)>,
    /// Minimum time between two printed trace lines.
    pub trace: Option<Duration>,
    last_trace: Time,
    /// Duration and interval of the host's periodic sleep. Packets that arrive during a sleep are handled
    /// when the host wakes.
    pub stall: Option<(Duration, Duration)>,
    /// Whether packets are ECN-capable.
    pub ecn: bool,
    /// Whether packets carry ECT(1), for L4S.
    pub l4s: bool,
}

impl World {
    pub fn new(links: Vec<LinkConfig>, seed: u64, sessions: Vec<Session>) -> World {
        let links =
            links.into_iter().zip(seed..).map(|(c, s)| Link::new(c, s, Time::ZERO).unwrap()).collect();
        World { links, sessions, ..World::default() }
    }

    pub fn run(&mut self, until: Time) {
        while let Some(t) = self.next_event().filter(|t| *t <= until) {
            self.now = self.now.max(self.awake(t));
            self.step();
        }
        self.now = until;
    }

    /// Sets the delay of a link in both directions.
    pub fn set_delay(&mut self, link: usize, delay: Duration) {
        self.links[link].set_delay(self.now, delay);
        for p in self.sessions.iter_mut().flat_map(|s| &mut s.paths).filter(|p| p.link == link) {
            p.reverse = delay;
        }
    }

    pub fn set_rate(&mut self, link: usize, mbps: f64) {
        self.links[link].set_rate(self.now, Rate::from_mbps(mbps));
    }

    /// Sets the probability with which the link loses packets, for packets that the link has not sent yet.
    pub fn set_loss(&mut self, link: usize, loss: f64) {
        let config = LinkConfig { loss: LossModel::Bernoulli(loss), ..self.links[link].config().clone() };
        self.links[link].reconfigure(self.now, config).unwrap();
    }

    /// Changes the source of a session's packets.
    pub fn set_source(&mut self, session: usize, source: Source) {
        let now = self.now;
        let s = &mut self.sessions[session];
        (s.source, s.next_born, s.wake) = (source, now, Some(now));
        s.queue.clear();
    }

    pub fn set_up(&mut self, link: usize, up: bool) {
        if up {
            self.links[link].set_up(self.now);
        } else {
            self.links[link].set_down(self.now);
        }
    }

    fn awake(&self, t: Time) -> Time {
        let Some((length, every)) = self.stall else { return t };
        let into = Duration::from_nanos(t.as_nanos() % every.as_nanos() as u64);
        if into < length { t + (length - into) } else { t }
    }

    fn next_event(&self) -> Option<Time> {
        let mut at = self.acks.next_arrival();
        let mut also = |t: Option<Time>| at = at.into_iter().chain(t).min();
        for l in &self.links {
            also(l.next_event());
        }
        for s in &self.sessions {
            also(s.wake);
            if !matches!(s.source, Source::Bulk) {
                also(Some(s.next_born));
            }
            for p in &s.paths {
                also(p.tx.rto_at());
                also(p.rx.pending.first().map(|f| f.1 + ACK_DELAY));
            }
        }
        at
    }

    fn step(&mut self) {
        let now = self.now;
        for l in 0..self.links.len() {
            while let Some(d) = self.links[l].pop(now) {
                let Pkt { session, path, load } = d.packet;
                match load {
                    Load::Data { seq, born } => {
                        let s = &mut self.sessions[session];
                        s.got.push(Got { born, at: now, path });
                        let rx = &mut s.paths[path].rx;
                        rx.pending.push((seq, now));
                        rx.ce += u64::from(d.meta.ecn == Ecn::Ce);
                        self.acknowledge(session, path);
                    }
                    Load::Ack { sent_at, ack } => {
                        let queued = now.since(sent_at).saturating_sub(self.links[l].config().delay);
                        self.on_ack(session, path, &ack, queued);
                    }
                }
            }
        }
        while let Some((_, (s, p, ack))) = self.acks.pop(now) {
            self.on_ack(s, p, &ack, Duration::ZERO);
        }
        for s in 0..self.sessions.len() {
            for p in 0..self.sessions[s].paths.len() {
                self.acknowledge(s, p);
                if self.sessions[s].paths[p].tx.rto_at().is_some_and(|t| t <= now) {
                    self.sessions[s].paths[p].tx.on_rto(now);
                    self.pump(s);
                }
            }
            let due = !matches!(self.sessions[s].source, Source::Bulk) && self.sessions[s].next_born <= now;
            if due || self.sessions[s].wake.is_some_and(|t| t <= now) {
                self.pump(s);
            }
        }
    }

    fn on_ack(&mut self, s: usize, p: usize, ack: &Ack, returning: Duration) {
        self.sessions[s].paths[p].tx.on_ack(self.now, ack, returning);
        self.sessions[s].couple(self.now, p);
        self.pump(s);
        self.look(s);
    }

    fn look(&mut self, s: usize) {
        let now = self.now;
        let phase = self.sessions[s].paths[0].tx.cc.phase();
        if self.sessions[s].phases.last().is_none_or(|l| l.1 != phase) {
            self.sessions[s].phases.push((now, phase));
        }
        if self.trace.is_some_and(|d| now.since(self.last_trace) >= d) {
            self.last_trace = now;
            let p = &self.sessions[s].paths[0];
            let l = p.tx.cc.limits();
            println!(
                "{:.4} s{s} {:10} bw {:8.3} pace {:8.3} cwnd {:7} inflight {:7} rtt {:7.3} queue {}",
                now.as_secs_f64(),
                phase,
                p.tx.cc.bottleneck().unwrap_or(Rate::ZERO).mbps(),
                l.pacing.map_or(0.0, Rate::mbps),
                l.cwnd.bytes(WIRE as u16),
                p.tx.inflight.bytes,
                p.tx.est.latest().unwrap_or_default().as_secs_f64() * 1e3,
                self.links[p.link].queue_len().bytes,
            );
        }
    }

    /// Sends an acknowledgement if one is due.
    fn acknowledge(&mut self, s: usize, p: usize) {
        let path = &mut self.sessions[s].paths[p];
        let Some(first) = path.rx.pending.first() else { return };
        if path.rx.pending.len() < 2 && first.1 + ACK_DELAY > self.now {
            return;
        }
        let pending = std::mem::take(&mut path.rx.pending);
        let newest = pending.iter().max().unwrap().1;
        let ack = Ack {
            seqs: pending.iter().map(|p| p.0).collect(),
            ce: std::mem::take(&mut path.rx.ce),
            held: self.now.since(newest),
        };
        let Some(back) = path.back else { return self.acks.push(self.now + path.reverse, (s, p, ack)) };
        let ce = ack.ce;
        let meta = Meta { bytes: ACK_WIRE, ..Meta::default() };
        let packet = Pkt { session: s, path: p, load: Load::Ack { sent_at: self.now, ack } };
        // If the queue is full, the acknowledgement is sent again at the next event.
        if self.links[back].push(self.now, meta, packet) != Verdict::Queued {
            (path.rx.pending, path.rx.ce) = (pending, ce);
        }
    }

    fn pump(&mut self, si: usize) {
        let now = self.now;
        let s = &mut self.sessions[si];
        s.wake = None;
        if now < s.start {
            s.wake = Some(s.start);
            return;
        }
        s.fill(now);
        while s.waiting() {
            let mut chosen = None;
            for (i, p) in s.paths.iter_mut().enumerate() {
                match p.tx.gate(now) {
                    Some(t) if t <= now => {
                        chosen = Some(i);
                        break;
                    }
                    at => {
                        p.tx.note_limited(now);
                        s.wake = s.wake.into_iter().chain(at).min();
                    }
                }
            }
            let Some(i) = chosen else { break };
            s.wake = None;
            let born = if let Source::Bulk = s.source { now } else { s.queue.pop_front().unwrap() };
            let p = &mut s.paths[i];
            let seq = p.tx.send(now, WIRE);
            let capable = if self.l4s { Ecn::Ect1 } else { Ecn::Ect0 };
            let ecn = if self.ecn { capable } else { Ecn::NotEct };
            let meta = Meta { bytes: WIRE, ecn, ..Meta::default() };
            self.links[p.link].push(now, meta, Pkt { session: si, path: i, load: Load::Data { seq, born } });
        }
        for p in &mut s.paths {
            p.tx.note_pumped(now);
        }
    }
}

/// A session's results between two times.
pub struct Summary {
    /// Rate of the payload, Mbit/s.
    pub mbps: f64,
    /// Latency in ms: p50, p95, p99, max.
    pub latency: [f64; 4],
}

pub fn summary(got: &[Got], from: Time, to: Time) -> Summary {
    let mut ms: Vec<f64> = got
        .iter()
        .filter(|g| g.at >= from && g.at < to)
        .map(|g| g.at.since(g.born).as_secs_f64() * 1e3)
        .collect();
    ms.sort_by(f64::total_cmp);
    let at = |q: f64| {
        ms.get(((ms.len() as f64 * q) as usize).min(ms.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    };
    Summary { mbps: mbps(ms.len(), to.since(from)), latency: [at(0.5), at(0.95), at(0.99), at(1.0)] }
}

fn mbps(packets: usize, d: Duration) -> f64 {
    packets as f64 * f64::from(PAYLOAD) * 8.0 / d.as_secs_f64() / 1e6
}

/// Returns the payload rate in consecutive bins, Mbit/s.
pub fn bins(got: &[Got], path: Option<usize>, from: Time, to: Time, width: Duration) -> Vec<f64> {
    let n = (to.since(from).as_nanos() / width.as_nanos()) as usize;
    let mut count = vec![0; n];
    for g in got.iter().filter(|g| g.at >= from && path.is_none_or(|p| p == g.path)) {
        let i = (g.at.since(from).as_nanos() / width.as_nanos()) as usize;
        if i < n {
            count[i] += 1;
        }
    }
    count.into_iter().map(|c| mbps(c, width)).collect()
}

/// Jain's index of fairness. It is 1 if all rates are equal, and k/n if k of n rates are equal and the others
/// are zero.
pub fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    sum * sum / (rates.len() as f64 * squares)
}

/// Returns the rate of payload that fills a link, Mbit/s.
pub fn full(rate_mbps: f64) -> f64 {
    rate_mbps * f64::from(PAYLOAD) / f64::from(WIRE)
}
