//! Sequence numbers that are never sent (as in RFC 9000 section 21.4). A receiver that acknowledges such a
//! number claims to have received a packet that does not exist.

use crate::ccid::Feedback;
use alloc::collections::VecDeque;
use dccp_wire::Seq;
use rand_core::RngCore;

/// Initial mean distance between two skipped numbers, in data packets. It is small, so that misbehaviour at
/// the start of a connection is detected soon.
const FIRST_MEAN: u32 = 32;
/// Upper limit of the mean distance. The mean doubles up to this value, so that honest receivers are hardly
/// affected.
const LAST_MEAN: u32 = 2048;
/// Maximum number of skipped numbers to remember. Older numbers have left the Acknowledgement Window.
const REMEMBERED: usize = 16;

/// The recently skipped numbers, and when to skip the next one.
#[derive(Debug)]
pub(super) struct Skipped {
    /// Number of data packets until the next number is skipped.
    left: u32,
    mean: u32,
    /// The skipped numbers, oldest first.
    numbers: VecDeque<Seq>,
}

impl Skipped {
    pub(super) fn new(rng: &mut impl RngCore) -> Skipped {
        Skipped { left: distance(FIRST_MEAN, rng), mean: FIRST_MEAN, numbers: VecDeque::new() }
    }

    /// Returns whether to skip the number of the data packet about to be sent.
    pub(super) fn is_due(&mut self, rng: &mut impl RngCore) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.mean = (self.mean * 2).min(LAST_MEAN);
        self.left = distance(self.mean, rng);
        true
    }

    /// Records a number that will never be sent.
    pub(super) fn note(&mut self, seq: Seq) {
        if self.numbers.len() == REMEMBERED {
            self.numbers.pop_front();
        }
        self.numbers.push_back(seq);
    }

    /// Returns whether the peer reports a skipped number as received without ever having reported it as
    /// missing. An honest peer reports it as missing first. Later reports are not reliable: when many packets
    /// in a row are lost, Linux shifts older packets in its Ack Vectors.
    pub(super) fn is_acknowledged(&mut self, feedback: &Feedback<'_>) -> bool {
        let (mut lie, mut missing) = (false, 0u32);
        for (at, received) in feedback.reports(self.numbers.iter().copied()) {
            lie |= received;
            missing |= u32::from(!received) << at;
        }
        let mut at = 0..;
        self.numbers.retain(|_| at.next().is_some_and(|at: u32| missing >> at & 1 == 0));
        lie
    }
}

/// Returns a uniformly distributed random distance from 1 to twice the mean.
fn distance(mean: u32, rng: &mut impl RngCore) -> u32 {
    1 + rng.next_u32() % (2 * mean)
}
