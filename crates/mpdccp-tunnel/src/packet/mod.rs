//! Handles inner packets: finds their peers, fits their sizes to the paths, and copies header fields.

pub(crate) mod allowed;
pub(crate) mod dscp_ecn;
pub(crate) mod forward;
pub(crate) mod mss;
pub(crate) mod mtu;
pub(crate) mod pieces;
pub(crate) mod police;
pub(crate) mod too_big;
