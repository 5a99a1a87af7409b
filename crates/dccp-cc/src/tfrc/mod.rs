//! TCP-Friendly Rate Control (RFC 5348) and its variant for small packets (RFC 4828), independent of any
//! protocol.
//!
//! The receiver records missing packets in a [`LossHistory`] and derives loss intervals with window counters.
//! The average of these intervals gives the [`loss_event_rate`]. The sender passes each report to a
//! [`TfrcSender`], which computes the sending rate from the throughput [`equation`], recent receive rates,
//! and a timer for missing reports.

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
