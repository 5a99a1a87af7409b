/// Decision of a discipline about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Pass,
    /// Mark if ECN-capable.
    Mark,
    /// Mark if ECN-capable, otherwise drop.
    Signal,
    Drop,
}
