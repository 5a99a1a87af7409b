//! Allowed IPs determine which peer an inner address belongs to.

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;
use std::cell::Cell;
use std::net::IpAddr;

/// Finds the peer of an inner address by longest prefix match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed {
    nets: JointPrefixMap<IpNet, usize>,
    /// Result of the last lookup. Consecutive packets usually have the same address.
    last: Cell<Option<(IpAddr, Option<usize>)>>,
}

impl Allowed {
    pub(crate) fn new(nets: impl IntoIterator<Item = (IpNet, usize)>) -> Allowed {
        Allowed { nets: nets.into_iter().collect(), last: Cell::default() }
    }

    pub(crate) fn insert(&mut self, net: IpNet, peer: usize) {
        self.nets.insert(net, peer);
        self.last.set(None);
    }

    pub(crate) fn peer(&self, ip: IpAddr) -> Option<usize> {
        if let Some((_, peer)) = self.last.get().filter(|(last, _)| *last == ip) {
            return peer;
        }
        let peer = self.longest(ip).map(|(_, peer)| peer);
        self.last.set(Some((ip, peer)));
        peer
    }

    /// Returns the length of the longest matching prefix and the peer it belongs to.
    pub(crate) fn longest(&self, ip: IpAddr) -> Option<(u8, usize)> {
        self.nets.get_lpm(&IpNet::from(ip)).map(|(net, peer)| (net.prefix_len(), *peer))
    }

    /// Returns whether any of the networks is an IPv6 network.
    pub(crate) fn has_v6(&self) -> bool {
        !self.nets.t2.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpNet, usize)> {
        self.nets.iter().map(|(net, peer)| (net, *peer))
    }
}

/// Returns the source and the destination of an IP packet.
pub(crate) fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    fn at<const N: usize>(packet: &[u8], from: usize) -> Option<IpAddr>
    where
        IpAddr: From<[u8; N]>,
    {
        Some(IpAddr::from(*packet.get(from..)?.first_chunk::<N>()?))
    }
    match packet.first()? >> 4 {
        4 => Some((at::<4>(packet, 12)?, at::<4>(packet, 16)?)),
        6 => Some((at::<16>(packet, 8)?, at::<16>(packet, 24)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts() {
        let net = |s: &str| s.parse::<IpNet>().unwrap();
        let allowed = Allowed::new([
            (net("0.0.0.0/0"), 0),
            (net("10.0.0.0/24"), 1),
            (net("10.0.0.7/32"), 2),
            (net("fd00::/64"), 3),
        ]);
        let peer = |s: &str| allowed.peer(s.parse().unwrap());
        assert_eq!(peer("10.0.0.7"), Some(2));
        assert_eq!(peer("10.0.0.8"), Some(1));
        assert_eq!(peer("10.0.1.7"), Some(0));
        assert_eq!(peer("fd00::9"), Some(3));
        assert_eq!(peer("fd01::9"), None);
        assert!(allowed.has_v6() && !Allowed::new([(net("10.0.0.0/24"), 1)]).has_v6());
    }

    #[test]
    fn a_new_prefix_invalidates_the_last_lookup() {
        let mut allowed = Allowed::new(["10.0.0.0/24".parse().map(|net| (net, 1)).unwrap()]);
        let ip = IpAddr::from([10, 0, 0, 7]);
        assert_eq!([allowed.peer(ip), allowed.peer(ip)], [Some(1); 2]);
        allowed.insert(IpNet::from(ip), 2);
        assert_eq!(allowed.peer(ip), Some(2));
    }

    #[test]
    fn addresses_of_both_versions_and_of_neither() {
        let mut v4 = vec![0x45; 20];
        v4[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(addresses(&v4), Some(([10, 0, 0, 1].into(), [10, 0, 0, 2].into())));
        assert_eq!(addresses(&v4[..19]), None);
        let mut v6 = vec![0x60; 40];
        v6[8..40].fill(7);
        assert_eq!(addresses(&v6), Some(([7; 16].into(), [7; 16].into())));
        assert_eq!(addresses(&[0x10; 40]), None);
        assert_eq!(addresses(&[]), None);
    }
}
