//! Peers that are not configured (strangers). If strangers are admitted, each has a number for as long as it
//! has a channel.

use super::{Channels, Event};
use crate::address::Address;
use crate::drops::Reason;
use crate::keys::{PresharedKey, PublicKey};
use crate::strangers::{FIRST, is_stranger};
use mpdccp_units::{Duration, Time, source};

/// Once a maximum number of strangers is reached, those that have been silent for this long are dropped.
/// Active sessions send more often than this.
const SILENT: Duration = Duration::from_secs(60);
/// Minimum interval between searches for silent strangers, because each search examines all strangers.
const SWEEP: Duration = Duration::from_secs(1);

impl Channels {
    /// Accepts unknown peers in addition to the configured ones, but at most `most` at a time. They have no
    /// preshared key. One source, which is an IPv4 address or an IPv6 /64, may have `each` unknown peers, or
    /// fewer if few places are free. As long as an unknown peer has a channel, [`peer_key`](Self::peer_key)
    /// returns the key for its number. A server with several shards must not call this.
    pub fn admit_strangers(&mut self, most: usize, each: usize) {
        (self.strangers.most, self.strangers.each) = (most, each);
    }

    /// Assigns a number to a stranger.
    pub(super) fn admit(&mut self, now: Time, from: &Address, key: PublicKey) -> Result<u32, Reason> {
        if self.strangers.most == 0 || self.shards > 0 {
            self.stranger = Some(key);
            return Err(Reason::UnknownPeer);
        }
        let source = source(from.remote.ip());
        if self.strangers.are_too_many(source) {
            self.sweep(now);
        }
        if self.strangers.are_too_many(source) {
            return Err(Reason::TooMany);
        }
        self.drop_strangers(self.strangers.to_replace(source).into_iter().collect());
        let number = loop {
            let number = FIRST | self.strangers.next;
            self.strangers.next = (self.strangers.next + 1) % FIRST;
            if !self.peers.contains_key(&number) {
                break number;
            }
        };
        self.add_peer(number, key, PresharedKey::default());
        self.strangers.remember(number, source);
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
        self.drop_strangers(strangers.map(|(number, _)| *number).collect());
    }

    fn drop_strangers(&mut self, numbers: Vec<u32>) {
        let peers = numbers.iter().filter_map(|number| self.peers.get(number));
        let channels: Vec<u32> = peers.flat_map(|peer| peer.channels.values().copied()).collect();
        for at in channels {
            if let Some(channel) = self.channels.get(at) {
                self.events.push_back(Event::Gone(channel.id));
            }
            // Removing a stranger's last channel also removes the stranger.
            self.forget(at);
        }
    }
}
