/// What a discipline says about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Pass,
    /// Mark if capable.
    Mark,
    /// Mark if capable, else drop.
    Signal,
    Drop,
}
