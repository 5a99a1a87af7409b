use crate::commands::Command;
use dccp_net::Tun;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Handle by which other threads reach the proxy's thread.
#[derive(Clone)]
pub struct SocketsHandle {
    pub(crate) commands: Sender<Command>,
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) tun: Tun,
}

impl SocketsHandle {
    /// Sends commands. Returns false if the thread has ended.
    pub fn send(&self, commands: impl IntoIterator<Item = Command>) -> bool {
        let alive = commands.into_iter().all(|command| self.commands.send(command).is_ok());
        // If the counter is full and the write fails, the thread wakes anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        alive
    }

    /// The device of the private namespace, to which packets of proxied flows are written.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }
}
