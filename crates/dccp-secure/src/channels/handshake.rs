//! The handshakes of channels: initiations, responses and cookies.

use super::{Channels, Event, Handover, Input};
use crate::address::Address;
use crate::channel::{Keypair, Pending, SPARSE};
use crate::ciphers::Aead;
use crate::drops::Reason;
use crate::header::{self, HEADER, Kind, NO_SLOT, Receiver};
use crate::keylog;
use crate::noise::{Answer, FIRST, Hello, INITIATION, Initiating, Offered, RESPONSE, SECOND, Secrets};
use crate::replay::Replay;
use crate::strangers::is_stranger;
use crate::timestamp::Timestamp;
use mpdccp_units::{Duration, Time};

/// Maximum number of channels per peer. A further channel replaces the one that has been silent longest.
const PER_PEER: usize = 64;
/// Maximum number of channels per stranger.
const PER_STRANGER: usize = 16;
/// How long a received cookie is valid.
const COOKIE_LIFE: Duration = Duration::from_secs(120);

impl Channels {
    /// Tells the time since 1970. If [`Settings::unix`](super::Settings::unix) is behind it, because the host
    /// has set its clock since then, later handshakes use the new time. A clock that was set back has no
    /// effect.
    pub fn set_clock(&mut self, now: Time, unix: Duration) {
        let at_zero = unix.saturating_sub(Duration::from_nanos(now.as_nanos()));
        self.settings.unix = self.settings.unix.max(at_zero);
    }

    /// Sends the current first message of a handshake again, or replaces it by a new one.
    pub(super) fn repeat(&mut self, now: Time, at: u32) {
        let Some(channel) = self.channels.get_mut(at) else { return };
        let home = channel.stays.or_else(|| self.peers.get(&channel.peer).map(|peer| peer.home));
        match channel.pending.as_mut().filter(|pending| now < pending.renew && Some(pending.to) == home) {
            Some(pending) => {
                let interval = pending.again.since(pending.sent);
                // The responder may have sent a new cookie in the meantime.
                let cookie = channel.cookie.filter(|(_, since)| now.since(*since) < COOKIE_LIFE);
                if let Some(peer) = self.peers.get(&channel.peer) {
                    peer.codes.write(&mut pending.message, cookie.as_ref().map(|(cookie, _)| cookie));
                }
                (pending.sent, pending.again) = (now, (now + interval).min(pending.renew));
                self.outbox.push_back((channel.address, pending.message.clone()));
            }
            None => self.initiate(now, at),
        }
    }

    /// Sends a new first message of a handshake.
    pub(super) fn initiate(&mut self, now: Time, at: u32) {
        let (seed, [chance, ..], index) = (self.seed(), self.seed(), self.index(at));
        let (Some(channel), Some(index)) = (self.channels.get_mut(at), index) else { return };
        let Some(peer) = self.peers.get(&channel.peer) else { return };
        let home = channel.stays.unwrap_or(peer.home);
        let (since, before) = match channel.pending.take() {
            Some(pending) => {
                self.indices.remove(pending.index & NO_SLOT);
                (pending.since, pending.wait)
            }
            None => (now, Duration::ZERO),
        };
        let unix = self.settings.unix + Duration::from_nanos(now.as_nanos());
        self.initiated = self.initiated.max(Some(unix));
        channel.newest = Timestamp::from_unix(unix.as_secs(), unix.subsec_nanos()).max(channel.newest.next());
        let hello =
            Hello { aeads: Aead::offer(&self.settings.aeads), path: channel.path, time: channel.newest };
        let Some((state, noise)) = Initiating::start(&self.identity, &peer.key, &peer.psk, &hello, seed)
        else {
            self.indices.remove(index & NO_SLOT);
            return;
        };
        let mut message = vec![0; INITIATION];
        if let Some(head) = message.first_chunk_mut() {
            header::write(home, Kind::Initiation, head);
        }
        message[HEADER..HEADER + 4].copy_from_slice(&index.to_be_bytes());
        message[HEADER + 4..][..FIRST].copy_from_slice(&noise);
        let cookie = channel.cookie.filter(|(_, since)| now.since(*since) < COOKIE_LIFE);
        let code = peer.codes.write(&mut message, cookie.as_ref().map(|(cookie, _)| cookie));
        let wait = Pending::wait(now, (since, channel.heard), channel.took, before);
        // Subtract a random part, so that the clients of a restarted server do not all send at once.
        let after = |wait: Duration| now + wait - wait / 4 * u32::from(chance) / 255;
        let (again, renew) = (after(wait.min(SPARSE.1)), after(wait));
        self.outbox.push_back((channel.address, message.clone()));
        let pending = Pending { state, index, message, to: home, code, since, sent: now, again, renew, wait };
        channel.pending = Some(Box::new(pending));
    }

    pub(super) fn handle_initiation(
        &mut self,
        now: Time,
        from: &Address,
        datagram: &mut [u8],
    ) -> Result<Input, Reason> {
        if !self.settings.accepts {
            return Err(Reason::NotAccepting);
        }
        if datagram.len() != INITIATION || !self.codes.first_is_right(datagram) {
            return Err(Reason::Stranger);
        }
        let index = datagram[HEADER..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        if self.load.is_high(now) {
            if !self.jar.second_is_right(now, from, datagram, &mut self.rng) {
                let to = Receiver { server: 0, index };
                let reply = self.jar.reply(now, &self.codes, (from, to), datagram, &mut self.rng);
                self.outbox.push_back((*from, reply));
                return Err(Reason::NoCookie);
            }
            if !self.sources.allows(now, from.remote.ip()) {
                return Err(Reason::SourceLimited);
            }
        }
        let seed = self.seed();
        let noise = &datagram[HEADER + 4..][..FIRST];
        let offered = Offered::read(&self.identity, noise, seed).ok_or(Reason::BadHandshake)?;
        self.answer(now, from, offered, Receiver { server: 0, index })
    }

    /// Answers a valid first message.
    pub(super) fn answer(
        &mut self,
        now: Time,
        from: &Address,
        offered: Offered,
        to: Receiver,
    ) -> Result<Input, Reason> {
        let number = match self.by_key.get(&offered.remote) {
            Some(number) => *number,
            None => self.admit(now, from, offered.remote)?,
        };
        let result = self.answer_peer(now, from, offered, to, number);
        if result.is_err() {
            // Remove a stranger that ended up without a channel.
            self.forget_stranger(number);
        }
        result
    }

    fn answer_peer(
        &mut self,
        now: Time,
        from: &Address,
        offered: Offered,
        to: Receiver,
        number: u32,
    ) -> Result<Input, Reason> {
        let Hello { aeads, path, time } = offered.hello;
        let shard = self.home(number);
        if shard != self.settings.shard {
            self.handovers.push_back(Handover { shard, from: *from, offered, to });
            return Ok(Input::Handled);
        }
        let peer = self.peers.get(&number).ok_or(Reason::UnknownPeer)?;
        let known = peer.channels.get(&path).copied();
        let newest = match known.and_then(|at| self.channels.get_mut(at)) {
            Some(channel) if channel.initiates => return Err(Reason::BadHandshake),
            // The response may have been lost. Otherwise, the network has duplicated the packet, and the log
            // must not blame the peer's clock.
            Some(channel) if channel.newest == time => {
                let response = channel.response.clone().ok_or(Reason::Replayed)?;
                // Nothing shows at which of the addresses the peer receives the response.
                if let Some(next) = channel.next.as_mut().filter(|next| next.met != from.remote.ip()) {
                    next.met = [0; 4].into();
                }
                if !channel.confirmed {
                    channel.heard = now;
                }
                self.outbox.push_back((*from, response));
                return Ok(Input::Handled);
            }
            Some(channel) => channel.newest,
            None => peer.floor,
        };
        if time <= newest {
            return Err(Reason::OldHandshake);
        }
        let aead = Aead::pick(&self.settings.aeads, aeads).ok_or(Reason::NoCommonCipher)?;
        let peer = self.peers.get_mut(&number).ok_or(Reason::UnknownPeer)?;
        let is_newest = time >= peer.offered;
        peer.offered = peer.offered.max(time);
        if !peer.handshakes.takes(now, is_newest) {
            return Err(Reason::PeerLimited);
        }
        let at = match known {
            Some(at) => at,
            None => {
                self.make_room(number);
                self.insert(now, number, path, *from, false).ok_or(Reason::TooMany)?.1
            }
        };
        let index = self.index(at).ok_or(Reason::TooMany)?;
        let answer = Answer { aead, server: self.settings.server, index };
        let (Some(channel), Some(peer)) = (self.channels.get_mut(at), self.peers.get(&number)) else {
            return Err(Reason::UnknownPeer);
        };
        let (noise, secrets) = offered.answer(&peer.psk, &answer).ok_or(Reason::BadHandshake)?;
        let key = keypair(now, &secrets, aead, index, (to, from), false).ok_or(Reason::BadHandshake)?;
        channel.newest = time;
        if !channel.confirmed {
            channel.heard = now;
        }
        if let Some(unused) = channel.next.replace(key) {
            self.indices.remove(unused.index & NO_SLOT);
        }
        let here = Receiver { server: self.settings.server, index };
        let mut message = vec![0; RESPONSE];
        if let Some(head) = message.first_chunk_mut() {
            header::write(to, Kind::Response, head);
        }
        message[HEADER..][..SECOND].copy_from_slice(&noise);
        peer.codes.write(&mut message, None);
        channel.response = Some(message.clone());
        self.outbox.push_back((*from, message));
        self.arm(at);
        self.log_key(&secrets, aead, to, here);
        Ok(Input::Handled)
    }

    /// If the peer has the maximum number of channels, drops one that the peer opened: preferably an
    /// unconfirmed channel, and among equals the one that has been silent longest.
    fn make_room(&mut self, peer: u32) {
        let most = if is_stranger(peer) { PER_STRANGER } else { PER_PEER };
        let Some(peer) = self.peers.get(&peer).filter(|peer| peer.channels.len() >= most) else { return };
        let accepted = peer.channels.values().filter_map(|at| Some((*at, self.channels.get(*at)?)));
        let oldest = accepted.filter(|(_, c)| !c.initiates).min_by_key(|(_, c)| (c.confirmed, c.heard));
        if let Some((at, channel)) = oldest {
            self.events.push_back(Event::Gone(channel.id));
            self.forget(at);
        }
    }

    pub(super) fn handle_response(
        &mut self,
        now: Time,
        to: Receiver,
        datagram: &[u8],
    ) -> Result<Input, Reason> {
        if datagram.len() != RESPONSE || !self.codes.first_is_right(datagram) {
            return Err(Reason::Stranger);
        }
        let at = self.owner(to).ok_or(Reason::UnknownIndex)?;
        let channel = self.channels.get_mut(at).ok_or(Reason::UnknownIndex)?;
        let pending = channel.pending.as_mut().filter(|p| p.index == to.index).ok_or(Reason::UnknownIndex)?;
        let noise = &datagram[HEADER..][..SECOND];
        let (answer, secrets) = pending.state.finish(noise).ok_or(Reason::BadHandshake)?;
        if !self.settings.aeads.contains(&answer.aead) {
            return Err(Reason::NoCommonCipher);
        }
        let home = Receiver { server: answer.server, index: answer.index };
        let known = self.peers.get(&channel.peer).map_or(0, |peer| peer.home.server);
        if pending.to.server == 0 && channel.stays.is_none() && known != 0 && known != home.server {
            // Two channels sent initiations at the same time, and a load balancer chose a server for each.
            // The server that answered first wins, so send this initiation to that server.
            self.initiate(now, at);
            self.arm(at);
            return Err(Reason::OtherServer);
        }
        let at_home = (home, &channel.address);
        let key = keypair(now, &secrets, answer.aead, to.index, at_home, true).ok_or(Reason::BadHandshake)?;
        let was_ready = channel.current.as_ref().is_some_and(|key| key.is_usable(now));
        channel.took = channel.pending.take().map(|pending| now.since(pending.sent));
        channel.on_heard(now);
        let gone = channel.rotate(key);
        channel.unstage(now, |to, record| self.outbox.push_back((to, record)));
        if !was_ready {
            self.events.push_back(Event::Ready(channel.id));
        }
        if let Some(peer) = self.peers.get_mut(&channel.peer).filter(|_| channel.stays.is_none()) {
            peer.home = Receiver { server: home.server, index: home.index | NO_SLOT };
        }
        if let Some(index) = gone {
            self.indices.remove(index & NO_SLOT);
        }
        self.arm(at);
        self.log_key(&secrets, answer.aead, to, home);
        Ok(Input::Handled)
    }

    pub(super) fn handle_cookie(
        &mut self,
        now: Time,
        to: Receiver,
        datagram: &[u8],
    ) -> Result<Input, Reason> {
        let at = self.owner(to).ok_or(Reason::UnknownIndex)?;
        let channel = self.channels.get_mut(at).ok_or(Reason::UnknownIndex)?;
        let peer = self.peers.get(&channel.peer).ok_or(Reason::UnknownPeer)?;
        let pending = channel.pending.as_ref().filter(|p| p.index == to.index).ok_or(Reason::UnknownIndex)?;
        let cookie = peer.codes.open_reply(&pending.code, datagram).ok_or(Reason::Stranger)?;
        // Retransmit at once, but only after the first cookie: the responder is busy, and the sender of the
        // cookies must not control the rate of initiations.
        let before = channel.cookie.replace((cookie, now));
        let first = before.is_none_or(|(_, since)| now.since(since) >= COOKIE_LIFE);
        if first {
            self.initiate(now, at);
            self.arm(at);
        }
        Ok(Input::Handled)
    }

    /// Call this after the host was suspended for the duration `time`. `now` stood still, but the keys aged.
    pub fn on_suspended(&mut self, now: Time, time: Duration) {
        for at in self.by_id.values().copied().collect::<Vec<_>>() {
            let gone = self.channels.get_mut(at).map(|channel| channel.on_suspended(now, time));
            for index in gone.into_iter().flatten() {
                self.indices.remove(index & NO_SLOT);
            }
            self.arm(at);
            // The responder may have data to send but cannot renew the key, so the initiator renews it.
            self.renew(now, at);
        }
    }

    /// Writes the record keys of a handshake for both directions to the key log.
    fn log_key(&mut self, secrets: &Secrets, aead: Aead, initiator: Receiver, responder: Receiver) {
        if let Some(log) = &mut self.keylog {
            let (forward, reverse) = secrets.material(aead);
            let len = aead.key_len();
            log.push_back(keylog::line(responder, aead, &forward[..len]).into());
            log.push_back(keylog::line(initiator, aead, &reverse[..len]).into());
        }
    }
}

/// Returns one end's keys for a handshake.
fn keypair(
    now: Time,
    secrets: &Secrets,
    aead: Aead,
    index: u32,
    (to, other): (Receiver, &Address),
    initiator: bool,
) -> Option<Box<Keypair>> {
    let (first, second) = secrets.keys(aead)?;
    let (send, receive) = if initiator { (first, second) } else { (second, first) };
    let (met, seen) = (other.remote.ip(), Replay::new());
    Some(Box::new(Keypair { index, to, met, send, receive, aead, seen, made: now, counter: 0 }))
}
