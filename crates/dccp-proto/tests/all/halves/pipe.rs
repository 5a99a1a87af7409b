//! Two pairs of halves connected by a virtual pipe, with a minimal connection that adds sequence numbers and
//! options.

use dccp_proto::ccid::{
    self, AckDue, Arrival, Feedback, HalfConfig, ReceiverHalf, SenderHalf, SenderRequest, TxView,
};
use dccp_proto::{Ecn, Gate};
use dccp_wire::{Opt, OptionBuf, Options, Seq};
use mpdccp_linkem::InFlight;
use mpdccp_units::{Duration, Rate, Time};

const HEADER: u32 = 60;
pub(crate) const DATA: u32 = 1400;

/// How one direction of the pipe treats packets. Each list repeats from its start when it is used up.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) rate: Rate,
    /// Queue limit in packets.
    pub(crate) queue: usize,
    pub(crate) delay: Duration,
    pub(crate) lose: Vec<bool>,
    /// Additional delay of each packet, in microseconds. Differing delays reorder packets.
    pub(crate) jitter: Vec<u32>,
    /// Packets that have to wait longer than this are marked.
    pub(crate) mark: Duration,
}

impl Path {
    pub(crate) fn clean(mbps: f64, delay: Duration) -> Path {
        Path {
            rate: Rate::from_mbps(mbps),
            queue: 1000,
            delay,
            lose: vec![false],
            jitter: vec![0],
            mark: Duration::MAX,
        }
    }
}

#[derive(Debug)]
struct Packet {
    seq: Seq,
    data: bool,
    ecn: Ecn,
    bytes: u32,
    ack: Option<(Seq, OptionBuf)>,
}

pub(crate) struct End {
    pub(crate) tx: Box<dyn SenderHalf>,
    pub(crate) rx: Box<dyn ReceiverHalf>,
    path: Path,
    next: Seq,
    newest: Option<Seq>,
    /// Number of data packets still to be sent.
    pub(crate) backlog: u64,
    pub(crate) acks_sent: u64,
    /// Number of data packets that arrived here.
    pub(crate) arrived: u64,
    pub(crate) requests: Vec<SenderRequest>,
    ack_peer: bool,
    ratio: u16,
    free_at: Time,
    count: usize,
    pub(crate) longest_vector: usize,
}

impl End {
    fn new(ccid: u8, path: Path, first: Seq, peer_first: Seq) -> End {
        let cfg = |first| HalfConfig { seed: 7, ..HalfConfig::new((DATA + HEADER) as u16, first, None) };
        End {
            tx: ccid::sender(ccid, &cfg(first)).unwrap(),
            rx: ccid::receiver(ccid, &cfg(peer_first)).unwrap(),
            path,
            next: first,
            newest: None,
            backlog: 0,
            acks_sent: 0,
            arrived: 0,
            requests: Vec::new(),
            ack_peer: false,
            ratio: 2,
            free_at: Time::ZERO,
            count: 0,
            longest_vector: 0,
        }
    }

    fn packet(&mut self, now: Time, data: bool) -> Packet {
        let seq = self.next;
        self.next = seq.next();
        let mut ack = None;
        if let Some(newest) = self.newest.filter(|_| !data) {
            let mut options = OptionBuf::new();
            self.rx.write_feedback(now, seq, newest, 900, &mut options);
            self.longest_vector = self.longest_vector.max(options.len());
            ack = Some((newest, options));
        }
        let bytes = if data { DATA + HEADER } else { HEADER };
        self.tx.on_sent(now, seq, bytes, data.then_some(DATA));
        Packet { seq, data, ecn: Ecn::Ect0, bytes, ack }
    }

    fn handle(&mut self, now: Time, packet: &Packet) {
        self.arrived += u64::from(packet.data);
        if self.newest.is_none_or(|newest| packet.seq.after(newest)) {
            self.newest = Some(packet.seq);
        }
        let Packet { seq, data, ecn, bytes, .. } = *packet;
        let arrival =
            Arrival { seq, ecn, data, ccval: 0, ndp: None, bytes, payload: if data { DATA } else { 0 } };
        self.rx.on_packet(now, &arrival);
        self.tx.on_peer_packet(now, &arrival);
        let Some((ack, options)) = &packet.ack else { return };
        let (mut vector, mut elapsed) = (Vec::new(), Duration::ZERO);
        for option in Options::new(options.as_bytes()) {
            match option.unwrap() {
                Opt::AckVector(_, cells) => vector.extend_from_slice(cells),
                Opt::ElapsedTime(held) => elapsed = Duration::from_micros(u64::from(held) * 10),
                _ => {}
            }
        }
        let feedback = Feedback { elapsed, ..Feedback::new(*ack, &vector) };
        self.tx.on_feedback(now, &feedback);
        self.rx.on_ack_of_ack(now, &feedback);
        if let Some(rtt) = self.tx.view().rtt.srtt() {
            self.rx.on_rtt(rtt);
        }
    }

    fn next_timeout(&self, now: Time) -> Option<Time> {
        let gate = match self.tx.gate(now) {
            Gate::At(at, _) if self.backlog > 0 => Some(at),
            _ => None,
        };
        let ack = match self.rx.ack_due(now) {
            AckDue::At(at) => Some(at),
            _ => None,
        };
        self.tx.next_timeout().into_iter().chain(gate).chain(ack).min()
    }
}

pub(crate) struct Pipe {
    pub(crate) now: Time,
    pub(crate) ends: [End; 2],
    /// Packets in flight, each with the end it is going to.
    flying: InFlight<(usize, Packet)>,
}

impl Pipe {
    pub(crate) fn new(ccid: u8, forward: Path, reverse: Path) -> Pipe {
        let (a, b) = (Seq::new(Seq::MODULUS - 50), Seq::new(1000));
        Pipe {
            now: Time::ZERO,
            ends: [End::new(ccid, forward, a, b), End::new(ccid, reverse, b, a)],
            flying: InFlight::default(),
        }
    }

    /// Returns the sending half of end 0.
    pub(crate) fn view(&self) -> TxView {
        self.ends[0].tx.view()
    }

    /// Returns the path from end `from`.
    pub(crate) fn path(&mut self, from: usize) -> &mut Path {
        &mut self.ends[from].path
    }

    /// Lets end `from` send data while its gate is open. If the data runs out first, the end is
    /// application-limited.
    pub(crate) fn send(&mut self, from: usize, packets: u64) {
        self.ends[from].backlog += packets;
        self.drain();
    }

    fn carry(&mut self, from: usize, mut packet: Packet) {
        let now = self.now;
        let end = &mut self.ends[from];
        end.count += 1;
        let path = &end.path;
        if path.lose[end.count % path.lose.len()] {
            return;
        }
        let begin = end.free_at.max(now);
        let service = path.rate.time_for(u64::from(packet.bytes));
        if begin.since(now) > service * path.queue as u32 {
            return;
        }
        if begin.since(now) > path.mark {
            packet.ecn = Ecn::Ce;
        }
        end.free_at = begin + service;
        let jitter = Duration::from_micros(path.jitter[end.count % path.jitter.len()].into());
        let arrival = end.free_at + path.delay + jitter;
        self.flying.push(arrival, (1 - from, packet));
    }

    fn drain(&mut self) {
        let now = self.now;
        for me in 0..2 {
            loop {
                let end = &mut self.ends[me];
                while let Some(request) = end.tx.poll_request() {
                    match request {
                        SenderRequest::AckPeer => end.ack_peer = true,
                        SenderRequest::AckRatio(ratio) => end.ratio = ratio,
                        // The pipe has no Syncs, so ignore these requests.
                        SenderRequest::SequenceWindow(_) | SenderRequest::Probe => {}
                    }
                    end.requests.push(request);
                }
                if end.ack_peer || end.rx.ack_due(now) == AckDue::Now {
                    end.ack_peer = false;
                    end.acks_sent += 1;
                    let packet = end.packet(now, false);
                    self.carry(me, packet);
                    continue;
                }
                if end.backlog > 0 && matches!(end.tx.gate(now), Gate::Open { .. }) {
                    end.backlog -= 1;
                    let packet = end.packet(now, true);
                    self.carry(me, packet);
                    continue;
                }
                if end.backlog == 0 {
                    end.tx.on_app_limited(now);
                } else {
                    end.tx.on_blocked(now, false);
                }
                break;
            }
        }
        // Negotiated values take effect at once.
        for me in 0..2 {
            let ratio = self.ends[me].ratio;
            self.ends[me].tx.on_ack_ratio(ratio);
            self.ends[1 - me].rx.on_ack_ratio(ratio);
        }
    }

    /// Returns the time of the next event.
    fn next_event(&self) -> Option<Time> {
        let timers = self.ends.iter().filter_map(|end| end.next_timeout(self.now)).min();
        self.flying.next_arrival().into_iter().chain(timers).min().map(|at| at.max(self.now))
    }

    /// Processes one event. Returns false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(next) = self.next_event() else { return false };
        self.now = next;
        if let Some((_, (to, packet))) = self.flying.pop(next) {
            self.ends[to].handle(next, &packet);
        } else {
            for end in &mut self.ends {
                end.tx.on_timeout(next);
            }
        }
        self.drain();
        true
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        while self.next_event().is_some_and(|next| next <= end) && self.step() {}
        self.now = end;
    }
}
