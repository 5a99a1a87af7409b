//! Ack Vector cells, each of which has two bits of state and six bits of run length (RFC 4340 section 11.4).

/// State of a run of packets (RFC 4340 table 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum State {
    Received,
    ReceivedEcnMarked,
    /// Reserved value 2.
    Reserved,
    NotYetReceived,
}

/// Maximum number of packets in one cell (run length 63).
pub const MAX_RUN: u8 = 64;

/// Decodes the cells into runs of (state, packets 1..=64), newest packet first.
pub fn runs(cells: &[u8]) -> impl Iterator<Item = (State, u8)> + '_ {
    cells.iter().map(|cell| {
        let state = match cell >> 6 {
            0 => State::Received,
            1 => State::ReceivedEcnMarked,
            2 => State::Reserved,
            _ => State::NotYetReceived,
        };
        (state, (cell & 63) + 1)
    })
}

/// Encodes one cell for `packets` (1..=64) in `state`.
pub const fn cell(state: State, packets: u8) -> u8 {
    debug_assert!(packets >= 1 && packets <= MAX_RUN);
    ((state as u8) << 6) | (packets.wrapping_sub(1) & 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn example_of_the_rfc() {
        // The vector 0,192,3,64,5 is explained in RFC 4340 section 11.4.
        let read: Vec<_> = runs(&[0, 192, 3, 64, 5]).collect();
        let meant = [
            (State::Received, 1),
            (State::NotYetReceived, 1),
            (State::Received, 4),
            (State::ReceivedEcnMarked, 1),
            (State::Received, 6),
        ];
        assert_eq!(read, meant);
    }

    #[test]
    fn every_cell_round_trips() {
        for byte in 0..=255 {
            for (state, packets) in runs(&[byte]) {
                assert_eq!(cell(state, packets), byte);
            }
        }
    }
}
