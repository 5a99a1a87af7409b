//! Tests of Linux I/O over the loopback interface.
#![cfg(target_os = "linux")]

mod capture;
#[cfg(feature = "encryption")]
mod channels;
mod driver;
mod encapsulations;
