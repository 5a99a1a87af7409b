//! Manages sockets and their channels, which several connections of a connector can share.

use crate::ConnectError;
use dccp_net::Core;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Connections with the same key share a socket. The key consists of the local address and interface, the
/// peer's address, and the number of the peer's public key.
pub(crate) type Key = (SocketAddr, Option<String>, SocketAddr, u32);

/// Number of connections that a socket serves in its lifetime. Each connection uses one of 16,384 DCCP ports.
/// This limit leaves so many ports that none is reused before the peer has forgotten its last connection.
const MOST: u16 = 8_192;
/// First port of the dynamic range (RFC 6335 section 6).
const FIRST_PORT: u16 = 49_152;

#[derive(Debug)]
struct Socket {
    users: usize,
    next_port: u16,
    /// Number of connections that the socket may still serve.
    left: u16,
}

/// The sockets used by a data thread's connections, by number.
#[derive(Debug, Default)]
pub(crate) struct SharedSockets {
    sockets: BTreeMap<u32, Socket>,
    /// For each key, the socket for the next connection.
    current: BTreeMap<Key, u32>,
}

impl SharedSockets {
    /// Returns a socket and a DCCP port for another connection. Calls `open` if there is no socket to share.
    ///
    /// # Errors
    /// The errors of `open`.
    pub(crate) fn take(
        &mut self,
        core: &mut Core,
        key: Option<Key>,
        open: impl FnOnce(&mut Core) -> Result<u32, ConnectError>,
    ) -> Result<(u32, u16), ConnectError> {
        let shared = key.as_ref().and_then(|key| self.current.get(key)).copied();
        let number = match shared.filter(|number| self.sockets.get(number).is_some_and(|s| s.left > 0)) {
            Some(number) => number,
            None => {
                let number = open(core)?;
                let left = if key.is_some() { MOST } else { 1 };
                self.sockets.insert(number, Socket { users: 0, next_port: core.ephemeral_port(), left });
                if let Some(key) = key {
                    self.current.insert(key, number);
                }
                number
            }
        };
        let Some(socket) = self.sockets.get_mut(&number) else {
            return Err(ConnectError::Options("the socket is closed"));
        };
        let port = socket.next_port;
        socket.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        socket.left -= 1;
        socket.users += 1;
        Ok((number, port))
    }

    /// Releases a socket that a connection has used, and closes the socket if no other connection uses it.
    pub(crate) fn release(&mut self, core: &mut Core, number: u32) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        socket.users -= 1;
        if socket.users == 0 {
            self.sockets.remove(&number);
            self.current.retain(|_, current| *current != number);
            core.net.remove(number);
        }
    }
}
