//! Packetization Layer Path MTU Discovery (RFC 8899). Probes are Syncs padded to the probed size
//! (RFC 4340 section 14.1). An MTU given by the system or the owner is only a hint and must be verified.

use dccp_cc::Amount;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// RFC 8899 section 5.1.2: a size that nearly every path carries, IPv6 included.
pub(super) const BASE: u16 = 1200;
/// A size that practically every path carries, even one that does not carry `BASE` (MIN_PLPMTU, RFC 8899
/// section 5.1.2). RFC 791 section 3.1: every IPv4 host accepts packets of this size.
const FLOOR: u16 = 576;
/// Number of tries after which a larger size counts as too large (MAX_PROBES, RFC 8899 section 5.1.2).
const SEARCH_TRIES: u8 = 3;
/// Number of tries after which the path counts as a black hole for packets of the current size. It exceeds
/// `SEARCH_TRIES`, so that random loss is not mistaken for a black hole.
const CONFIRM_TRIES: u8 = 5;
/// Once this time has passed after a search, the next data packet triggers a probe for a larger size
/// (PMTU_RAISE_TIMER, RFC 8899 section 5.1.1). The RFC recommends 600 s. A shorter time does no harm, because
/// the probe costs only one packet, and an idle path sends none.
const RAISE: Duration = Duration::from_secs(10);
/// A path counts as used if it has sent at least this many data packets since the last search.
const TRAFFIC: u32 = 8;
/// The current size is in doubt after this many packets have been lost since the last confirmation.
const DOUBTFUL: u64 = 3;
/// Minimum time for which a confirmation is valid.
const HOLDS: Duration = Duration::from_secs(1);
/// The search ends when the largest confirmed size and the smallest failed size differ by at most this many
/// bytes.
const FINE: u16 = 8;
/// A size that most tunnels and access networks with an MTU below 1500 carry.
const LIKELY: u16 = 1400;

/// The purpose of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Test whether this size arrives.
    Size,
    /// Test whether the path now carries larger packets.
    Raise,
    /// Send a small packet to test whether any packet arrives: packets of the contained size failed, and
    /// nothing else was sent.
    Alive(u16),
    /// Test this size again, because a smaller packet has just arrived.
    Again,
}

/// A size being tried.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    /// Number of unanswered probes sent.
    sent: u8,
    /// Sequence numbers of all probes of this size. A SyncAck may acknowledge any of them: while a queue is
    /// growing, an answer may arrive after the next probe has been sent.
    seqs: [Option<Seq>; CONFIRM_TRIES as usize],
    why: Why,
    /// Whether packets of this size are probably lost.
    likely: bool,
    /// Time at which to send the next probe or give up (PROBE_TIMER). The interval is derived from the
    /// round-trip time. It is shorter than the 1 s of RFC 8899 section 5.1.1, because a black hole drops all
    /// data until five probes have failed.
    due: Time,
}

/// Path MTU discovery of one connection.
#[derive(Debug)]
pub(super) struct Pmtu {
    /// Current path MTU (PLPMTU).
    mtu: u16,
    /// Upper limit of the search, which is the largest hint so far.
    max: u16,
    /// The newest MTU hint from the system or the owner.
    hint: u16,
    /// The smallest size that has failed, or the maximum plus one if none has failed.
    too_big: u16,
    probe: Option<Probe>,
    /// From this time on, a data packet triggers a probe for a larger size.
    raise_at: Option<Time>,
    /// Number of data packets since the last search.
    data: u32,
    confirmed: Time,
    /// Whether the first probe is still outstanding, that is, neither answered nor given up.
    fresh: bool,
    /// Number of losses at the last confirmation, or `None` until the first report after it.
    lost: Option<u64>,
    /// A small packet sent while data was in flight, and the amount of data that had been delivered by then.
    small: Option<(Seq, Amount)>,
}

impl Pmtu {
    /// Starts path MTU discovery, which first confirms the hint.
    pub(super) fn new(now: Time, mtu: u16) -> Pmtu {
        let mut pmtu = Pmtu {
            mtu,
            max: mtu,
            hint: mtu,
            too_big: mtu.saturating_add(1),
            probe: None,
            raise_at: None,
            data: 0,
            confirmed: now,
            fresh: true,
            lost: None,
            small: None,
        };
        pmtu.try_size(now, mtu);
        pmtu
    }

    pub(super) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Returns the upper limit of the search.
    pub(super) fn max(&self) -> u16 {
        self.max
    }

    /// Returns the size of the largest packet known to arrive. Until the first probe is answered or given up,
    /// the result is limited to a size that nearly every path carries.
    pub(super) fn known(&self) -> u16 {
        if self.fresh { self.mtu.min(BASE) } else { self.mtu }
    }

    /// Like [`known`](Self::known), but if packets of the current size are probably being lost or a probe of
    /// that size has gone unanswered, the result is limited to the size that would be used next.
    pub(super) fn sure(&self) -> u16 {
        let doubtful = self.probe.is_some_and(|probe| match probe.why {
            Why::Alive(size) => size <= self.mtu,
            Why::Again => probe.size <= self.mtu,
            Why::Size | Why::Raise => probe.size <= self.mtu && (probe.sent > 1 || probe.likely),
        });
        if doubtful { self.known().min(self.fallback(self.mtu)) } else { self.known() }
    }

    /// Returns the size to use if packets of `size` bytes do not arrive. RFC 8899 section 5.2: if not even
    /// the base size arrives, the result is smaller than the base size.
    fn fallback(&self, size: u16) -> u16 {
        let lower = [self.hint, BASE].into_iter().filter(|lower| *lower < size).min();
        lower.map_or(FLOOR, |lower| lower.max(FLOOR)).min(size)
    }

    fn try_size(&mut self, now: Time, size: u16) {
        self.try_for(now, size, Why::Size);
    }

    fn try_for(&mut self, now: Time, size: u16, why: Why) {
        let likely = false;
        self.probe = Some(Probe { size, sent: 0, seqs: Default::default(), why, likely, due: now });
    }

    /// Returns when to call [`on_timeout`](Self::on_timeout) or [`poll_probe`](Self::poll_probe).
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.probe.map(|probe| probe.due)
    }

    /// Returns the size of a probe to send now. The caller must report the probe's sequence number to
    /// [`on_sent`](Self::on_sent).
    pub(super) fn poll_probe(&self, now: Time) -> Option<u16> {
        let probe = self.probe.filter(|p| p.due <= now && p.sent < p.tries(self.mtu))?;
        Some(probe.size)
    }

    /// A probe was sent. `answer` is the longest time that its answer may take.
    pub(super) fn on_sent(&mut self, now: Time, seq: Seq, answer: Duration) {
        if let Some(probe) = &mut self.probe {
            if let Some(place) = probe.seqs.get_mut(usize::from(probe.sent)) {
                *place = Some(seq);
            }
            probe.sent += 1;
            probe.due = now + answer;
        }
    }

    pub(super) fn on_sync_ack(&mut self, now: Time, ack: Seq) {
        let Some(probe) = self.probe.filter(|p| p.seqs.contains(&Some(ack))) else { return };
        match probe.why {
            Why::Size | Why::Again => {}
            Why::Raise => self.too_big = self.max.saturating_add(1),
            Why::Alive(size) => return self.try_for(now, size, Why::Again),
        }
        (self.mtu, self.confirmed, self.lost) = (self.mtu.max(probe.size), now, None);
        self.too_big = self.too_big.max(self.mtu.saturating_add(1));
        self.search(now);
    }

    /// Call this when a data packet is sent. If the path MTU is below the maximum, the packet occasionally
    /// triggers a probe of the smallest failed size, because the path MTU may have grown.
    pub(super) fn on_data(&mut self, now: Time) {
        self.data = self.data.saturating_add(1);
        if self.data >= TRAFFIC && self.probe.is_none() && self.raise_at.take_if(|at| *at <= now).is_some() {
            self.try_for(now, self.too_big.min(self.max), Why::Raise);
        }
    }

    /// Handles timeouts. `acked` is the number of our newest acknowledged packet. If that packet was sent
    /// after the first probe, packets arrive but the probes do not. If it was sent earlier, its
    /// acknowledgement proves nothing, because the probes may still be queued behind it.
    pub(super) fn on_timeout(&mut self, now: Time, acked: Seq) {
        let Some(probe) = self.probe.filter(|p| p.due <= now && p.sent >= p.tries(self.mtu)) else { return };
        let overtaken = probe.seqs[0].is_some_and(|first| first.before(acked));
        match probe.why {
            Why::Raise => self.rest(now),
            Why::Again => self.on_too_big(now, probe.size),
            Why::Size if overtaken => self.on_too_big(now, probe.size),
            Why::Alive(size) if overtaken => self.try_for(now, size, Why::Again),
            // The peer has acknowledged no later packet, perhaps because none was sent, so test with a small
            // packet.
            Why::Size if probe.size > FLOOR => self.try_for(now, FLOOR, Why::Alive(probe.size)),
            // Packets of any size are lost, so the MTU is not the cause.
            Why::Size => self.try_size(now + HOLDS, probe.size),
            Why::Alive(size) => self.try_size(now + HOLDS, size),
        }
    }

    /// Packets of this size do not arrive, but others do.
    fn on_too_big(&mut self, now: Time, size: u16) {
        self.too_big = size;
        // RFC 8899 section 4.3: the path has a black hole for the current size.
        if size <= self.mtu {
            self.mtu = self.fallback(size);
            if self.mtu < size {
                self.fresh = false;
                return self.try_size(now, self.mtu);
            }
        }
        self.search(now);
    }

    /// Tries the next size of the search, if there is one.
    fn search(&mut self, now: Time) {
        self.fresh = false;
        let (good, bad) = (self.mtu, self.too_big);
        let fits = |size: u16| (good < size && size < bad).then_some(size);
        let middle = || (bad.saturating_sub(good) > FINE).then(|| good + (bad - good) / 2);
        match fits(self.hint).or(fits(self.max)).or(fits(LIKELY)).or_else(middle) {
            Some(size) => self.try_size(now, size),
            None => self.rest(now),
        }
    }

    /// Stops probing until data triggers it again.
    fn rest(&mut self, now: Time) {
        (self.probe, self.data) = (None, 0);
        self.raise_at = Some(now + RAISE).filter(|_| self.mtu < self.max);
    }

    /// Handles an MTU hint from the system or the owner. A hint below the current size may be forged, so it
    /// only puts the current size in doubt (RFC 8899 section 4.6.2). A hint above the current size is probed.
    pub(super) fn on_hint(&mut self, now: Time, mtu: u16) {
        let before = core::mem::replace(&mut self.hint, mtu);
        if mtu > before {
            self.max = self.max.max(mtu);
            self.too_big = self.max.saturating_add(1);
        }
        if mtu < self.mtu {
            if mtu != before {
                self.try_size(now, self.mtu);
            }
        } else if mtu > before && self.probe.is_none_or(|probe| probe.size > self.mtu) {
            // Restart a search in progress, because its lost probes may have taken an older path.
            self.search(now);
        }
    }

    /// The host can send packets of this size, so the search tries them, whatever hints say about the path.
    pub(super) fn on_most(&mut self, now: Time, most: u16) {
        if most > self.max {
            (self.max, self.too_big) = (most, most.saturating_add(1));
            if self.probe.is_none_or(|probe| probe.size > self.mtu) {
                self.search(now);
            }
        }
    }

    /// Handles the number of packets lost so far. Several new losses put the current size in doubt.
    pub(super) fn on_loss(&mut self, now: Time, lost: u64) {
        if lost >= self.lost.get_or_insert(lost).saturating_add(DOUBTFUL) {
            self.doubt(now, false);
        }
    }

    fn doubt(&mut self, now: Time, likely: bool) {
        if self.probe.is_none() && now.since(self.confirmed) >= HOLDS {
            self.try_size(now, self.mtu);
        }
        if let Some(probe) = self.probe.as_mut().filter(|probe| likely && probe.size == self.mtu) {
            probe.likely = true;
        }
    }

    /// Returns whether enough data is in flight to make the next small packet a useful test.
    pub(super) fn looks(&self, inflight: Amount) -> bool {
        self.small.is_none() && inflight.packets >= DOUBTFUL
    }

    /// Call this when a small packet is sent. `delivered` is the amount of data delivered so far.
    pub(super) fn on_small(&mut self, seq: Seq, delivered: Amount) {
        self.small = Some((seq, delivered));
    }

    /// Call this when an acknowledgement arrives. `delivered` is the amount of data delivered so far. If the
    /// small packet arrived but none of the data sent before it did, the size of the data packets may be to
    /// blame. This test gives a result long before the data counts as lost.
    pub(super) fn on_answer(&mut self, now: Time, ack: Seq, delivered: Amount) {
        let answered = self.small.take_if(|(seq, _)| !ack.before(*seq));
        if answered.is_some_and(|(_, before)| before == delivered) {
            self.doubt(now, true);
        }
    }
}

impl Probe {
    fn tries(&self, in_use: u16) -> u8 {
        match self.why {
            Why::Raise => 1,
            Why::Alive(_) => SEARCH_TRIES,
            Why::Size | Why::Again if self.size <= in_use && !self.likely => CONFIRM_TRIES,
            // The three lost data packets count as failed probes too.
            Why::Size | Why::Again if self.size <= in_use => CONFIRM_TRIES - DOUBTFUL as u8,
            Why::Size | Why::Again => SEARCH_TRIES,
        }
    }
}

#[cfg(test)]
mod tests;
