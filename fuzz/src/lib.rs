//! Fuzz targets. Each target derives from its input the two ends, their actions, the behaviour of the
//! network, and the packets of a forger. No input may cause a panic, an endless loop or unbounded memory use.

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

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("wire", wire),
    ("connection", connection),
    ("session", session),
    ("endpoint", endpoint),
    ("streams", streams),
    ("insider", insider),
];

/// Maximum length of an input in bytes.
pub const MAX_LEN: usize = 2048;

/// Maximum memory of a run in bytes.
pub const MAX_MEMORY: usize = 64 << 20;
