//! The two halves of the CCIDs that acknowledge with Ack Vectors: CCID 2 (RFC 4341), and CCIDs 5 and higher,
//! which use the same acknowledgements.
//!
//! `receiver` keeps `ack_vector_state` and times acknowledgements. `sender` keeps a `history` of sent packets
//! and `digest`s feedback, detects losses with `loss`, uses `rto` and `usage`, and makes the requests of
//! `requests` and `ack_ratio`. Everything without sequence numbers is in its `control`, which it may `share`
//! with other connections.

mod ack_ratio;
mod ack_vector_state;
mod control;
mod digest;
mod history;
mod lateness;
mod loss;
mod receiver;
#[cfg(test)]
mod receiver_tests;
mod report;
mod requests;
mod restraint;
mod return_path;
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
