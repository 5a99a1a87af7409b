//! Sends packets. A packet gets its path and MP_SEQ only when that path can send it now.

use super::Session;
use super::class_queues::{ClassQueue, Source, Waiting};
use super::repair::Copy;
use super::subflow::{IDLE, Subflow};
use crate::sched::{Pick, priorities};
use crate::{Counter, PathId, PathRow, PathState, PktInfo, QueueView, Room, SessionState, Wake};
use alloc::vec::Vec;
use dccp_proto::{Connection, Gate, Sink, Why};
use dccp_wire::{MpOption, Opt};
use mpdccp_units::Time;

/// Maximum number of packets that one session sends in one call. The rest follow after other sessions have
/// had their turn.
const BUDGET: usize = 256;
/// Maximum number of packets without data that a connection sends in one call.
const CONTROL_BUDGET: usize = 16;

impl Session {
    /// Like [`poll_transmit`](Self::poll_transmit), but sends at most `allowance` bytes of data if it is set.
    /// Returns the unused allowance, and whether the allowance held data back.
    pub(crate) fn poll_transmit_within(
        &mut self,
        now: Time,
        allowance: Option<i64>,
        sink: &mut dyn Sink,
    ) -> (i64, bool) {
        (self.allowance, self.held) = (allowance, false);
        self.poll_transmit(now, sink);
        (self.allowance.take().unwrap_or(0), self.held)
    }

    /// Writes all packets that may be sent now.
    pub(crate) fn poll_transmit(&mut self, now: Time, sink: &mut dyn Sink) {
        (self.wake, self.polled) = (None, now);
        let connections = self.paths.iter_mut().filter_map(|p| p.conn.as_mut());
        for conn in connections.chain(&mut self.dying) {
            for _ in 0..CONTROL_BUDGET {
                if !conn.poll_transmit(now, sink) {
                    break;
                }
            }
        }
        self.dying.clear();
        if self.state == SessionState::Open {
            let signals = self.transmit_signals(now, sink);
            self.transmit_data(now, sink);
            self.wake_at(signals, Wake::Gate);
        }
    }

    /// Returns whether other sessions must send before this one.
    fn wait_for_turn(&mut self, now: Time) -> bool {
        let waits = self.allowance.is_some_and(|bytes| bytes <= 0);
        if waits {
            self.held = true;
            self.tell_app_limited(now);
        }
        waits
    }

    pub(super) fn wake_at(&mut self, at: Option<Time>, why: Wake) {
        self.wake = self.wake.into_iter().chain(at.map(|t| (t, why))).min_by_key(|(t, _)| *t);
    }

    fn transmit_data(&mut self, now: Time, sink: &mut dyn Sink) {
        let mut waiting = Waiting::default();
        if self.next_source(now, &waiting).is_none() && !self.fec.is_waiting() {
            return self.tell_app_limited(now);
        }
        if self.wait_for_turn(now) {
            return;
        }
        let options = self.options_len();
        self.rows.clear();
        self.paths.iter_mut().for_each(|p| p.watch_loss(now));
        self.rows.extend(self.paths.iter().map(|p| p.row(now, options)));
        if self.rows.iter().any(|row| row.gate == Gate::Closed(Why::NotListening)) {
            // RFC 4340 section 11.7.2: no more data will reach the peer's application. Do not make the local
            // application wait for room in the queue.
            self.drop_datagrams();
            return self.tell_app_limited(now);
        }
        self.avoid_doubtful_sizes(options);
        // Whether the packet is too big for all paths that are up or, if none is up, for all paths that may
        // come back. A packet that will fit once PARTOPEN ends does not count as too big.
        let most = |state| {
            let usable = self.paths.iter().filter(move |p| p.state == state);
            usable.filter_map(|p| p.conn.as_ref().map(|c| c.max_payload_open(options))).max()
        };
        let most = most(PathState::Up).or_else(|| most(PathState::Suspect));
        self.tune_queues(now);
        for _ in 0..BUDGET {
            if let Some(at) = self.cap.shut(now) {
                // The packets are held back by the session's rate limit, not by the paths.
                self.tell_app_limited(now);
                return self.wake_at(Some(at), Wake::Rate);
            }
            self.send_fec(now, sink);
            let Some((source, info)) = self.next_source(now, &waiting) else {
                // Packets may still be waiting because rules forbid them on the open paths. In that case, the
                // application is not the limit.
                return if waiting.is_empty() {
                    self.tell_app_limited(now)
                };
            };
            if self.wait_for_turn(now) {
                return;
            }
            if most.is_some_and(|most| info.len > most) {
                self.drop_too_big(source);
                continue;
            }
            let class = self.class_of(&info);
            let streams = matches!(source, Source::Streams(_));
            let backlog = match &self.streams {
                Some(carried) if streams => carried.view(now, class),
                _ => self.classes.all[class].queue.view(now),
            };
            let (pick, head_start) = match self.offer(now, class, &info, &backlog) {
                true => {
                    let offered = if self.offered_all { &self.rows } else { &self.offered };
                    let ClassQueue { scheduler, stream_scheduler, .. } = &mut self.classes.all[class];
                    let scheduler = if streams { stream_scheduler } else { scheduler };
                    (scheduler.pick(now, &info, &backlog, offered), scheduler.head_start())
                }
                // Do not drop stream packets, because the streams would only retransmit their bytes.
                false if streams => {
                    waiting.add(source);
                    continue;
                }
                false => (Pick::Drop, 0),
            };
            match pick {
                Pick::One(_) | Pick::Several(_) => self.note_blocked(now, true),
                Pick::Wait(_) => {
                    self.note_blocked(now, false);
                    self.note_held_back(now);
                }
                Pick::Drop => {}
            }
            match pick {
                Pick::One(path) if self.send_head(now, source, &[path], head_start, sink) => {}
                Pick::Several(ref paths) if self.send_head(now, source, paths, 0, sink) => {}
                Pick::One(_) | Pick::Several(_) => {
                    self.wake_at(self.next_gate(), Wake::Gate);
                    waiting.add(source);
                }
                Pick::Wait(until) => {
                    self.wake_at(self.next_gate(), Wake::Gate);
                    self.wake_at(until, Wake::Scheduler);
                    // A packet that is too large for an open path must not delay packets that fit.
                    let narrow =
                        |row: &PathRow| row.state.is_up() && row.is_open() && row.max_payload < info.len;
                    match source {
                        Source::Queue(l)
                            if self.rows.iter().any(narrow) && self.classes.all[l].queue.set_aside() =>
                        {
                            waiting.add(Source::Aside(l));
                        }
                        _ => waiting.add(source),
                    }
                }
                Pick::Drop => {
                    drop(self.take(source));
                    self.classes.all[class].stats.dropped += 1;
                    self.count(Counter::DroppedByScheduler);
                }
            }
        }
        self.wake = Some((now, Wake::Backlog));
    }

    /// Allows only small packets on a path that seems to lose large ones, provided that another path is known
    /// to carry the large ones.
    fn avoid_doubtful_sizes(&mut self, options: usize) {
        let sure = |path: &Subflow| path.conn.as_ref().map_or(0, |conn| conn.sure_payload(options));
        let most = self.paths.iter().filter(|path| path.is_up()).map(sure).max().unwrap_or(0);
        for (path, row) in self.paths.iter().zip(&mut self.rows).filter(|(_, row)| row.max_payload <= most) {
            row.max_payload = sure(path);
        }
    }

    /// See [`Endpoint::sizes_are_known`](crate::Endpoint::sizes_are_known).
    pub(crate) fn sizes_are_known(&self) -> bool {
        let mut up = self.paths.iter().filter(|path| path.is_up()).filter_map(|path| path.conn.as_ref());
        up.all(|conn| conn.sure_payload(0) >= conn.max_payload_open(0))
    }

    /// See [`Endpoint::room`](crate::Endpoint::room).
    pub(crate) fn room(&self, now: Time, info: &PktInfo, data: &[u8]) -> Option<Room> {
        let options = self.options_len();
        let mut rows: Vec<PathRow> = self.paths.iter().map(|path| path.row(now, options)).collect();
        let class = self.classes.class_for(info, data);
        if let Some(rule) = self.classes.rule(class) {
            let mut allowed = Vec::new();
            rule.rows(&PktInfo { len: 0, ..*info }, &rows, &mut allowed).then_some(())?;
            rows = allowed;
        }
        let mut room = |payload: fn(&Connection, usize) -> usize| {
            for row in &mut rows {
                let path = self.paths.iter().find(|path| path.id == row.id);
                row.max_payload =
                    path.and_then(|path| path.conn.as_ref()).map_or(0, |conn| payload(conn, options));
            }
            priorities::room(&rows)
        };
        let known = room(Connection::sure_payload)?;
        Some(Room { known, hoped: room(Connection::max_payload_open)?, class: class as u8 })
    }

    /// Determines the paths that the rules and priorities allow for a packet of this class;
    /// [`offered`](Self::offered) returns them. Returns false if the packet must be dropped.
    fn offer(&mut self, now: Time, class: usize, info: &PktInfo, backlog: &QueueView) -> bool {
        let rows = match self.classes.rule(class) {
            None => &self.rows,
            Some(rule) => {
                if !rule.rows(info, &self.rows, &mut self.allowed) {
                    return false;
                }
                &self.allowed
            }
        };
        self.offered_all = class == 0 && priorities::offers_all(info, rows);
        if !self.offered_all {
            priorities::offer(now, info, backlog, rows, &mut self.offered);
        }
        true
    }

    fn offered(&self) -> &[PathRow] {
        if self.offered_all { &self.rows } else { &self.offered }
    }

    /// Adapts the permitted length of the queues to the paths that carry datagrams.
    fn tune_queues(&mut self, now: Time) {
        let used = || {
            self.paths.iter().zip(&self.rows).filter(|(p, _)| p.is_up() && p.has_sent_datagrams(now, IDLE))
        };
        let rtt = used().filter_map(|(_, r)| r.srtt).max().unwrap_or_default();
        let min_rtt = used().filter_map(|(_, r)| r.min_rtt).max().unwrap_or_default();
        for class in &mut self.classes.all {
            class.queue.tune(rtt, min_rtt, class.scheduler.standing_queue());
        }
    }

    /// Tells paths with a closed gate that they blocked the packet at the head, if the scheduler might
    /// otherwise have chosen them.
    fn note_blocked(&mut self, now: Time, elsewhere: bool) {
        let offered = if self.offered_all { &self.rows } else { &self.offered };
        for row in offered.iter().filter(|row| !row.is_open()) {
            if let Some(conn) = self.paths.iter_mut().find(|p| p.id == row.id).and_then(|p| p.conn.as_mut()) {
                conn.note_blocked(now, elsewhere);
            }
        }
    }

    /// Tells paths with an open gate that the scheduler did not give them the packet at the head.
    fn note_held_back(&mut self, now: Time) {
        let offered = if self.offered_all { &self.rows } else { &self.offered };
        for row in offered.iter().filter(|row| row.is_open()) {
            if let Some(conn) = self.paths.iter_mut().find(|p| p.id == row.id).and_then(|p| p.conn.as_mut()) {
                conn.note_held_back(now);
            }
        }
    }

    /// If a path's MTU is too small for this packet, makes the path probe for a larger MTU. Paths with a
    /// lower priority than the chosen ones do not probe, because they may cost money.
    fn note_too_narrow(&mut self, now: Time, chosen: &[PathId], len: usize) {
        let prio = self.rows.iter().filter(|row| chosen.contains(&row.id)).map(|row| row.prio).max();
        for row in self.rows.iter().filter(|row| row.state.is_up() && row.max_payload < len) {
            if Some(row.prio) >= prio
                && let Some(conn) =
                    self.paths.iter_mut().find(|p| p.id == row.id).and_then(|p| p.conn.as_mut())
            {
                conn.note_too_narrow(now);
            }
        }
    }

    /// Takes the next packet. A repair keeps its MP_SEQ, and the head of a queue gets the next one
    /// (RFC 9897 section 3.2.5: one circular number per datagram, over all paths).
    fn take_head(&mut self, now: Time, source: Source) -> Option<Copy> {
        if source == Source::Repair {
            return self.repair.pop();
        }
        let packet = self.take(source)?;
        let mp_seq = self.next_mp_seq;
        self.next_mp_seq = mp_seq.next();
        let back = if self.order_flows { self.last_of_flow.next(packet.info.flow, mp_seq) } else { 0 };
        Some(Copy { packet, mp_seq, back, first: now })
    }

    /// Returns the earliest time at which the gate of an offered path is known to open.
    fn next_gate(&self) -> Option<Time> {
        let gates = self.offered().iter().filter_map(|row| match row.gate {
            Gate::At(at, _) => Some(at),
            _ => None,
        });
        gates.min()
    }

    /// Sends the first packet of a source on each of `paths`, as one datagram of the session. Returns false
    /// if the source had no packet. For `head_start`, see [`Scheduler::head_start`](crate::sched::Scheduler).
    fn send_head(
        &mut self,
        now: Time,
        source: Source,
        paths: &[PathId],
        head_start: u64,
        sink: &mut dyn Sink,
    ) -> bool {
        if let Source::Streams(class) = source {
            return self.send_stream_packet(now, class, paths, head_start, sink);
        }
        let Some(copy) = self.take_head(now, source) else { return false };
        let packet = &copy.packet;
        let class = self.class_of(&packet.info);
        self.options.clear();
        if self.multipath {
            self.options.push(&Opt::Mp(MpOption::Seq(copy.mp_seq)));
        }
        if self.order_flows {
            self.options.push(&Opt::Mp(MpOption::Exp(&[copy.back])));
        }
        self.note_too_narrow(now, paths, packet.data.len());
        let mut left = None;
        for &path in paths {
            let usable = |i: &usize| {
                let row = &self.rows[*i];
                row.is_open() && packet.data.len() <= row.max_payload
            };
            let Some(i) = self.index(path).filter(usable) else {
                self.count(Counter::UnusablePick);
                continue;
            };
            let seq = self.paths[i].transmit(now, self.options.as_bytes(), &packet.data, sink);
            left = seq.map(|seq| (path, seq));
            self.cap.on_sent(now, packet.data.len() as u64);
            self.allowance = self.allowance.map(|bytes| bytes - packet.data.len() as i64);
            self.paths[i].refresh(now, &mut self.rows[i]);
            self.classes.all[class].scheduler.on_sent(now, path, packet.data.len());
        }
        // A packet that was sent on several paths is not kept for repair.
        if let (Some((path, seq)), [_]) = (left, paths) {
            if source != Source::Repair {
                self.protect(now, class, path, &copy);
            }
            self.keep_for_repair(now, path, seq, copy, source == Source::Repair);
        } else {
            self.blocks.put(copy.packet.data);
        }
        true
    }

    /// Tells the paths with an open gate that the application limits them, because the queue is empty. A path
    /// with a closed gate is not told: perhaps the queue is empty only because other paths took its packets.
    fn tell_app_limited(&mut self, now: Time) {
        for path in &mut self.paths {
            if let (Gate::Open { .. }, Some(conn)) = (path.gate(now), &mut path.conn) {
                conn.set_app_limited(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Offer;
    use super::*;
    use crate::reorder::ReorderConfig;
    use crate::{PathConfig, SessionConfig};
    use alloc::vec;
    use dccp_proto::{Ecn, Outbox, Ports, Route};
    use dccp_wire::{Packet, Seq};
    use mpdccp_units::Duration;

    /// Delivers packets of `a` to `b`, and returns their MP_SEQs.
    fn carry(now: Time, a: &mut Session, b: &mut Session) -> Vec<Seq> {
        let mut out = Outbox::new();
        a.poll_transmit(now, &mut out);
        let mut numbers = Vec::new();
        for (_, _, bytes) in out {
            let packet = Packet::parse(&bytes).unwrap();
            if let Some(Ok(Opt::Mp(MpOption::Seq(seq)))) = packet.options().next() {
                numbers.push(seq);
            }
            b.handle_packet(now, PathId(0), Ecn::NotEct, bytes.len() as u32, &packet);
        }
        numbers
    }

    /// Returns a client whose first MP_SEQ is this one, and a server that has received its Request.
    fn pair(mp_seq: u64, mut now: Time) -> (Session, Session, Time) {
        let cfg = SessionConfig {
            reorder: ReorderConfig::active_fixed(Duration::from_secs(1)),
            ..SessionConfig::default()
        };
        let route = Route { socket: 0, local: None, remote: "10.0.0.1:6511".parse().unwrap() };
        let ports = Ports { local: 1, remote: 2 };
        let path = PathConfig::new(route, ports, 1500, 28);
        let mut client = Session::client(cfg.clone(), now, path, 1, [1; 32]);
        client.next_mp_seq = Seq::new(mp_seq);
        client.poll_connect(now).unwrap();
        client.connect(now, PathId(0), ports);
        let mut out = Outbox::new();
        client.poll_transmit(now, &mut out);
        let request = Packet::parse(&out[0].2).unwrap();
        let (cfg, request) = (&cfg, &request);
        let offer = Offer {
            cfg,
            route,
            request,
            mtu: 1500,
            overhead: 28,
            peer: 0,
            ci: 2,
            seed: [2; 32],
            cookie: &[],
            early: false,
        };
        let mut server = Session::server(now, &offer).unwrap();
        for _ in 0..10 {
            now += Duration::from_millis(10);
            carry(now, &mut client, &mut server);
            carry(now, &mut server, &mut client);
        }
        (client, server, now)
    }

    /// Like the endpoint's hash of flows, the receiver's hash is keyed, so that neither is predictable.
    #[test]
    fn each_session_has_a_key_for_its_hashes() {
        let (client, server, _) = pair(1, Time::from_millis(1));
        let [one, other] = [&client, &server].map(|s| PktInfo::of_ip(&[0x45; 20], s.flow_key).flow);
        assert_ne!(one, other, "different seeds must give different keys");
    }

    #[test]
    fn a_row_is_after_each_packet_as_if_made_anew() {
        let (mut client, mut server, mut now) = pair(1, Time::from_millis(1));
        let mut held_back = 0;
        for _ in 0..60 {
            now += Duration::from_millis(10);
            carry(now, &mut server, &mut client);
            (0..200).for_each(|_| client.send(now, vec![7; 1_000], PktInfo::default()));
            carry(now, &mut client, &mut server);
            if client.queued() > 0 {
                held_back += 1;
                assert_eq!(alloc::format!("{:?}", client.rows), alloc::format!("{:?}", client.rows(now)));
            }
            while server.poll_deliver().is_some() {}
        }
        assert!(held_back > 10, "{held_back}");
    }

    #[test]
    fn mp_seq_wraps() {
        let (mut client, mut server, mut now) = pair(Seq::MODULUS - 2, Time::from_millis(1));
        let mut numbers = Vec::new();
        for n in 10..40 {
            now += Duration::from_millis(10);
            client.send(now, vec![n; 10], PktInfo::default());
            numbers.extend(carry(now, &mut client, &mut server));
            carry(now, &mut server, &mut client);
        }
        assert_eq!(numbers[..4], [Seq::MODULUS - 2, Seq::MODULUS - 1, 0, 1].map(Seq::new));
        let got: Vec<u8> = core::iter::from_fn(|| server.poll_deliver()).map(|d| d[0]).collect();
        assert_eq!(got, (10..40).collect::<Vec<_>>());
        assert_eq!(server.status(now).reorder.held, 0);
    }
}
