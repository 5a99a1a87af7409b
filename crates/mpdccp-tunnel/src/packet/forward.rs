//! Forwards inner packets between the interface and the sessions.

use crate::Cx;
use crate::action::Action;
use crate::client::assigned::Assigned;
use crate::drops::{DropReason, Drops};
use crate::packet::allowed::{Allowed, addresses};
use crate::packet::dscp_ecn::REFUSED;
use crate::packet::mss::clamp_mss;
use crate::packet::mtu::{self, Carried, InterfaceMtu};
use crate::packet::pieces::{Joined, cut};
use crate::packet::too_big::{TooBig, too_big};
use crate::peer::Peer;
use crate::peers::Peers;
use crate::shards::{Shard, Told};
use crate::status::TunStatus;
use ipnet::IpNet;
use mpdccp_proto::{PathState, PktInfo, Room, SessionId};

/// A packet for the tunnel to handle.
#[derive(Debug)]
pub enum Packet {
    /// An IP packet read from the interface.
    Interface(Vec<u8>),
    /// A packet that another shard read; see [`Outcome::HandOver`].
    HandedOver(Vec<u8>),
    /// A datagram delivered by a session.
    Session(SessionId, Vec<u8>),
}

/// What the caller must do next with a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing. The packet has been queued in a session, was a message for the tunnel itself, or was dropped
    /// and counted.
    Done,
    /// Write this packet to the interface.
    Write(Vec<u8>),
    /// Write this packet to the device of the proxy's namespace.
    Proxy(Vec<u8>),
    /// Pass this packet to the shard of its peer.
    HandOver(u8, Vec<u8>),
}

/// Counts of packets and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Count {
    pub(crate) fn count(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// State of forwarding: allowed IPs, packet sizes and counters.
#[derive(Debug, Default)]
pub(crate) struct Forward {
    pub(crate) allowed: Allowed,
    pub(crate) mtu: InterfaceMtu,
    /// Number of packets that were sent in pieces.
    cut: u16,
    pub(crate) read: Count,
    pub(crate) written: Count,
    pub(crate) drops: Drops,
}

impl Forward {
    /// Sends a packet from the interface to its peer. `own` has the addresses of the interface.
    pub(crate) fn send(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        own: &[IpNet],
        shard: &Shard,
        mut packet: Vec<u8>,
    ) -> Result<Outcome, DropReason> {
        let (_, destination) = addresses(&packet).ok_or(DropReason::NotIp)?;
        if own.is_empty() {
            return Err(DropReason::NoAddress);
        }
        let number = self.allowed.peer(destination).ok_or(DropReason::NoPeer)?;
        if !shard.is_home(number) {
            return Ok(Outcome::HandOver(shard.home(number), packet));
        }
        let session = peers[number].packet_session().ok_or(DropReason::NotConnected)?;
        let carried = peers[number].carried.unwrap_or(Carried::all(self.mtu.mtu));
        let info = PktInfo::of_ip(&packet, cx.endpoint.flow_key());
        if packet.len() > usize::from(carried.least) || !cx.endpoint.sizes_are_known(session) {
            let most = usize::from(carried.most);
            let unknown = Room { known: most, hoped: most, class: 0 };
            let room = cx.endpoint.room(cx.now, session, &info, &packet).unwrap_or(unknown);
            let info = PktInfo { class: room.class, ..info };
            if packet.len() > room.hoped {
                let room = u16::try_from(room.hoped).unwrap_or(u16::MAX);
                return self.send_too_big(cx, &mut peers[number], session, &packet, info, room);
            }
            // Within a round trip, a probe may show that the path carries packets of this size. Until then,
            // send the packet in pieces, so that it is not delayed and its sender is not told to shrink its
            // packets.
            if packet.len() > room.known {
                return self.send_pieces(cx, session, &packet, info, room.known);
            }
        }
        clamp_mss(&mut packet, carried.segments);
        cx.endpoint.send(cx.now, session, packet, info);
        Ok(Outcome::Done)
    }

    /// Handles a packet that is larger than the peer's paths can carry.
    fn send_too_big(
        &mut self,
        cx: &mut Cx<'_>,
        peer: &mut Peer,
        session: SessionId,
        packet: &[u8],
        info: PktInfo,
        room: u16,
    ) -> Result<Outcome, DropReason> {
        match too_big(packet, room) {
            TooBig::Answer(answer) if peer.answers.may(cx.now) => {
                self.drops.add(DropReason::TooBigTold, 1);
                return Ok(Outcome::Write(answer));
            }
            TooBig::Answer(_) | TooBig::Drop => return Err(DropReason::TooBig),
            TooBig::Fragments(fragments) => {
                for fragment in fragments {
                    // Only the first fragment has the ports by which rules match, so all fragments get the
                    // class of the whole packet.
                    let class = info.class;
                    let info = PktInfo { class, ..PktInfo::of_ip(&fragment, cx.endpoint.flow_key()) };
                    cx.endpoint.send(cx.now, session, fragment, info);
                }
            }
            TooBig::Cut => return self.send_pieces(cx, session, packet, info, room.into()),
        }
        Ok(Outcome::Done)
    }

    /// Sends a packet in pieces of at most `room` bytes each.
    fn send_pieces(
        &mut self,
        cx: &mut Cx<'_>,
        session: SessionId,
        packet: &[u8],
        info: PktInfo,
        room: usize,
    ) -> Result<Outcome, DropReason> {
        self.cut = self.cut.wrapping_add(1);
        for piece in cut(self.cut, packet, room).ok_or(DropReason::TooBig)? {
            let info = PktInfo { len: piece.len(), ..info };
            cx.endpoint.send(cx.now, session, piece, info);
        }
        Ok(Outcome::Done)
    }

    /// Sends a packet that another shard read. Otherwise like [`send`](Self::send).
    pub(crate) fn send_here(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        own: &[IpNet],
        shard: &Shard,
        packet: Vec<u8>,
    ) -> Result<Outcome, DropReason> {
        match self.send(cx, peers, own, shard, packet) {
            // The packet's address no longer belongs to a peer of this shard, because a reload changed
            // `allowed_ips` while the packet was on its way from the other shard.
            Ok(Outcome::HandOver(..)) => Err(DropReason::NoPeer),
            done => done,
        }
    }

    /// Handles a packet from a peer.
    pub(crate) fn deliver(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        number: usize,
        mut data: Vec<u8>,
    ) -> Result<Outcome, DropReason> {
        if data == REFUSED {
            return Err(DropReason::CeNotEct);
        }
        let (source, _) = addresses(&data).ok_or(DropReason::NotIp)?;
        if self.allowed.peer(source) != Some(number) {
            return Err(DropReason::BadSource);
        }
        let peer = &mut peers[number];
        if !peer.policer.takes(cx.now, peer.cfg.receive_rate.map(|rate| rate.0), data.len()) {
            return Err(DropReason::OverRate);
        }
        clamp_mss(&mut data, peer.carried.map_or(self.mtu.mtu, |carried| carried.segments));
        Ok(Outcome::Write(data))
    }

    pub(crate) fn status(&self) -> TunStatus {
        TunStatus {
            read_packets: self.read.packets,
            read_bytes: self.read.bytes,
            written_packets: self.written.packets,
            written_bytes: self.written.bytes,
            drops: self.drops.iter().map(|(why, n)| (why.name().into(), n)).collect(),
        }
    }

    /// Handles a piece of a packet from a peer.
    pub(crate) fn deliver_piece(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        (number, session): (usize, SessionId),
        piece: &[u8],
    ) -> Result<Outcome, DropReason> {
        let (joined, lost) = peers[number].pieces.join(cx.now, session, piece);
        self.drops.add(DropReason::Incomplete, lost);
        match joined {
            Joined::Whole(packet) => self.deliver(cx, peers, number, packet),
            Joined::Partial => Ok(Outcome::Done),
            Joined::Wrong => Err(DropReason::UnknownControl),
        }
    }

    /// Updates the inner packet sizes that a peer's paths carry.
    pub(crate) fn on_paths(&mut self, cx: &mut Cx<'_>, peer: &mut Peer, shard: &Shard, assigned: &Assigned) {
        let status = peer.status(cx);
        let paths = status.iter().flat_map(|status| &status.paths);
        let usable = paths.filter(|path| path.state.is_up() || path.state == PathState::Suspect);
        // If no path is working, the sizes stay as they are.
        let sizes: Vec<u16> = usable.filter_map(|path| u16::try_from(path.max_payload).ok()).collect();
        if let Some(carried) = Carried::by(&sizes) {
            self.carries(cx, peer, shard, assigned, Some(carried));
        }
    }

    /// Sets the packet sizes of a peer; `None` if the peer was removed. The other shards report their peers'
    /// sizes to the first shard, which sets the MTU of the interface.
    pub(crate) fn carries(
        &mut self,
        cx: &mut Cx<'_>,
        peer: &mut Peer,
        shard: &Shard,
        assigned: &Assigned,
        now: Option<Carried>,
    ) {
        let before = std::mem::replace(&mut peer.carried, now).map(|carried| carried.segments);
        let now = now.map(|carried| carried.segments);
        if shard.is_first() {
            self.mtu.count(before, now);
            self.follow_sizes(cx, assigned);
        } else if before != now {
            cx.tell_shard(0, Told::Carries { before, now });
        }
    }

    /// Adapts the MTU of the interface if the peers' packet sizes have changed. If it was changed only
    /// recently, it may shrink but not grow.
    pub(crate) fn follow_sizes(&mut self, cx: &mut Cx<'_>, assigned: &Assigned) {
        if self.mtu.is_due(cx.now) {
            self.adapt_interface(cx, assigned);
        }
    }

    /// Sets the MTU of the interface to the largest packet size of any peer, limited by the server's MTU.
    pub(crate) fn adapt_interface(&mut self, cx: &mut Cx<'_>, assigned: &Assigned) {
        let least = mtu::least(cx.cfg, &assigned.nets, self.allowed.has_v6());
        if let Some(mtu) = self.mtu.wanted(least, assigned.mtu()) {
            self.mtu.pause(cx.now);
            cx.out.push(Action::SetMtu(mtu));
        }
    }

    /// Handles the host's report that it has changed the interface MTU or failed to.
    pub(crate) fn on_mtu_set(&mut self, cx: &mut Cx<'_>, shard: &Shard, mtu: u16, done: Result<(), String>) {
        let interface = &cx.cfg.interface;
        if let Err(e) = done {
            return cx.out.warn(format!("{interface}: cannot set MTU {mtu}: {e}"));
        }
        let before = std::mem::replace(&mut self.mtu.mtu, mtu);
        cx.out.info(format!("{interface}: MTU changed from {before} to {mtu} to fit the paths"));
        shard.others().for_each(|shard| cx.tell_shard(shard, Told::Mtu(mtu)));
    }
}
