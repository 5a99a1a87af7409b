//! The service that `mpdccp conform` needs at the target (docs/conformance.md). It echoes datagrams, but
//! executes `close`, `abort` and `standby` as commands.
//!
//!     cargo run -p mpdccp-conform --example responder -- 127.0.0.1:6511 [raw] [CCID]

use dccp_sockets::{Connection, Encapsulation, Listener, Options, PathId};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Returns the options of the service's listener. The tests need CCID 2, because all implementations support
/// it.
pub(crate) fn options(ccid: u8) -> Options {
    // After all subflows have been reset, the session waits this long for a new one.
    Options::ccid(ccid).service("SC:echo").multipath(true).survive(Duration::from_secs(2))
}

/// Serves one connection until it ends.
pub(crate) fn serve(connection: &Connection) {
    while let Ok(datagram) = connection.recv() {
        let done = match &*datagram {
            b"close" => return,
            b"abort" => {
                connection.abort();
                Ok(())
            }
            b"standby" => {
                connection.set_priority(PathId(0), 1);
                Ok(())
            }
            // The library cannot send empty datagrams.
            b"" => Ok(()),
            _ => connection.send(&datagram),
        };
        if done.is_err() {
            return;
        }
    }
}

/// Serves all connections of a listener.
pub(crate) fn accept(listener: &Listener) -> Result<()> {
    loop {
        let connection = listener.accept()?;
        std::thread::spawn(move || serve(&connection));
    }
}

#[allow(dead_code)] // `tests/ours.rs` uses this file as a module.
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let address = arguments.next().ok_or("usage: responder ADDRESS:PORT [raw] [CCID]")?;
    let encapsulation =
        if arguments.next_if_eq("raw").is_some() { Encapsulation::Raw } else { Encapsulation::Udp };
    let ccid = arguments.next().map_or(Ok(2), |n| n.parse())?;
    let listener = Listener::bind(address, options(ccid).encapsulation(encapsulation))?;
    println!("listening on {}", listener.local_addr());
    accept(&listener)
}
