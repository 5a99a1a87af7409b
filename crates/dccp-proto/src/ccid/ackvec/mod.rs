//! The two halves of the CCIDs that acknowledge with Ack Vectors: CCID 2 (RFC 4341), and the CCIDs from 5 on,
//! which use the same acknowledgements.
//!
//! `receiver` keeps the state of arrived packets in `ack_vector_state` and decides when to acknowledge.
//! `sender` keeps a `history` of sent packets. `digest` processes feedback and detects losses with `loss`.
//! `rto` is the retransmission timer, and `usage` tells whether the path limits sending. `requests` and
//! `ack_ratio` determine what the sender requests from its peer. Everything without sequence numbers is in
//! `control`, which a sender may `share` with other connections.

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
