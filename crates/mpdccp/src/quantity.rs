//! Quantities on the command line that several commands read.

pub(crate) use mpdccp_tunnel::config::rate;
