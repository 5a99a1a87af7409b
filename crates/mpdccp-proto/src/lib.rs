//! Multipath DCCP sessions (RFC 9897) as a sans-IO state machine, and the endpoint that owns them.
//!
//! A session is made of DCCP connections, one a path. It has one short send queue; the scheduler picks the path, and the
//! packet gets its MP_SEQ, only when that path can send now (late binding). A session without multipath is a plain DCCP
//! connection behind the same interface.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod config;
mod endpoint;
mod keys;
mod names;
mod path;
pub mod queue;
pub mod reorder;
pub mod sched;
mod session;
mod settings;
mod status;
pub mod steer;

pub use dccp_wire::KeyType;

pub use config::{Fallback, JoinAdvertised, ListenConfig, PathConfig, PeerFilter, SessionConfig};
pub use endpoint::{Endpoint, EndpointStats, SessionId};
pub use names::Named;
pub use path::{Health, PathId, PathRow};
pub use queue::{Discipline, PktInfo, QueueConfig, QueueView};
pub use session::{Reason, SessionEvent};
pub use settings::{AckRatio, Ccid, Settings, Variant, WindowUnit};
pub use status::{FecStats, PathStatus, RepairStats, SessionState, SessionStatus};
pub use steer::PathName;
