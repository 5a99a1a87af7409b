//! Inner packets: their peers, sizes and headers.

pub(crate) mod allowed;
pub(crate) mod forward;
pub(crate) mod marking;
pub(crate) mod mss;
pub(crate) mod mtu;
pub(crate) mod pieces;
pub(crate) mod police;
pub(crate) mod too_big;
