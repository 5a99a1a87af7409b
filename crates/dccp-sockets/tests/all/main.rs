//! The sockets over the loopback interface: no privilege needed. Tests that need a process of their own are programs beside this one.

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
