use crate::backlog::{Backlog, BacklogState};
use crate::runtime::Runtime;
use crate::signal::lock;
use crate::{AcceptError, ConnectError, Connection, Options, sockets};
use dccp_proto::{Ports, Route};
use dccp_secure::{PresharedKey, PublicKey};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Waits for connections. They go on when it is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) backlog: Arc<Backlog>,
    addr: SocketAddr,
    socket: u32,
}

/// What can be accepted; `None` while that is nothing.
pub(crate) fn accept(
    runtime: &Arc<Runtime>,
    state: &mut BacklogState,
) -> Option<Result<Connection, AcceptError>> {
    match state.waiting.pop_front() {
        Some((_, stream)) => {
            state.show();
            Some(Ok(Connection { runtime: runtime.clone(), stream }))
        }
        None => state.over.then_some(Err(AcceptError::Closed)),
    }
}

impl Listener {
    /// Listens on an address of this host. Its port is a UDP port ([`DCCP_UDP_PORT`](crate::DCCP_UDP_PORT) is the one assigned to DCCP), 0 for
    /// any that is free; with [`Encapsulation::Raw`](crate::Encapsulation::Raw) it is the DCCP port. Of several addresses of a name, the first that works.
    ///
    /// # Errors
    /// What is wrong with the options, and what the system says.
    pub fn bind(addr: impl ToSocketAddrs, options: Options) -> Result<Listener, ConnectError> {
        let mut last = ConnectError::NoAddress;
        for addr in addr.to_socket_addrs()? {
            match Listener::bind_one(addr, options.clone()) {
                Ok(listener) => return Ok(listener),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn bind_one(addr: SocketAddr, options: Options) -> Result<Listener, ConnectError> {
        let backlog = Arc::new(Backlog::default());
        let port = sockets::places(&options, addr).1;
        let options = options.dccp_port(port);
        let (runtime, (addr, socket)) = Runtime::start(options, Some(backlog.clone()), |core, options| {
            sockets::secure(core, options, true)?;
            sockets::listen(core, options, addr)
        })?;
        runtime.run(move |_, streams| streams.listens = Some((addr, socket)));
        Ok(Listener { runtime, backlog, addr, socket })
    }

    /// The next connection.
    ///
    /// # Errors
    /// [`AcceptError::Closed`] if the data thread had to end.
    pub fn accept(&self) -> Result<Connection, AcceptError> {
        self.accept_until(None)
    }

    /// The next connection, if there is one in time.
    ///
    /// # Errors
    /// [`AcceptError::TimedOut`], and those of [`accept`](Self::accept).
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Connection, AcceptError> {
        self.accept_until(Instant::now().checked_add(timeout))
    }

    /// The next connection, if one is there.
    ///
    /// # Errors
    /// [`AcceptError::Empty`], and those of [`accept`](Self::accept).
    pub fn try_accept(&self) -> Result<Connection, AcceptError> {
        if self.runtime.is_forked() {
            return Err(AcceptError::Forked);
        }
        accept(&self.runtime, &mut lock(&self.backlog.state)).unwrap_or(Err(AcceptError::Empty))
    }

    /// The next connection; without one, the task is woken when there is.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Connection, AcceptError>> {
        if self.runtime.is_forked() {
            return Poll::Ready(Err(AcceptError::Forked));
        }
        self.backlog.arrived.poll(&self.backlog.state, cx, |state| accept(&self.runtime, state))
    }

    /// A descriptor for `poll`, `epoll` and the like: readable while a connection waits to be accepted. Nothing but this crate may read or write
    /// it.
    ///
    /// # Errors
    /// What the system says: too many open files.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.backlog.descriptor().map(AsFd::as_fd)
    }

    fn accept_until(&self, until: Option<Instant>) -> Result<Connection, AcceptError> {
        if self.runtime.is_forked() {
            return Err(AcceptError::Forked);
        }
        let accepted = self.backlog.arrived.wait(&self.backlog.state, until, |s| accept(&self.runtime, s));
        accepted.unwrap_or(Err(AcceptError::TimedOut))
    }

    /// Tells a client that will connect from this address (with UDP: and this UDP port), and from this DCCP port, that it is waited for (RFC 5596): up to three
    /// packets, which open the NATs and firewalls before this end. Both ends must know each other's addresses and ports from
    /// elsewhere; the client chooses its own with [`Options::source_ports`]. Not with keys, which have a handshake of their own.
    ///
    /// # Errors
    /// With keys, or after the end of the data thread, [`ConnectError::Options`].
    pub fn send_listen(&self, client: SocketAddr, dccp_port: u16) -> Result<(), ConnectError> {
        let socket = self.socket;
        let sent = self.runtime.call(move |core, streams| {
            let (remote, _) = sockets::places(&streams.options, client);
            let route = Route { socket, local: None, remote };
            let ports = Ports { local: streams.options.dccp_port, remote: dccp_port };
            streams.options.key.is_none() && core.endpoint.send_listen(core.clock.now(), route, ports)
        });
        match sent {
            Some(true) => Ok(()),
            _ => Err(ConnectError::Options(
                "only a listener without keys can send Listen packets, to 1024 clients at most at a time",
            )),
        }
    }

    /// Lets a peer in by its public key from now on; one that is known by it gets this preshared key.
    ///
    /// # Errors
    /// [`ConnectError::Options`] without a private key of this end, or with its own; after the end of the data thread.
    pub fn add_peer(&self, key: PublicKey, preshared: PresharedKey) -> Result<(), ConnectError> {
        let added = self.runtime.call(move |core, streams| streams.add_peer(core, key, preshared));
        added.unwrap_or(Err(ConnectError::Options("the listener is over"))).map(|_| ())
    }

    /// Lets a peer in no more, and ends its connections; the peer is not told, since it has no key any more. Where [any peer](Options::any_peer) is
    /// let in, it may come back.
    pub fn remove_peer(&self, key: PublicKey) {
        self.runtime.run(move |core, streams| streams.remove_peer(core, &key));
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Listener {
    /// Listens no more, as dropping it does, for a handle that others share: calls of other threads that wait return.
    pub fn close(&self) {
        // Waits: whoever connects after that is refused.
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
    }
}
