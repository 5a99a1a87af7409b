use crate::runtime::{Backlog, BacklogState, Runtime};
use crate::{AcceptError, ConnectError, Connection, Options, sockets};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Waits for connections. They go on when it is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) backlog: Arc<Backlog>,
    addr: SocketAddr,
}

/// What can be accepted; `None` while that is nothing.
pub(crate) fn accept(
    runtime: &Arc<Runtime>,
    state: &mut BacklogState,
) -> Option<Result<Connection, AcceptError>> {
    match state.waiting.pop_front() {
        Some((id, stream)) => Some(Ok(Connection { runtime: runtime.clone(), stream, id })),
        None => state.over.then_some(Err(AcceptError::Closed)),
    }
}

impl Listener {
    /// Listens on an address of this host. Its port is a UDP port ([`DCCP_UDP_PORT`](crate::DCCP_UDP_PORT) is the one assigned to DCCP), 0 for
    /// any that is free; with [`Carrier::Raw`](crate::Carrier::Raw) it is the DCCP port.
    ///
    /// # Errors
    /// What is wrong with the options, and what the system says.
    pub fn bind(addr: impl ToSocketAddrs, options: Options) -> Result<Listener, ConnectError> {
        let addr = addr.to_socket_addrs()?.next().ok_or(ConnectError::NoAddress)?;
        let backlog = Arc::new(Backlog::default());
        let port = sockets::places(&options, addr).1;
        let options = options.dccp_port(port);
        let (runtime, addr) = Runtime::start(options, Some(backlog.clone()), |core, options| {
            sockets::secure(core, options, true)?;
            sockets::listen(core, options, addr)
        })?;
        Ok(Listener { runtime, backlog, addr })
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

    fn accept_until(&self, until: Option<Instant>) -> Result<Connection, AcceptError> {
        let accepted = self.backlog.arrived.wait(&self.backlog.state, until, |s| accept(&self.runtime, s));
        accepted.unwrap_or(Err(AcceptError::TimedOut))
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Waits: whoever connects after that is refused.
        self.runtime.handle.call(|core, streams| streams.stop_listening(core));
    }
}
