//! Multipath DCCP sessions (RFC 9897) as a sans-IO state machine, and the endpoint that owns them.
//!
//! A session consists of DCCP connections, one per path, and one short send queue. The scheduler picks a path
//! for a packet only when that path can send, and only then does the packet get its MP_SEQ (late binding). A
//! session without multipath is a plain DCCP connection behind the same interface.
//!
//! Types that report events and counters are `#[non_exhaustive]` and may grow. Types that the owner fills in
//! ([`SessionConfig`], [`PathConfig`], [`ListenConfig`], [`QueueConfig`], [`reorder::ReorderConfig`]) are
//! exhaustive, so that struct literals work, with or without `..Default::default()`. [`PathRow`] is
//! exhaustive too, so that tests of schedulers can build rows. [`SessionState`], [`Fallback`] and
//! [`sched::Pick`] are exhaustive so that code that matches on them fails to compile when a variant is added.
//!
//! ```
//! use mpdccp_proto::{Named, SessionConfig, sched::SchedulerKind};
//!
//! let config = SessionConfig { scheduler: SchedulerKind::named("rr")?, ..SessionConfig::default() };
//! assert!(config.multipath && config.scheduler.name() == "rr");
//! assert!(SchedulerKind::named("fastest").is_err());
//! # Ok::<(), String>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod blocks;
mod config;
mod counter;
mod endpoint;
mod ids;
mod keys;
mod names;
mod packet;
mod path;
pub mod policy;
mod queue;
pub mod reorder;
pub mod sched;
mod session;
mod settings;
mod status;
mod wake;

pub use dccp_wire::KeyType;

pub use config::{Fallback, JoinFrom, ListenConfig, PathConfig, PeerFilter, SessionConfig};
pub use counter::{Counter, Counters};
pub use endpoint::{Endpoint, EndpointStats};
pub use ids::{PathId, PathName, SessionId};
pub use names::Named;
pub use packet::{FlowKey, PktInfo, Room};
pub use path::{PathRow, PathState};
pub use queue::{Discipline, QueueConfig, QueueStats, QueueView};
pub use session::{Reason, SessionEvent, is_unicast};
pub use settings::{AckRatio, Ccid, Seconds, Setting, Settings, Variant};
pub use status::{FecStats, PathStatus, RepairStats, SessionState, SessionStatus, StreamsStatus};
pub use wake::Wake;
