//! Hostile input. Each target reads its input as a story: who the ends are, what they do, what the network
//! does, and what somebody forges. No story may panic, spin, or make memory grow without bound.

mod connection;
mod endpoint;
#[path = "../../crates/mpdccp-proto/tests/all/common/mod.rs"]
mod ends;
mod insider;
mod packets;
#[path = "../../crates/dccp-proto/tests/all/common/mod.rs"]
mod pair;
mod session;
mod streams;
mod unstructured;
mod wire;

pub use connection::connection;
pub use endpoint::endpoint;
pub use insider::insider;
pub use session::session;
pub use streams::streams;
pub use wire::wire;

/// What plays a story.
pub type Target = fn(&[u8]);

/// All there are, by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("wire", wire),
    ("connection", connection),
    ("session", session),
    ("endpoint", endpoint),
    ("streams", streams),
    ("insider", insider),
];

/// The longest story, bytes.
pub const MAX_LEN: usize = 2048;

/// The most memory a story may take, bytes.
pub const MAX_MEMORY: usize = 64 << 20;
