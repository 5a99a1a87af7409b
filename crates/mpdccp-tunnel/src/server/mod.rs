//! The server admits clients, assigns addresses to them, and drains here.

pub(crate) mod drain;
pub(crate) mod leases;
