//! Linux I/O over the loopback interface.
#![cfg(target_os = "linux")]

mod capture;
mod encapsulations;
