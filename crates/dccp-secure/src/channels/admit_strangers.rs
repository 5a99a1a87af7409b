//! Peers that are not configured (strangers). If strangers are admitted, each has a number for as long as it
//! has a channel.

use super::{Channels, Event};
use crate::drops::Reason;
use crate::keys::{PresharedKey, PublicKey};
use crate::strangers::{FIRST, is_stranger};
use mpdccp_units::{Duration, Time};

/// Once the maximum number of strangers is reached, those that have been silent for this long are dropped.
/// Active sessions send more often than this.
const SILENT: Duration = Duration::from_secs(60);
/// Minimum interval between searches for silent strangers, because each search examines all strangers.
const SWEEP: Duration = Duration::from_secs(1);

impl Channels {
    /// Accepts any peer that has a key, in addition to the configured peers, but at most `most` such peers at
    /// a time. They have no preshared key. As long as such a peer has a channel, [`peer_key`](Self::peer_key)
    /// returns the key for its number. A server with several shards must not call this.
    pub fn admit_strangers(&mut self, most: usize) {
        self.strangers.most = most;
    }

    /// Assigns a number to a stranger.
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

    /// Removes a stranger that has no channels left.
    pub(super) fn forget_stranger(&mut self, number: u32) {
        if is_stranger(number) && self.peers.get(&number).is_some_and(|peer| peer.channels.is_empty()) {
            self.remove_peer(number);
        }
    }

    /// Removes silent strangers.
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
            // Removing a stranger's last channel also removes the stranger.
            self.forget(at);
        }
    }
}
