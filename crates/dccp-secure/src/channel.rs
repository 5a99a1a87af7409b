//! One channel: its keys, its current handshake, and the packets waiting for a key.

use crate::address::Address;
use crate::ciphers::{Aead, RecordKey};
use crate::cookie::Code;
use crate::header::{self, HEADER, Kind, OVERHEAD, Receiver};
use crate::noise::Initiating;
use crate::replay::Replay;
use crate::timestamp::Timestamp;
use core::net::IpAddr;
use mpdccp_units::{Duration, Time};
use std::collections::VecDeque;

/// As in WireGuard, a key is replaced once it is older than `REKEY_AFTER`, and must not be used once it is
/// older than `REJECT_AFTER`.
pub(crate) const REKEY_AFTER: Duration = Duration::from_secs(120);
pub(crate) const REJECT_AFTER: Duration = Duration::from_secs(180);
/// The initiator replaces a key of this age even if it has nothing to send. The responder cannot start a
/// handshake, so without this it could not send after a long silence.
const REKEY_IDLE_AFTER: Duration = Duration::from_secs(150);
/// If the initiator has been sending for this long without an answer, it starts a new handshake, because the
/// responder may have restarted.
const SILENCE: Duration = Duration::from_secs(1);
/// Interval at which handshakes are retransmitted if the responder has only recently fallen silent, so that a
/// restarted responder gets a handshake within a second.
const DENSE: Duration = Duration::from_millis(600);
const LATELY: Duration = Duration::from_secs(35);
/// If the responder has not recently fallen silent, the interval doubles from the first of these values to
/// the second. Each interval is shortened at random by up to a quarter.
pub(crate) const SPARSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// A new message invalidates the answer to the previous one, and the line may have a queue of some seconds.
/// So the interval between new messages doubles up to this limit, and is at least twice as long as the last
/// handshake took. In between, the same message is retransmitted.
const LONGEST: Duration = Duration::from_secs(20);
/// A handshake is given up after this time. The next packet starts another one.
const GIVE_UP: Duration = Duration::from_secs(90);
/// How long a responder keeps a silent channel, so that a client returning from sleep can continue to use it.
const FORGET: Duration = Duration::from_secs(1800);
/// How long a responder keeps a channel after its last answer if the initiator never confirms a key.
const UNCONFIRMED: Duration = Duration::from_secs(10);
/// Maximum number of packets waiting for a key.
const STAGED: usize = 16;

/// Identifies a channel in a [`Channels`](crate::Channels). The identifier of a closed channel is used again
/// only after 2^31 further channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// The reason why no record can be sealed at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// There is no key yet. The newest packets are stored and will be sent once there is a key.
    NoKey,
    /// The channel does not exist.
    NoChannel,
}

/// Counters of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// Number of records sealed.
    pub sealed: u64,
    /// Number of records opened.
    pub opened: u64,
    /// Number of handshakes completed.
    pub handshakes: u64,
    /// Number of times that the peer's address changed.
    pub moves: u64,
    /// Number of packets waiting for a key that were dropped to make room for newer ones.
    pub unstaged: u64,
    /// Cipher that is in use.
    pub aead: Option<Aead>,
}

/// The keys that one handshake created.
#[derive(Debug)]
pub(crate) struct Keypair {
    /// Index of this end, which the peer writes into records for this end.
    pub(crate) index: u32,
    pub(crate) to: Receiver,
    /// The address at which the other end has proved that it receives packets. An initiator proves it with
    /// the key, which it can only have from the response. Unspecified if the response went to several
    /// addresses.
    pub(crate) met: IpAddr,
    pub(crate) send: RecordKey,
    pub(crate) receive: RecordKey,
    pub(crate) aead: Aead,
    pub(crate) seen: Replay,
    pub(crate) made: Time,
    /// Counter of the next record to seal.
    pub(crate) counter: u64,
}

impl Keypair {
    pub(crate) fn is_usable(&self, now: Time) -> bool {
        now.since(self.made) < REJECT_AFTER && self.counter < self.aead.most_records()
    }

    fn is_old(&self, now: Time) -> bool {
        // Count the received records too: the other end cannot replace its key by itself.
        let records = self.counter.max(self.seen.next());
        now.since(self.made) >= REKEY_AFTER || records >= self.aead.most_records() / 2
    }
}

/// A handshake that this end started.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) state: Initiating,
    pub(crate) index: u32,
    /// The message, and the server and slot to which it is addressed. If the peer's server was not known yet,
    /// any of the peer's servers may answer.
    pub(crate) message: Vec<u8>,
    pub(crate) to: Receiver,
    /// The message's first code (WireGuard's mac1), which a cookie reply uses to identify the message.
    pub(crate) code: Code,
    pub(crate) since: Time,
    pub(crate) sent: Time,
    pub(crate) again: Time,
    /// When the message is replaced by a new one instead of being retransmitted.
    pub(crate) renew: Time,
    /// Current interval between new messages, before it is shortened at random.
    pub(crate) wait: Duration,
}

impl Pending {
    /// Returns how long to use a new message of a handshake that started at `since`. `before` is the previous
    /// interval, `heard` is when the responder last sent anything, and `took` is how long the last handshake
    /// took. A responder that has sent anything since the start is running, even if its answer takes long.
    pub(crate) fn wait(
        now: Time,
        (since, heard): (Time, Time),
        took: Option<Duration>,
        before: Duration,
    ) -> Duration {
        let fell_silent = took.is_some() && now.since(heard) < LATELY && heard <= since;
        let wait = if fell_silent { DENSE } else { (before * 2).max(SPARSE.0) };
        wait.max(took.unwrap_or_default() * 2).min(LONGEST)
    }

    pub(crate) fn is_hopeless(&self, now: Time) -> bool {
        now.since(self.since) >= GIVE_UP
    }
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) id: ChannelId,
    pub(crate) peer: u32,
    /// Number that identifies the channel in handshakes.
    pub(crate) path: u64,
    pub(crate) address: Address,
    /// Whether this end opened the channel and renews its keys.
    pub(crate) initiates: bool,
    /// The server that this channel stays with, if set. This end's other channels may use a different server.
    pub(crate) stays: Option<Receiver>,
    /// `current` is the newest key that both ends certainly have, `previous` is the key before it, and `next`
    /// is a key that the initiator has not confirmed yet.
    pub(crate) current: Option<Box<Keypair>>,
    pub(crate) previous: Option<Box<Keypair>>,
    pub(crate) next: Option<Box<Keypair>>,
    pub(crate) pending: Option<Box<Pending>>,
    /// Time from initiation to answer in the last handshake started by this end.
    pub(crate) took: Option<Duration>,
    pub(crate) cookie: Option<(Code, Time)>,
    pub(crate) staged: VecDeque<Vec<u8>>,
    /// Time at which the last authentic message from the peer arrived.
    pub(crate) heard: Time,
    /// Time at which the current period of sending without an answer began, and time at which this end last
    /// sent. The first pause in sending ends the period, because the last packet of an exchange need not be
    /// answered. A second pause does not end it, because a sender that gets no answers also pauses.
    pub(crate) unanswered: Option<Time>,
    pub(crate) sent: Time,
    paused: bool,
    /// Timestamp of the newest handshake that this end started or accepted.
    pub(crate) newest: Timestamp,
    /// The response to that handshake, until the initiator confirms the key.
    pub(crate) response: Option<Vec<u8>>,
    pub(crate) confirmed: bool,
    pub(crate) armed: Option<Time>,
    /// Number of echo requests received.
    pub(crate) asked: u32,
    pub(crate) stats: ChannelStats,
}

impl Channel {
    pub(crate) fn new(
        now: Time,
        id: ChannelId,
        peer: u32,
        path: u64,
        address: Address,
        initiates: bool,
    ) -> Channel {
        Channel {
            id,
            peer,
            path,
            address,
            initiates,
            stays: None,
            current: None,
            previous: None,
            next: None,
            pending: None,
            took: None,
            cookie: None,
            staged: VecDeque::new(),
            heard: now,
            unanswered: None,
            paused: false,
            sent: now,
            newest: Timestamp::default(),
            response: None,
            confirmed: initiates,
            armed: None,
            asked: 0,
            stats: ChannelStats::default(),
        }
    }

    /// Records that an authentic message has arrived.
    pub(crate) fn on_heard(&mut self, now: Time) {
        (self.heard, self.unanswered, self.paused) = (now, None, false);
    }

    /// Returns whether this end should start a handshake. Call this when this end has data to send or has
    /// received something.
    pub(crate) fn wants_handshake(&self, now: Time) -> bool {
        let silent = self.unanswered.is_some_and(|at| now.since(at) >= SILENCE);
        let fresh = self.current.as_ref().is_some_and(|key| key.is_usable(now) && !key.is_old(now));
        self.initiates && (silent || !fresh)
    }

    /// Returns when to start a handshake even if there is nothing to send.
    pub(crate) fn idle_rekey_at(&self) -> Option<Time> {
        let key = self.current.as_ref().filter(|_| self.initiates && self.pending.is_none())?;
        Some(key.made + REKEY_IDLE_AFTER)
    }

    /// Returns the key that has this index at this end.
    pub(crate) fn key(&mut self, index: u32) -> Option<&mut Keypair> {
        let keys = [&mut self.current, &mut self.next, &mut self.previous];
        keys.into_iter().flatten().map(|key| &mut **key).find(|key| key.index == index)
    }

    /// Seals records in place. Each has `segment` bytes, except that the last may be shorter.
    pub(crate) fn seal(&mut self, now: Time, records: &mut [u8], segment: usize) -> Result<Address, Unready> {
        let segment = segment.max(1);
        let count = records.len().div_ceil(segment) as u64;
        let fits = |key: &Keypair| key.aead.most_records().saturating_sub(key.counter) >= count;
        let usable = self.current.as_mut().filter(|key| key.is_usable(now) && fits(key));
        let Some(key) = usable else {
            records.chunks(segment).for_each(|record| self.stage(record));
            return Err(Unready::NoKey);
        };
        for record in records.chunks_mut(segment) {
            if let Some(head) = record.first_chunk_mut() {
                header::write(key.to, Kind::Record(key.counter), head);
            }
            // A record that is too short for header and tag must not be sent in plain text. Fill it with
            // zeros instead, which no receiver accepts.
            if !key.send.seal(key.counter, record) {
                record.fill(0);
            }
            key.counter += 1;
        }
        self.stats.sealed += count;
        if now.since(self.sent) >= SILENCE && !core::mem::replace(&mut self.paused, true) {
            self.unanswered = None;
        }
        self.unanswered.get_or_insert(now);
        self.sent = now;
        Ok(self.address)
    }

    /// Stores the packet of a record that could not be sealed, until there is a key.
    fn stage(&mut self, record: &[u8]) {
        let Some(packet) = record.get(HEADER..record.len().saturating_sub(OVERHEAD - HEADER)) else { return };
        if self.staged.len() == STAGED {
            self.staged.pop_front();
            self.stats.unstaged += 1;
        }
        self.staged.push_back(packet.to_vec());
    }

    /// Seals the stored packets. If there are none, seals an empty record, to prove to the responder that
    /// this end has the key.
    pub(crate) fn unstage(&mut self, now: Time, mut send: impl FnMut(Address, Vec<u8>)) {
        if self.staged.is_empty() {
            self.staged.push_back(Vec::new());
        }
        for packet in core::mem::take(&mut self.staged) {
            let mut record = vec![0; packet.len() + OVERHEAD];
            record[HEADER..HEADER + packet.len()].copy_from_slice(&packet);
            let len = record.len();
            if let Ok(to) = self.seal(now, &mut record, len) {
                send(to, record);
            }
        }
    }

    /// Makes `key` the current key. Returns the index of the key that this drops.
    pub(crate) fn rotate(&mut self, key: Box<Keypair>) -> Option<u32> {
        self.stats.handshakes += 1;
        self.stats.aead = Some(key.aead);
        let gone = core::mem::replace(&mut self.previous, self.current.replace(key));
        gone.map(|key| key.index)
    }

    /// Stops sealing records until a new handshake has completed. Returns the index of the key that this
    /// drops.
    pub(crate) fn start_over(&mut self) -> Option<u32> {
        let key = self.current.take_if(|_| self.initiates)?;
        self.previous.replace(key).map(|key| key.index)
    }

    /// Drops expired keys and returns their indices.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<u32> {
        let keys = [&mut self.current, &mut self.next, &mut self.previous];
        let old = keys.into_iter().filter_map(|key| key.take_if(|key| now.since(key.made) >= REJECT_AFTER));
        old.map(|key| key.index).collect()
    }

    /// Makes the keys older, because the host was suspended for this time. Drops the keys that have expired,
    /// and returns their indices.
    pub(crate) fn on_suspended(&mut self, now: Time, time: Duration) -> Vec<u32> {
        let gone = self.expire(now + time);
        for key in [&mut self.current, &mut self.next, &mut self.previous].into_iter().flatten() {
            key.made = Time::ZERO + key.made.since(Time::ZERO + time);
        }
        gone
    }

    /// Returns whether a responder may drop the channel.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        !self.initiates && now.since(self.heard) >= if self.confirmed { FORGET } else { UNCONFIRMED }
    }

    /// Returns when the channel's next timer expires.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let keys = [&self.current, &self.next, &self.previous];
        let keys = keys.into_iter().flatten().map(|key| key.made + REJECT_AFTER);
        let over = self.heard + if self.confirmed { FORGET } else { UNCONFIRMED };
        let over = (!self.initiates).then_some(over);
        keys.chain(over).chain(self.pending.as_ref().map(|p| p.again)).chain(self.idle_rekey_at()).min()
    }

    /// Returns all indices of the channel.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        let keys = [&self.current, &self.next, &self.previous];
        keys.into_iter().flatten().map(|key| key.index).chain(self.pending.as_ref().map(|p| p.index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(aead: Aead, counter: u64) -> Channel {
        let address = Address { socket: 0, local: None, remote: ([192, 0, 2, 1], 1).into() };
        let mut channel = Channel::new(Time::ZERO, ChannelId(0), 0, 0, address, true);
        channel.rotate(keypair(aead, counter));
        channel
    }

    fn keypair(aead: Aead, counter: u64) -> Box<Keypair> {
        let key = || RecordKey::new(aead, &[1; 32]).unwrap();
        let to = Receiver { server: 0, index: 1 };
        let (seen, send, receive, met) = (Replay::new(), key(), key(), [192, 0, 2, 1].into());
        Box::new(Keypair { index: 1, to, met, send, receive, aead, seen, made: Time::ZERO, counter })
    }

    #[test]
    fn a_record_without_room_for_its_tag_is_never_sent_in_plain_text() {
        let mut record = [7; OVERHEAD - 1];
        channel(Aead::Aes128Gcm, 0).seal(Time::ZERO, &mut record, OVERHEAD - 1).unwrap();
        assert_eq!(record, [0; OVERHEAD - 1]);
    }

    /// RFC 9001 section 6.6: at most 2^23 records may be sealed under one AES-GCM key. A new key is
    /// negotiated after half of them.
    #[test]
    fn keys_are_renewed_by_count_without_a_gap() {
        let now = Time::from_millis(1);
        for (aead, most) in
            [(Aead::Aes128Gcm, 1 << 23), (Aead::Aes256Gcm, 1 << 23), (Aead::ChaCha20Poly1305, 1 << 60)]
        {
            let mut channel = channel(aead, most / 2 - 1);
            let seal = |channel: &mut Channel| {
                let mut record = [0; OVERHEAD + 8];
                let len = record.len();
                channel.seal(now, &mut record, len).map(|_| record)
            };
            assert!(!channel.wants_handshake(now), "{aead:?}");
            assert!(seal(&mut channel).is_ok());
            assert!(channel.wants_handshake(now), "a key must be renewed after half of its records");
            // The old key is used until the new key is ready.
            assert!(seal(&mut channel).is_ok());
            channel.current.as_mut().unwrap().counter = most - 1;
            let mut run = [0; 2 * OVERHEAD];
            assert_eq!(
                channel.seal(now, &mut run, OVERHEAD),
                Err(Unready::NoKey),
                "a run beyond the limit must be refused"
            );
            channel.staged.clear();
            assert!(seal(&mut channel).is_ok());
            assert_eq!(seal(&mut channel), Err(Unready::NoKey), "no record beyond the limit may be sealed");
            // Once the new key is ready, the waiting packets and the next packet are sent.
            channel.rotate(keypair(aead, 0));
            let mut left = 0;
            channel.unstage(now, |_, _| left += 1);
            assert_eq!(left, 1);
            assert!(seal(&mut channel).is_ok());
            assert!(!channel.wants_handshake(now));
        }
    }

    /// Only the initiator can start a handshake, so it must also renew a key that the responder uses up.
    #[test]
    fn keys_are_renewed_by_the_count_of_received_records() {
        let now = Time::from_millis(1);
        for aead in Aead::ALL {
            let (mut channel, half) = (channel(aead, 0), aead.most_records() / 2);
            channel.current.as_mut().unwrap().seen.take(half - 2);
            assert!(!channel.wants_handshake(now), "{aead:?}");
            channel.current.as_mut().unwrap().seen.take(half - 1);
            assert!(channel.wants_handshake(now), "{aead:?}");
        }
    }
}
