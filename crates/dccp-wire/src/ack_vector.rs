//! Ack Vector cells: two bits of state, six bits of run length (RFC 4340 section 11.4).

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

/// Longest run one cell can tell: 64 packets (run length 63).
pub const MAX_RUN: u8 = 64;

/// Runs of (state, packets 1..=64), newest packet first.
pub fn runs(cells: &[u8]) -> impl Iterator<Item = (State, u8)> + '_ {
    cells.iter().map(|_| todo!())
}

/// One cell for `packets` (1..=64) in `state`.
pub const fn cell(state: State, packets: u8) -> u8 {
    ((state as u8) << 6) | (packets - 1)
}
