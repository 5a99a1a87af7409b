//! The two halves of the CCIDs that acknowledge with Ack Vectors: 2 (RFC 4341), and 5, which took its acknowledgements over.
//!
//! `receiver` keeps `ack_vector_state` and times acknowledgements. `sender` keeps a `history` of what left and `digest`s what comes
//! back, judges with `loss` what did not arrive, watches `rto` and `usage`, and asks for what `requests` and `ack_ratio` say.
//! What is not about sequence numbers is its `control`, which it may `share` with other connections.

mod ack_ratio;
mod ack_vector_state;
mod control;
mod delay;
mod digest;
mod history;
mod loss;
mod receiver;
#[cfg(test)]
mod receiver_tests;
mod report;
mod requests;
mod restraint;
mod rto;
mod sender;
#[cfg(test)]
mod sender_tests;
mod share;
#[cfg(test)]
mod share_tests;
mod succession;
mod usage;

pub use control::Control;
pub use receiver::AckVecReceiver;
pub(super) use report::AckVectorReport;
pub use sender::AckVecSender;
