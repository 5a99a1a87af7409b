//! Packet sizes: the system's MTUs go to the sessions, which probe them; the probed sizes determine the
//! interface's MTU, per peer.

use crate::config::{Config, Mtu};
use crate::host::Sizes;
use mpdccp_units::{Duration, Time};
use std::collections::BTreeMap;

/// A data packet's header with its MP_SEQ option: overhead that the encapsulation does not know.
const DCCP_HEADER: u16 = 28;
/// Used if the system knows no MTU.
const DEFAULT: u16 = 1500;
/// Largest path MTU used.
pub(crate) const MOST: u16 = 9000;
/// Smallest MTU with which Linux keeps IPv6 on an interface (RFC 8200 section 5).
pub(crate) const LEAST_V6: u16 = 1280;
/// Maximum number of answers to packets that are too large within [`PER`] (RFC 4443 section 2.4f,
/// RFC 1812 section 4.3.2.8).
const ANSWERS: u32 = 100;
const PER: Duration = Duration::from_secs(1);

/// Initial MTU of a path: the system's, at most the file's.
pub fn first(sizes: Sizes, probing: bool, most: Option<u16>) -> u16 {
    // There may be no route yet.
    let mut known = sizes.path.unwrap_or(DEFAULT);
    // A smaller size from ICMP may be forged: with probing, start with the size that most networks carry.
    if let (true, Some(device)) = (probing, sizes.device) {
        known = known.max(device.min(DEFAULT));
    }
    known.min(most.unwrap_or(MOST))
}

/// Room for an inner packet within a path MTU.
pub fn inner(mtu: u16, overhead: u16) -> u16 {
    mtu.saturating_sub(overhead + DCCP_HEADER)
}

/// Inner size assumed for an encrypted path before anything is known: that over IPv6, which is smaller than
/// over IPv4.
pub fn guess(overhead: u16) -> u16 {
    inner(DEFAULT, 48 + overhead)
}

/// Sizes of inner packets that a peer's paths carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Each path carries this.
    pub(crate) least: u16,
    /// Limit for TCP segments: the largest size that every path carries, without very narrow paths,
    /// which would make all segments too small.
    pub(crate) segments: u16,
    /// Some path carries this.
    pub(crate) most: u16,
}

impl Carried {
    /// Computed from the inner packet sizes of the paths.
    pub(crate) fn by(paths: &[u16]) -> Option<Carried> {
        let (least, most) = (*paths.iter().min()?, *paths.iter().max()?);
        let wide = paths.iter().copied().filter(|carried| *carried >= LEAST_V6);
        Some(Carried { least, segments: wide.min().unwrap_or(least), most })
    }

    /// The same size for all, if nothing is known.
    pub(crate) fn all(mtu: u16) -> Carried {
        Carried { least: mtu, segments: mtu, most: mtu }
    }
}

/// The interface's MTU, which the first shard manages, and the sizes of all peers.
#[derive(Debug, Default)]
pub(crate) struct InterfaceMtu {
    pub(crate) mtu: u16,
    /// Its initial value, which is the maximum.
    most: u16,
    /// Number of peers per size.
    carried: BTreeMap<u16, usize>,
}

impl InterfaceMtu {
    pub(crate) fn new(mtu: u16) -> InterfaceMtu {
        InterfaceMtu { mtu, most: mtu, carried: BTreeMap::new() }
    }

    /// Replaces a peer's earlier size by the new one.
    pub(crate) fn count(&mut self, before: Option<u16>, now: Option<u16>) {
        if let Some(now) = now {
            *self.carried.entry(now).or_default() += 1;
        }
        if let Some(count) = before.and_then(|before| self.carried.get_mut(&before)) {
            *count -= 1;
        }
        self.carried.retain(|_, count| *count > 0);
    }

    /// The MTU to set, if it must change: the largest of all peers, without very narrow paths, and at most
    /// the server's limit.
    pub(crate) fn wanted(&self, least: u16, most: Option<u16>) -> Option<u16> {
        let carried = *self.carried.keys().next_back()?;
        let wanted = carried.max(least).min(self.most).min(most.unwrap_or(u16::MAX));
        Some(wanted).filter(|mtu| *mtu != self.mtu)
    }
}

/// The smallest MTU that lets the interface keep its addresses.
pub(crate) fn least(v6: bool) -> u16 {
    if v6 { LEAST_V6 } else { 0 }
}

/// Initial MTU of the interface, if the paths carry inner packets of `carried` bytes.
///
/// # Errors
/// The file sets a larger MTU, or uses IPv6 with too small an MTU.
pub fn of_interface(cfg: &Config, carried: u16) -> Result<u16, String> {
    let v6 = cfg.addresses.iter().any(|a| a.addr().is_ipv6());
    let mtu = match cfg.mtu {
        // Larger packets are sent in pieces.
        Mtu::Auto => carried.max(least(v6)),
        Mtu::Fixed(mtu) if mtu > carried => {
            return Err(format!(
                "mtu = {mtu}: too large; the paths carry inner packets of at most {carried} bytes"
            ));
        }
        Mtu::Fixed(mtu) => mtu,
    };
    if mtu < least(v6) {
        return Err(format!(
            "mtu = {mtu}: IPv6 needs at least {LEAST_V6} on {}; remove the IPv6 address or `mtu`",
            cfg.interface
        ));
    }
    Ok(mtu)
}

/// Rate limit for answers to packets that are too large.
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
    fn a_path_begins_with_what_the_device_carries_where_that_is_probed() {
        let sizes = Sizes { path: Some(552), device: Some(1500) };
        assert_eq!(first(sizes, true, None), 1500, "forged");
        assert_eq!(first(sizes, false, None), 552);
        assert_eq!(first(Sizes { path: Some(9000), device: Some(9000) }, true, Some(1400)), 1400);
        assert_eq!(first(Sizes::default(), true, None), DEFAULT);
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
    }

    #[test]
    fn answers_are_bounded_in_time() {
        let (mut answers, now) = (Answers::default(), Time::from_millis(5_000));
        assert_eq!((0..1_000).filter(|_| answers.may(now)).count(), ANSWERS as usize);
        assert!(answers.may(now + PER));
    }
}
