mod admit_strangers;
mod handshake;
mod home_shard;
mod questions;
mod servers;
mod types;

use crate::address::Address;
use crate::channel::{Channel, ChannelId, ChannelStats, Unready};
use crate::cookie::{Codes, CookieJar};
use crate::drops::Reason;
use crate::echo::{self, Budget, Echoes};
use crate::handshake_limits::{Bucket, Load, Sources};
use crate::header::{self, HEADER, Kind, NO_SLOT, Receiver};
use crate::indices::Indices;
use crate::keys::{PresharedKey, PrivateKey, PublicKey};
use crate::slots::Slots;
use crate::strangers::Strangers;
use crate::timestamp::Timestamp;
use crate::x25519::Identity;
use mpdccp_units::{Duration, Time};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use zeroize::Zeroizing;

pub use home_shard::{Handover, home};
pub use types::{Event, Input, PeerStats, Settings};

/// Receiver named in an initiation that any server and any shard may answer.
const ANYWHERE: Receiver = Receiver { server: 0, index: u32::MAX };
/// Number of channel identifiers. Callers may mark identifiers with the highest bit.
const IDS: u32 = 1 << 31;

#[derive(Debug)]
struct Peer {
    key: PublicKey,
    psk: PresharedKey,
    codes: Codes,
    /// The peer's channels, by their identifiers in handshakes.
    channels: BTreeMap<u64, u32>,
    /// A handshake that opens another channel must have a newer timestamp than this.
    floor: Timestamp,
    /// Timestamp of the peer's newest handshake, including handshakes that exceeded the rate limit.
    offered: Timestamp,
    /// Server and shard that sent the last answer.
    home: Receiver,
    /// Rate limit of the peer's handshakes.
    handshakes: Bucket,
    /// Rate limit of the peer's echo requests.
    echoes: Budget,
}

/// All channels of a thread.
///
/// Pass datagrams to [`handle`](Self::handle) and packets to [`seal`](Self::seal), then call
/// [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event) until they return `None`. Call
/// [`handle_timeout`](Self::handle_timeout) at the time returned by [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Channels {
    settings: Settings,
    identity: Arc<Identity>,
    /// Number of shards among which the server's peers are divided, or 0 if this shard has all peers.
    shards: u8,
    handovers: VecDeque<Handover>,
    codes: Codes,
    rng: ChaCha20Rng,
    peers: BTreeMap<u32, Peer>,
    by_key: BTreeMap<PublicKey, u32>,
    channels: Slots<Channel>,
    by_id: BTreeMap<ChannelId, u32>,
    next_id: u32,
    /// This end's indices and their channels.
    indices: Indices,
    timers: BTreeSet<(Time, u32)>,
    outbox: VecDeque<(Address, Vec<u8>)>,
    events: VecDeque<Event>,
    jar: CookieJar,
    load: Load,
    sources: Sources,
    echoes: Echoes,
    drops: BTreeMap<Reason, u64>,
    stranger: Option<PublicKey>,
    strangers: Strangers,
    /// Timestamp of the newest handshake that this end started, as time since 1970.
    initiated: Option<Duration>,
    /// Lines of the key log that have not been fetched yet, or `None` if no log is written.
    keylog: Option<VecDeque<Zeroizing<String>>>,
}

impl Channels {
    /// Creates channels without peers.
    pub fn new(settings: Settings) -> Channels {
        let identity = Identity::new(settings.private_key.clone());
        Channels {
            codes: Codes::new(identity.public()),
            rng: ChaCha20Rng::from_seed(settings.seed),
            shards: 0,
            handovers: VecDeque::new(),
            peers: BTreeMap::new(),
            by_key: BTreeMap::new(),
            channels: Slots::new(NO_SLOT),
            by_id: BTreeMap::new(),
            next_id: 0,
            indices: Indices::default(),
            timers: BTreeSet::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            jar: CookieJar::new(),
            load: Load::default(),
            sources: Sources::default(),
            echoes: Echoes::default(),
            drops: BTreeMap::new(),
            stranger: None,
            strangers: Strangers::default(),
            initiated: None,
            keylog: None,
            identity,
            settings,
        }
    }

    /// Adds a peer under a number that the caller chooses. This replaces a peer with the same number or key.
    pub fn add_peer(&mut self, number: u32, key: PublicKey, psk: PresharedKey) {
        if let Some(other) = self.by_key.get(&key).copied() {
            self.remove_peer(other);
        }
        self.remove_peer(number);
        self.by_key.insert(key, number);
        self.identity.add_peer(key);
        let peer = Peer {
            key,
            psk,
            codes: Codes::new(&key),
            channels: BTreeMap::new(),
            floor: Timestamp::default(),
            offered: Timestamp::default(),
            home: ANYWHERE,
            handshakes: Bucket::of_peer(),
            echoes: Budget::new(),
        };
        self.peers.insert(number, peer);
    }

    /// Returns whether the peer with this number has these keys.
    pub fn has_peer(&self, number: u32, key: &PublicKey, psk: &PresharedKey) -> bool {
        self.peers.get(&number).is_some_and(|peer| peer.key == *key && peer.psk == *psk)
    }

    /// Returns whether this is this host's private key.
    pub fn is_own(&self, key: &PrivateKey) -> bool {
        self.settings.private_key == *key
    }

    /// Changes this host's private key for future handshakes. Channels that use the old key stay until
    /// [`remove_peer`](Self::remove_peer).
    pub fn set_private_key(&mut self, key: PrivateKey) {
        self.identity = Identity::new(key.clone());
        self.peers.values().for_each(|peer| self.identity.add_peer(peer.key));
        self.codes = Codes::new(self.identity.public());
        self.settings.private_key = key;
    }

    /// Removes a peer and its channels.
    pub fn remove_peer(&mut self, number: u32) {
        let Some(peer) = self.peers.remove(&number) else { return };
        self.by_key.remove(&peer.key);
        self.identity.remove_peer(&peer.key);
        self.strangers.forget(number);
        for at in peer.channels.into_values() {
            self.events.extend(self.channels.get(at).map(|channel| Event::Gone(channel.id)));
            self.forget(at);
        }
    }

    /// Opens a channel to a peer, and starts the handshake. Returns `None` if there is no such peer.
    pub fn open(&mut self, now: Time, peer: u32, address: Address) -> Option<ChannelId> {
        let path = self.rng.next_u64();
        let (id, at) = self.insert(now, peer, path, address, true)?;
        self.renew(now, at);
        Some(id)
    }

    /// Closes a channel. The peer is not notified.
    pub fn close(&mut self, channel: ChannelId) {
        if let Some(&at) = self.by_id.get(&channel) {
            self.forget(at);
        }
    }

    /// Returns the current address of a channel.
    pub fn address(&self, channel: ChannelId) -> Option<Address> {
        self.channel(channel).map(|channel| channel.address)
    }

    /// Returns the peer of a channel.
    pub fn peer(&self, channel: ChannelId) -> Option<u32> {
        self.channel(channel).map(|channel| channel.peer)
    }

    /// Returns the key of the peer with this number.
    pub fn peer_key(&self, peer: u32) -> Option<PublicKey> {
        self.peers.get(&peer).map(|peer| peer.key)
    }

    /// Returns the number of the peer with this key.
    pub fn number(&self, key: &PublicKey) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// Counters of a channel.
    pub fn stats(&self, channel: ChannelId) -> Option<ChannelStats> {
        self.channel(channel).map(|channel| channel.stats)
    }

    /// Returns the state of a peer.
    pub fn peer_stats(&self, peer: u32) -> Option<PeerStats> {
        let channels = &self.peers.get(&peer)?.channels;
        let heard = channels.values().filter_map(|at| self.channels.get(*at));
        let heard = heard.filter(|channel| channel.stats.handshakes > 0).map(|channel| channel.heard).max();
        Some(PeerStats { channels: channels.len(), heard })
    }

    /// Returns the number of dropped datagrams by reason.
    pub fn drops(&self) -> &BTreeMap<Reason, u64> {
        &self.drops
    }

    /// Returns the key from the last handshake by an unknown peer ([`Reason::UnknownPeer`]).
    pub fn stranger(&self) -> Option<&PublicKey> {
        self.stranger.as_ref()
    }

    /// Returns the timestamp of the newest handshake that this end has started, as time since 1970. After a
    /// restart, [`Settings::unix`] must not give an earlier time, because peers remember the newest handshake
    /// and refuse older ones.
    pub fn initiated(&self) -> Option<Duration> {
        self.initiated
    }

    /// Writes a key log from now on. Anyone who has this log can decrypt all packets.
    pub fn log_keys(&mut self) {
        self.keylog.get_or_insert_default();
    }

    /// Returns the next line of the key log ([`KeyLog`](crate::KeyLog)).
    pub fn poll_key(&mut self) -> Option<Zeroizing<String>> {
        self.keylog.as_mut()?.pop_front()
    }

    /// Seals records in place. Each record consists of room for a header ([`HEADER`](crate::HEADER)), a
    /// packet, and room for a tag ([`TAG`](crate::TAG)). Each has `segment` bytes; only the last may be
    /// shorter. Returns the address to send the records to.
    ///
    /// # Errors
    /// Fails if there is no key yet, or if the channel does not exist.
    pub fn seal(
        &mut self,
        now: Time,
        channel: ChannelId,
        records: &mut [u8],
        segment: usize,
    ) -> Result<Address, Unready> {
        let at = *self.by_id.get(&channel).ok_or(Unready::NoChannel)?;
        let result = self.channels.get_mut(at).ok_or(Unready::NoChannel)?.seal(now, records, segment);
        self.renew(now, at);
        result
    }

    /// Handles a received datagram.
    pub fn handle(&mut self, now: Time, from: &Address, datagram: &mut [u8]) -> Input {
        let message = header::read(datagram);
        // A load balancer that cannot read the server number may have sent us a message meant for another
        // server. This server must not answer it.
        if message.as_ref().is_some_and(|(to, _)| !self.is_here(*to)) {
            return self.settle(Err(Reason::OtherServer));
        }
        if let Some(shard) = message.and_then(|(to, _)| self.elsewhere(to)) {
            return Input::Elsewhere(shard);
        }
        let result = match message {
            Some((_, Kind::Initiation)) => self.handle_initiation(now, from, datagram),
            Some((to, Kind::Response)) => self.handle_response(now, to, datagram),
            Some((to, Kind::Cookie)) => self.handle_cookie(now, to, datagram),
            Some((to, Kind::Record(counter))) => self.handle_record(now, from, (to, counter), datagram),
            None => Err(Reason::NoMessage),
        };
        self.settle(result)
    }

    fn settle(&mut self, result: Result<Input, Reason>) -> Input {
        result.unwrap_or_else(|reason| {
            *self.drops.entry(reason).or_default() += 1;
            Input::Dropped(reason)
        })
    }

    /// Returns the next datagram to send: a handshake, a cookie reply, or a packet that waited for a key.
    pub fn poll_transmit(&mut self) -> Option<(Address, Vec<u8>)> {
        self.outbox.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at).into_iter().chain(self.echoes.next()).min()
    }

    /// Handles all timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        self.answer_questions(now);
        while let Some(&(due, at)) = self.timers.first().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, at));
            let Some(channel) = self.channels.get_mut(at) else { continue };
            channel.armed = None;
            if channel.is_over(now) {
                self.events.push_back(Event::Gone(channel.id));
                self.forget(at);
                continue;
            }
            for index in channel.expire(now) {
                self.indices.remove(index & NO_SLOT);
            }
            match channel.pending.take_if(|pending| pending.is_hopeless(now)) {
                Some(pending) => {
                    channel.staged.clear();
                    self.indices.remove(pending.index & NO_SLOT);
                }
                None if channel.pending.is_some() => self.repeat(now, at),
                None if channel.idle_rekey_at().is_some_and(|due| due <= now) => self.initiate(now, at),
                None => {}
            }
            self.arm(at);
        }
    }

    fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.get(*self.by_id.get(&id)?)
    }

    fn insert(
        &mut self,
        now: Time,
        peer: u32,
        path: u64,
        address: Address,
        initiates: bool,
    ) -> Option<(ChannelId, u32)> {
        let owner = self.peers.get_mut(&peer)?;
        // A peer that opens channels all the time uses up all identifiers within years.
        while self.by_id.contains_key(&ChannelId(self.next_id)) {
            self.next_id = (self.next_id + 1) % IDS;
        }
        let id = ChannelId(self.next_id);
        let at = self.channels.insert(Channel::new(now, id, peer, path, address, initiates))?;
        owner.channels.insert(path, at);
        self.next_id = (self.next_id + 1) % IDS;
        self.by_id.insert(id, at);
        self.arm(at);
        Some((id, at))
    }

    fn forget(&mut self, at: u32) {
        let Some(channel) = self.channels.remove(at) else { return };
        self.by_id.remove(&channel.id);
        for index in channel.indices() {
            self.indices.remove(index & NO_SLOT);
        }
        if let Some(due) = channel.armed {
            self.timers.remove(&(due, at));
        }
        if let Some(peer) = self.peers.get_mut(&channel.peer) {
            peer.channels.remove(&channel.path);
            if !channel.initiates {
                peer.floor = peer.floor.max(channel.newest);
            }
        }
        self.forget_stranger(channel.peer);
    }

    fn arm(&mut self, at: u32) {
        let Some(channel) = self.channels.get_mut(at) else { return };
        let next = channel.next_timeout();
        if channel.armed != next {
            if let Some(due) = core::mem::replace(&mut channel.armed, next) {
                self.timers.remove(&(due, at));
            }
            if let Some(due) = next {
                self.timers.insert((due, at));
            }
        }
    }

    fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    /// Allocates an index of this end for a channel.
    fn index(&mut self, at: u32) -> Option<u32> {
        Some(u32::from(self.settings.shard) << 24 | self.indices.insert(at, &mut self.rng)?)
    }

    /// Returns the channel to which this end assigned the index in `to`.
    fn owner(&self, to: Receiver) -> Option<u32> {
        let ours = to.index >> 24 == u32::from(self.settings.shard);
        self.indices.get(to.index & NO_SLOT).filter(|_| ours)
    }

    /// Starts a handshake if the channel needs one and none is running.
    fn renew(&mut self, now: Time, at: u32) {
        let Some(channel) = self.channels.get(at) else { return };
        if channel.pending.is_none() && channel.wants_handshake(now) {
            self.initiate(now, at);
            self.arm(at);
        }
    }

    fn handle_record(
        &mut self,
        now: Time,
        from: &Address,
        (to, counter): (Receiver, u64),
        datagram: &mut [u8],
    ) -> Result<Input, Reason> {
        let at = self.owner(to).ok_or(Reason::UnknownIndex)?;
        let channel = self.channels.get_mut(at).ok_or(Reason::UnknownIndex)?;
        let key = channel.key(to.index).ok_or(Reason::UnknownIndex)?;
        if now.since(key.made) >= crate::channel::REJECT_AFTER {
            return Err(Reason::KeyExpired);
        }
        if !key.seen.is_new(counter) {
            return Err(Reason::Replayed);
        }
        let len = key.receive.open(counter, datagram).ok_or(Reason::Forged)?;
        let (latest, met) = (key.seen.take(counter), key.met == from.remote.ip());
        let confirms = channel.next.take_if(|next| next.index == to.index);
        channel.on_heard(now);
        let confirmed = confirms.is_some();
        if let Some(key) = confirms {
            let was_ready = channel.current.as_ref().is_some_and(|key| key.is_usable(now));
            (channel.confirmed, channel.response) = (true, None);
            self.strangers.confirm(channel.peer);
            if let Some(index) = channel.rotate(key) {
                self.indices.remove(index & NO_SLOT);
            }
            if !was_ready {
                self.events.push_back(Event::Ready(channel.id));
            }
        }
        // Only the newest record shows the peer's current address. An older record may have been sent before
        // the peer moved.
        let current = channel.current.as_ref().is_some_and(|key| key.index == to.index);
        // For a channel that this end opened, the system chooses the local address again for each packet,
        // because this end may move too.
        let local = if channel.initiates { channel.address.local } else { from.local };
        let shown = Address { local, ..*from };
        if latest && current && channel.address != shown {
            channel.address = shown;
            channel.stats.moves += 1;
            self.events.push_back(Event::Moved(channel.id));
        }
        channel.stats.opened += 1;
        let (id, peer) = (channel.id, channel.peer);
        if confirmed {
            self.arm(at);
        }
        self.renew(now, at);
        let packet = datagram.get(HEADER..HEADER + len).unwrap_or_default();
        if self.settings.accepts && echo::is_question(packet) {
            return self.ask(now, (at, from, met), packet);
        }
        Ok(if len == 0 { Input::Handled } else { Input::Packet { channel: id, peer, len } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_reused_after_the_last_one() {
        let [own, other] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let settings = Settings::new(own, false, Duration::from_secs(1_700_000_000), [1; 32]);
        let mut channels = Channels::new(settings);
        channels.add_peer(0, other.public(), PresharedKey::default());
        let address = Address { socket: 0, local: None, remote: ([192, 0, 2, 1], 6511).into() };
        let open = |channels: &mut Channels| channels.open(Time::from_millis(1), 0, address).map(|id| id.0);
        assert_eq!(open(&mut channels), Some(0));
        channels.next_id = IDS - 1;
        assert_eq!([open(&mut channels), open(&mut channels)], [Some(IDS - 1), Some(1)]);
    }
}
