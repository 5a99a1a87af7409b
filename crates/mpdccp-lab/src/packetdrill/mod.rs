//! Plays scripts in packetdrill's language against the simulator's model of TCP, in virtual time.

mod check;
mod packet;
mod play;
mod script;

pub use play::Failure;
pub use script::Script;
