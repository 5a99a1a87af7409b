//! Sends a file over one or several paths, retransmitting lost packets. Both ends print the file's SHA-256.
//!
//!     cargo run --release -p dccp-sockets --example file -- receive 0.0.0.0:6511 copy.bin
//!     cargo run --release -p dccp-sockets --example file -- send 192.0.2.1:6511 original.bin
//!     cargo run --release -p dccp-sockets --example file -- \
//!         send 192.0.2.1:6511 original.bin 192.168.1.2 10.64.0.9
//!
//! The last command sends over two paths, from these local addresses. Without arguments, both ends run in
//! this process and transfer 20 MB.

use dccp_sockets::{Connection, Listener, Options, Path};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Write};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn options() -> Options {
    Options::ccid(5).service("SC:file").streams(true)
}

/// Copies all bytes. Prints their number, the rate and the hash.
fn copy(what: &str, mut from: impl Read, mut to: impl Write) -> Result<()> {
    let (begun, mut sum, mut bytes) = (Instant::now(), Sha256::new(), 0);
    let mut buf = vec![0; 1 << 16];
    loop {
        let n = from.read(&mut buf)?;
        if n == 0 {
            break;
        }
        sum.update(&buf[..n]);
        to.write_all(&buf[..n])?;
        bytes += n;
    }
    let mbit = bytes as f64 * 8e-6 / begun.elapsed().as_secs_f64();
    let sum: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{what} {bytes} bytes, {mbit:.1} Mbit/s, sha256 {sum}");
    Ok(())
}

fn send(addr: &str, options: Options, from: impl Read) -> Result<()> {
    let connection = Connection::connect(addr, options)?;
    let stream = connection.open_stream()?;
    copy("sent", from, &stream)?;
    stream.finish()?;
    for path in connection.stats().paths {
        println!("{:?}: {} packets, {} of them lost", path.id, path.sent, path.lost);
    }
    connection.finish()?;
    Ok(())
}

fn receive(listener: &Listener, to: impl Write) -> Result<()> {
    let connection = listener.accept()?;
    copy("received", &connection.accept_stream(None)?, to)?;
    // Wait until the sender closes the connection, because a receiver that exits earlier may not have
    // acknowledged the last bytes.
    while connection.recv().is_ok() {}
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", addr, name] => receive(&Listener::bind(addr, options())?, File::create(name)?),
        ["send", addr, name, ref locals @ ..] => {
            let path = |options: Options, local: &&str| Ok(options.path(Path::from(local.parse()?)));
            send(
                addr,
                locals.iter().try_fold(options(), path).map_err(|e: std::net::AddrParseError| e)?,
                File::open(name)?,
            )
        }
        [] => {
            let listener = Listener::bind("127.0.0.1:0", options())?;
            let addr = listener.local_addr().to_string();
            let sender =
                std::thread::spawn(move || send(&addr, options(), std::io::repeat(7).take(20_000_000)));
            receive(&listener, std::io::sink())?;
            sender.join().map_err(|_| "the sender panicked")?
        }
        _ => Err("usage: file [receive ADDR:PORT FILE | send ADDR:PORT FILE [LOCAL-ADDRESS]...]".into()),
    }
}
