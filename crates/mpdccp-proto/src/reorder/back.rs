//! One byte that encodes the distance to the previous packet of the same inner flow, counted in MP_SEQ.

use alloc::boxed::Box;
use dccp_wire::Seq;

/// Flows are distinguished by their hash modulo this number. Flows with the same remainder count as one.
const FLOWS: usize = 512;

/// Position of the flow's previous packet, relative to the packet that carries this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// Exactly this many MP_SEQ numbers back.
    Exactly(u64),
    /// The previous packet is at least this many MP_SEQ numbers back, or does not exist.
    Beyond(u64),
}

impl Back {
    /// Decodes the byte. Returns `None` if it carries no information.
    pub fn read(code: u8) -> Option<Back> {
        match u64::from(code) {
            0 => None,
            code @ 1..128 => Some(Back::Exactly(code)),
            code => Some(Back::Beyond((16 + code % 16) << (code / 16 - 5))),
        }
    }

    /// Encodes the distance. Distances up to 127 are exact. Distances up to 32,767 are rounded down by at
    /// most a sixteenth. Larger distances are encoded as 31,744.
    pub fn write(distance: u64) -> u8 {
        match distance {
            1..128 => distance as u8,
            0 => 0,
            _ => {
                let shift = (63 - distance.leading_zeros() - 4).min(10);
                let part = (distance >> shift).min(31) as u8 - 16;
                128 + (shift as u8 - 3) * 16 + part
            }
        }
    }
}

/// The sender's state: the MP_SEQ of each flow's last packet.
#[derive(Debug, Default)]
pub(crate) struct LastOfFlow(Option<Box<[Option<Seq>; FLOWS]>>);

impl LastOfFlow {
    /// Records the MP_SEQ of a packet of the flow, and returns the byte to send in this packet.
    pub(crate) fn next(&mut self, flow: u32, seq: Seq) -> u8 {
        let last = self.0.get_or_insert_with(|| Box::new([None; FLOWS]));
        let before = last[flow as usize % FLOWS].replace(seq);
        Back::write(before.map_or(u64::MAX, |before| seq.diff(before).unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_distances_are_never_too_long() {
        for distance in (1..40_000).chain([1 << 40, u64::MAX]) {
            match Back::read(Back::write(distance)) {
                Some(Back::Exactly(n)) => assert!(n == distance && n < 128),
                Some(Back::Beyond(n)) => {
                    assert!(n <= distance && n >= 128, "{distance}: {n}");
                    assert!(distance > 31_744 || n * 17 >= distance * 16, "{distance}: {n}");
                }
                None => panic!("{distance}"),
            }
        }
        assert_eq!((Back::read(0), Back::read(255)), (None, Some(Back::Beyond(31_744))));
    }

    #[test]
    fn flows_are_counted_apart() {
        let mut last = LastOfFlow::default();
        let mut say = |flow, n| Back::read(last.next(flow, Seq::new(n)));
        assert_eq!(say(1, Seq::MODULUS - 1), Some(Back::Beyond(31_744)));
        assert_eq!(say(2, 0), Some(Back::Beyond(31_744)));
        assert_eq!(say(1, 1), Some(Back::Exactly(2)), "the distance must be correct across a wrap");
        assert_eq!(say(2, 200), Some(Back::Beyond(200)));
    }
}
