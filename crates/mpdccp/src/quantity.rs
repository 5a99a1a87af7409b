//! Quantities on the command line, shared by several commands.

pub(crate) use mpdccp_tunnel::config::rate;
