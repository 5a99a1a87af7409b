//! Bytes to meaning and back: DCCP (RFC 4340), DCCP in UDP (RFC 6773), Multipath DCCP options (RFC 9897).
//!
//! Parsing is zero-copy and total: any bytes give a value or a named error, never a panic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod ack_vector;
pub mod checksum;
pub mod feature;
mod header;
mod mp;
mod option;
mod seq;

pub use header::{Header, Packet, PacketType, ParseError, Reset, ResetCode};
pub use mp::{KeyType, MpOption, RttType};
pub use option::{Opt, OptionBuf, OptionError, Options};
pub use seq::Seq;

/// UDP port registered for DCCP encapsulated in UDP (RFC 6773 section 5.1).
pub const DCCP_UDP_PORT: u16 = 6511;
/// IP protocol number of DCCP (RFC 4340 section 5).
pub const IPPROTO_DCCP: u8 = 33;
