//! Peers that nobody named: where strangers are let in, each gets a number while it has a channel.

use super::{Channels, Event};
use crate::drops::Reason;
use crate::keys::{PresharedKey, PublicKey};
use crate::strangers::{FIRST, is_stranger};
use mpdccp_units::{Duration, Time};

/// One that was silent for so long makes room for another when there are as many as may be. A session that lives says something more often.
const SILENT: Duration = Duration::from_secs(60);
/// How often room is made: each time all of them are looked at.
const SWEEP: Duration = Duration::from_secs(1);

impl Channels {
    /// Lets in whoever has a key, beside the peers that were added: up to this many at a time, without a preshared key.
    /// [`peer_key`](Self::peer_key) tells who has which number, as long as there is a channel. Not on a server of several shards.
    pub fn admit_strangers(&mut self, most: usize) {
        self.strangers.most = most;
    }

    /// A number for a stranger.
    pub(super) fn admit(&mut self, now: Time, key: PublicKey) -> Result<u32, Reason> {
        if self.strangers.most == 0 || self.shards > 0 {
            self.stranger = Some(key);
            return Err(Reason::UnknownPeer);
        }
        if self.strangers.count >= self.strangers.most {
            self.sweep(now);
        }
        if self.strangers.count >= self.strangers.most {
            return Err(Reason::TooMany);
        }
        let number = loop {
            let number = FIRST | self.strangers.next;
            self.strangers.next = (self.strangers.next + 1) % FIRST;
            if !self.peers.contains_key(&number) {
                break number;
            }
        };
        self.add_peer(number, key, PresharedKey::default());
        self.strangers.count += 1;
        Ok(number)
    }

    /// A stranger is forgotten with its last channel.
    pub(super) fn forget_stranger(&mut self, number: u32) {
        if is_stranger(number) && self.peers.get(&number).is_some_and(|peer| peer.channels.is_empty()) {
            self.remove_peer(number);
        }
    }

    /// Forgets the strangers that have been silent.
    fn sweep(&mut self, now: Time) {
        if self.strangers.swept.is_some_and(|at| now.since(at) < SWEEP) {
            return;
        }
        self.strangers.swept = Some(now);
        let silent = |at: &u32| self.channels.get(*at).is_none_or(|c| now.since(c.heard) >= SILENT);
        let strangers = self.peers.range(FIRST..).filter(|(_, peer)| peer.channels.values().all(silent));
        let channels: Vec<u32> = strangers.flat_map(|(_, peer)| peer.channels.values().copied()).collect();
        for at in channels {
            if let Some(channel) = self.channels.get(at) {
                self.events.push_back(Event::Gone(channel.id));
            }
            // With the last of them goes the stranger.
            self.forget(at);
        }
    }
}
