//! Answers requests for addresses, and handles messages from other shards.

use super::Tunnel;
use crate::Cx;
use crate::action::Action;
use crate::drops::DropReason;
use crate::peers::Peers;
use crate::shards::{ShardMessage, Told};
use mpdccp_proto::Endpoint;
use mpdccp_units::Time;

impl Tunnel {
    /// Answers a peer's request for addresses.
    pub(super) fn assign(&mut self, endpoint: &mut Endpoint, now: Time, number: usize) {
        let (cx, allowed) = (cx!(self, endpoint, now), &mut self.forward.allowed);
        // Check the flows only after a new lease, because a peer can send many requests.
        let leased = |peers: &Peers| peers.get(number).map(|peer| peer.leased.len());
        let before = leased(&self.peers);
        if self.leases.answer(cx, &mut self.peers, allowed, &self.shard, number).is_err() {
            self.count_drops(DropReason::NoAddressToAssign, 1);
        }
        if leased(&self.peers) != before {
            self.recheck_flows(endpoint, now);
        }
    }

    /// Handles a message from another shard.
    pub fn handle_shard(&mut self, endpoint: &mut Endpoint, now: Time, message: ShardMessage) {
        match message.0 {
            Told::Alive(number) => {
                if self.shard.all_live(number) {
                    self.out.push(Action::Alive);
                }
            }
            Told::Asks(number) => self.assign(endpoint, now, number),
            Told::Leased(number, ip) => {
                self.leases.note(&mut self.peers, &mut self.forward.allowed, number, ip);
                self.recheck_flows(endpoint, now);
            }
            Told::Send(number, message) => self.peers.tell(cx!(self, endpoint, now), number, &message),
            Told::Carries { before, now: size } => {
                self.forward.mtu.count(before, size);
                self.forward.follow_sizes(cx!(self, endpoint, now), &self.assigned);
            }
            Told::Mtu(mtu) => self.forward.mtu.mtu = mtu,
        }
    }
}
