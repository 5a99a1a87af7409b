use mpdccp_units::Time;

/// A source of datagrams.
pub(crate) trait Source: core::fmt::Debug {
    /// When it next has something, if ever; backlogged sources have something at their beginning only.
    fn next(&self) -> Option<Time>;

    /// Appends the sizes of the datagrams that are due at `now`; `dropped` counts those that the sender's queue has dropped so far, if it
    /// [adapts](Self::adapts).
    fn emit(&mut self, now: Time, dropped: u64, sizes: &mut Vec<usize>);

    /// Whether it cares for drops, which take time to count.
    fn adapts(&self) -> bool {
        false
    }

    /// Always has a datagram of this size, once begun.
    fn backlog(&self, _now: Time) -> Option<usize> {
        None
    }
}
