//! The sockets over the loopback interface: no privilege needed. Tests that need their own process are
//! separate programs in this directory's parent.

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
