//! Runs the thread that terminates the hosts' TCP connections. The thread works in a private network
//! namespace.

use crate::descriptors;
use crate::tunnel::host::privileges;
use dccp_net::Tun;
use mpdccp_proto::Endpoint;
use mpdccp_proxy::{Command, Event, Sockets, SocketsHandle};
use mpdccp_tunnel::config::Config;
use mpdccp_tunnel::{Divert, Tunnel};
use mpdccp_units::Time;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io::{self, IoSlice};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Size of the header that precedes each packet on a device with offload.
const HEADER: usize = 10;

/// Messages waiting for the data thread: events, and the error with which the proxy thread ended.
type Messages = (Vec<Event>, Option<String>);

/// The messages, and a descriptor that wakes the data thread.
struct Mailbox {
    messages: Mutex<Messages>,
    wake: OwnedFd,
}

impl Mailbox {
    fn new() -> rustix::io::Result<Arc<Mailbox>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Mailbox { messages: Mutex::default(), wake }))
    }

    fn put(&self, events: Vec<Event>, failure: Option<String>) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.0.extend(events);
        messages.1 = messages.1.take().or(failure);
        // Ignore the error: if the counter is full, the thread is already awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn take(&self) -> Messages {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The proxy thread owns this value, which is dropped when the thread ends. If the thread has panicked, the
/// value then reports this to the data thread.
struct Alive(Arc<Mailbox>);

impl Drop for Alive {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.put(Vec::new(), Some("its thread panicked".into()));
        }
    }
}

/// The data thread's handle of the proxy thread. Dropping it resets the hosts' connections.
pub(crate) struct Proxy {
    sockets: SocketsHandle,
    mailbox: Arc<Mailbox>,
    commands: Vec<Command>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts the thread. `tun` is the tunnel's interface, whose packets are at most `mtu` bytes long.
    pub(crate) fn start(tun: &Tun, mtu: u16, cfg: &Config) -> Result<Proxy, String> {
        if !tun.offloads() {
            return Err("the TCP proxy needs offload; set `offload = true`".into());
        }
        let mailbox = Mailbox::new().map_err(|e| e.to_string())?;
        let (interface, cfg) = (tun.clone(), cfg.clone());
        let (letters, alive) = (mailbox.clone(), Alive(mailbox.clone()));
        let (started, ready) = channel();
        let run = move || {
            let alive = alive;
            let on_events = move |events| letters.put(events, None);
            // Packets that the interface refuses are lost, as on a link.
            let on_packet = move |packet: &[u8]| {
                let _ = rustix::io::write(&interface, packet);
            };
            match Sockets::enter(mtu, on_events, on_packet) {
                Ok((sockets, handle)) => {
                    privileges::keep_net_admin(&cfg);
                    let _ = started.send(Ok(handle));
                    if let Err(e) = sockets.run() {
                        alive.0.put(Vec::new(), Some(e.to_string()));
                    }
                }
                Err(e) => drop(started.send(Err(why(&e)))),
            }
        };
        let thread = std::thread::Builder::new().name("tcp".into()).spawn(run).map_err(|e| e.to_string())?;
        let sockets = ready.recv().map_err(|_| "the thread of the TCP proxy panicked".to_owned())??;
        Ok(Proxy { sockets, mailbox, commands: Vec::new(), thread: Some(thread) })
    }

    /// Adds a command for the sockets, to be passed to the thread by [`send`](Self::send).
    pub(crate) fn put(&mut self, command: Command) {
        self.commands.push(command);
    }

    pub(crate) fn send(&mut self) {
        if !self.commands.is_empty() {
            self.sockets.send(self.commands.drain(..));
        }
    }

    /// Passes a packet from a host to the private namespace. If the namespace refuses the packet, it is lost,
    /// as on a link.
    pub(crate) fn write(&self, packet: &[u8]) {
        let _ = rustix::io::writev(self.sockets.tun(), &[IoSlice::new(&[0; HEADER]), IoSlice::new(packet)]);
    }

    /// Handles a super-packet from the interface if the tunnel carries its connection as a stream. Returns
    /// false if the tunnel must carry the packet itself. In `whole`, the packet is preceded by the device's
    /// header.
    pub(crate) fn takes(
        &self,
        tunnel: &mut Tunnel,
        endpoint: &mut Endpoint,
        now: Time,
        whole: &[u8],
    ) -> bool {
        match tunnel.divert_whole(endpoint, now, whole.get(HEADER..).unwrap_or_default()) {
            Divert::Packet => return false,
            // If the kernel has no room for the packet, the packet is lost, as on any link.
            Divert::Proxy => drop(rustix::io::write(self.sockets.tun(), whole)),
            Divert::Done => {}
        }
        true
    }

    /// Returns the events since the last call, and the error with which the thread ended.
    pub(crate) fn events(&self) -> Messages {
        self.mailbox.take()
    }
}

/// Returns the maximum number of connections per shard. Each connection needs a descriptor. All shards
/// together may use half of the process's descriptors for connections, divided equally among them.
pub(crate) fn room(shards: u8) -> usize {
    (descriptors::raise() / 2 / usize::from(shards.max(1))).max(1)
}

fn why(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "no permission to create a network namespace; it needs CAP_SYS_ADMIN and CAP_NET_ADMIN".into()
        }
        _ => format!("cannot create a network namespace: {e}"),
    }
}

impl AsFd for Proxy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.wake.as_fd()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.sockets.send([Command::Stop]);
        if let Some(thread) = self.thread.take() {
            // Ignore the error: if the thread panicked, it has reported that.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_thread_learns_that_the_proxy_thread_panicked() {
        let mailbox = Mailbox::new().unwrap();
        let alive = Alive(mailbox.clone());
        let thread = std::thread::spawn(move || {
            let _alive = alive;
            panic!("this panic belongs to the test");
        });
        assert!(thread.join().is_err());
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(&mailbox.wake, &mut count), Ok(8), "the data thread must wake");
        assert_eq!(mailbox.take().1.as_deref(), Some("its thread panicked"));
    }
}
