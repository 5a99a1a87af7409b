//! DCCP sockets for programs written for the Linux kernel's DCCP.
//!
//! A program's socket is one end of a pair of Unix sockets (SOCK_SEQPACKET). The daemon holds the other end,
//! and copies datagrams between the pair and DCCP. Reads, writes, poll, dup, fork and exec are therefore
//! handled by the kernel. All other calls, such as bind, connect and setsockopt, are sent to the daemon by
//! the preload library as [`Request`]s.

mod message;

#[cfg(feature = "daemon")]
mod daemon;

#[cfg(feature = "daemon")]
pub use daemon::{Daemon, Settings};
pub use message::{
    Answer, CONTROL, CONTROL_VARIABLE, DCCP_SCM_PRIORITY, FORMAT, MOST, NAME, Place, Reply, Request,
    SOCK_DCCP, receive, send, try_daemon,
};
