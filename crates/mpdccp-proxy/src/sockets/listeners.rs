//! Accepts connections from hosts.

use super::{BACKLOG, Early, HEADER, Kind, LISTENERS, Listener, Sockets};
use crate::commands::Event;
use crate::flow::reset;
use crate::options::transparent;
use crate::segment::Tuple;
use crate::verdict::Flow;
use socket2::SockAddr;
use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::time::Instant;

impl<E: FnMut(Vec<Event>), P: FnMut(&[u8])> Sockets<E, P> {
    /// Passes a SYN to the kernel, after opening a listener at its destination if there is none.
    pub(super) fn listen(&mut self, flow: Flow, tuple: Tuple, syn: &[u8]) -> io::Result<()> {
        if !self.listeners.contains_key(&tuple.to) {
            self.close_idle_listeners(LISTENERS);
            let socket = transparent(tuple.to)?;
            socket.bind(&SockAddr::from(tuple.to))?;
            socket.listen(BACKLOG)?;
            // A host may connect from the port on which it listens. Only sockets that connect may share the
            // port: a second listener would take connections of the first, so set the option after `listen`.
            socket.set_reuse_port(true)?;
            let number = self.register(&socket, Kind::Listener(tuple.to))?;
            self.listeners.insert(tuple.to, Listener { socket, number, pending: HashMap::new() });
        }
        if let Some(listener) = self.listeners.get_mut(&tuple.to) {
            listener.pending.insert(tuple.from, flow);
        }
        let header: &[u8] = if self.namespace.tun().offloads() { &[0; HEADER] } else { &[] };
        self.early.insert(flow, Early { since: Instant::now(), tuple, commands: Vec::new() });
        rustix::io::writev(self.namespace.tun(), &[IoSlice::new(header), IoSlice::new(syn)])?;
        Ok(())
    }

    /// If there are at least `most` listeners, closes those without a pending flow. Otherwise, idle listeners
    /// stay open, because the next flow may have the same destination, and reopening a closed listener could
    /// fail: while a child process is starting, it holds a copy of the descriptor, so the address is still in
    /// use.
    pub(super) fn close_idle_listeners(&mut self, most: usize) {
        if self.listeners.len() >= most {
            let kinds = &mut self.kinds;
            self.listeners.retain(|_, listener| {
                let used = !listener.pending.is_empty();
                if !used {
                    kinds.remove(&listener.number);
                }
                used
            });
        }
    }

    pub(super) fn accept(&mut self, address: SocketAddr) {
        loop {
            let Some(listener) = self.listeners.get_mut(&address) else { return };
            let (socket, from) = match listener.socket.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // Either the host gave up, or the process has no free descriptor. The kernel does not report
                // when a descriptor becomes free, so try again later.
                Err(e) => {
                    self.short.insert(address);
                    return self.on_error(&e);
                }
            };
            let flow = from.as_socket().and_then(|from| listener.pending.remove(&from));
            let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_tcp_nodelay(true));
            let (Some(flow), Ok(())) = (flow, prepared) else {
                // The flow has failed at the other end in the meantime. Reset the connection, because
                // dropping the socket would send FIN.
                reset(socket);
                continue;
            };
            self.established(flow, socket, None);
        }
    }
}
