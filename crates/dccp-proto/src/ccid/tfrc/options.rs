//! The options of CCIDs 3 and 4 (RFC 4342 section 8, RFC 5622 section 8.7).

use alloc::vec::Vec;
use dccp_cc::tfrc::LossInterval;
use dccp_wire::{Opt, OptionBuf, Options};

const LOSS_EVENT_RATE: u8 = 192;
const LOSS_INTERVALS: u8 = 193;
const RECEIVE_RATE: u8 = 194;
const DROPPED_PACKETS: u8 = 195;

/// Length of Loss Event Rate and of Receive Rate, bytes.
const RATE_LEN: usize = 6;
/// Type, length and Skip Length of Loss Intervals.
const INTERVALS_HEADER: usize = 3;
/// Length of a Loss Interval, bytes (RFC 4342 section 8.6).
const INTERVAL: usize = 9;
/// Type and length of Dropped Packets.
const DROPS_HEADER: usize = 2;
/// Length of a Drop Count, bytes (RFC 5622 section 8.7).
const DROP_COUNT: usize = 3;
/// Maximum number of Loss Intervals in one option.
const MAX_INTERVALS: usize = 28;
/// The Loss Event Rate of a connection without losses (RFC 4342 section 8.5).
const NO_LOSS: u32 = u32::MAX;
/// Largest numbers of 24 and 23 bits.
pub(super) const MAX_24: u64 = (1 << 24) - 1;
const MAX_23: u64 = (1 << 23) - 1;

/// Content of a feedback packet. RFC 4342 section 6 requires Receive Rate and Loss Intervals. Linux sends
/// Loss Event Rate instead of Loss Intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Bytes per second.
    pub(super) receive_rate: Option<u32>,
    /// Data packets per loss event.
    pub(super) loss_event_rate: Option<u32>,
    /// Number of packets, up to the acknowledged one, that are not in any interval yet.
    pub(super) skip: u64,
    /// Loss intervals, newest first.
    pub(super) intervals: Vec<LossInterval>,
}

impl Told {
    /// Reads the options of an area, and ignores invalid ones.
    pub(super) fn read(area: &[u8]) -> Told {
        let mut told = Told::default();
        let mut drops = Vec::new();
        for option in Options::new(area) {
            let Ok(Opt::Ccid(kind, data)) = option else { continue };
            match kind {
                LOSS_EVENT_RATE => told.loss_event_rate = number(data, 4).or(told.loss_event_rate),
                RECEIVE_RATE => told.receive_rate = number(data, 4).or(told.receive_rate),
                LOSS_INTERVALS => told.read_intervals(data),
                DROPPED_PACKETS if data.len().is_multiple_of(DROP_COUNT) => {
                    drops.extend(data.chunks_exact(DROP_COUNT).take(MAX_INTERVALS).map(number_24));
                }
                _ => {}
            }
        }
        // RFC 5622 section 8.7: a missing count, or one larger than the Loss Length, counts as the Loss
        // Length.
        for (i, interval) in told.intervals.iter_mut().enumerate() {
            interval.drops = drops.get(i).map_or(interval.lossy, |count| (*count).min(interval.lossy));
        }
        told
    }

    fn read_intervals(&mut self, data: &[u8]) {
        let Some((&skip, list)) = data.split_first() else { return };
        let further = !self.intervals.is_empty();
        // RFC 4342 section 8.6.1: only the first option may skip packets.
        if list.is_empty() || !list.len().is_multiple_of(INTERVAL) || (further && skip != 0) {
            return;
        }
        if !further {
            self.skip = u64::from(skip);
        }
        let room = MAX_INTERVALS - self.intervals.len().min(MAX_INTERVALS);
        for interval in list.chunks_exact(INTERVAL).take(room) {
            let (lossless, rest) = interval.split_at(3);
            let (lossy, data) = rest.split_at(3);
            // The highest bit is the ECN nonce echo, which RFC 8311 obsoletes.
            let lossy = number_24(lossy) & MAX_23;
            let (lossless, data) = (number_24(lossless), number_24(data));
            self.intervals.push(LossInterval { lossy, lossless, data, drops: lossy, quarters: None });
        }
    }

    /// Returns the loss event rate p that the Loss Event Rate option gives, if present.
    pub(super) fn p(&self) -> Option<f64> {
        self.loss_event_rate.map(|packets| match packets {
            NO_LOSS => 0.0,
            packets => 1.0 / f64::from(packets.max(1)),
        })
    }

    /// Appends the options, with as many intervals as fit into `room` bytes. If the two rates do not fit,
    /// appends nothing.
    pub(super) fn write(&self, dropped_packets: bool, room: usize, out: &mut OptionBuf) {
        let room = room.min(out.room());
        if room < 2 * RATE_LEN {
            return;
        }
        let push = |out: &mut OptionBuf, kind, value: Option<u32>| {
            value.is_some_and(|value| out.push(&Opt::Ccid(kind, &value.to_be_bytes())))
        };
        push(out, RECEIVE_RATE, self.receive_rate);
        push(out, LOSS_EVENT_RATE, self.loss_event_rate);
        let room = room - 2 * RATE_LEN;
        let (header, each) = match dropped_packets {
            true => (INTERVALS_HEADER + DROPS_HEADER, INTERVAL + DROP_COUNT),
            false => (INTERVALS_HEADER, INTERVAL),
        };
        let count = (room.saturating_sub(header) / each).min(MAX_INTERVALS).min(self.intervals.len());
        if count == 0 {
            return;
        }
        let mut intervals = alloc::vec![self.skip.min(255) as u8];
        let mut drops = Vec::new();
        for interval in self.intervals.iter().take(count) {
            let lossy = interval.lossy.min(MAX_23);
            push_24(interval.lossless, &mut intervals);
            push_24(lossy, &mut intervals);
            push_24(interval.data, &mut intervals);
            push_24(interval.drops.min(lossy), &mut drops);
        }
        out.push(&Opt::Ccid(LOSS_INTERVALS, &intervals));
        if dropped_packets {
            out.push(&Opt::Ccid(DROPPED_PACKETS, &drops));
        }
    }
}

/// Returns the value of Loss Event Rate for `p`: the inverse of `p`, rounded up (RFC 4342 section 8.5).
pub(super) fn loss_event_rate(p: f64) -> u32 {
    if p > 0.0 { libm::ceil(1.0 / p).min(f64::from(NO_LOSS - 1)) as u32 } else { NO_LOSS }
}

fn number(data: &[u8], len: usize) -> Option<u32> {
    (data.len() == len).then(|| data.iter().fold(0, |n, byte| n << 8 | u32::from(*byte)))
}

fn number_24(data: &[u8]) -> u64 {
    data.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

fn push_24(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.min(MAX_24) as u32).to_be_bytes()[1..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interval(lossless: u64, lossy: u64, data: u64, drops: u64) -> LossInterval {
        LossInterval { lossy, lossless, data, drops, quarters: None }
    }

    /// Returns the example of RFC 4342 section 8.6.2 and RFC 5622 section 8.7.1, without the nonce echoes.
    fn example() -> (Vec<u8>, Told) {
        let mut bytes = alloc::vec![194, 6, 0, 1, 0, 0, 192, 6, 0, 0, 0, 100];
        bytes.extend([193, 39, 2, 0, 0, 10, 0, 0, 1, 0, 0, 10, 0, 0, 8, 0, 0, 5, 0, 0, 10]);
        bytes.extend([0, 0, 8, 0, 0, 1, 0, 0, 8, 0, 0, 10, 0, 0, 0, 0, 0, 15]);
        bytes.extend([195, 14, 0, 0, 1, 0, 0, 4, 0, 0, 1, 0, 0, 0]);
        let intervals = [(10, 1, 10, 1), (8, 5, 10, 4), (8, 1, 8, 1), (10, 0, 15, 0)];
        let told = Told {
            receive_rate: Some(65_536),
            loss_event_rate: Some(100),
            skip: 2,
            intervals: intervals.map(|(a, b, c, d)| interval(a, b, c, d)).to_vec(),
        };
        (bytes, told)
    }

    #[test]
    fn the_examples_of_the_rfcs() {
        let (bytes, told) = example();
        assert_eq!(Told::read(&bytes), told);
        let mut out = OptionBuf::new();
        told.write(true, 100, &mut out);
        assert_eq!(out.as_bytes(), bytes);
        // With the nonce echoes, as in the RFC, and without the Dropped Packets option of CCID 4.
        let mut echoed = bytes[..bytes.len() - 14].to_vec();
        echoed[18] |= 128;
        echoed[45] |= 128;
        let read = Told::read(&echoed);
        assert_eq!(read.intervals[1], interval(8, 5, 10, 5));
        assert_eq!((read.intervals[0], read.intervals[3]), (told.intervals[0], told.intervals[3]));
    }

    #[test]
    fn options_that_make_no_sense_are_left_out() {
        // The areas have impossible lengths, then a second list with a Skip Length, then a Drop Count larger
        // than the Loss Length.
        assert_eq!(Told::read(&[194, 5, 1, 2, 3]), Told::default());
        assert_eq!(Told::read(&[193, 3, 1, 193, 2, 193, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8]), Told::default());
        let list = |skip| [193, 12, skip, 0, 0, 9, 0, 0, 2, 0, 0, 10];
        let read = Told::read(&[list(3), list(1), list(0)].concat());
        assert_eq!((read.skip, read.intervals.len()), (3, 2));
        let read = Told::read(&[&list(0)[..], &[195, 5, 0, 1, 0]].concat());
        assert_eq!(read.intervals[0].drops, 2);
        assert_eq!(Told::read(&[192, 6, 0, 0, 0, 0]).p(), Some(1.0));
        assert_eq!(Told::read(&[192, 6, 255, 255, 255, 255]).p(), Some(0.0));
    }

    #[test]
    fn loss_event_rate_is_rounded_up() {
        assert_eq!(loss_event_rate(0.01), 100);
        assert_eq!(loss_event_rate(0.0099), 102);
        assert_eq!(loss_event_rate(1.0), 1);
        assert_eq!(loss_event_rate(0.0), u32::MAX);
        assert_eq!(loss_event_rate(1e-12), u32::MAX - 1);
    }

    proptest! {
        #[test]
        fn reads_anything(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let told = Told::read(&bytes);
            prop_assert!(told.intervals.len() <= MAX_INTERVALS);
        }

        #[test]
        fn written_is_read_and_fits(
            lengths in proptest::collection::vec((0..1u64 << 26, 0..1u64 << 25, 0..1u64 << 26, 0..1u64 << 25), 0..40),
            room in 0..400usize,
            dropped_packets: bool,
        ) {
            let intervals = lengths.into_iter().map(|(a, b, c, d)| interval(a, b, c, d)).collect();
            let told = Told { receive_rate: Some(1), loss_event_rate: Some(2), skip: 3, intervals };
            let mut out = OptionBuf::new();
            told.write(dropped_packets, room, &mut out);
            prop_assert!(out.len() <= room);
            let read = Told::read(out.as_bytes());
            prop_assert_eq!(read.receive_rate.is_some(), room >= 12);
            prop_assert!(read.intervals.len() <= told.intervals.len());
            for (got, sent) in read.intervals.iter().zip(&told.intervals) {
                prop_assert_eq!(got.lossless, sent.lossless.min(MAX_24));
                prop_assert_eq!(got.lossy, sent.lossy.min(MAX_23));
                prop_assert_eq!(got.data, sent.data.min(MAX_24));
                prop_assert_eq!(got.drops, if dropped_packets { sent.drops.min(got.lossy) } else { got.lossy });
            }
        }
    }
}
