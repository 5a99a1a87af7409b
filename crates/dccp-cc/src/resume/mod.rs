//! Careful Resume (RFC 9959): begins from what was known of a path, validates it, and retreats if it does not hold.

mod memory;
mod phase;
mod resuming;
#[cfg(test)]
mod tests;

pub use memory::{LIFETIME, Memory, Observer, Remembered};
pub use phase::{ResumeEnd, ResumePhase};
pub use resuming::Resuming;
