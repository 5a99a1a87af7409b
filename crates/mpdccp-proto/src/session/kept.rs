//! Packets that are kept for repair, and the repair time that this end reports to the peer.

use super::carried::Carried;
use super::private::Private;
use super::repair::{Copy, MAX_WAIT};
use super::subflow::Subflow;
use super::{Role, Session, encode};
use crate::PathId;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// Time that a repair takes on top of its round trips, because of the timers at both ends.
const MARGIN: Duration = Duration::from_millis(10);
/// Longest interval between two reports of the repair time. The report is repeated because it may be lost.
const TELL: Duration = Duration::from_secs(1);
/// A path is distant if its round trip is `DISTANT` times that of the nearest path. The repair time
/// disregards a distant path that has sent no datagrams for the time `USED`.
const USED: Duration = Duration::from_secs(10);
const DISTANT: u32 = 4;

impl Session {
    /// Applies the capabilities that the peer announced.
    pub(super) fn on_hello(&mut self, repairs: bool, flows: bool, fec: bool, streams: bool) {
        self.fec.on = fec;
        self.repair.on = repairs && self.cfg.repair;
        self.order_flows = flows && self.cfg.flow_order;
        let role = match self.role {
            Role::Client => dccp_streams::Role::Client,
            Role::Server => dccp_streams::Role::Server,
        };
        self.streams = (streams && self.cfg.streams).then(|| Carried::new(role));
    }

    /// Returns the capabilities that this end announces in the handshake.
    pub(super) fn hello(&self) -> Private {
        let repairs = self.reorderer.waits_for_repairs();
        let flows = repairs && self.cfg.flow_order;
        Private::Hello { repairs, flows, fec: true, streams: self.cfg.streams }
    }

    /// Keeps a datagram that was sent on one path, because it may have to be retransmitted. If repair is off,
    /// makes the datagram's buffer available for reuse.
    pub(super) fn keep_for_repair(&mut self, now: Time, path: PathId, seq: Seq, copy: Copy, again: bool) {
        self.repair.stats.sent += u64::from(again);
        if self.repair.alone.is_none_or(|(alone, _)| alone != path) {
            self.repair.alone = Some((path, now));
        }
        match self.repair.on {
            true => self.repair.keep(now, path, seq, copy),
            false => self.blocks.put(copy.packet.data),
        }
    }

    /// Processes acknowledgements and losses of packets sent on a path.
    pub(super) fn follow_fates(&mut self, now: Time, i: usize) {
        if !self.repair.on {
            return;
        }
        let path = &mut self.paths[i];
        let Some(conn) = &mut path.conn else { return };
        conn.track_fates();
        while let Some(fated) = conn.poll_fate() {
            self.repair.on_fate(path.id, fated, &mut self.blocks);
        }
        self.tell_repair_time(now, i);
    }

    /// Computes how long a repair may take, and reports this time to the peer at intervals. It is three times
    /// the longest answer time: two answer times to detect a dead path, and one for the retransmission on
    /// another path.
    fn tell_repair_time(&mut self, now: Time, i: usize) {
        let live = || self.paths.iter().filter(|p| p.is_live() && p.prio() > 0);
        // Compare minimum RTTs, which exclude queueing. Otherwise, a queue on the nearest path would make a
        // distant path seem near.
        let nearest =
            live().filter(|p| p.is_up()).filter_map(Subflow::min_rtt).min().unwrap_or(Duration::MAX);
        let near = |p: &&Subflow| p.min_rtt().is_none_or(|rtt| rtt / DISTANT <= nearest);
        let used = live().filter(|p| near(p) || p.has_sent_datagrams(now, USED));
        let slowest = used.map(|p| p.answer).max().unwrap_or_default();
        let repair = &mut self.repair;
        repair.worth = (slowest * 3 + MARGIN).min(MAX_WAIT);
        let wait = if self.cfg.wait_for_repairs { repair.worth } else { Duration::ZERO };
        let outdated = repair.told.is_none_or(|(at, told)| {
            now.since(at) >= TELL || wait > told + told / 4 && now.since(at) > slowest
        });
        if let Some(conn) = self.paths[i].conn.as_mut().filter(|_| outdated) {
            repair.told = Some((now, wait));
            Private::Repair(wait).with(|option| conn.send_options(encode(&[option]).as_bytes()));
        }
    }

    /// Tells the peer through another path that this path is suspect, so that the peer stops sending there.
    pub(super) fn tell_suspect(&mut self, i: usize) {
        let (Some(local), Some(remote)) = (self.paths[i].local_addr, self.paths[i].remote_addr) else {
            return;
        };
        let suspect = Private::Suspect(local, remote);
        let other = self.paths.iter_mut().find(|p| p.is_up()).and_then(|p| p.conn.as_mut());
        if let Some(conn) = other.filter(|_| self.peer_is_ours) {
            suspect.with(|option| conn.send_options(encode(&[option]).as_bytes()));
        }
    }
}
