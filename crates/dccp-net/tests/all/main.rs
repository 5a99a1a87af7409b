//! Tests of Linux I/O over the loopback interface.

mod capture;
#[cfg(feature = "encryption")]
mod channels;
mod driver;
mod encapsulations;
