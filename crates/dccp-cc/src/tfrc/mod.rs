//! TCP-Friendly Rate Control (RFC 5348), and its variant for small packets (RFC 4828), free of any protocol.
//!
//! The receiver keeps a [`LossHistory`] of what is missing and turns it, by window counters, into loss intervals; their average is
//! the [`loss_event_rate`]. The sender feeds each report to a [`TfrcSender`], which says how fast it may send by the throughput
//! [`equation`], the receive rates seen lately, and a timer for want of reports.

pub mod equation;
mod interval;
mod loss_history;
mod not_limited;
mod receive_rates;
mod segment_size;
mod sender;

pub use interval::{LossInterval, NINTERVAL, loss_event_rate};
pub use loss_history::{Arrived, Change, LossHistory};
pub use sender::{Report, TfrcConfig, TfrcSender};
