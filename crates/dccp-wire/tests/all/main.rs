//! All integration tests of the crate, in one program.

mod captures;
mod checksum;
mod common;
mod layout;
mod malformed;
mod round_trip;
mod seq;
mod totality;
mod tshark;
