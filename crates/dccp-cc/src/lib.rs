//! Congestion control algorithms, independent of any protocol. DCCP senders and the simulator's model TCP use
//! the same [`Controller`]s.
//!
//! The interface is designed for BBR: a controller outputs a rate, every packet carries delivery state
//! ([`Snapshot`]), and each acknowledgement causes one call with one [`AckEvent`].
//!
//! ```
//! use dccp_cc::{Algorithm, Amount, CcConfig, Sent, Window};
//! use mpdccp_units::Time;
//!
//! let mut reno = Algorithm::Reno.controller(&CcConfig { mtu: 1500, packets: true, draft: false, seed: 0 });
//! let now = Time::from_millis(1);
//! let mut inflight = Amount::default();
//! while reno.limits().cwnd.has_room(inflight) {
//!     reno.on_sent(&Sent { now, bytes: 1500, inflight });
//!     inflight = inflight.plus(1500);
//! }
//! // The initial window of RFC 3390.
//! assert_eq!(inflight.packets, 3);
//! // Nothing was acknowledged.
//! reno.on_rto(Time::from_millis(3001));
//! assert_eq!(reno.limits().cwnd, Window::Packets(1));
//!
//! // TFRC allows 14.3 Mbit/s with a round trip of 100 ms and a loss event in each 10,000 packets.
//! let rate = dccp_cc::tfrc::equation::throughput(1460.0, 0.1, 0.0001);
//! assert!((14.2e6..14.4e6).contains(&(rate * 8.0)));
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
/// The tests' model uses this crate name both inside the crate and outside.
#[cfg(test)]
extern crate self as dccp_cc;

mod algorithm;
mod amount;
mod bbr1;
mod bbr3;
mod controller;
mod coupling;
mod cubic;
mod filter;
mod hystart;
mod hystart_linux;
mod jitter;
mod losses;
#[cfg(test)]
#[path = "../tests/it/model/mod.rs"]
mod model;
mod pacer;
mod prague;
mod rate_sample;
mod reno;
mod resume;
mod rtt;
pub mod tfrc;
mod validation;

pub use algorithm::Algorithm;
pub use amount::Amount;
pub use bbr1::{Bbr1, Tuning as Bbr1Tuning, WITHOUT as BBR1_WITHOUT};
pub use bbr3::Bbr3;
pub use controller::{AckEvent, CcConfig, Controller, Inherited, Limits, Lost, Sent, Window};
pub use coupling::{Coupling, Part, Seen};
pub use cubic::Cubic;
pub use filter::WindowedMax;
pub use pacer::Pacer;
pub use prague::Prague;
pub use rate_sample::{RateSample, RateSampler, Snapshot};
pub use reno::Reno;
pub use resume::{
    LIFETIME as RESUME_LIFETIME, Memory, Observer, Remembered, ResumeEnd, ResumePhase, Resuming,
};
pub use rtt::RttEstimator;
