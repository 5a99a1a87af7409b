//! Paths through networks that block UDP: packets in a TLS stream, and the choice between UDP and TLS.

mod choice;
mod frames;

pub use choice::{Choice, Over};
pub use frames::{Frames, LARGEST_FRAME, NotAFrame, put_frame};
