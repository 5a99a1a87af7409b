//! What a session knows of a packet that it is to send.

use mpdccp_units::Ecn;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use siphasher::sip::SipHasher13;

/// Keys the hash of inner flows (SipHash-1-3). Queues and tables hold flows whose hashes are equal modulo their size together, so
/// who knew the hash could choose addresses and ports that end where somebody else's packets are.
#[derive(Clone, Copy, Default)]
pub struct FlowKey(u64, u64);

impl FlowKey {
    /// Of a seed as [`Endpoint::new`](crate::Endpoint::new) gets it; the default is for where nobody is hostile.
    pub(crate) fn of_seed(seed: [u8; 32]) -> FlowKey {
        let mut rng = ChaCha20Rng::from_seed(seed);
        // A stream of its own: the other numbers stay as they are.
        rng.set_stream(2);
        FlowKey(rng.next_u64(), rng.next_u64())
    }
}

/// Does not show it.
impl core::fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FlowKey(..)")
    }
}

/// What is known of a packet without its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PktInfo {
    /// Payload bytes.
    pub len: usize,
    /// Keyed hash of the inner flow, 0 if unknown.
    pub flow: u32,
    /// DSCP of the inner packet.
    pub dscp: u8,
    /// ECN field of the inner packet.
    pub ecn: Ecn,
    /// Which policy rule it fell under, counted from 1; 0 for none. The session finds it, unless it is given.
    pub class: u8,
}

/// How large a datagram may be, by the paths that rules and priorities leave to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Leaves at once, and arrives if anything does.
    pub known: usize,
    /// Leaves once a probe has shown that the path carries it, unless it shows that it does not.
    pub hoped: usize,
    /// Its class, for [`PktInfo::class`].
    pub class: u8,
}

impl PktInfo {
    /// Reads addresses, protocol, ports, DSCP and ECN of an IPv4 or IPv6 packet; anything else is flow 0.
    ///
    /// Fragments of a datagram hash by addresses and protocol alone, as only the first carries ports.
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
        // Ports are where they are in TCP, UDP, DCCP and SCTP alike; elsewhere the bytes are no port.
        let ports = ports.filter(|_| matches!(protocol, 6 | 17 | 33 | 132)).unwrap_or(&[]);
        // In one piece, which takes half as long as in three.
        let mut flow = [0; 37];
        let (ports_at, end) = (addresses.len() + 1, addresses.len() + 1 + ports.len());
        flow[..addresses.len()].copy_from_slice(addresses);
        flow[addresses.len()] = protocol;
        flow[ports_at..end].copy_from_slice(ports);
        info.flow = (SipHasher13::new_with_keys(key.0, key.1).hash(&flow[..end]) as u32).max(1);
        info
    }
}
