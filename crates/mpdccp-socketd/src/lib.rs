//! DCCP sockets for programs that were written for those of the Linux kernel.
//!
//! A program's socket is one end of a pair of Unix sockets (SOCK_SEQPACKET); the daemon has the other end and pumps datagrams between it and
//! DCCP. So reading, writing, polling, dup, fork and exec are the kernel's. The preload library turns the calls that remain (bind, connect,
//! options) into [`Request`]s.

mod message;

#[cfg(feature = "daemon")]
mod daemon;

#[cfg(feature = "daemon")]
pub use daemon::{Daemon, Settings};
pub use message::{
    Answer, CONTROL, CONTROL_VARIABLE, DCCP_SCM_PRIORITY, MOST, NAME, Place, Reply, Request, SOCK_DCCP,
    receive, send,
};
