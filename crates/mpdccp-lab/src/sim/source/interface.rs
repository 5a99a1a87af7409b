use mpdccp_units::Time;

/// A source of datagrams.
pub(crate) trait Source: core::fmt::Debug {
    /// Returns the time of the next datagram, if there is one. A backlogged source returns only its start.
    fn next(&self) -> Option<Time>;

    /// Appends the sizes of the datagrams due at `now`. If the source [adapts](Self::adapts), `dropped` is
    /// the number of datagrams that the sender's queue has dropped so far.
    fn emit(&mut self, now: Time, dropped: u64, sizes: &mut Vec<usize>);

    /// Returns whether the source uses the number of drops, which takes time to determine.
    fn adapts(&self) -> bool {
        false
    }

    /// Returns the size of the next datagram, if the source is backlogged and has started.
    fn backlog(&self, _now: Time) -> Option<usize> {
        None
    }
}
