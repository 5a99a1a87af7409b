//! Encoding and decoding of DCCP (RFC 4340), DCCP in UDP (RFC 6773) and Multipath DCCP options (RFC 9897).
//!
//! Parsing is zero-copy and total: for any bytes it returns a value or a named error, and it never panics.
//! `docs/wire.md` lists the rules of the RFCs and where this crate implements them.
//!
//! [`PacketType`], [`ResetCode`], [`Opt`] and [`MpOption`] are exhaustive, with a separate variant for
//! unassigned numbers. When a new version of this crate knows another number, the compiler reports every
//! `match` that lacks it. [`ParseError`] may get further variants.
//!
//! ```
//! use dccp_wire::{Header, Packet, PacketType, Seq};
//!
//! let header = Header::new((5001, 5002), PacketType::Data, Seq::new(7));
//! let mut bytes = vec![0; header.packet_len(0, 5)];
//! header.emit(&[], &mut bytes);
//! let packet = Packet::parse(&bytes)?;
//! assert_eq!((packet.header.ptype, packet.header.seq), (PacketType::Data, Seq::new(7)));
//! # Ok::<(), dccp_wire::ParseError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod ack_vector;
mod bytes;
pub mod checksum;
pub mod feature;
mod header;
mod kind;
mod mp;
mod option;
mod option_buf;
mod seq;

pub use header::{Header, Packet, ParseError, Reset};
pub use kind::{PacketType, ResetCode};
pub use mp::{KeyType, MpOption, RttType};
pub use option::{Opt, OptionError, Options};
pub use option_buf::{MAX_HEADER, MAX_OPTIONS, OptionBuf};
pub use seq::Seq;

/// UDP port registered for DCCP encapsulated in UDP (RFC 6773 section 3.8).
pub const DCCP_UDP_PORT: u16 = 6511;
/// IP protocol number of DCCP (RFC 4340 section 5).
pub const IPPROTO_DCCP: u8 = 33;
