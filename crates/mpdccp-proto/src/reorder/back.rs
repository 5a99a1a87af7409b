//! How far back in the session's numbers the packet before of the same inner flow is, in a byte.

use alloc::boxed::Box;
use dccp_wire::Seq;

/// Flows are told apart by their hash modulo this; those that share a place count as one.
const FLOWS: usize = 1024;

/// What a packet says of the one before it in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// It has the number that is so much less.
    Exactly(u64),
    /// There is none of its flow among the numbers that are less by less than this.
    Beyond(u64),
}

impl Back {
    /// From the wire; `None` if it says nothing.
    pub fn read(code: u8) -> Option<Back> {
        match u64::from(code) {
            0 => None,
            code @ 1..128 => Some(Back::Exactly(code)),
            code => Some(Back::Beyond((16 + code % 16) << (code / 16 - 5))),
        }
    }

    /// For the wire: exact up to 127, else rounded down by a sixteenth at most.
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

/// The sender's side: the last number of each flow.
#[derive(Debug, Default)]
pub(crate) struct LastOfFlow(Option<Box<[Option<Seq>; FLOWS]>>);

impl LastOfFlow {
    /// A packet of the flow gets this number; what it is to say.
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
    fn what_is_written_never_says_too_much() {
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
        assert_eq!(say(1, 1), Some(Back::Exactly(2)), "numbers wrap");
        assert_eq!(say(2, 200), Some(Back::Beyond(200)));
    }
}
