//! Tests of the sockets over the loopback interface. They need no privilege. Tests that need their own process are
//! separate programs in the parent directory.

use std::time::{Duration, Instant};

mod closing;
mod loopback;
mod optional;
#[cfg(feature = "qlog")]
mod qlog;
mod readiness;
mod relay;
mod rough;
mod service;
mod streams;
#[cfg(feature = "tokio")]
mod tokio;

/// Waits until `holds` returns true, and fails if that takes too long.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the condition was not met within 20 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}
