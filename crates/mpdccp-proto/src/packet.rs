//! Metadata of a packet to be sent.

use mpdccp_units::Ecn;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use siphasher::sip::SipHasher13;

/// Key for hashing inner flows (SipHash-1-3). Queues and tables treat flows as one if their hashes are equal
/// modulo the table size. Without the key, an attacker could choose addresses and ports that collide with
/// those of another flow.
#[derive(Clone, Copy, Default)]
pub struct FlowKey(u64, u64);

impl FlowKey {
    /// Derives the key from a seed, as [`Endpoint::new`](crate::Endpoint::new) does. The default key is for
    /// environments without attackers.
    pub(crate) fn of_seed(seed: [u8; 32]) -> FlowKey {
        let mut rng = ChaCha20Rng::from_seed(seed);
        // The key comes from a separate random stream, so that the endpoint's other random numbers are the
        // same as without a key.
        rng.set_stream(2);
        FlowKey(rng.next_u64(), rng.next_u64())
    }
}

mpdccp_units::hidden!(FlowKey);

/// Metadata of a packet, apart from its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PktInfo {
    /// Payload bytes.
    pub len: usize,
    /// Keyed hash of the inner flow. 0 if the flow is unknown.
    pub flow: u32,
    /// DSCP of the inner packet.
    pub dscp: u8,
    /// ECN field of the inner packet.
    pub ecn: Ecn,
    /// Number of the matching policy rule, counted from 1; 0 means no rule. If the caller leaves it at 0, the
    /// session looks for a matching rule.
    pub class: u8,
}

/// Sizes of the largest datagram on the paths that rules and priorities allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// A datagram of this size is sent without waiting for a probe.
    pub known: usize,
    /// A datagram of this size waits for a probe. It is sent if the probe shows that the path carries it, and
    /// dropped if the probe fails.
    pub hoped: usize,
    /// The class of the packet, for [`PktInfo::class`].
    pub class: u8,
}

impl PktInfo {
    /// Reads addresses, protocol, ports, DSCP and ECN of an IPv4 or IPv6 packet. Anything else gets flow 0.
    ///
    /// For fragments, the hash covers only the addresses and protocol, because only the first fragment has
    /// ports.
    pub fn of_ip(packet: &[u8], key: FlowKey) -> PktInfo {
        let mut info = PktInfo { len: packet.len(), ..PktInfo::default() };
        let (addresses, protocol, ports) = match packet.first().map(|b| b >> 4) {
            Some(4) if packet.len() >= 20 => {
                info.dscp = packet[1] >> 2;
                info.ecn = Ecn::from_bits(packet[1]);
                let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
                let header = usize::from(packet[0] & 15) * 4;
                (&packet[12..20], packet[9], if fragment { None } else { packet.get(header..header + 4) })
            }
            Some(6) if packet.len() >= 40 => {
                info.dscp = (u16::from_be_bytes([packet[0], packet[1]]) >> 6) as u8 & 0x3f;
                info.ecn = Ecn::from_bits(packet[1] >> 4);
                (&packet[8..40], packet[6], packet.get(40..44))
            }
            _ => return info,
        };
        // TCP, UDP, DCCP and SCTP have their ports at the same offset. In other protocols, these bytes mean
        // something else.
        let ports = ports.filter(|_| matches!(protocol, 6 | 17 | 33 | 132)).unwrap_or(&[]);
        // One hash over all fields takes half the time of three separate hashes.
        let mut flow = [0; 37];
        let (ports_at, end) = (addresses.len() + 1, addresses.len() + 1 + ports.len());
        flow[..addresses.len()].copy_from_slice(addresses);
        flow[addresses.len()] = protocol;
        flow[ports_at..end].copy_from_slice(ports);
        info.flow = (SipHasher13::new_with_keys(key.0, key.1).hash(&flow[..end]) as u32).max(1);
        info
    }
}
