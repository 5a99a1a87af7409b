//! DCCP sockets for programs that were written for those of the Linux kernel.
//!
//! A program's socket is one end of a pair of Unix sockets (SOCK_SEQPACKET); the daemon has the other end and pumps datagrams between it and
//! DCCP. So reading, writing, polling, dup, fork and exec are the kernel's. The preload library turns the calls that remain (bind, connect,
//! options) into [`Request`]s.

mod message;
mod options;

#[cfg(feature = "daemon")]
mod daemon;

#[cfg(feature = "daemon")]
pub use daemon::{Daemon, Settings};
pub use message::{Answer, CONTROL, CONTROL_VARIABLE, MOST, NAME, Reply, Request, receive, send};
pub use options::{
    CCID_LEVEL_OPTIONS, DCCP_SCM_PRIORITY, SOCK_DCCP, SOL_DCCP, SOL_SOCKET, option as dccp_option,
};
