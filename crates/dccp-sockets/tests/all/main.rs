//! Tests the sockets over the loopback interface, without privileges. Tests that need their own process are
//! separate programs in the parent directory.

use dccp_sockets::{Connection, Listener, Options};
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

/// Time limit of a step. No step takes this long.
const PATIENT: Duration = Duration::from_secs(20);

/// Returns a listener and both ends of a connection to it.
fn pair(server: Options, client: Options) -> (Listener, Connection, Connection) {
    let listener = Listener::bind("127.0.0.1:0", server).unwrap();
    let here = Connection::connect(listener.local_addr(), client).unwrap();
    let there = listener.accept_timeout(PATIENT).unwrap();
    (listener, here, there)
}

/// Waits until `holds` returns true. Fails if that takes too long.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENT, "the condition was not met within 20 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}
