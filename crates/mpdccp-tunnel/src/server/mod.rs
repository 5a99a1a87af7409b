//! The server's part: admits clients, assigns addresses to them, and drains the server.

pub(crate) mod drain;
pub(crate) mod leases;
