/// What a queue discipline decides about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Pass,
    /// Mark the packet if it is ECN-capable.
    Mark,
    /// Mark the packet if it is ECN-capable; otherwise drop it.
    Signal,
    Drop,
}
