use crate::{Bbr1, Bbr3, CcConfig, Controller, Cubic, Reno};
use alloc::boxed::Box;

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// TCP's AIMD (RFC 5681), for CCID 2.
    Reno,
    /// BBR version 1, for CCID 5.
    Bbr1,
    /// CUBIC (RFC 9438), for CCID 7.
    Cubic,
    /// BBR version 3, for CCID 250.
    Bbr3,
}

impl Algorithm {
    /// Creates a controller of this algorithm.
    pub fn controller(self, cfg: &CcConfig) -> Box<dyn Controller> {
        match self {
            Algorithm::Reno => Box::new(Reno::new(cfg)),
            Algorithm::Bbr1 => Box::new(Bbr1::new(cfg)),
            Algorithm::Cubic => Box::new(Cubic::new(cfg)),
            Algorithm::Bbr3 => Box::new(Bbr3::new(cfg)),
        }
    }
}
