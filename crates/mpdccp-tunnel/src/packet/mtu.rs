//! Determines packet sizes. The tunnel passes the MTUs that the system knows to the sessions, which then
//! probe larger sizes. The probed sizes determine the MTU of the interface and the size limit for each peer.

use crate::config::{Config, Mtu, PathSpec, Security};
use crate::host::Sizes;
use ipnet::IpNet;
use mpdccp_units::{Duration, Time};
use std::collections::BTreeMap;

/// Overhead that is not part of the encapsulation: the header of a data packet with MP_SEQ and the flow
/// option.
const DCCP_HEADER: u16 = 32;
/// MTU to assume if the system knows none.
const DEFAULT: u16 = 1500;
/// Largest path MTU that the tunnel uses.
pub(crate) const MOST: u16 = 9000;
/// Smallest MTU at which Linux keeps IPv6 on an interface (RFC 8200 section 5).
pub(crate) const LEAST_V6: u16 = 1280;
/// Within [`PER`], the tunnel sends at most this many ICMP errors about packets to one peer that are too
/// large (RFC 4443 section 2.4f, RFC 1812 section 4.3.2.8). It also asks the host at most this often about
/// paths that the peer has opened or moved.
const ANSWERS: u32 = 100;
const PER: Duration = Duration::from_secs(1);
/// Shortest interval between a change of the interface's MTU and an increase, because a peer's paths may keep
/// changing.
const PAUSE: Duration = Duration::from_secs(3);

/// Returns the initial MTU of a path. `most` is the configured limit.
pub fn first(sizes: Sizes, most: Option<u16>) -> u16 {
    // If there is no route, the system knows no MTU.
    let mut known = sizes.path.unwrap_or(DEFAULT);
    // A small MTU may come from a forged ICMP message, so start with at least the size that most networks
    // carry.
    if let Some(device) = sizes.device {
        known = known.max(device.min(DEFAULT));
    }
    known.min(most.unwrap_or(MOST))
}

/// Returns the size of the largest inner packet that fits a path MTU.
pub fn inner(mtu: u16, overhead: u16) -> u16 {
    mtu.saturating_sub(overhead + DCCP_HEADER)
}

/// Returns the assumed size of the largest inner packet for an encrypted path whose MTU is not known yet. The
/// size is that for IPv6, which is smaller than that for IPv4.
pub fn guess(overhead: u16) -> u16 {
    inner(DEFAULT, 48 + overhead)
}

/// Returns the assumed size of the largest inner packet for a path that is not open yet.
pub(crate) fn expected(cfg: &Config, path: &PathSpec) -> u16 {
    let overhead = if cfg.security == Security::Noise { dccp_secure::OVERHEAD as u16 } else { 0 };
    let headers = if path.remote.ip().is_some_and(|ip| ip.is_ipv4()) { 28 } else { 48 };
    inner(first(Sizes::default(), path.mtu), headers + overhead)
}

/// Sizes of inner packets that a peer's paths carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Largest packet that every path carries.
    pub(crate) least: u16,
    /// Size limit for TCP segments. It ignores paths below the minimum MTU of IPv6, which would make all
    /// segments too small.
    pub(crate) segments: u16,
    /// Size of the largest packet that at least one path carries.
    pub(crate) most: u16,
}

impl Carried {
    /// Computes the sizes from the inner packet sizes of the paths.
    pub(crate) fn by(paths: &[u16]) -> Option<Carried> {
        let (least, most) = (*paths.iter().min()?, *paths.iter().max()?);
        let wide = paths.iter().copied().filter(|carried| *carried >= LEAST_V6);
        Some(Carried { least, segments: wide.min().unwrap_or(least), most })
    }

    /// Returns sizes that are all the same, for use while the paths are not known.
    pub(crate) fn all(mtu: u16) -> Carried {
        Carried { least: mtu, segments: mtu, most: mtu }
    }
}

/// State of the interface's MTU, which the first shard manages.
#[derive(Debug, Default)]
pub(crate) struct InterfaceMtu {
    pub(crate) mtu: u16,
    /// The initial MTU of the interface, which is also its largest.
    most: u16,
    /// Number of peers with each packet size.
    carried: BTreeMap<u16, usize>,
    /// Whether the peers' sizes have changed since the MTU last followed them.
    changed: bool,
    /// When the MTU may grow again.
    again: Time,
}

impl InterfaceMtu {
    pub(crate) fn new(mtu: u16) -> InterfaceMtu {
        InterfaceMtu { mtu, most: mtu, ..InterfaceMtu::default() }
    }

    /// Replaces a peer's earlier size with the new one.
    pub(crate) fn count(&mut self, before: Option<u16>, now: Option<u16>) {
        self.changed |= before != now;
        if let Some(now) = now {
            *self.carried.entry(now).or_default() += 1;
        }
        if let Some(count) = before.and_then(|before| self.carried.get_mut(&before)) {
            *count -= 1;
        }
        self.carried.retain(|_, count| *count > 0);
    }

    /// Returns whether the MTU must follow the peers' sizes now. A smaller MTU is urgent, because until then
    /// the tunnel splits packets, or tells their senders the limit.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let shrinks = self.carried.last_key_value().is_some_and(|(largest, _)| *largest < self.mtu);
        (shrinks || now >= self.again) && std::mem::take(&mut self.changed)
    }

    /// Records that the MTU is being changed.
    pub(crate) fn pause(&mut self, now: Time) {
        self.again = now + PAUSE;
    }

    /// Returns the MTU that the interface should have, or `None` if it already has that MTU. The MTU is the
    /// largest size of any peer, but at least `least` and at most `most`, the server's limit. Without peers,
    /// the MTU only changes if it breaks these limits.
    pub(crate) fn wanted(&self, least: u16, most: Option<u16>) -> Option<u16> {
        let carried = self.carried.last_key_value().map(|(largest, _)| *largest).unwrap_or(self.mtu);
        let wanted = carried.max(least).min(self.most).min(most.unwrap_or(u16::MAX));
        Some(wanted).filter(|mtu| *mtu != self.mtu)
    }
}

/// Returns the smallest MTU at which Linux accepts and keeps the interface's addresses and routes. `own` has
/// the current addresses; a server may also assign IPv6 addresses later. `peers_v6` says whether a peer has
/// an IPv6 network.
pub(crate) fn least(cfg: &Config, own: &[IpNet], peers_v6: bool) -> u16 {
    let pool = cfg.assign.iter().flat_map(|assign| &assign.pool);
    let v6 = cfg.addresses.auto || peers_v6 || own.iter().chain(pool).any(|net| net.addr().is_ipv6());
    if v6 { LEAST_V6 } else { 0 }
}

/// Returns the initial MTU of the interface, given that the paths carry inner packets of up to `carried`
/// bytes.
///
/// # Errors
/// If the MTU in the file is larger than the paths can carry, or too small for IPv6.
pub fn of_interface(cfg: &Config, carried: u16) -> Result<u16, String> {
    let v6 = cfg.addresses.iter().any(|a| a.addr().is_ipv6());
    let mtu = match cfg.mtu {
        // If the paths carry less than IPv6 requires, the tunnel sends the larger packets in pieces.
        Mtu::Auto => {
            let mut nets = cfg.peers.iter().flat_map(|peer| &peer.get_ref().allowed_ips);
            carried.max(least(cfg, &cfg.addresses, nets.any(|net| net.addr().is_ipv6())))
        }
        Mtu::Fixed(mtu) if mtu > carried => {
            return Err(format!(
                "mtu = {mtu}: too large; the paths carry inner packets of at most {carried} bytes"
            ));
        }
        Mtu::Fixed(mtu) => mtu,
    };
    if v6 && mtu < LEAST_V6 {
        return Err(format!(
            "mtu = {mtu}: IPv6 needs at least {LEAST_V6} on {}; remove the IPv6 address or `mtu`",
            cfg.interface
        ));
    }
    Ok(mtu)
}

/// Rate limit for the answers to one kind of packet. Each peer has its own, because anyone can send large
/// packets to a peer, and the hosts of others still need the errors.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    since: Time,
    sent: u32,
}

impl Answers {
    pub(crate) fn may(&mut self, now: Time) -> bool {
        if now.since(self.since) >= PER {
            (self.since, self.sent) = (now, 0);
        }
        self.sent += 1;
        self.sent <= ANSWERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_what_the_device_carries() {
        let sizes = Sizes { path: Some(552), device: Some(1500) };
        assert_eq!(first(sizes, None), 1500, "forged");
        assert_eq!(first(Sizes { path: Some(9000), device: Some(9000) }, Some(1400)), 1400);
        assert_eq!(first(Sizes::default(), None), DEFAULT);
    }

    #[test]
    fn a_very_narrow_path_does_not_make_segments_small() {
        let by = |paths: &[u16]| Carried::by(paths).map(|c| (c.least, c.segments, c.most));
        assert_eq!(by(&[1412, 1404]), Some((1404, 1404, 1412)));
        assert_eq!(by(&[1412, 1112, 1300]), Some((1112, 1300, 1412)));
        assert_eq!(by(&[1112, 488]), Some((488, 488, 1112)));
        assert_eq!(by(&[]), None);
    }

    #[test]
    fn the_interface_is_as_large_as_some_peer_and_no_larger_than_at_the_start() {
        let mut sizes = InterfaceMtu::new(1400);
        assert_eq!(sizes.wanted(0, None), None, "no peer yet");
        sizes.count(None, Some(1300));
        assert_eq!(sizes.wanted(0, None), Some(1300));
        sizes.count(None, Some(1350));
        assert_eq!((sizes.wanted(0, None), sizes.wanted(0, Some(1200))), (Some(1350), Some(1200)));
        sizes.count(Some(1350), Some(9000));
        assert_eq!(sizes.wanted(0, None), None, "1400");
        sizes.count(Some(9000), None);
        sizes.count(Some(1300), Some(600));
        assert_eq!((sizes.wanted(0, None), sizes.wanted(1280, None)), (Some(600), Some(1280)));
        // The last peer has left a narrow interface behind.
        sizes.mtu = 600;
        sizes.count(Some(600), None);
        assert_eq!((sizes.wanted(0, None), sizes.wanted(1280, None)), (None, Some(1280)));
    }

    #[test]
    fn answers_are_bounded_in_time() {
        let (mut answers, now) = (Answers::default(), Time::from_millis(5_000));
        assert_eq!((0..1_000).filter(|_| answers.may(now)).count(), ANSWERS as usize);
        assert!(answers.may(now + PER));
    }
}
