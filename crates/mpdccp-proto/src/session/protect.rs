//! FEC packets of a session, which are made from sent packets and restore lost ones.

use super::Session;
use super::fec::{Block, FecPacket, HEADER, KEPT_FOR, MOST, MOST_WAITING, OFFSET, OLD, OPTION, Pending, add};
use super::private::Private;
use super::repair::Copy;
use crate::policy::OVERFLOW;
use crate::reorder::{Arrival, Back};
use crate::{Counter, PathId, PathRow, PktInfo, Wake};
use alloc::vec::Vec;
use dccp_proto::{Gate, Received, Sink};
use dccp_wire::{Opt, Seq};
use mpdccp_units::Time;

impl Session {
    /// Call this when a packet has been sent for the first time, and on a single path. The packet is
    /// protected if its rule says so.
    pub(super) fn protect(&mut self, now: Time, class: usize, path: PathId, copy: &Copy) {
        let Some(most) = self.classes.rule(class).and_then(|rule| rule.fec).filter(|_| self.fec.on) else {
            return;
        };
        let fits = |len: usize| {
            let size = HEADER + OPTION + OFFSET * usize::from(most) + len;
            self.rows.iter().any(|row| row.max_payload >= size)
        };
        if !fits(copy.packet.data.len()) {
            self.fec.stats.too_large += 1;
            return;
        }
        let block = &mut self.classes.all[class].block;
        block.members.push((copy.mp_seq, path));
        add(&mut block.xor, copy.mp_seq.value(), copy.back, &copy.packet.data);
        if block.members.len() < usize::from(most) {
            return;
        }
        let Block { members, xor } = core::mem::take(block);
        let offset = |(seq, _): &(Seq, PathId)| u16::try_from(copy.mp_seq.diff(*seq)).ok();
        let Some(offsets) = members.iter().map(offset).collect::<Option<Vec<u16>>>() else { return };
        let mut payload: Vec<u8> = offsets.iter().flat_map(|n| n.to_be_bytes()).collect();
        payload.extend(xor);
        let paths = members.iter().map(|(_, path)| *path).collect();
        if self.fec.waiting.len() == MOST_WAITING {
            self.fec.waiting.pop_front();
            self.fec.stats.dropped += 1;
        }
        let count = members.len() as u8;
        self.fec.waiting.push_back(FecPacket { class, newest: copy.mp_seq, count, payload, paths, at: now });
    }

    /// Sends the FEC packets for which there is a path. Each takes the allowed path that carried the fewest
    /// of the packets that it protects.
    pub(super) fn send_fec(&mut self, now: Time, sink: &mut dyn Sink) {
        while let Some(packet) = self.fec.waiting.pop_front() {
            if now.since(packet.at) > OLD || packet.class >= self.classes.all.len() {
                self.fec.stats.dropped += 1;
                continue;
            }
            let info = PktInfo { len: packet.payload.len() + OPTION, ..PktInfo::default() };
            let allowed =
                self.classes.rule(packet.class).is_some_and(|r| r.rows(&info, &self.rows, &mut self.allowed));
            // Paths that carried the protected packets come last. Paths that the priorities hold in reserve
            // are never used.
            let fits = |row: &&PathRow| allowed && row.state.is_up() && info.len <= row.max_payload;
            let usable = || self.allowed.iter().filter(fits).filter(|row| row.prio > OVERFLOW);
            let carried = |id: PathId| packet.paths.iter().filter(|path| **path == id).count();
            let open = usable().filter(|row| row.is_open());
            let path = open.min_by_key(|row| (carried(row.id), row.one_way(), row.id));
            let Some(path) = path.map(|row| row.id) else {
                let gates = usable().filter_map(|row| match row.gate {
                    Gate::At(at, _) => Some(at),
                    _ => None,
                });
                let gate = gates.min();
                self.fec.waiting.push_front(packet);
                return self.wake_at(gate, Wake::Gate);
            };
            let Some(i) = self.index(path) else { continue };
            self.options.clear();
            // An FEC packet is not session data, so it has no MP_SEQ. If its option is lost, no receiver
            // mistakes it for data.
            Private::Fec(packet.newest, packet.count).with(|option| self.options.push(&Opt::Mp(option)));
            self.paths[i].transmit(now, self.options.as_bytes(), &packet.payload, sink);
            self.cap.on_sent(now, packet.payload.len() as u64);
            self.allowance = self.allowance.map(|bytes| bytes - packet.payload.len() as i64);
            self.paths[i].refresh(now, &mut self.rows[i]);
            self.fec.stats.sent += 1;
        }
    }

    /// Handles an FEC packet.
    pub(super) fn on_fec(
        &mut self,
        now: Time,
        i: usize,
        newest: Seq,
        count: u8,
        data: &[u8],
        received: &Received<'_>,
    ) {
        // An FEC packet has a number on its path, but no MP_SEQ.
        self.reorderer.on_other(now, self.paths[i].id, received.seq, received.ndp, true);
        self.fec.stats.received += 1;
        let offsets = usize::from(count) * OFFSET;
        let Some((offsets, xor)) = data.split_at_checked(offsets).filter(|_| (1..=MOST).contains(&count))
        else {
            return self.count(Counter::FecMalformed);
        };
        let before = |b: &[u8]| newest.sub(u16::from_be_bytes([b[0], b[1]]).into()).value();
        let members = offsets.chunks_exact(OFFSET).map(before).collect();
        self.fec.kept_until = now + KEPT_FOR;
        let packet = Pending { members, xor: xor.to_vec() };
        if self.fec.lacks(&packet) <= 1 {
            return self.restore(now, self.paths[i].id, &packet);
        }
        if self.fec.pending.len() == MOST_WAITING {
            self.fec.pending.pop_front();
        }
        self.fec.pending.push_back(packet);
    }

    /// Call this when a data packet has arrived, because it may now be possible to restore another packet.
    pub(super) fn follow_fec(&mut self, now: Time, path: PathId, seq: Seq, back: u8, data: &[u8]) {
        self.fec.keep(now, seq, back, data);
        if let Some(packet) = self.fec.take_ripe(seq) {
            self.restore(now, path, &packet);
        }
    }

    /// Restores the missing packet of an FEC packet that lacks at most one.
    fn restore(&mut self, now: Time, path: PathId, packet: &Pending) {
        let Some((lost, back, data)) = self.fec.solve(packet) else {
            if self.fec.lacks(packet) == 1 {
                self.count(Counter::FecWrong);
            }
            return;
        };
        let mp_seq = Seq::new(lost);
        self.fec.stats.restored += 1;
        self.fec.keep(now, mp_seq, back, &data);
        let flow = PktInfo::of_ip(&data, self.flow_key).flow;
        let arrival = Arrival { mp_seq, path, path_seq: None, ndp: None, flow, back: Back::read(back) };
        self.reorderer.push(now, arrival, data);
    }
}
