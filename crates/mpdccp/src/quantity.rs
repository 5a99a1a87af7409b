//! Parses quantities on the command lines of several commands.

pub(crate) use mpdccp_tunnel::config::rate;
