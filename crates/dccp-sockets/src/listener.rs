use crate::backlog::{Backlog, BacklogState};
use crate::error::addresses;
use crate::readiness::Shown;
use crate::runtime::host::{Run, Runtime, on_a_thread};
use crate::signal::lock;
use crate::{AcceptError, ConnectError, Connection, Encapsulation, Options, sockets};
use dccp_net::canonical;
use dccp_net::secure::{PresharedKey, PublicKey};
use dccp_proto::{Ports, Route};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Accepts connections. Connections that were already accepted continue after the listener is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) backlog: Arc<Backlog>,
    addr: SocketAddr,
    socket: u32,
    descriptor: Shown,
}

/// Returns the next connection, or an error if no more will arrive. Returns `None` if the caller must wait.
pub(crate) fn accept(
    runtime: &Arc<Runtime>,
    state: &mut BacklogState,
) -> Option<Result<Connection, AcceptError>> {
    match state.waiting.pop_front() {
        Some((_, stream)) => {
            state.show();
            Some(Ok(Connection::new(runtime, stream)))
        }
        None => state.over.then_some(Err(AcceptError::Closed)),
    }
}

impl Listener {
    /// Listens on an address of this host. The port is a UDP port: 0 selects any free port, and
    /// [`DCCP_UDP_PORT`](crate::DCCP_UDP_PORT) is the port that is assigned to DCCP. With
    /// [`Encapsulation::Raw`](crate::Encapsulation::Raw), the port is the DCCP port, which must not be 0.
    /// If a name has several addresses, the first one that works is used. `[::]` accepts only IPv6 clients.
    ///
    /// # Errors
    /// If the options are invalid, or the system reports an error.
    pub fn bind(addr: impl ToSocketAddrs, options: Options) -> Result<Listener, ConnectError> {
        let mut last = ConnectError::NoAddress;
        for addr in addresses(addr)? {
            match Listener::bind_one(addr, options.clone(), on_a_thread) {
                Ok(listener) => return Ok(listener),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    pub(crate) fn bind_one(addr: SocketAddr, options: Options, run: Run) -> Result<Listener, ConnectError> {
        let (addr, backlog) = (canonical(addr), Arc::new(Backlog::default()));
        let port = sockets::places(&options, addr).1;
        if port == 0 && options.encapsulation == Encapsulation::Raw {
            return Err(ConnectError::Options(
                "native DCCP cannot select a free port; give a port from 1 to 65535",
            ));
        }
        let options = options.dccp_port(port);
        let (runtime, (addr, socket)) =
            Runtime::start(options, Some(backlog.clone()), run, |core, options| {
                sockets::secure(core, options, true)?;
                sockets::listen(core, options, addr)
            })?;
        runtime.run(move |_, streams| streams.listens = Some((addr, socket)));
        Ok(Listener { runtime, backlog, addr, socket, descriptor: Shown::default() })
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// [`AcceptError::Closed`] if the data thread has ended.
    pub fn accept(&self) -> Result<Connection, AcceptError> {
        self.accept_until(None)
    }

    /// Waits for the next connection, with a timeout.
    ///
    /// # Errors
    /// [`AcceptError::TimedOut`], and the errors of [`accept`](Self::accept).
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Connection, AcceptError> {
        self.accept_until(Instant::now().checked_add(timeout))
    }

    /// Returns the next connection if one is waiting.
    ///
    /// # Errors
    /// [`AcceptError::Empty`], and the errors of [`accept`](Self::accept).
    pub fn try_accept(&self) -> Result<Connection, AcceptError> {
        if self.runtime.is_forked() {
            return Err(AcceptError::Forked);
        }
        accept(&self.runtime, &mut lock(&self.backlog.state)).unwrap_or(Err(AcceptError::Empty))
    }

    /// Returns the next connection. If there is none, registers the task to be woken.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Connection, AcceptError>> {
        if self.runtime.is_forked() {
            return Poll::Ready(Err(AcceptError::Forked));
        }
        self.backlog.arrived.poll(&self.backlog.state, cx, |state| accept(&self.runtime, state))
    }

    /// Returns a descriptor for `poll`, `epoll` and similar calls. It is readable while a connection is
    /// waiting to be accepted. Only this crate may read or write the descriptor.
    ///
    /// # Errors
    /// A system error, such as too many open files.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.descriptor.get(|| self.backlog.open_descriptor())
    }

    fn accept_until(&self, until: Option<Instant>) -> Result<Connection, AcceptError> {
        if self.runtime.is_forked() {
            return Err(AcceptError::Forked);
        }
        let accepted = self.backlog.arrived.wait(&self.backlog.state, until, |s| accept(&self.runtime, s));
        accepted.unwrap_or(Err(AcceptError::TimedOut))
    }

    /// Sends up to three DCCP-Listen packets (RFC 5596) to a client, to open the NATs and firewalls in front
    /// of this end. The client must connect from this address (with UDP, also from its UDP port) and from
    /// this DCCP port, which it sets with [`Options::source_ports`]. The two ends must learn each other's
    /// addresses and ports by other means. Listen packets are not possible with keys, which have their own
    /// handshake.
    ///
    /// # Errors
    /// [`ConnectError::Options`] if the listener uses keys, or if the data thread has ended.
    pub fn send_listen(&self, client: SocketAddr, dccp_port: u16) -> Result<(), ConnectError> {
        let socket = self.socket;
        let sent = self.runtime.call(move |core, streams| {
            let (remote, _) = sockets::places(&streams.options, canonical(client));
            let route = Route { socket, local: None, remote };
            let ports = Ports { local: streams.options.dccp_port, remote: dccp_port };
            streams.options.key.is_none() && core.endpoint.send_listen(core.clock.now(), route, ports)
        });
        match sent {
            Some(true) => Ok(()),
            _ => Err(self.runtime.missing(ConnectError::Options(
                "only a listener without keys can send Listen packets, and only to 1024 clients at a time",
            ))),
        }
    }

    /// Accepts a peer by its public key from now on. If the peer is already known, replaces its preshared
    /// key.
    ///
    /// # Errors
    /// [`ConnectError::Options`] if this end has no private key, if `key` is this end's own key, or if the
    /// data thread has ended.
    pub fn add_peer(&self, key: PublicKey, preshared: PresharedKey) -> Result<(), ConnectError> {
        let added = self.runtime.call(move |core, streams| streams.add_peer(core, key, preshared));
        added.unwrap_or_else(|| Err(self.gone())).map(|_| ())
    }

    /// Stops accepting a peer and ends its connections. The peer is not told, because packets to it can no
    /// longer be encrypted. If the listener accepts [any peer](Options::any_peer), the removed peer may
    /// connect again.
    ///
    /// # Errors
    /// If the listener has no [`Options::key`] and therefore accepts every client.
    pub fn remove_peer(&self, key: PublicKey) -> Result<(), ConnectError> {
        let removed = self.runtime.call(move |core, streams| streams.remove_peer(core, &key));
        removed.unwrap_or_else(|| Err(self.gone()))
    }

    fn gone(&self) -> ConnectError {
        self.runtime.missing(ConnectError::Options("the listener has ended"))
    }

    /// Returns whether this process is a fork of the one that opened the listener. A fork cannot use the
    /// listener.
    pub fn is_forked(&self) -> bool {
        self.runtime.is_forked()
    }

    /// Returns the address at which the listener accepts connections.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Listener {
    /// Stops the listener for all threads that share it, with the same effect as dropping it. Calls waiting
    /// in other threads return.
    pub fn close(&self) {
        // A fork shares the descriptor with its parent, so it must not make the descriptor readable.
        if self.runtime.is_forked() {
            return;
        }
        // Wait for the data thread, so that connections after this call are refused.
        self.runtime.call(|core, streams| streams.stop_listening(core));
        let mut state = lock(&self.backlog.state);
        state.over = true;
        state.show();
        drop(state);
        self.backlog.arrived.notify();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
        if !self.is_forked() {
            self.backlog.release_descriptor();
        }
    }
}
