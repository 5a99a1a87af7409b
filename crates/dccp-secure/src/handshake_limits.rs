//! Limits that keep a flood of handshakes from using up the CPU. Above a certain rate, a cookie is required,
//! and each source is limited.

use core::net::IpAddr;
use mpdccp_units::{Duration, Time, source};
use std::collections::BTreeMap;

/// Number of initiations per second above which each source must prove its address with a cookie. Each
/// initiation costs a few hundred microseconds.
const CALM: u32 = 200;
/// Limits on initiations per source or peer: burst size, and rate per second.
const BURST: u32 = 32;
const PER_SECOND: u64 = 20;
/// Burst size for a peer. A peer may have this many channels, and renews all of them after an outage.
const PEER_BURST: u32 = 128;
/// Maximum number of sources to store. This host cannot answer more sources than this in the time that a
/// bucket takes to refill.
const MAX_SOURCES: usize = 16_384;
/// Interval at which full buckets are removed.
const SWEEP: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

/// Number of initiations in the current second and in the previous one.
#[derive(Debug, Default)]
pub(crate) struct Load {
    since: Time,
    count: u32,
    before: u32,
}

impl Load {
    /// Counts one initiation. Returns true if there have been too many per second.
    pub(crate) fn is_high(&mut self, now: Time) -> bool {
        let passed = now.since(self.since);
        if passed >= SECOND {
            self.before = if passed >= 2 * SECOND { 0 } else { self.count };
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count.max(self.before) > CALM
    }
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    at: Time,
    tokens: u32,
    most: u32,
}

impl Bucket {
    /// Creates a bucket for a peer's handshakes.
    pub(crate) fn of_peer() -> Bucket {
        Bucket { at: Time::ZERO, tokens: PEER_BURST, most: PEER_BURST }
    }

    /// Takes a token for a handshake that is newer than all earlier ones, or for another one. Half of the
    /// tokens are reserved for the newest: a restarted server does not recognise replays, but replays are
    /// older than the peer's next handshake. Returns false if no token is left.
    pub(crate) fn takes(&mut self, now: Time, newest: bool) -> bool {
        let earned = now.since(self.at).as_millis() as u64 * PER_SECOND / 1000;
        if earned > 0 {
            self.tokens = u64::from(self.tokens).saturating_add(earned).min(u64::from(self.most)) as u32;
            self.at = now;
        }
        let taken = self.tokens > if newest { 0 } else { self.most / 2 };
        self.tokens -= u32::from(taken);
        taken
    }
}

/// A token bucket for each source, which is an IPv4 address or an IPv6 /64.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    buckets: BTreeMap<IpAddr, Bucket>,
    /// Time at which full buckets were last removed.
    swept: Time,
}

impl Sources {
    /// Takes a token from a source's bucket. Returns false if none is left, or if too many sources are
    /// active.
    pub(crate) fn allows(&mut self, now: Time, ip: IpAddr) -> bool {
        if self.buckets.len() >= MAX_SOURCES && !self.buckets.contains_key(&source(ip)) {
            // A source that has been quiet long enough has a full bucket and can be removed. Search for such
            // sources periodically instead of for every new source.
            if now.since(self.swept) >= SWEEP {
                let full = Duration::from_secs(u64::from(BURST).div_ceil(PER_SECOND));
                self.buckets.retain(|_, bucket| now.since(bucket.at) < full);
                self.swept = now;
            }
            if self.buckets.len() >= MAX_SOURCES {
                return false;
            }
        }
        let full = Bucket { at: now, tokens: BURST, most: BURST };
        self.buckets.entry(source(ip)).or_insert(full).takes(now, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_high_above_a_rate_and_calms_down() {
        let mut load = Load::default();
        let at = |s: f64| Time::from_secs_f64(s);
        assert!((0..CALM).all(|i| !load.is_high(at(1.0 + f64::from(i) * 1e-4))));
        assert!(load.is_high(at(1.5)));
        assert!(load.is_high(at(2.1)), "the previous second must still count");
        assert!(!load.is_high(at(4.5)));
    }

    #[test]
    fn a_source_is_limited_and_others_are_not() {
        let mut sources = Sources::default();
        let [a, b]: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let now = Time::from_millis(1);
        assert!((0..BURST).all(|_| sources.allows(now, a)));
        assert!(!sources.allows(now, a));
        assert!(sources.allows(now, b));
        assert!(sources.allows(now + SECOND, a));
        let [c, d]: [IpAddr; 2] = ["2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()];
        assert!((0..BURST).all(|_| sources.allows(now, c)));
        assert!(!sources.allows(now, d), "a /64 must count as one source");
    }

    #[test]
    fn memory_is_bounded() {
        let mut sources = Sources::default();
        for i in 0..20_000u32 {
            sources.allows(Time::from_millis(1), IpAddr::V4(i.into()));
        }
        assert!(sources.buckets.len() <= MAX_SOURCES);
        assert!(
            sources.allows(Time::from_millis(60_000), IpAddr::V4(30_000.into())),
            "a new source is stored after others have expired"
        );
    }
}
