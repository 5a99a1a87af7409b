//! The two halves of CCID 3 (RFC 4342), TCP-Friendly Rate Control, and of CCID 4 (RFC 5622), its variant for
//! small packets.
//!
//! `receiver` reports loss intervals and the receive rate, and `sender` sends at the rate that follows from
//! these reports. `options` encodes the reports. The `counter` in CCVal is the clock shared by both ends. The
//! parts that do not depend on DCCP are in [`dccp_cc::tfrc`].

mod counter;
mod options;
mod receiver;
mod sender;
mod sent_log;

pub use receiver::TfrcReceiver;
pub use sender::TfrcSenderHalf;
