//! Runs the thread that terminates the TCP connections of hosts in a private network namespace.

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

/// Events waiting for the data thread.
#[derive(Default)]
struct Mailbox(Mutex<Vec<Event>>);

impl Mailbox {
    fn put(&self, events: Vec<Event>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The data thread's handle of the proxy thread. Dropping it resets the hosts' connections.
pub(crate) struct Proxy {
    sockets: SocketsHandle,
    mailbox: Arc<Mailbox>,
    wake: Arc<OwnedFd>,
    commands: Vec<Command>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts the thread. `tun` is the tunnel's interface, whose packets are at most `mtu` bytes long.
    pub(crate) fn start(tun: &Tun, mtu: u16, cfg: &Config) -> Result<Proxy, String> {
        if !tun.offloads() {
            return Err("the TCP proxy needs offload; set `offload = true`".into());
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| e.to_string())?;
        let (wake, mailbox) = (Arc::new(wake), Arc::new(Mailbox::default()));
        let (interface, tell, letters, cfg) = (tun.clone(), wake.clone(), mailbox.clone(), cfg.clone());
        let (started, ready) = channel();
        let run = move || {
            let on_events = move |events| {
                letters.put(events);
                // Ignore the error: if the counter is full, the thread is already awake.
                let _ = rustix::io::write(&tell, &1u64.to_ne_bytes());
            };
            // Packets that the interface refuses are lost, as on a link.
            let on_packet = move |packet: &[u8]| {
                let _ = rustix::io::write(&interface, packet);
            };
            match Sockets::enter(mtu, on_events, on_packet) {
                Ok((sockets, handle)) => {
                    privileges::keep_net_admin(&cfg);
                    let _ = started.send(Ok(handle));
                    if let Err(e) = sockets.run() {
                        tracing::error!("the TCP proxy failed and ends: {e}");
                    }
                }
                Err(e) => drop(started.send(Err(why(&e)))),
            }
        };
        let thread = std::thread::Builder::new().name("tcp".into()).spawn(run).map_err(|e| e.to_string())?;
        let sockets = ready.recv().map_err(|_| "the thread of the TCP proxy panicked".to_owned())??;
        Ok(Proxy { sockets, mailbox, wake, commands: Vec::new(), thread: Some(thread) })
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

    /// Returns the events since the last call.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
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
        self.wake.as_fd()
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
