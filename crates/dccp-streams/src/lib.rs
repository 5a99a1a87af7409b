//! Many independent, reliable, ordered byte streams over unreliable datagrams on several paths. The crate is
//! sans-IO: the owner passes in time and packets, and fetches packets and events. `docs/streams.md` specifies
//! the wire format.
//!
//! The owner decides *when* a path may carry a packet (congestion control), and then asks
//! [`Streams::poll_transmit`] for a packet of a suitable size. The streams decide what goes into it, detect
//! losses, and retransmit over the path that the owner offers next.
//!
//! ```
//! use dccp_streams::{Config, Event, Role, Streams};
//! use mpdccp_units::Time;
//!
//! let now = Time::from_millis(1);
//! let mut client = Streams::new(Role::Client, Config::default());
//! let mut server = Streams::new(Role::Server, Config::default());
//! let id = client.open(b"to whom", 0).unwrap();
//! assert_eq!(client.write(id, b"hello"), Ok(5));
//! client.finish(id).unwrap();
//!
//! let mut packet = [0; 1400];
//! let path = 0;
//! while let Some(len) = client.poll_transmit(now, 0, path, None, 0, &mut packet) {
//!     server.handle_packet(now, &packet[..len]);
//! }
//! assert_eq!(server.poll_event(), Some(Event::Opened(id)));
//! assert_eq!(server.header(id), Some(&b"to whom"[..]));
//! server.accept(id, b"welcome").unwrap();
//! let mut read = [0; 100];
//! assert_eq!(server.read(id, &mut read), Ok(5));
//! assert_eq!(&read[..5], b"hello");
//! assert_eq!(server.read(id, &mut read), Ok(0), "the peer finished");
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arrivals;
mod chunks;
mod class;
mod config;
mod event;
mod id;
mod input;
mod output;
mod path;
mod place;
mod ranges;
mod reason;
mod recv;
mod send;
mod stream;
mod streams;
mod turns;
mod window;
mod wire;

pub use config::{Config, MAX_HEADER, Role, Stats, StreamStats};
pub use event::Event;
pub use id::{StreamError, StreamId};
pub use place::PRIORITIES;
pub use reason::Reason;
pub use streams::Streams;
pub use wire::{dscp, is_stream_packet};
