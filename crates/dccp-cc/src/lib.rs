//! Congestion control algorithms, free of any protocol: DCCP senders and the simulator's model TCP drive the same
//! [`Controller`]s.
//!
//! The interface was drawn for BBR first: a rate goes out, every packet carries delivery state ([`Snapshot`]), and one
//! acknowledgement is one [`AckEvent`] and one call.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bbr1;
mod bbr3;
mod controller;
mod coupling;
mod cubic;
mod filter;
mod hystart;
mod hystart_linux;
mod pacer;
mod prague;
mod rate_sample;
mod reno;
mod rtt;
pub mod tfrc;
mod validation;

pub use bbr1::{Bbr1, Tuning as Bbr1Tuning, WITHOUT as BBR1_WITHOUT};
pub use bbr3::Bbr3;
pub use controller::{
    AckEvent, Algorithm, Amount, CcConfig, Controller, Inherited, Limits, Lost, Sent, Window,
};
pub use coupling::{Coupling, Part, Seen};
pub use cubic::Cubic;
pub use filter::WindowedMax;
pub use pacer::Pacer;
pub use prague::Prague;
pub use rate_sample::{RateSample, RateSampler, Snapshot};
pub use reno::Reno;
pub use rtt::RttEstimator;
