//! Careful Resume (RFC 9959). A connection starts from a path's remembered capacity, validates this capacity,
//! and retreats if it is no longer available.

mod memory;
mod phase;
mod resuming;
#[cfg(test)]
mod tests;

pub use memory::{LIFETIME, Memory, Observer, Remembered};
pub use phase::{ResumeEnd, ResumePhase};
pub use resuming::Resuming;
