//! From the interface to the sessions, and what goes the other way is counted.

use crate::tunnel::allowed::addresses;
use crate::tunnel::app::TunnelApp;
use crate::tunnel::inner;
use dccp_net::{Core, Tun, Written};
use mpdccp_proto::PktInfo;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use units::Time;

/// Packets read from the interface in one turn.
const BUDGET: usize = 64;

/// Counters of the interface; drops by reason.
#[derive(Default)]
pub(crate) struct TunCounters {
    pub(crate) read: (u64, u64),
    pub(crate) written: (u64, u64),
    pub(crate) drops: BTreeMap<&'static str, u64>,
}

impl TunCounters {
    pub(crate) fn drop(&mut self, why: &'static str) {
        *self.drops.entry(why).or_default() += 1;
    }

    fn write(&mut self, written: &Written) {
        self.written.0 += written.packets;
        self.written.1 += written.bytes;
        if let Some(e) = &written.error {
            let why = if Tun::is_down(e) { "interface_down" } else { "refused_by_kernel" };
            *self.drops.entry(why).or_default() += written.refused;
        }
    }
}

impl TunnelApp {
    /// A packet to the interface, which gets it with the next burst.
    pub(crate) fn write(&mut self, core: &mut Core, packet: Vec<u8>) {
        if let Some(written) = self.tun.write(packet, |block| core.endpoint.put_block(block)) {
            self.counters.write(&written);
        }
    }

    pub(super) fn flush(&mut self, core: &mut Core) {
        let written = self.tun.flush(|block| core.endpoint.put_block(block));
        self.counters.write(&written);
    }

    /// Whether this shard reads the interface. With one queue one does for all: that keeps each flow's packets in order, whoever they are for.
    pub(super) fn reads(&self) -> bool {
        self.shard.is_first() || self.tun.tun().has_queues()
    }

    /// Reads what the interface has, up to a bound.
    pub(super) fn read(&mut self, core: &mut Core, now: Time) {
        let mut read = 0;
        while read < BUDGET {
            match self.tun.read() {
                Ok(0) => break,
                Ok(packets) => {
                    for i in 0..packets {
                        let packet = self.tun.take(i, || core.endpoint.take_block());
                        self.send(core, now, packet);
                    }
                    read += packets;
                }
                Err(e) if e.kind() == ErrorKind::InvalidData => {
                    self.counters.drop("not_cut");
                    read += 1;
                }
                Err(e) => {
                    // The device was deleted under us; nothing can come from it any more.
                    self.failure.get_or_insert(format!("interface {} is gone: {e}", self.cfg.interface));
                    self.shut_down(core, now);
                    core.stop();
                    break;
                }
            }
        }
        let dropped = self.shard.hand_over();
        if dropped > 0 {
            *self.counters.drops.entry("other_shard_full").or_default() += dropped;
        }
        // Answers to what is too large.
        self.flush(core);
    }

    /// A packet of the interface.
    fn send(&mut self, core: &mut Core, now: Time, packet: Vec<u8>) {
        self.counters.read.0 += 1;
        self.counters.read.1 += packet.len() as u64;
        let Some((_, destination)) = addresses(&packet) else {
            return self.counters.drop("not_ip");
        };
        if self.cfg.addresses.is_empty() {
            return self.counters.drop("no_address");
        }
        let Some(peer) = self.allowed.peer(destination) else {
            return self.counters.drop("no_peer");
        };
        match self.shard.is_home(peer) {
            true => self.send_to(core, now, peer, packet),
            false => self.shard.put(peer, packet),
        }
    }

    /// Packets that another shard read, for peers that are at home here.
    pub(crate) fn take_packets(&mut self, core: &mut Core, packets: Vec<Vec<u8>>) {
        let now = core.clock.now();
        for packet in packets {
            let peer = addresses(&packet).and_then(|(_, destination)| self.allowed.peer(destination));
            // What a reload takes from a peer may have been on its way to it.
            match peer.filter(|peer| self.shard.is_home(*peer)) {
                Some(peer) => self.send_to(core, now, peer, packet),
                None => self.counters.drop("no_peer"),
            }
        }
        self.flush(core);
    }

    /// A packet on its way to a peer that is at home here.
    fn send_to(&mut self, core: &mut Core, now: Time, peer: usize, mut packet: Vec<u8>) {
        let Some(session) = self.peers[peer].session else { return self.counters.drop("not_connected") };
        let limit = self.limit(peer);
        if packet.len() > usize::from(limit) {
            return self.send_too_big(core, now, session, &packet, limit);
        }
        if self.cfg.mss_clamp {
            inner::clamp_mss(&mut packet, limit);
        }
        let info = PktInfo::of_ip(&packet, core.endpoint.flow_key());
        core.endpoint.send(now, session, packet, info);
    }
}
