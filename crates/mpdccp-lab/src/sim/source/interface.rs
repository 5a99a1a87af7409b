use mpdccp_units::Time;

/// A source of datagrams.
pub(crate) trait Source: core::fmt::Debug {
    /// Time of the next datagram, if any; a backlogged source only has its start.
    fn next(&self) -> Option<Time>;

    /// Appends the sizes of the datagrams due at `now`; `dropped` is the number of datagrams dropped by the
    /// sender's queue so far, if the source [adapts](Self::adapts).
    fn emit(&mut self, now: Time, dropped: u64, sizes: &mut Vec<usize>);

    /// Whether it uses the number of drops, which is expensive to determine.
    fn adapts(&self) -> bool {
        false
    }

    /// Size of its next datagram, if the source is backlogged and has started.
    fn backlog(&self, _now: Time) -> Option<usize> {
        None
    }
}
