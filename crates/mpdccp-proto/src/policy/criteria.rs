//! The criteria of a policy rule.

use crate::PktInfo;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;

/// Criteria of a rule. A packet must match at least one entry of every list that is not empty. If all lists
/// are empty, every packet matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Criteria {
    /// DSCP.
    pub dscp: Vec<u8>,
    /// IP protocol number; for IPv6, the first Next Header.
    pub protocols: Vec<u8>,
    /// Source or destination port. Only the first fragment of a packet has ports.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Network that contains the source or destination address.
    pub networks: Vec<Network>,
}

/// An IP prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address in the network.
    pub address: IpAddr,
    /// Prefix length, bits.
    pub prefix: u8,
}

impl Network {
    /// Returns whether the network contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        let ((ours, width), (other, other_width)) = (bits(self.address), bits(address));
        let differ = (ours ^ other).leading_zeros();
        width == other_width && differ >= u32::from(self.prefix.min(width))
    }
}

impl Criteria {
    /// Returns whether a packet matches. A payload that is not an IP packet (flow 0) can match only on DSCP.
    pub fn fit(&self, info: &PktInfo, data: &[u8]) -> bool {
        if !self.dscp.is_empty() && !self.dscp.contains(&info.dscp) {
            return false;
        }
        if self.protocols.is_empty() && self.ports.is_empty() && self.networks.is_empty() {
            return true;
        }
        let Some(ip) = Some(data).filter(|_| info.flow != 0).and_then(Ip::read) else { return false };
        let either = |fits: &dyn Fn(u16) -> bool| ip.ports.is_some_and(|both| both.into_iter().any(fits));
        (self.protocols.is_empty() || self.protocols.contains(&ip.protocol))
            && (self.ports.is_empty() || either(&|port| self.ports.iter().any(|range| range.contains(&port))))
            && (self.networks.is_empty()
                || ip.ends.into_iter().any(|end| self.networks.iter().any(|net| net.contains(end))))
    }
}

/// Fields of an IP packet that rules use.
pub(crate) struct Ip {
    pub(crate) ends: [IpAddr; 2],
    pub(crate) protocol: u8,
    pub(crate) ports: Option<[u16; 2]>,
}

impl Ip {
    fn read(packet: &[u8]) -> Option<Ip> {
        let array = |from: usize| packet.get(from..from + 16).and_then(|b| <[u8; 16]>::try_from(b).ok());
        let (ends, protocol, header): ([IpAddr; 2], u8, _) = match packet.first()? >> 4 {
            4 => {
                let [a, b, c, d, e, f, g, h] = <[u8; 8]>::try_from(packet.get(12..20)?).ok()?;
                let later = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0;
                let header = usize::from(packet[0] & 15) * 4;
                ([[a, b, c, d].into(), [e, f, g, h].into()], packet[9], (!later).then_some(header))
            }
            6 => ([array(8)?.into(), array(24)?.into()], packet[6], Some(40)),
            _ => return None,
        };
        let ports = header.filter(|_| matches!(protocol, 6 | 17 | 33 | 132));
        let ports = ports.and_then(|at| packet.get(at..at + 4));
        let ports = ports.map(|b| [u16::from_be_bytes([b[0], b[1]]), u16::from_be_bytes([b[2], b[3]])]);
        Some(Ip { ends, protocol, ports })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Returns a UDP packet from 10.1.2.3:5060 to 192.0.2.9:40000 with DSCP EF.
    fn call() -> Vec<u8> {
        let mut p = vec![0x45, 46 << 2, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 2, 3, 192, 0, 2, 9];
        p.extend([5060u16, 40_000, 8, 0].iter().flat_map(|n| n.to_be_bytes()));
        p
    }

    fn fits(criteria: &Criteria, packet: &[u8]) -> bool {
        criteria.fit(&PktInfo::of_ip(packet, crate::FlowKey::default()), packet)
    }

    fn net(address: &str, prefix: u8) -> Network {
        Network { address: address.parse().unwrap(), prefix }
    }

    #[test]
    fn each_list_that_is_not_empty_must_have_it() {
        let any = Criteria::default();
        let call = call();
        assert!(fits(&any, &call) && fits(&any, b"no IP"));
        for (yes, no) in [
            (Criteria { dscp: vec![10, 46], ..any.clone() }, Criteria { dscp: vec![10], ..any.clone() }),
            (Criteria { protocols: vec![17], ..any.clone() }, Criteria { protocols: vec![6], ..any.clone() }),
            (
                Criteria { ports: vec![5000..=5100], ..any.clone() },
                Criteria { ports: vec![1..=5059], ..any.clone() },
            ),
            (
                Criteria { ports: vec![40_000..=40_000], ..any.clone() },
                Criteria { ports: vec![40_001..=65_535], ..any.clone() },
            ),
            (
                Criteria { networks: vec![net("192.0.2.0", 24)], ..any.clone() },
                Criteria { networks: vec![net("192.0.3.0", 24), net("::", 0)], ..any.clone() },
            ),
            (
                Criteria { networks: vec![net("10.0.0.0", 8)], ..any.clone() },
                Criteria { networks: vec![net("10.0.0.0", 16)], ..any.clone() },
            ),
        ] {
            assert!(fits(&yes, &call), "{yes:?}");
            assert!(!fits(&no, &call), "{no:?}");
            let both = Criteria { dscp: vec![10], ..yes };
            assert!(!fits(&both, &call), "all criteria must match");
        }
    }

    #[test]
    fn ports_are_those_of_transports_and_of_first_fragments() {
        let ports = Criteria { ports: vec![5060..=5060], ..Criteria::default() };
        let mut later = call();
        later[7] = 1;
        assert!(!fits(&ports, &later));
        let mut icmp = call();
        icmp[9] = 1;
        assert!(!fits(&ports, &icmp));
        assert!(!fits(&ports, &call()[..22]), "a packet without its ports must not match");
        let mut v6 = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        v6.extend([0x20; 16].iter().chain(&[0x30; 16]));
        v6.extend(&call()[20..]);
        assert!(fits(&ports, &v6));
        let net = |a: &str, prefix| Criteria { networks: vec![net(a, prefix)], ..Criteria::default() };
        assert!(fits(&net("2020::", 16), &v6) && !fits(&net("2021::", 16), &v6));
        assert!(!ports.fit(&PktInfo::default(), &call()), "flow 0 marks a payload that is not an IP packet");
    }
}
