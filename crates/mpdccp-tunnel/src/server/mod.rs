//! The server: admission of clients, their addresses, and draining.

pub(crate) mod leases;
pub(crate) mod listen;
