use mpdccp_units::Time;

/// A source of datagrams.
pub(crate) trait Source: core::fmt::Debug {
    /// Returns the time of the next datagram, if any. A backlogged source returns only its start time.
    fn next(&self) -> Option<Time>;

    /// Appends the sizes of the datagrams that are due at `now`. If the source [adapts](Self::adapts),
    /// `dropped` is the number of datagrams dropped so far by the sender's queue.
    fn emit(&mut self, now: Time, dropped: u64, sizes: &mut Vec<usize>);

    /// Returns whether the source adapts to the number of dropped datagrams. Determining this number takes
    /// time, so callers do it only for such sources.
    fn adapts(&self) -> bool {
        false
    }

    /// Returns the size of the next datagram, if the source is backlogged and has started.
    fn backlog(&self, _now: Time) -> Option<usize> {
        None
    }
}
