//! The sockets over the loopback interface: no privilege needed. Tests that need their own process are
//! separate programs in this directory's parent.

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

/// Waits until `holds`, and fails if that takes too long.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "this does not come about");
        std::thread::sleep(Duration::from_millis(1));
    }
}
