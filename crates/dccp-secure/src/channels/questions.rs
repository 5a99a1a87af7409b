//! Echo requests, with which a client measures its paths ([`crate::echo`]).

use super::{Channels, Input};
use crate::address::Address;
use crate::drops::Reason;
use crate::echo::HostFacts;
use crate::header::{HEADER, OVERHEAD};
use crate::strangers::is_stranger;
use mpdccp_units::Time;

impl Channels {
    /// Sets the facts about this host that are used to answer an [`EchoQuestion`](crate::EchoQuestion).
    pub fn set_facts(&mut self, facts: HostFacts) {
        self.echoes.facts = facts;
    }

    /// Sends the answers that are due.
    pub(super) fn answer_questions(&mut self, now: Time) {
        while let Some(due) = self.echoes.pop(now) {
            if let Some(peer) = self.peers.get_mut(&due.peer) {
                peer.echoes.sent();
            }
            let at = self.by_id.get(&due.channel);
            let Some(channel) = at.and_then(|at| self.channels.get_mut(*at)) else { continue };
            let mut record = vec![0; due.packet.len() + OVERHEAD];
            record[HEADER..HEADER + due.packet.len()].copy_from_slice(&due.packet);
            let len = record.len();
            // Send the answer to the source address of the request, even if the channel has moved in the
            // meantime. Only the holder of the key can read the answer.
            if channel.seal(now, &mut record, len).is_ok() {
                self.outbox.push_back((due.to, record));
            }
        }
    }

    /// Handles an echo request. `met` says whether the peer has proved that it receives packets at `from`.
    pub(super) fn ask(
        &mut self,
        now: Time,
        (at, from, met): (u32, &Address, bool),
        packet: &[u8],
    ) -> Result<Input, Reason> {
        let channel = self.channels.get_mut(at).ok_or(Reason::UnknownIndex)?;
        let peer = self.peers.get_mut(&channel.peer).ok_or(Reason::UnknownPeer)?;
        channel.asked = channel.asked.wrapping_add(1);
        // The source of a request may be forged, and anyone can be a stranger. Answers to either must not be
        // larger than the request.
        let most = if met && !is_stranger(channel.peer) { usize::MAX } else { packet.len() };
        let asker = (channel.id, channel.peer, from);
        if !self.echoes.ask(now, asker, (packet, most), channel.asked, &mut peer.echoes) {
            return Err(Reason::EchoLimited);
        }
        self.answer_questions(now);
        Ok(Input::Handled)
    }
}
