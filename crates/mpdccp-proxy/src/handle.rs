use crate::commands::Command;
use dccp_net::Tun;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Lets other threads send commands and packets to the proxy's thread.
#[derive(Clone)]
pub struct SocketsHandle {
    pub(crate) commands: Sender<Command>,
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) tun: Tun,
}

impl SocketsHandle {
    /// Sends commands and wakes the thread. Returns false if the thread has ended.
    pub fn send(&self, commands: impl IntoIterator<Item = Command>) -> bool {
        let alive = commands.into_iter().all(|command| self.commands.send(command).is_ok());
        // Ignore errors: the write fails only if the counter is full, in which case the thread is already
        // being woken.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        alive
    }

    /// Returns the device of the private namespace, to which the caller writes the packets of proxied flows.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }
}
