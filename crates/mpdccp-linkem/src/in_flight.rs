use alloc::collections::BTreeMap;
use mpdccp_units::Time;

/// Packets in flight, which come out in order of arrival time. Packets with equal times come out in the order
/// of [`push`](Self::push).
///
/// This is the last stage of a [`Link`](crate::Link). A test network with its own rules for rate, delay and
/// loss needs no other stage.
#[derive(Clone, Debug)]
pub struct InFlight<P> {
    /// The number in the key keeps packets with equal times in order.
    packets: BTreeMap<(Time, u64), P>,
    pushed: u64,
}

impl<P> Default for InFlight<P> {
    fn default() -> InFlight<P> {
        InFlight { packets: BTreeMap::new(), pushed: 0 }
    }
}

impl<P> InFlight<P> {
    /// Adds a packet that arrives at `arrival`.
    pub fn push(&mut self, arrival: Time, packet: P) {
        self.packets.insert((arrival, self.pushed), packet);
        self.pushed += 1;
    }

    /// Returns the next packet to have arrived by `now`, with its arrival time.
    pub fn pop(&mut self, now: Time) -> Option<(Time, P)> {
        let first = self.packets.first_entry().filter(|first| first.key().0 <= now)?;
        let ((at, _), packet) = first.remove_entry();
        Some((at, packet))
    }

    /// Returns the arrival time of the next packet.
    pub fn next_arrival(&self) -> Option<Time> {
        self.packets.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the number of packets in flight.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether no packet is in flight.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_by_arrival_and_then_by_departure() {
        let mut flight = InFlight::default();
        let [first, second] = [10, 20].map(Time::from_millis);
        for (at, packet) in [(second, 'c'), (first, 'a'), (second, 'd'), (first, 'b')] {
            flight.push(at, packet);
        }
        assert_eq!((flight.next_arrival(), flight.pop(Time::from_millis(9))), (Some(first), None));
        let mut all = std::iter::from_fn(|| flight.pop(second));
        assert!(all.by_ref().eq([(first, 'a'), (first, 'b'), (second, 'c'), (second, 'd')]));
        assert!(flight.is_empty());
    }
}
