//! The server: admission of clients, their addresses, and draining.

pub(crate) mod drain;
pub(crate) mod leases;
