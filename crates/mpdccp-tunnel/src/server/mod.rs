//! The server: which clients it admits, their addresses, and draining.

pub(crate) mod drain;
pub(crate) mod leases;
