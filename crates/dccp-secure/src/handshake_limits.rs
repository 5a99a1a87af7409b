//! Limits that keep a flood of handshakes from using up the CPU. Above a certain rate, a cookie is required,
//! and each source is limited.

use core::net::IpAddr;
use mpdccp_units::{Duration, Time, site, source};
use std::collections::BTreeMap;

/// Number of initiations per second above which each source must prove its address with a cookie. Each
/// initiation costs a few hundred microseconds.
const CALM: u32 = 200;
/// Limits on initiations per source or peer: burst size, and rate per second.
const BURST: u32 = 32;
const PER_SECOND: u64 = 20;
/// A site may send as much as this many sources. It has up to 65,536 of them.
const SITE: u32 = 16;
/// Burst size for a peer. A peer may have this many channels, and renews all of them after an outage.
const PEER_BURST: u32 = 128;
/// Maximum number of sources to store, and of sites. This host cannot answer more sources than this in the
/// time that a bucket takes to refill.
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
    per_second: u64,
}

impl Bucket {
    /// Creates a bucket for a peer's handshakes.
    pub(crate) fn of_peer() -> Bucket {
        Bucket { at: Time::ZERO, tokens: PEER_BURST, most: PEER_BURST, per_second: PER_SECOND }
    }

    /// Adds the tokens earned since the last call. Returns whether there is one.
    fn has_token(&mut self, now: Time) -> bool {
        let earned = now.since(self.at).as_millis() as u64 * self.per_second / 1000;
        if earned > 0 {
            self.tokens = u64::from(self.tokens).saturating_add(earned).min(u64::from(self.most)) as u32;
            self.at = now;
        }
        self.tokens > 0
    }

    /// Takes a token for a handshake that is newer than all earlier ones, or for another one. Half of the
    /// tokens are reserved for the newest: a restarted server does not recognise replays, but replays are
    /// older than the peer's next handshake. Returns false if no token is left.
    pub(crate) fn takes(&mut self, now: Time, newest: bool) -> bool {
        let taken = self.has_token(now) && (newest || self.tokens > self.most / 2);
        self.tokens -= u32::from(taken);
        taken
    }
}

/// Token buckets by block of addresses.
#[derive(Debug, Default)]
struct Blocks {
    buckets: BTreeMap<IpAddr, Bucket>,
    /// Time at which full buckets were last removed.
    swept: Time,
}

impl Blocks {
    /// Returns the bucket of a block, which is `full` if the block has been quiet. Returns `None` if too many
    /// blocks are active.
    fn get(&mut self, now: Time, block: IpAddr, full: Bucket) -> Option<&mut Bucket> {
        if self.buckets.len() >= MAX_SOURCES && !self.buckets.contains_key(&block) {
            // A block that has been quiet long enough has a full bucket and can be removed. Search for such
            // blocks periodically instead of for every new block.
            if now.since(self.swept) >= SWEEP {
                let fills = Duration::from_secs(u64::from(full.most).div_ceil(full.per_second));
                self.buckets.retain(|_, bucket| now.since(bucket.at) < fills);
                self.swept = now;
            }
            if self.buckets.len() >= MAX_SOURCES {
                return None;
            }
        }
        Some(self.buckets.entry(block).or_insert(full))
    }
}

/// A token bucket for each source, which is an IPv4 address or an IPv6 /64, and for each site, which is an
/// IPv4 address or an IPv6 /48.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    sources: Blocks,
    sites: Blocks,
}

impl Sources {
    /// Takes a token of a source and one of its site. Returns false if one of them has none left, or if too
    /// many sources are active.
    pub(crate) fn allows(&mut self, now: Time, ip: IpAddr) -> bool {
        let bucket = |most, per_second| Bucket { at: now, tokens: most, most, per_second };
        let (of_source, of_site) =
            (bucket(BURST, PER_SECOND), bucket(SITE * BURST, u64::from(SITE) * PER_SECOND));
        self.sites.get(now, site(ip), of_site).is_some_and(|its_site| {
            // A site that has no token adds no source, and a source that has no token takes none of its site.
            its_site.has_token(now)
                && self.sources.get(now, source(ip), of_source).is_some_and(|its| its.takes(now, true))
                && its_site.takes(now, true)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;

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
    fn a_site_with_many_prefixes_is_limited_and_other_sites_are_not() {
        let mut sources = Sources::default();
        let of = |n: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8_0001 << 80 | n << 64));
        let now = Time::from_millis(1);
        // A source over its own limit leaves the others the tokens of the site.
        let mut allowed = (0..20_000).filter(|_| sources.allows(now, of(0))).count();
        allowed += (1..20_000).filter(|n| sources.allows(now, of(*n))).count();
        assert_eq!(allowed, (SITE * BURST) as usize);
        assert!(sources.sources.buckets.len() <= allowed);
        assert!(sources.allows(now, "2001:db8:2::1".parse().unwrap()));
        let second = now + SECOND;
        let allowed = (0..20_000).filter(|n| sources.allows(second, of(*n))).count();
        assert_eq!(allowed as u64, u64::from(SITE) * PER_SECOND);
    }

    #[test]
    fn memory_is_bounded() {
        let mut sources = Sources::default();
        for i in 0..20_000u32 {
            sources.allows(Time::from_millis(1), IpAddr::V4(i.into()));
        }
        assert!(sources.sources.buckets.len() <= MAX_SOURCES);
        assert!(
            sources.allows(Time::from_millis(60_000), IpAddr::V4(30_000.into())),
            "a new source is stored after others have expired"
        );
    }
}
