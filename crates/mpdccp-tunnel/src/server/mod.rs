//! A server: whom it lets in, what it gives its clients, and how it sends them away.

pub(crate) mod leases;
pub(crate) mod listen;
