//! Sends messages to the service manager.

use sd_notify::NotifyState;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

static MANAGER: OnceLock<Option<UnixDatagram>> = OnceLock::new();

/// Connects to systemd if systemd started this process with Type=notify. Call this at the start, because a
/// confined tunnel may not be able to connect.
pub(crate) fn connect() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let connected = || -> io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        match name.as_encoded_bytes().strip_prefix(b"@") {
            Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
            None => socket.connect(&name)?,
        }
        Ok(socket)
    };
    let manager = connected().map_err(|e| tracing::debug!("sd_notify: {e}"));
    let _ = MANAGER.set(manager.ok());
}

/// Sends a state to systemd, if connected.
pub(crate) fn notify(state: &NotifyState<'_>) {
    let Some(Some(manager)) = MANAGER.get() else { return };
    if let Err(e) = manager.send(state.to_string().as_bytes()) {
        tracing::debug!("sd_notify: {e}");
    }
}
