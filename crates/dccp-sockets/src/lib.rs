//! Datagrams with congestion control, in user space: DCCP (RFC 4340) and Multipath DCCP (RFC 9897) sockets
//! for Linux.
//!
//! A [`Connection`] carries datagrams in both directions, at the rate that its congestion control allows. UDP
//! has no congestion control, and TCP delays new data until lost data has been retransmitted. A connection
//! has congestion control but does not retransmit; over a single path, it does not reorder either.
//! Connections run over UDP, so they pass NATs, and need neither privileges nor a kernel module. The other
//! end may use this crate, or any DCCP implementation with the same encapsulation.
//!
//! # One end listens, the other connects
//!
//! ```
//! use dccp_sockets::{Connection, Listener, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::ccid(5).service("SC:echo");
//! let listener = Listener::bind("127.0.0.1:0", options.clone())?;
//! let addr = listener.local_addr();
//!
//! let server = std::thread::spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     let connection = listener.accept()?;
//!     while let Ok(datagram) = connection.recv() {
//!         connection.send(&datagram)?;
//!     }
//!     Ok(())
//! });
//!
//! let connection = Connection::connect(addr, options)?;
//! connection.send(b"hello")?;
//! assert_eq!(connection.recv()?, b"hello");
//! connection.finish()?;
//! # server.join().unwrap().unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! # What happens to a datagram
//!
//! If the queue ([`Options::queue`]) is full, [`Connection::send`] waits, and [`Connection::try_send`]
//! returns [`SendError::Full`]. A refused datagram stays with the caller. Accepted datagrams are sent in
//! order, and each may then be lost in the network, as with UDP. [`Stats`] counts datagrams that are waiting,
//! that were lost, and that were dropped because the receiving application did not fetch them.
//! [`Connection::finish`] returns once every datagram has been acknowledged or given up as lost.
//!
//! [`Options::send_policy`] makes a full queue drop a datagram instead of waiting: the oldest, the newest, or
//! the least important one. [`Connection::send_with`] sets the priority and the expiry time of a datagram.
//!
//! A sender of live media needs a short queue that holds no more than the datagrams of one frame
//! ([`Options::queue`], [`Options::queue_time`]). Send with [`Connection::try_send`], and keep the bit rate
//! below [`Stats::rate`]. This rate is known only while the path limits the sender; a slower sender must send
//! more to measure it. The example `voice` shows how.
//!
//! # Event loops
//!
//! [`Connection::descriptor`] and [`Listener::descriptor`] are for `poll` and `epoll`. [`Connection::ready`]
//! returns which operations would not block. Methods that begin with `try_` never wait. Methods that begin
//! with `poll_` are for hand-written futures.
//!
//! # Congestion control
//!
//! [`Options::ccid`] chooses the congestion control for data that this end sends. The peer chooses its own.
//! CCID 2 behaves like TCP. CCIDs 3 and 4 change their rate smoothly (TFRC, for media; 4 is for small
//! packets). CCID 5 is BBR, and CCID 7 is CUBIC. [`known_ccids`] lists them all.
//!
//! # Several paths
//!
//! ```no_run
//! use dccp_sockets::{Connection, Options, Path};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dsl = Path::from("192.168.1.2".parse()?);
//! let lte = Path::from("10.64.0.9".parse()?).priority(2); // while DSL is down or congested
//! let connection = Connection::connect("example.org:6511", Options::ccid(5).path(dsl).path(lte))?;
//! for event in connection.events() {
//!     println!("{event:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Listeners accept multipath sessions and plain connections. [`Connection::add_path`] adds paths later.
//!
//! # Encryption
//!
//! ```
//! use dccp_sockets::{Listener, Options, PrivateKey};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Keys are in WireGuard's format; `mpdccp genkey` and `wg genkey` create them.
//! let mine: PrivateKey = "GCuSGFg9ETQNy5vLQ1CQmbQzEdfcaLk+rTRR0yMyO14=".parse()?;
//! let theirs = "vvJwLfxKISyoOO4cSi1PCPSKg0tzgP0v6ypBWvGc50M=".parse()?;
//! let listener = Listener::bind("127.0.0.1:0", Options::ccid(5).key(mine).peer(theirs))?;
//! # Ok(())
//! # }
//! ```
//!
//! Encryption needs the crate's feature `encryption`. Without it, no text can be parsed as a key, and no key
//! can be created.
//!
//! Packets without a valid key are dropped silently. [`Listener::add_peer`] and [`Listener::remove_peer`]
//! change the peers of a running listener. Without keys, traffic is neither encrypted nor authenticated.
//!
//! A public service can accept [any peer](Options::any_peer) that has a key; [`Connection::peer_key`] returns
//! the key.
//!
//! # Reliable streams
//!
//! ```
//! use dccp_sockets::{Connection, Listener, Options};
//! use std::io::{Read, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = Listener::bind("127.0.0.1:0", Options::default().streams(true))?;
//! # let addr = listener.local_addr();
//! let connection = Connection::connect(addr, Options::ccid(5).streams(true))?;
//! let mut stream = connection.open_stream()?;
//! stream.write_all(b"must arrive")?;
//! stream.end();
//! // The other end:
//! # let connection = listener.accept()?;
//! let mut text = String::new();
//! connection.accept_stream(None)?.read_to_string(&mut text)?;
//! # assert_eq!(text, "must arrive");
//! # Ok(())
//! # }
//! ```
//!
//! Both ends must set [`Options::streams`]. A [`ByteStream`] is bidirectional, shares the connection with
//! datagrams and other streams, and uses all paths.
//!
//! # tokio
//!
#![cfg_attr(feature = "tokio", doc = "[`tokio`] provides these sockets")]
#![cfg_attr(
    not(feature = "tokio"),
    doc = "With the `tokio` feature, `dccp_sockets::tokio` provides these sockets"
)]
//! with `async` methods.
//!
//! # Tracing
//!
//! A [`tracing`](https://docs.rs/tracing) subscriber receives events in one `session` span per session. Level
//! `debug` includes every state change of a connection (`connection state`, with `from`, `to`, the peer's
//! address and the DCCP ports), and every event of a session and its paths (`session`, with `event`). Levels
//! `warn` and `error` report problems. [`Options::qlog`] records packets and windows.
//!
//! # Threads
//!
//! Each [`Listener`] and each [`Connector`] has one thread, which does the protocol work of all its
//! connections.
#![forbid(unsafe_code)]

mod backlog;
mod budget;
mod byte_stream;
mod connection;
mod connector;
mod context;
mod errno;
mod error;
mod listener;
mod options;
mod path;
mod readiness;
mod runtime;
mod send_queue;
mod shared;
mod signal;
mod sockets;
mod stats;
mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use byte_stream::ByteStream;
pub use connection::{Connection, Events};
pub use connector::Connector;
pub use dccp_cc::{RESUME_LIFETIME, Remembered, ResumeEnd, ResumePhase};
pub use dccp_net::secure::{KeyError, PresharedKey, PrivateKey, PublicKey};
pub use dccp_proto::{BadServiceCode, ServiceCode};
pub use dccp_wire::{DCCP_UDP_PORT, ResetCode};
pub use error::{AcceptError, CcidError, ConnectError, FinishError, RecvError, SendError, StreamError};
pub use listener::Listener;
pub use mpdccp_proto::reorder::{ReorderConfig, ReorderKind};
pub use mpdccp_proto::sched::SchedulerKind;
pub use mpdccp_proto::{Named, PathId, PathState, Reason};
pub use mpdccp_units::Rate;
pub use options::Options;
pub use path::{Encapsulation, Path};
pub use readiness::Ready;
pub use send_queue::{Delivery, SendPolicy};
pub use stats::{Event, PathStats, Stats};

/// Returns the numbers of the known congestion controls.
pub fn known_ccids() -> impl Iterator<Item = u8> {
    mpdccp_proto::Ccid::known()
}

/// Compiles the programs of the guide as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/program.md")]
struct Guide;
